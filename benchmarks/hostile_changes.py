"""Finished runs whose meaning was changed: which changes are noticed, by which command.

The changes are those of ``benchmarks/changed_runs.py``, which ``make test-slow`` runs as tests.
"""

import argparse
import os
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.changed_runs import BELIEVED, CHANGES, DETECTED, NO_EFFECT, RECOMPUTED, Judged, finished_copy, judged
from benchmarks.tables import keep
from tests.makers import forks
from tests.makers.commands import Said
from tests.makers.searches import heads_of, write_photos

SOON_S = 60.0
WORDS = (DETECTED, RECOMPUTED, NO_EFFECT, BELIEVED)
CHANGED = ("change", "read", "doctor", "export", "with new hashes: read", "doctor", "export", "what says it")


def main() -> None:
    """Run the commands and keep the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", type=Path, help="a finished run to change; default: of a search on 48 images")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        _changes(options.run or _searched(Path(name)), Path(name))


def _searched(folder: Path) -> Path:
    """Search on images, in three forms of one network."""
    write_photos(folder / "photos")
    asked = ("--compressions", "float32,float16,int8", "--out", str(folder / "runs"))
    search = ("search", *heads_of(folder / "photos"), *asked)
    code, _, said = forks.run(forks.context(), search, folder, dict(os.environ), 600)
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


def _advisor(folder: Path, *arguments: str) -> Said:
    environment = {**os.environ, "ADVISOR_CACHE_DIR": str(folder / "cache"), "NO_COLOR": "1"}
    return Said(*forks.run(forks.context(), arguments, folder, environment, SOON_S))


if __name__ == "__main__":
    main()
