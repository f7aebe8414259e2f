"""What a search costs until it has the front: every sampler replayed on the exhaustive table of TrashNet.

The study of the product is asked and told as in a search; an evaluation is looked up in ``results/trashnet_table.csv``
(made by ``benchmarks.trashnet_table``) and costs the seconds that its stages took there, what a card's forms share
once. Shown is the time until 95 % and 99 % of the whole table's hypervolume over (accuracy, log latency, log size) are
reached, medians over seeds, as a share of evaluating everything.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from advisor.catalog.cards import Card
from advisor.catalog.catalogue import load_catalogue
from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.quantity import Provenance, Quantity
from advisor.search.experience import Earlier, Experience
from advisor.search.hypervolume import hypervolume
from advisor.search.plan import Plan, order_by_promise
from advisor.search.study import Study
from benchmarks.cost_plot import plot
from benchmarks.tables import RESULTS, keep

TABLE, RUNS = RESULTS / "trashnet_table.csv", RESULTS / "search_cost_runs.csv"
SHARES = (0.95, 0.99)
ENOUGH = 0.995
STEPS = 100
SEEDS = 20
CORES = 2
TRAININGS = ("head",)
LEARNT = "advisor, learnt"
METHODS = ("advisor", LEARNT, "random", "tpe", "nsga2", "gp")
PICTURES = 404
"""Validation pictures that the table's accuracies come from."""

ALIKE = 0.9
GP_LEFT_OUT = "gp left out: it needs PyTorch, and about two seconds of a core a suggestion: --method gp takes hours"
GOALS = {0.95: 1 / 4, 0.99: 1 / 2}
"""Share of the cost of everything within which each share of the hypervolume is to be reached."""


@dataclass(frozen=True)
class Row:
    """One configuration of the table."""

    card: str
    base: str
    size: int
    params: int
    macs: int
    training: str
    recipe: str
    threads: int
    accuracy: float
    latency_ms: float
    bytes: float
    shared_s: float
    training_s: float
    own_s: float
    timing_s: float


@dataclass(frozen=True)
class Course:
    """How a search went: seconds spent and the share of the hypervolume reached, one point an evaluation."""

    seconds: tuple[float, ...]
    shares: tuple[float, ...]

    def until(self, share: float) -> float:
        """Return the seconds until ``share`` is reached."""
        return next((s for s, reached in zip(self.seconds, self.shares, strict=True) if reached >= share), math.inf)

    def at(self, seconds: float) -> float:
        """Return the share reached after ``seconds``."""
        return max((reached for s, reached in zip(self.seconds, self.shares, strict=True) if s <= seconds), default=0.0)


@dataclass(frozen=True)
class Run:
    """One replay in shares of the cost of everything: until each of :data:`SHARES`, and reached at each hundredth."""

    method: str
    seed: int
    shares: tuple[float, ...]
    curve: tuple[float, ...]


class Table:
    """The table, and the plan over its cards as a search would make it."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = {
            (row.card, row.training, row.recipe, row.threads): row for row in rows if row.training in TRAININGS
        }

    @cached_property
    def plan(self) -> Plan:
        """The search space, as a search over a team's catalogue of these cards would make it."""
        catalogue = load_catalogue()
        cards = {row.card: _card(catalogue[row.base], row) for row in self.rows.values()}
        recipes = tuple(dict.fromkeys(row.recipe for row in self.rows.values()))
        threads = tuple(sorted({row.threads for row in self.rows.values()}))
        return Plan(order_by_promise(tuple(cards.values())), recipes, threads, ("head",), "", 2021, 404)

    def row(self, configuration: Configuration) -> Row:
        """Return what the configuration came to."""
        return self.rows[
            configuration.card, configuration.training, configuration.compression, configuration.target.threads
        ]

    def course(self, order: Iterator[Row]) -> Course:
        """Return what evaluating in this order costs and reaches."""
        points = np.array([_point(row) for row in self.rows.values()])
        reference = points.max(axis=0)
        whole = hypervolume(points, reference)
        paid: set[tuple[str, ...]] = set()
        seen, seconds, shares, spent = [], [], [], 0.0
        for row in order:
            spent += _price(row, paid)
            seen.append(_point(row))
            seconds.append(spent)
            shares.append(hypervolume(np.array(seen), reference) / whole)
            if shares[-1] >= ENOUGH:
                break
        return Course(tuple(seconds), tuple(shares))

    @property
    def everything_s(self) -> float:
        """Seconds that evaluating every configuration costs."""
        paid: set[tuple[str, ...]] = set()
        return sum(_price(row, paid) for row in self.rows.values())


