"""The accuracy of the pick within a time limit, on images that the search never saw, and the seconds over the limit.

    python -m benchmarks accuracy --part limit
    python -m benchmarks accuracy --part limit --sets grocery,trashnet --draws 0,1,2 --limits 5min,2min

``grocery``: its official test, another visit to the shops. ``trashnet``: 70 % of each class, drawn by the seed of a
draw; the other 30 % are scored apart. Each search begins with an empty cache of results. Let the machine be idle.
``--name`` keeps the table under another name, for example of the code before a change.
"""

import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from advisor.core.units import seconds
from benchmarks.accuracy import part_parser
from benchmarks.accuracy_search import GROCERY, Case, labelled, scored, search, shown
from benchmarks.search import TRASHNET
from benchmarks.tables import Row, keep, kept_of_others

NAME, LEARNT = "accuracy_limit", 0.7
HEADER = (
    "set and limit", "pick", "training", "recipe", "validation %", "hold-out %", "other images %", "CPU s", "wall s",
    "over the limit s",
)  # fmt: skip
REMARKS = (
    "Other images: the shipped file on images that took part in nothing, with LiteRT and Pillow alone: the official "
    "test of grocery, and the 30 % of TrashNet that were left out.",
    "CPU seconds: user and system time of the search and its child processes. Wall: the whole process.",
)


def main(options: Sequence[str] = ()) -> None:
    """Search each set within each limit, score the picks, and keep the table."""
    parser = part_parser("limit", __doc__)
    parser.add_argument("--sets", default="grocery,trashnet", help="of grocery and trashnet, joined by commas")
    parser.add_argument("--draws", default="0,1,2", help="seeds of the draws of TrashNet")
    parser.add_argument("--limits", default="5min,2min", help="time limits")
    parser.add_argument("--name", default=NAME, help="name of the table")
    chosen = parser.parse_args(list(options))
    rows: list[Row] = []
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for case in cases_of(chosen.sets.split(","), chosen.draws.split(","), place):
            for limit in chosen.limits.split(","):
                rows.append(row_of(case, limit))
                print(*rows[-1], sep=" | ", flush=True)
                others, _ = kept_of_others(chosen.name, [str(row[0]) for row in rows])
                keep(chosen.name, "Searches within a time limit", HEADER, sorted([*others, *rows], key=str), REMARKS)


def cases_of(sets: Sequence[str], draws: Sequence[str], place: Path) -> Iterator[Case]:
    """Return the searches: a name, the images to learn from, and the images that are scored apart."""
    for name in sets:
        if name == "grocery":
            yield Case(name, GROCERY, test=GROCERY / "test")
        elif name == "trashnet":
            for draw in draws:
                learnt, test = drawn(TRASHNET, draw, place / f"draw-{draw}")
                yield Case(f"trashnet, draw {draw}", learnt, test=test)
        else:
            raise SystemExit(f"--sets: '{name}' is not one of grocery, trashnet")


def drawn(source: Path, draw: str, place: Path) -> tuple[Path, Path]:
    """Link a share of the images of each class into one folder and the others into a second one; return both."""
    chance = random.Random(f"draw {draw}")
    for folder in sorted(each for each in source.iterdir() if each.is_dir()):
        files = sorted(folder.iterdir())
        chance.shuffle(files)
        count = round(LEARNT * len(files))
        for part, some in (("learnt", files[:count]), ("test", files[count:])):
            (place / part / folder.name).mkdir(parents=True)
            for file in some:
                (place / part / folder.name / file.name).symlink_to(file)
    return place / "learnt", place / "test"


def row_of(case: Case, limit: str) -> Row:
    """Search within the limit, score the pick, and return the row of the table."""
    assert case.test is not None, "every set has images that are scored apart"
    options = (*case.options, "--budget", "50ms", "--time-limit", limit)
    with tempfile.TemporaryDirectory() as place:
        found = search(Case(case.name, case.data, options), Path(place))
        pick = json.loads((found.run / "recommendation.json").read_text(encoding="utf-8"))["pick"]
        configuration = pick["configuration"]
        return (
            f"{case.name}, {limit}",
            configuration["card"],
            configuration["training"],
            configuration["compression"],
            shown(pick["accuracy"]),
            shown(pick["holdout_accuracy"]),
            scored(found.run / pick["artefact"], labelled(case.test)),
            f"{found.cpu_s:.0f}",
            f"{found.wall_s:.0f}",
            f"{found.wall_s - seconds(limit, '--limits'):.0f}",
        )
