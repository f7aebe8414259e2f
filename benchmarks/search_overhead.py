"""What the search itself costs: a suggestion at 10,000 finished trials, and resuming such a run.

The space has 10,500 configurations of cards like the shipped ones, with made-up figures near theirs. The journal, the
evaluations file and the sampler are the product's. Resuming is timed in separate processes, imports included.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from advisor.catalog import Card, load_catalogue
from advisor.compression import RECIPES
from advisor.core import (
    Budget,
    CardFacts,
    Configuration,
    Evaluation,
    ImageAnswers,
    Provenance,
    Quantity,
    Status,
    evaluation_to_json,
)
from advisor.engine._execution import one_blas_thread
from advisor.engine._pipeline.cost import rough_ms, rough_size
from advisor.engine._scheduling.storage import journal
from advisor.engine._scheduling.study import Study
from advisor.engine._space.plan import Plan, prior_accuracy
from advisor.store import RunFolder
from benchmarks.tables import Row, keep
from tests.engine.plans import planned

FINISHED, MORE = 10_000, 60
THREADS = tuple(range(1, 11))
CARDS = 105
REPEATS = 5
SIZES = (100, 1_000, 10_000)


def main() -> None:
    """Run every case and keep the table."""
    with tempfile.TemporaryDirectory() as folder, one_blas_thread():
        rows: list[Row] = [_row(Path(folder) / str(size), size) for size in SIZES]
    header = (
        "finished trials", "suggestion, median (p95)", "of processor time", "telling a result", "going on",
        "of processor time",
    )  # fmt: skip
    remarks = (
        f"a suggestion: median over {MORE} of asking, facts given to the sampler and the journal's writes included; "
        "to reach: 50 ms of the sampler at 10,000",
        f"going on: wall time, median of {REPEATS} processes that start, read the evaluations and take up the study; "
        "to reach: 3 s at 10,000",
    )
    print(keep("search_overhead", "The search's own cost", header, rows, remarks))


def _row(place: Path, size: int) -> Row:
    run = written_run(place, size)
    asking, telling = _suggestions(run)
    wall, cpu = (np.array(column) * 1e3 for column in zip(*asking, strict=True))
    asked = f"{np.median(wall):.0f} ms ({np.percentile(wall, 95):.0f} ms)"
    taken, used = (statistics.median(column) for column in zip(*(_going_on(run) for _ in range(REPEATS)), strict=True))
    told = f"{1e3 * statistics.median(telling):.0f} ms"
    return (f"{size:,}", asked, f"{np.median(cpu):.0f} ms", told, f"{taken:.2f} s", f"{used:.2f} s")


def written_run(place: Path, size: int) -> RunFolder:
    """Write a run with ``size`` finished evaluations, its study as the search would have left it."""
    plan, rng = space(), np.random.default_rng(0)
    run = RunFolder.create(place, "overhead")
    run.write_request({})
    order = rng.permutation(plan.size)[:size]
    configurations, cards = plan.configurations(), {card.name: card for card in plan.cards}
    found = [evaluated(configurations[i], cards[configurations[i].card], rng) for i in order]
    with run.evaluations_file.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(evaluation_to_json(evaluation)) + "\n" for evaluation in found)
    with _one_write_at_the_end(run.study_file):
        _study(run, plan, found)
    return run


def space() -> Plan:
    """Return a space of 10,500 configurations."""
    shipped, rng = list(load_catalogue().values()), np.random.default_rng(1)
    cards = tuple(_like(shipped[i % len(shipped)], i, rng) for i in range(CARDS))
    return planned(
        cards,
        tuple(recipe.name for recipe in RECIPES),
        THREADS,
        ("head",),
        "ai-edge-litert==2.3.0",
        images=2500,
        holdout=500,
    )


def evaluated(configuration: Configuration, card: Card, rng: np.random.Generator) -> Evaluation:
    """Return an evaluation with figures near what is known beforehand, and details as long as real ones."""
    recipe, threads = configuration.compression, configuration.target.threads
    accuracy = min(99.0, prior_accuracy(card, recipe) + 15 + rng.normal(0, 4))
    latency = rough_ms(card, recipe, threads) * float(np.exp(rng.normal(0, 0.3)))
    confusion = tuple(tuple(int(value) for value in row) for row in rng.integers(0, 90, (6, 6)))
    return Evaluation(
        configuration=configuration,
        status=Status.OK,
        family=card.family,
        accuracy=Quantity(accuracy, "%", Provenance.MEASURED, accuracy - 3, accuracy + 3, 0.95, 500),
        latency=Quantity(latency, "ms", Provenance.MEASURED, latency * 0.98, latency * 1.02, 0.95, 50),
        latency_p90=Quantity(latency * 1.1, "ms", Provenance.MEASURED),
        size=Quantity(rough_size(card, recipe), "bytes", Provenance.MEASURED),
        memory=Quantity(2e7, "bytes", Provenance.MEASURED),
        drop=Quantity(0.4, "points", Provenance.MEASURED, -0.4, 1.2, 0.95, 500),
        artefact=f"artifacts/{configuration.key}.tflite",
        artefact_sha256="0" * 64,
        answers=ImageAnswers("", {f"class {i}": 0.9 for i in range(6)}, confusion),
        card_facts=CardFacts(macs=card.macs),
    )


def take_up(folder: str) -> None:
    """Do what a resumed search does before its first suggestion."""
    run = RunFolder.open(Path(folder))
    with one_blas_thread():
        _study(run, space(), run.evaluations()).ask()


def _like(card: Card, place: int, rng: np.random.Generator) -> Card:
    factor = float(np.exp(rng.normal(0, 0.4)))
    return replace(
        card, name=f"{card.name}_{place}", macs=round(card.macs * factor), params=round(card.params * factor)
    )


def _study(run: RunFolder, plan: Plan, done: Sequence[Evaluation]) -> Study:
    return Study(journal(run.study_file), "advisor", plan, Budget(latency_ms=20.0), "advisor", 0, done)


def _suggestions(run: RunFolder) -> tuple[list[tuple[float, float]], list[float]]:
    """Return the seconds of each suggestion, by the wall and of the processor, and of telling each result."""
    plan, rng = space(), np.random.default_rng(2)
    cards = {card.name: card for card in plan.cards}
    study = _study(run, plan, run.evaluations())
    asking, telling = [], []
    for _ in range(MORE):
        start, busy = time.perf_counter(), time.process_time()
        configuration = study.ask()
        asking.append((time.perf_counter() - start, time.process_time() - busy))
        assert configuration is not None
        result = evaluated(configuration, cards[configuration.card], rng)
        start = time.perf_counter()
        study.tell(result)
        telling.append(time.perf_counter() - start)
        run.append(result)
    return asking, telling


def _going_on(run: RunFolder) -> tuple[float, float]:
    """Return the seconds, by the wall and of the processor, of a process that takes up the run."""
    code = f"from benchmarks.search_overhead import take_up; take_up({str(run.path)!r})"
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).resolve().parents[1])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, used


@contextmanager
def _one_write_at_the_end(file: Path) -> Iterator[None]:
    """Leave out the journal's flush to the disk at every line while a run is made up; nothing is timed meanwhile."""
    real, os.fsync = os.fsync, lambda _: None
    try:
        yield
    finally:
        os.fsync = real
        with file.open("rb") as content:
            os.fsync(content.fileno())


if __name__ == "__main__":
    main()