def read(path: Path = TABLE) -> Table:
    """Read the table."""
    with path.open(newline="", encoding="utf-8") as file:
        return Table([_row(values) for values in csv.DictReader(file)])


def _row(values: Mapping[str, str]) -> Row:
    return Row(
        values["card"], values["base"], int(values["input_size"]), int(values["params"]), int(values["macs"]),
        values["training"], values["recipe"], int(values["threads"]), float(values["accuracy"]),
        float(values["latency_ms"]), float(values["size_bytes"]), float(values["shared_s"]),
        float(values["training_s"]), float(values["own_s"]), float(values["timing_s"]),
    )  # fmt: skip


def _card(base: Card, row: Row) -> Card:
    """Only a card at its own input has published figures; of the others the search has to expect something itself."""
    if row.card == row.base:
        return base
    return replace(base, name=row.card, input_size=row.size, params=row.params, macs=row.macs, published=())


def _point(row: Row) -> tuple[float, float, float]:
    return -row.accuracy, math.log(row.latency_ms), math.log(row.bytes)


def _price(row: Row, paid: set[tuple[str, ...]]) -> float:
    """Seconds of the machine that are due for the row: shared stages and stages of its form are paid once."""
    due = 0.0
    parts = (
        ((row.card,), row.shared_s / CORES),
        ((row.card, row.training), row.training_s / CORES),
        ((row.card, row.training, "float32"), row.own_s / CORES),  # which every form is held against
        ((row.card, row.training, row.recipe), row.own_s / CORES),
        ((row.card, row.training, row.recipe, "timing"), row.timing_s),
    )
    for key, price in parts:
        due += 0.0 if key in paid else price
        paid.add(key)
    return due


def searched(table: Table, sampler: str, seed: int) -> Iterator[Row]:
    """Yield rows in the order in which a study with this sampler asks for them."""
    from optuna.storages import InMemoryStorage

    experience = earlier(table, seed) if sampler == LEARNT else None
    name = "advisor" if sampler == LEARNT else sampler
    study = Study(InMemoryStorage(), "replay", table.plan, Budget(), name, seed, done=(), experience=experience)
    while (asked := study.ask()) is not None:
        row = table.row(asked)
        yield row
        study.tell(_evaluation(asked, row, table.row(replace(asked, compression="float32"))))


