"""Commands on run folders with damaged documents: how many end in words, by kind of damage.

The damages are those of ``tests/hostile``, which ``make test-slow`` runs as tests.
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
from tests.hostile.attempts import COMMANDS, HANG, Attempt, attempts
from tests.run_folders import images, write_run

FAULTS = ("internal error", "traceback", HANG, "control character", "no hint")
HEADER = ("damage", "cases", "answered", "refused (exit code 2)", *FAULTS)
SOON_S = 30.0


def main() -> None:
    """Run the commands and keep the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--commands", default=",".join(COMMANDS), help="which of them")
    commands = parser.parse_args().commands.split(",")
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
