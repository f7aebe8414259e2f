"""``kill -9`` at twenty random moments, of the search, of one of its children, or of both; then ``--resume``.

What is kept of each: what was finished by then, whether any of it was lost or done twice, and whether the answer is
that of an undisturbed search. Rows of moments that were not asked for (``--moments 0-9``) stay as they were.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path

from benchmarks.tables import RESULTS, keep
from tests.engine.conftest import write_photos
from tests.engine.killing import Killed, disturbed, undisturbed

HEADER = (
    "moment", "killed", "after (share of the search)", "finished by then", "lost", "twice", "same figures",
    "same front", "exit code",
)  # fmt: skip
MOMENTS = 20
SEED = 0


def main() -> None:
    """Kill searches and keep the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--moments", default=f"0-{MOMENTS - 1}", help="which of them, such as 0-9")
    first, _, last = parser.parse_args().moments.partition("-")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        photos = folder / "photos"
        write_photos(photos)
        peace = undisturbed(photos, folder / "peace")
        rows = _kept()
        for moment in range(int(first), int(last or first) + 1):
            rows[moment] = _row(moment, disturbed(moment, SEED, peace, photos, folder / str(moment)))
            print(*rows[moment], flush=True)
    ordered = [rows[moment] for moment in sorted(rows)]
    good = sum(row[4:] == ("0", "0", "yes", "yes", "0") for row in ordered)
    remarks = [
        f"{good} of {len(ordered)} ended with an undisturbed search's figures and front, nothing lost, nothing twice",
        f"one card in five forms on 48 pictures, {peace.seconds:.0f} s undisturbed; moments are drawn with seed {SEED}",
        "the front is compared under the latencies of the undisturbed run: two runs differ by the clock's noise",
    ]
    print(keep("kills", "kill -9 and --resume", HEADER, ordered, remarks))


def _kept() -> dict[int, tuple[str, ...]]:
    file = RESULTS / "kills.csv"
    if not file.is_file():
        return {}
    with file.open(newline="", encoding="utf-8") as table:
        return {int(row[0]): tuple(row) for row in list(csv.reader(table))[1:]}


def _row(moment: int, killed: Killed) -> tuple[str, ...]:
    same = ("yes" if answer else "no" for answer in (killed.same_figures, killed.same_front))
    figures = (killed.before, killed.lost, killed.twice)
    return (str(moment), killed.victim, f"{killed.share:.2f}", *map(str, figures), *same, str(killed.code))


if __name__ == "__main__":
    main()
