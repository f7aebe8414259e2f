"""Which cards to fine-tune: the product's promotion beside "one epoch for all, then the best k".

    python -m benchmarks tuning_promotion --measure 20    # begins no card after 20 minutes; the table is kept
    python -m benchmarks tuning_promotion                 # replays the table

The baseline is that of "Is One Epoch All You Need For Multi-Fidelity Hyperparameter Optimization?" (arXiv 2307.15422).
The table has the validation accuracy of every card with its head and after every epoch of ``finetune_cached``, on a
part of TrashNet that judges nothing else (split seed 5), and the CPU seconds of each step. A replay asks the product's
scheduler, or the baseline, which cards are trained to the end, and adds up the seconds.
"""

import argparse
import csv
import os
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from advisor.catalog.catalogue import load_catalogue
from advisor.core.budget import Budget
from advisor.core.decision import decide
from advisor.core.evaluation import Evaluation
from advisor.core.training import FINETUNE_CACHED, HEAD
from advisor.engine.scheduling.promotion import FrontBound
from advisor.engine.scheduling.scheduler import Allowance, Scheduler
from advisor.engine.scheduling.study import Study
from benchmarks.cost_table import CORES, Problem, Purse, Row
from benchmarks.replay import evaluation, storage
from benchmarks.search import TRASHNET
from benchmarks.tables import RESULTS, keep

TABLE = RESULTS / "tuning_promotion_table.csv"
CARDS = (
    "mobilenet_v1_0.25_224", "mobilenet_v2_1.0_224", "squeezenet_1.1_227", "efficientnet_lite0_224",
    "mobilenet_v1_1.0_224", "efficientnet_lite1_240",
)  # fmt: skip
COLUMNS = ("card", "epoch", "accuracy", "cpu_s", "latency_ms", "size_bytes")
SEED, TRAINED, VALIDATED = 5, 400, 400

Steps = Mapping[str, Sequence[Row]]
"""Of each card: its head, then its network after each epoch with the seconds of all epochs so far."""


