"""Commands on run folders with damaged documents, and on finished runs whose meaning was changed.

The damages and changes are those of ``tests/hostile``, which ``make test-slow`` runs as tests.
"""

import argparse
import os
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

from benchmarks.tables import keep
from tests.cli import forked
from tests.cli.conftest import Said
from tests.engine.conftest import heads_of, write_photos
from tests.hostile.attempts import COMMANDS, HANG, Attempt, attempts
from tests.hostile.changes import BELIEVED, CHANGES, DETECTED, NO_EFFECT, RECOMPUTED, Judged, finished_copy, judged
from tests.run_folders import images, write_run

FAULTS = ("internal error", "traceback", HANG, "control character", "no hint")
HEADER = ("damage", "cases", "answered", "refused (exit code 2)", *FAULTS)
SOON_S = 30.0
WORDS = (DETECTED, RECOMPUTED, NO_EFFECT, BELIEVED)
CHANGED = ("change", "read", "doctor", "export", "with new hashes: read", "doctor", "export", "what says it")


def main() -> None:
    """Run the commands and keep the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--commands", default=",".join(COMMANDS), help="which of them run on damaged documents")
    parser.add_argument("--run", type=Path, help="a finished run to change; default: of a search on 48 images")
    parser.add_argument("--parts", default="damages,changes", help="which tables")
    options = parser.parse_args()
    if "damages" in options.parts:
        _damages(options.commands.split(","))
    if "changes" in options.parts:
        with tempfile.TemporaryDirectory() as name:
            _changes(options.run or _searched(Path(name)), Path(name))


def _searched(folder: Path) -> Path:
    """Search on images, in three forms of one network."""
    write_photos(folder / "photos")
    asked = ("--compressions", "float32,float16,int8", "--out", str(folder / "runs"))
    search = ("search", *heads_of(folder / "photos"), *asked)
    code, _, said = forked.run(forked.context(), search, folder, dict(os.environ), 600)
    assert code == 0, said
    return (folder / "runs" / "latest").resolve()


def _changes(run: Path, folder: Path) -> None:
    """Change the run in each way, with the old hashes and with new ones, and keep the table."""
    (folder / "cache").mkdir(exist_ok=True)
    finished = finished_copy(run.resolve(), folder / "finished")
    assert judged("nothing", finished, folder / "changed").word == NO_EFFECT, "something is said of the unchanged run"
    rows, words = [], {False: Counter[str](), True: Counter[str]()}
    for kind in CHANGES:
        cells, said = [], ""
        for relink in (False, True):
            found = judged(kind, finished, folder / "changed", relink)
            words[relink][found.word] += 1
            cells += [found.word, *_codes(found, folder)]
            said = found.said[0] if found.said else ""
        rows.append((kind, *cells, said))
    last = [f"{words[relink][word]} {word}" for relink in (False, True) for word in WORDS]
    remarks = [
        f"{len(CHANGES)} kinds, the hashes as they are: {', '.join(last[:4])}",
        f"with every hash of the folder computed again: {', '.join(last[4:])}",
        f"{DETECTED}: `advisor report` names a row or file, or refuses. {RECOMPUTED}: only `advisor doctor RUN` does. "
        f"{NO_EFFECT}: the answer is that of the unchanged run",
        "doctor, export: exit codes of the commands",
    ]
    print(keep("hostile_changes", "Changes to the meaning of a finished run", CHANGED, rows, remarks))


def _codes(found: Judged, folder: Path) -> tuple[int, int]:
    """Return the exit codes of ``advisor doctor`` and ``advisor export`` on the changed run."""
    doctor = _advisor(folder, "doctor", str(found.run))
    export = _advisor(folder, "export", str(found.run), "--to", str(folder / "bundle"), "--no-web", "--force")
    return doctor.code, export.code


def _damages(commands: list[str]) -> None:
    """Run the commands on run folders with damaged documents, and keep the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = write_run(folder / "runs", dataset=images({"cat": 10, "dog": 10})).path
        (folder / "cache").mkdir()
        found = [
            tried
            for command in commands
            for tried in attempts(partial(_advisor, folder), run, folder / "attempts", command)
        ]
    by_kind: dict[str, list[Attempt]] = {}
    for tried in found:
        by_kind.setdefault(tried.kind, []).append(tried)
    rows = [_row(kind, by_kind[kind]) for kind in sorted(by_kind)]
    remarks = [
        f"{len(found)} cases of {len(by_kind)} kinds, in {len({tried.file for tried in found})} documents of a run "
        f"folder, with the commands {', '.join(commands)}",
        f"hang: not ended after {SOON_S:.0f} s",
        *(f"{tried.file}, {tried.label}: {', '.join(tried.faults)}" for tried in found if tried.faults),
    ]
    print(keep("hostile", "Commands on damaged run folders", HEADER, [*rows, _row("all", found)], remarks))


def _advisor(folder: Path, *arguments: str) -> Said:
    environment = {**os.environ, "ADVISOR_CACHE_DIR": str(folder / "cache"), "NO_COLOR": "1"}
    return Said(*forked.run(forked.context(), arguments, folder, environment, SOON_S))


def _row(kind: str, tried: list[Attempt]) -> tuple[object, ...]:
    wrong = Counter(fault for each in tried for fault in each.faults)
    codes = Counter(each.code for each in tried)
    return (kind, len(tried), len(tried) - codes[2] - codes[None], codes[2], *(wrong[fault] for fault in FAULTS))


if __name__ == "__main__":
    main()
