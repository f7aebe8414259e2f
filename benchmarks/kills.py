"""``kill -9`` at twenty random moments, of the search, of one of its children, or of both; then ``--resume``.

By default, every compression recipe is tried. What is kept of each kill: what was finished by then, whether any of it
was lost or done twice, whether figures, front and the hash of each file are those of an undisturbed search, and what is
left among temporary files and processes. Rows of moments that were not asked for (``--moments 0-9``) stay as they were.
"""

import argparse
import csv
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from advisor.compression import RECIPES
from benchmarks.killed_searches import Killed, Peace, disturbed, hashes, undisturbed
from benchmarks.tables import RESULTS, keep
from tests.makers.searches import write_photos

HEADER = (
    "moment", "killed", "after (share of the search)", "finished by then", "lost", "twice", "same figures",
    "same front", "other files", "left behind", "exit code",
)  # fmt: skip
MOMENTS = 20
SEED = 0


def main() -> None:
    """Kill searches and keep the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--moments", default=f"0-{MOMENTS - 1}", help="which of them, such as 0-9")
    every = ",".join(recipe.name for recipe in RECIPES)
    parser.add_argument("--recipes", default=every, help="compression recipes; default: all")
    options = parser.parse_args()
    first, _, last = options.moments.partition("-")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        photos, recipes = folder / "photos", options.recipes.split(",")
        write_photos(photos)
        peace = undisturbed(photos, folder / "peace", recipes)
        rows = _kept()
        for moment in range(int(first), int(last or first) + 1):
            rows[moment] = _row(moment, disturbed(moment, SEED, peace, photos, folder / str(moment), recipes))
            print(*rows[moment], flush=True)
            text = _keep(rows, peace, recipes)
    print(text)


def _keep(rows: Mapping[int, tuple[str, ...]], peace: Peace, recipes: Sequence[str]) -> str:
    """Write the table as far as it is known, and return it."""
    ordered = [rows[moment] for moment in sorted(rows)]
    good = sum(row[4:] == ("0", "0", "yes", "yes", "0", "0", str(peace.code)) for row in ordered)
    remarks = [
        f"{good} of {len(ordered)} ended with an undisturbed search's figures, front and files "
        f"({len(hashes(peace.run))}), nothing lost, nothing twice, nothing left behind",
        f"one card on 48 pictures in {len(recipes)} forms ({', '.join(recipes)}), {peace.seconds:.0f} s "
        f"undisturbed; moments are drawn with seed {SEED}",
        "the front is compared under the latencies of the undisturbed run: two runs differ by the clock's noise",
    ]
    return keep("kills", "kill -9 and --resume", HEADER, ordered, remarks)


def _kept() -> dict[int, tuple[str, ...]]:
    file = RESULTS / "kills.csv"
    if not file.is_file():
        return {}
    with file.open(newline="", encoding="utf-8") as table:
        header, *rows = csv.reader(table)
    return {int(row[0]): tuple(row) for row in rows} if tuple(header) == HEADER else {}


def _row(moment: int, killed: Killed) -> tuple[str, ...]:
    same = ("yes" if answer else "no" for answer in (killed.same_figures, killed.same_front))
    figures = (killed.before, killed.lost, killed.twice)
    rest = (killed.other_files, killed.left, killed.code)
    return (str(moment), killed.victim, f"{killed.share:.2f}", *map(str, figures), *same, *map(str, rest))


if __name__ == "__main__":
    main()
