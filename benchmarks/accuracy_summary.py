"""One table over the parts of ``accuracy``: what each set should reach, and what the parts' tables say now.

python -m benchmarks accuracy --part summary       # seconds: it only reads results/accuracy_*.csv
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from advisor.catalog import Catalogue
from benchmarks import tables
from benchmarks.accuracy import part_parser

Cells = Mapping[str, str]
MOST_PARAMS = 6e6
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Goal:
    """A figure to reach: the set, the figure before the work on it, the goal, and how to read it from the tables."""

    name: str
    before: str
    to_reach: str
    now: Callable[[], str]


def main(options: Sequence[str] = ()) -> None:
    """Write and print the table of goals."""
    part_parser("summary", __doc__).parse_args(list(options))
    rows = [(goal.name, goal.before, goal.to_reach, goal.now() or NOT_MEASURED) for goal in GOALS]
    print(tables.keep("accuracy", "Accuracy: what is to be reached, and now", HEADER, rows, REMARKS))


def table(part: str) -> list[Cells]:
    """Return the rows of a part's table; none where it was not measured."""
    path = tables.RESULTS / f"accuracy_{part}.csv"
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def number(cell: str) -> float:
    """Return the number at the beginning of a cell such as ``69.2 (67.3-71.0)``."""
    return float(cell.split()[0])


def of_search(name: str) -> str:
    """Return what the shipped file of a set's search has on the hold-out, with the pick and the CPU minutes."""
    found = [row for row in table("search") if row["set"] == name and row["hold-out scored %"]]
    if not found:
        return ""
    row = found[0]
    after = number(row["CPU min"]) - number(row["of these until features"])
    pick = f"{row['pick']} {row['training']} {row['recipe']}"
    return f"{number(row['hold-out scored %']):.1f} ({pick}; {after:.0f} CPU min after features)"


def of_seeds() -> str:
    """Return the mean over TrashNet's seeds of what the shipped file has on the hold-out."""
    found = [row for row in table("search") if row["set"].startswith("trashnet") and row["hold-out scored %"]]
    if not found:
        return ""
    scores = [number(row["hold-out scored %"]) for row in found]
    spread = f" ± {stdev(scores):.1f}" if len(scores) > 1 else ""
    minutes = mean(number(row["CPU min"]) for row in found)
    return f"{mean(scores):.1f}{spread} ({len(scores)} seeds, {minutes:.0f} CPU min)"


def of_head() -> str:
    """Return what the int8 file of MobileNetV2 with our head has on grocery's official test."""
    rows = [row for row in table("head") if row["set"] == "grocery" and row["network"] == "mobilenet_v2_1.0_224"]
    return next((row["top-1 %"] for row in rows if row["method"].startswith("ours, int8 file")), "")


def of_tuned() -> str:
    """Return the mean over TrashNet's seeds of each fine-tuned network of at most 6 M parameters, int8."""
    scores: dict[str, list[float]] = {}
    for row in table("finetune"):
        params = Catalogue.load()[row["network"]].params
        if row["set"] == "trashnet" and params is not None and params <= MOST_PARAMS:
            scores.setdefault(row["network"], []).append(number(row["tuned int8 %"]))
    return "; ".join(f"{mean(each):.1f} ({card}, {len(each)} seeds)" for card, each in scores.items())


def of_best() -> str:
    """Return the best file for grocery that was scored on the official test; all of them take less than 50 ms."""
    searched = [
        (number(row["hold-out scored %"]), "default search") for row in table("search") if row["set"] == "grocery"
    ]
    tuned = [(number(row["tuned int8 %"]), row["network"]) for row in table("finetune") if row["set"] == "grocery"]
    best = max([*searched, *tuned], default=None)
    return f"{best[0]:.1f} ({best[1]})" if best else ""


def of_claims() -> str:
    """Return whether every claimed hold-out figure is that of the shipped file."""
    found = [row for row in table("search") if row["hold-out scored %"]]
    if not found:
        return ""
    other = [row["set"] for row in found if number(row["hold-out claimed %"]) != number(row["hold-out scored %"])]
    return f"differs: {', '.join(other)}" if other else f"equal ({len(found)} searches)"


HEADER = ("set", "before", "to reach", "now")
REMARKS = ("Read from results/accuracy_PART.csv; run the parts first.",)
GOALS = (
    Goal("grocery, official test, head only, MobileNetV2 int8", "69.2", ">= 71.5", of_head),
    Goal(
        "grocery, default search, official test, <= 15 CPU min after features",
        "68.9",
        ">= 78",
        lambda: of_search("grocery"),
    ),
    Goal("grocery, official test, best under 50 ms, a whole night", "", ">= 84", of_best),
    Goal("TrashNet, hold-out, <= 6 M parameters, int8, mean of five seeds", "91.7 (one seed)", ">= 94", of_tuned),
    Goal("TrashNet, hold-out, default search within 10 min, mean of five seeds", "88.9", ">= 91.5", of_seeds),
    Goal("claimed hold-out against independent scoring of the shipped file", "equal", "equal", of_claims),
)