def earlier(table: Table, seed: int) -> Experience:
    """Return an earlier run of half of the cards, drawn by the seed, on other pictures of the same kind.

    Its accuracies are what as many other pictures might have shown: drawn from the binomial law around the table's.
    """
    rng = np.random.default_rng(seed)
    names = [card.name for card in table.plan.cards]
    cards = set(rng.choice(names, len(names) // 2, replace=False))
    found = []
    for configuration in table.plan.configurations():
        if configuration.card in cards:
            row = table.row(configuration)
            drawn = 100 * rng.binomial(PICTURES, row.accuracy / 100) / PICTURES
            found.append(_evaluation(configuration, replace(row, accuracy=float(drawn)), row))
    return Experience((Earlier(Path("earlier"), ALIKE, tuple(found)),))


def _evaluation(configuration: Configuration, row: Row, floating: Row) -> Evaluation:
    def measured(value: float, unit: str) -> Quantity:
        return Quantity(value, unit, Provenance.MEASURED)

    return Evaluation(
        configuration,
        Status.OK,
        accuracy=measured(row.accuracy, "%"),
        drop=measured(floating.accuracy - row.accuracy, "points"),
        latency=measured(row.latency_ms, "ms"),
        latency_p90=measured(row.latency_ms, "ms"),
        size=measured(row.bytes, "bytes"),
    )


def main() -> None:
    """Replay samplers, all of them or those named, and keep the table, the runs and the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--method", choices=METHODS, action="append")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    arguments = parser.parse_args()
    named = arguments.method or [name for name in METHODS if name != "gp" or importlib.util.find_spec("torch")]
    with ProcessPoolExecutor(CORES) as pool:
        for name in named:
            found = list(pool.map(replayed, [name] * arguments.seeds, range(arguments.seeds)))
            _keep_runs([*(run for run in _kept_runs() if run.method != name), *found])
    print(_summary(read(), _kept_runs()))


def replayed(method: str, seed: int) -> Run:
    """Replay one search."""
    table = read()
    course = table.course(searched(table, method, seed))
    everything = table.everything_s
    curve = tuple(course.at(step / STEPS * everything) for step in range(1, STEPS + 1))
    return Run(method, seed, tuple(course.until(share) / everything for share in SHARES), curve)


def _keep_runs(runs: Sequence[Run]) -> None:
    with RUNS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["method", "seed", *(f"share_to_{s:.0%}" for s in SHARES), *range(1, STEPS + 1)])
        for run in sorted(runs, key=lambda run: (METHODS.index(run.method), run.seed)):
            figures = (f"{value:.4f}" for value in (*run.shares, *run.curve))
            writer.writerow([run.method, run.seed, *figures])


def _kept_runs() -> list[Run]:
    if not RUNS.is_file():
        return []
    with RUNS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    count = 2 + len(SHARES)
    return [Run(r[0], int(r[1]), tuple(map(float, r[2:count])), tuple(map(float, r[count:]))) for r in rows]


def _summary(table: Table, runs: Sequence[Run]) -> str:
    everything, methods = table.everything_s, tuple(dict.fromkeys(run.method for run in runs))
    rows = [_line(name, [run for run in runs if run.method == name], everything) for name in methods]
    header = (
        "method",
        *(f"seconds to {share:.0%}" for share in SHARES),
        *(f"of all, {s:.0%}" for s in SHARES),
        "seeds",
    )
    goals = "; ".join(f"{share:.0%} within {goal:.0%}" for share, goal in GOALS.items())
    networks = {row.card.partition("_at_")[0] for row in table.rows.values()}
    remarks = [
        f"{len(table.rows)} configurations: {len(networks)} networks ({_cut(networks)} of them cut short), "
        f"{len(table.plan.cards)} with their inputs; all of them take {everything:.0f} s",
        f"medians over seeds, the longest in brackets; to reach: {goals} of all, and half of the best other method",
        f"{LEARNT}: --learn-from a run of half of the cards on as many other pictures of the same kind",
        *([] if "gp" in methods else [GP_LEFT_OUT]),
    ]
    curves = {name: [run.curve for run in runs if run.method == name] for name in methods}
    (RESULTS / "search_cost.svg").write_text(plot(curves, everything), encoding="utf-8")
    return keep("search_cost", "What a search costs until it has the front (TrashNet)", header, rows, remarks)


def _cut(networks: Collection[str]) -> int:
    return sum("_cut" in name for name in networks)


def _line(name: str, runs: Sequence[Run], everything: float) -> tuple[object, ...]:
    columns = list(zip(*(run.shares for run in runs), strict=True))
    medians, worst = [statistics.median(column) for column in columns], [max(column) for column in columns]
    shown = [f"{middle:.2f} ({last:.2f})" for middle, last in zip(medians, worst, strict=True)]
    return (name, *(f"{value * everything:.0f}" for value in medians), *shown, len(runs))


if __name__ == "__main__":
    main()
