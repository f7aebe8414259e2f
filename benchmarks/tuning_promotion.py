"""Which cards to fine-tune: the product's rule beside "one epoch for all, then the best k".

The baseline is that of "Is One Epoch All You Need For Multi-Fidelity Hyperparameter Optimization?" (arXiv 2307.15422).
The table has the validation accuracy of every card with its head and after every epoch of ``finetune_cached``, on a
part of TrashNet that judges nothing else (split seed 5), and the CPU seconds of each step. A replay asks the product's
rule, or the baseline, which cards are trained to the end, and adds up the seconds. ``benchmarks.anytime_table``
records more sets, with int8 files.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from advisor.catalog import Catalogue
from advisor.core import TrainingName
from benchmarks.cost_table import CORES, Problem, Purse, Row
from benchmarks.replay import ADVISOR, searched
from benchmarks.tables import RESULTS, keep

TABLE = RESULTS / "tuning_promotion_table.csv"
SEED, TRAINED, VALIDATED = 5, 400, 400

LEAST = 0.05  # Points that a CPU hour must gain: so little that every card is tuned that may be picked

Steps = Mapping[str, Sequence[Row]]
"""Of each card: its head, then its network after each epoch with the seconds of all epochs so far."""


def main() -> None:
    """Replay the table."""
    print(summary(read()))


def summary(steps: Steps) -> str:
    """Replay both methods for several numbers of cards that are trained to the end, and keep the table of results."""
    product, lines = list(promoted(problem_of(steps))), list[tuple[object, ...]]()
    most = sum(row.training == TrainingName.FINETUNE_CACHED for row in product)
    for count in range(1, most + 1):
        for name, order in (
            ("the product", first_tuned(product, count)),
            ("one epoch for all, then the best k", list(one_epoch_first(steps, count))),
        ):
            purse = Purse()
            for row in order:
                purse.pay(row)
            best = max(
                (row for row in order if row.training == TrainingName.FINETUNE_CACHED), key=lambda row: row.accuracy
            )
            lines.append((name, count, best.card, f"{best.accuracy:.1f}", f"{CORES * purse.spent:.0f}"))
    heads = ", ".join(f"{card} {rows[0].accuracy:.1f} %" for card, rows in steps.items())
    remarks = (
        f"{len(steps)} cards on TrashNet, split seed {SEED}: {TRAINED} images to train on, {VALIDATED} to validate on; "
        "float files; accuracy on validation; CPU seconds with heads, without backbones",
        f"heads: {heads}. So few images are too few for this recipe; the order of the cards is what counts here",
        "baseline: arXiv 2307.15422; the product: its bound and its order, stopped after k cards",
    )
    header = ("method", "k", "best fine-tuned network", "its top-1 %", "CPU seconds")
    return keep("tuning_promotion", "Which cards to fine-tune", header, lines, remarks)


def first_tuned(order: Sequence[Row], count: int) -> list[Row]:
    """Return the heads and the first ``count`` fine-tuned cards."""
    tuned = [row for row in order if row.training == TrainingName.FINETUNE_CACHED][:count]
    return [*(row for row in order if row.training == TrainingName.HEAD), *tuned]


def problem_of(steps: Steps) -> Problem:
    """Return the search problem: every card with its head, and with its best epoch."""
    return Problem(
        (TrainingName.HEAD, TrainingName.FINETUNE_CACHED),
        [row for rows in steps.values() for row in (rows[0], best_of(rows))],
    )


def best_of(rows: Sequence[Row]) -> Row:
    """Return the row of a whole fine-tuning: the best epoch, at the cost of all."""
    best = max(rows[1:], key=lambda row: row.accuracy)
    return replace(rows[-1], accuracy=best.accuracy)


def one_epoch_first(steps: Steps, count: int) -> Iterator[Row]:
    """Yield heads, every card after one epoch, then the rest of the training of the ``count`` best."""
    for rows in steps.values():
        yield from rows[:2]
    for rows in sorted(steps.values(), key=lambda rows: -rows[1].accuracy)[:count]:
        yield best_of(rows)


def promoted(problem: Problem) -> Iterator[Row]:
    """Yield rows in the order of a search of the product that tunes every card that may still be picked."""
    return searched(problem, ADVISOR, seed=0, least=LEAST)


def read(path: Path = TABLE) -> dict[str, list[Row]]:
    """Return the table by card; empty if it is not there."""
    if not path.is_file():
        return {}
    catalogue, steps = Catalogue.load(), dict[str, list[Row]]()
    with path.open(newline="", encoding="utf-8") as file:
        for values in csv.DictReader(file):
            card, epoch = catalogue[values["card"]], int(values["epoch"])
            training = TrainingName.FINETUNE_CACHED if epoch else TrainingName.HEAD
            steps.setdefault(card.name, []).append(
                Row(
                    card.name, card.name, card.input_size, card.params, card.macs, training,
                    "float32", 1, float(values["accuracy"]), float(values["latency_ms"]), float(values["size_bytes"]),
                    0.0, float(values["cpu_s"]), 0.0, 0.0,
                )
            )  # fmt: skip
    return steps


if __name__ == "__main__":
    main()