def main() -> None:
    """Measure the cards that the table lacks, if asked; then replay it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--measure", type=float, default=0.0, help="minutes; begin no card after them")
    arguments, began = parser.parse_args(), time.monotonic()
    for card in CARDS:
        if time.monotonic() - began < 60 * arguments.measure and card not in read():
            _append(measured(card))
    print(summary(read()))


def summary(steps: Steps) -> str:
    """Replay both methods for several numbers of cards that are trained to the end, and keep the table of results."""
    product, lines = list(promoted(problem_of(steps))), list[tuple[object, ...]]()
    most = sum(row.training == FINETUNE_CACHED for row in product)
    for count in range(1, most + 1):
        for name, order in (
            ("the product", first_tuned(product, count)),
            ("one epoch for all, then the best k", list(one_epoch_first(steps, count))),
        ):
            purse = Purse()
            for row in order:
                purse.pay(row)
            best = max((row for row in order if row.training == FINETUNE_CACHED), key=lambda row: row.accuracy)
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
    tuned = [row for row in order if row.training == FINETUNE_CACHED][:count]
    return [*(row for row in order if row.training == HEAD), *tuned]


def problem_of(steps: Steps) -> Problem:
    """Return the search problem: every card with its head, and with its best epoch."""
    return Problem((HEAD, FINETUNE_CACHED), [row for rows in steps.values() for row in (rows[0], best_of(rows))])


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
    """Yield rows in the order of a default search of the product without a limit of time."""
    plan, bound = problem.plan, FrontBound(Budget())
    study = Study(storage(), "replay", plan, Budget(), "advisor", 0, done=())

    def favourite(cards: Collection[str]) -> str | None:
        pick = decide([e for e in bound.results.values() if e.configuration.card in cards], Budget()).pick
        return pick.configuration.card if pick else None

    scheduler = Scheduler(study, bound, plan, plan.size, CORES, Allowance(plan, bound, favourite))
    while (configuration := scheduler.next(())) is not None:
        row = problem.row(configuration)
        assert row is not None
        yield row
        found: Evaluation = evaluation(problem, configuration, row)
        study.tell(found)
        bound.add([found])


def read(path: Path = TABLE) -> dict[str, list[Row]]:
    """Return the table by card; empty if it is not there."""
    if not path.is_file():
        return {}
    catalogue, steps = load_catalogue(), dict[str, list[Row]]()
    with path.open(newline="", encoding="utf-8") as file:
        for values in csv.DictReader(file):
            card, epoch = catalogue[values["card"]], int(values["epoch"])
            steps.setdefault(card.name, []).append(
                Row(
                    card.name, card.name, card.input_size, card.params, card.macs, FINETUNE_CACHED if epoch else HEAD,
                    "float32", 1, float(values["accuracy"]), float(values["latency_ms"]), float(values["size_bytes"]),
                    0.0, float(values["cpu_s"]), 0.0, 0.0,
                )
            )  # fmt: skip
    return steps


def _append(rows: Iterable[Sequence[object]]) -> None:
    fresh = not TABLE.is_file()
    with TABLE.open("a", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([*([COLUMNS] if fresh else []), *rows])


def measured(name: str) -> list[Sequence[object]]:
    """Train the head and every epoch of one card, and return its rows of the table."""
    import numpy as np

    from advisor.catalog.convert import convert
    from advisor.catalog.weights.fetching import fetch
    from advisor.datasets.split import split
    from advisor.datasets.survey import survey
    from advisor.engine.pipeline.materials import input_spec
    from advisor.measurement.latency.timing import least_cpu_ms
    from advisor.tflite.levels import attach_head, with_levels
    from advisor.tflite.rewrite import select_output
    from advisor.training.features import extract
    from advisor.training.finetune import FINETUNING, TuningImages, tune
    from advisor.training.head import train_head

    dataset = survey(TRASHNET).dataset
    parts, rng = split(dataset, SEED), np.random.default_rng(SEED)
    chosen = [*rng.permutation(parts.train)[:TRAINED], *rng.permutation(parts.validation)[:VALIDATED]]
    paths = [dataset.images[index].path for index in chosen]
    labels = [dataset.images[index].label for index in chosen]
    card = load_catalogue()[name]
    weights = fetch(card)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        convert(card, weights, folder / "master.tflite")
        backbone = with_levels(select_output((folder / "master.tflite").read_bytes(), "features"))
        (folder / "backbone.tflite").write_bytes(backbone)
        began = _cpu_s()
        features = extract(folder / "backbone.tflite", paths, input_spec(card))
        np.save(folder / "features.npy", features)
        head = train_head(features[:TRAINED], labels[:TRAINED], max(labels) + 1, SEED)
        head_s, began = _cpu_s() - began, _cpu_s()
        answers = (features[TRAINED:] @ head.weights + head.bias).argmax(axis=1)
        (folder / "head.tflite").write_bytes(attach_head(backbone, head.weights, head.bias))
        started = time.monotonic()
        result = tune(
            card, weights, TuningImages([folder / "features.npy"], paths, labels, range(TRAINED, len(paths))),
            replace(FINETUNING[FINETUNE_CACHED], seed=SEED, patience=99), folder / "tuning", folder / "model.tflite",
        )  # fmt: skip
        tuned_s, wall_s, epochs = _cpu_s() - began, time.monotonic() - started, result["history"]
        facts = (round(least_cpu_ms(folder / "head.tflite"), 3), (folder / "head.tflite").stat().st_size)
        start_s = max(0.0, tuned_s * (1 - sum(row["seconds"] for row in epochs) / wall_s))
    right = 100 * float(np.mean(answers == np.array(labels[TRAINED:])))
    rows: list[Sequence[object]] = [(name, 0, round(right, 2), round(head_s, 1), *facts)]
    spent = start_s
    for number, row in enumerate(epochs, 1):
        spent += (tuned_s - start_s) / len(epochs)
        rows.append((name, number, round(100 * row["validation_accuracy"], 2), round(spent, 1), *facts))
    return rows


def _cpu_s() -> float:
    return sum(os.times()[:2])


if __name__ == "__main__":
    main()
