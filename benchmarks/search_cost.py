"""What a search costs until it has the front: every sampler replayed on the exhaustive table of TrashNet.

The study of the product is asked and told as in a search; an evaluation is looked up in ``results/trashnet_table.csv``
(made by ``benchmarks.trashnet_table``) and costs the seconds that its stages took there, what a card's forms share
once. Shown is the time until 95 % and 99 % of the whole table's hypervolume over (accuracy, log latency, log size) are
reached, medians over seeds, as a share of evaluating everything.
"""

from __future__ import annotations

import csv
import importlib.util
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from advisor.catalog.cards import Card, Published
from advisor.catalog.catalogue import load_catalogue
from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.quantity import Provenance, Quantity
from advisor.search.hypervolume import hypervolume
from advisor.search.plan import Plan, order_by_promise
from advisor.search.study import Study
from benchmarks.tables import RESULTS, keep

TABLE = RESULTS / "trashnet_table.csv"
SHARES = (0.95, 0.99)
ENOUGH = 0.999
SEEDS = 20
CORES = 2
METHODS = ("advisor", "random", "tpe", "nsga2", "gp")
GOALS = {0.95: 1 / 4, 0.99: 1 / 2}
"""Share of the cost of everything within which each share of the hypervolume is to be reached."""

INPUT_LOSS = ((96, 11.5), (128, 6.5), (160, 3.0), (192, 1.1), (224, 0.0))
"""(input, points of top-1 below the 224 input) of MobileNetV2 1.0 (tensorflow/models research/slim/nets/mobilenet)."""


@dataclass(frozen=True)
class Row:
    """One configuration of the table."""

    card: str
    base: str
    size: int
    params: int
    macs: int
    recipe: str
    threads: int
    accuracy: float
    latency_ms: float
    bytes: float
    shared_s: float
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


class Table:
    """The table, and the plan over its cards as a search would make it."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = {(row.card, row.recipe, row.threads): row for row in rows}

    @cached_property
    def plan(self) -> Plan:
        """The search space: priors of resized cards are the published figure less what MobileNetV2 loses there."""
        catalogue = load_catalogue()
        cards = {row.card: _card(catalogue[row.base], row) for row in self.rows.values()}
        recipes = tuple(dict.fromkeys(row.recipe for row in self.rows.values()))
        threads = tuple(sorted({row.threads for row in self.rows.values()}))
        return Plan(order_by_promise(tuple(cards.values())), recipes, threads, "head", "", 2000, 400)

    def row(self, configuration: Configuration) -> Row:
        """Return what the configuration came to."""
        return self.rows[configuration.card, configuration.compression, configuration.target.threads]

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
        values["recipe"], int(values["threads"]), float(values["accuracy"]), float(values["latency_ms"]),
        float(values["size_bytes"]), float(values["shared_s"]), float(values["own_s"]), float(values["timing_s"]),
    )  # fmt: skip


def _card(base: Card, row: Row) -> Card:
    inputs, losses = zip(*INPUT_LOSS, strict=True)
    loss = float(np.interp(row.size / base.input_size * 224, inputs, losses))
    prior = Published("float32", "published figure less the loss at this input", top1=(base.top1() or 50.0) - loss)
    return replace(base, name=row.card, input_size=row.size, macs=row.macs, published=(prior,))


def _point(row: Row) -> tuple[float, float, float]:
    return -row.accuracy, math.log(row.latency_ms), math.log(row.bytes)


def _price(row: Row, paid: set[tuple[str, ...]]) -> float:
    """Seconds of the machine that are due for the row: shared stages and stages of its form are paid once."""
    due = 0.0
    for key, price in (((row.card,), row.shared_s / CORES), ((row.card, row.recipe), row.own_s / CORES + row.timing_s)):
        due += 0.0 if key in paid else price
        paid.add(key)
    return due


def searched(table: Table, sampler: str, seed: int) -> Iterator[Row]:
    """Yield rows in the order in which a study with this sampler asks for them."""
    from optuna.storages import InMemoryStorage

    study = Study(InMemoryStorage(), "replay", table.plan, Budget(), sampler, seed, done=())
    while (asked := study.ask()) is not None:
        row = table.row(asked)
        yield row
        study.tell(_evaluation(asked, row))


def _evaluation(configuration: Configuration, row: Row) -> Evaluation:
    def measured(value: float, unit: str) -> Quantity:
        return Quantity(value, unit, Provenance.MEASURED)

    return Evaluation(
        configuration,
        Status.OK,
        accuracy=measured(row.accuracy, "%"),
        latency=measured(row.latency_ms, "ms"),
        latency_p90=measured(row.latency_ms, "ms"),
        size=measured(row.bytes, "bytes"),
    )


def main() -> None:
    """Replay every sampler and keep the table and the plot."""
    table = read()
    methods = [name for name in METHODS if name != "gp" or importlib.util.find_spec("torch")]
    courses = {name: [table.course(searched(table, name, seed)) for seed in range(SEEDS)] for name in methods}
    everything = table.everything_s
    rows = [_summary(name, runs, everything) for name, runs in courses.items()]
    header = ("method", *(f"seconds to {share:.0%}" for share in SHARES), *(f"share of all, {s:.0%}" for s in SHARES))
    goals = "; ".join(f"{share:.0%} within {goal:.0%}" for share, goal in GOALS.items())
    remarks = [
        f"{len(table.rows)} configurations of {len(table.plan.cards)} cards; all of them take {everything:.0f} s",
        f"to reach: {goals} of all, and half of the best other method",
        *([] if "gp" in methods else ["gp left out: it needs torch, which is not installed"]),
    ]
    print(keep("search_cost", "What a search costs until it has the front (TrashNet)", header, rows, remarks))
    (RESULTS / "search_cost.svg").write_text(plot(courses, everything), encoding="utf-8")


def _summary(name: str, runs: Sequence[Course], everything: float) -> tuple[object, ...]:
    medians = [statistics.median(run.until(share) for run in runs) for share in SHARES]
    return (name, *(f"{value:.0f}" for value in medians), *(f"{value / everything:.2f}" for value in medians))


COLOURS = ("#0b6e4f", "#888888", "#c8553d", "#3d5a98", "#a06cd5")
LEFT, TOP, RIGHT, BOTTOM = 50, 40, 670, 340
"""The corners of the plot in an SVG of 720 x 400."""


def plot(courses: Mapping[str, Sequence[Course]], everything: float) -> str:
    """Return an SVG of the hypervolume reached against seconds, the median over seeds of each method."""
    curves = [_curve(name, runs, everything, place) for place, (name, runs) in enumerate(courses.items())]
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 400" font-family="sans-serif" font-size="13">'
    return f'{head}<rect width="720" height="400" fill="white"/>{_axes(everything)}{"".join(curves)}</svg>\n'


def _curve(name: str, runs: Sequence[Course], everything: float, place: int) -> str:
    colour = COLOURS[place % len(COLOURS)]
    shares = [
        (share, statistics.median(run.at(share * everything) for run in runs)) for share in np.linspace(0, 1, 200)
    ]
    points = " ".join(f"{_x(share):.1f},{_y(reached):.1f}" for share, reached in shares)
    label = f'<text x="570" y="{250 + 18 * place}" fill="{colour}">{name}</text>'
    return f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>{label}'


def _axes(everything: float) -> str:
    ticks = "".join(
        f'<text x="{_x(share):.0f}" y="{BOTTOM + 18}" text-anchor="middle">{share * everything:.0f}</text>'
        f'<text x="{LEFT - 6}" y="{_y(share) + 4:.0f}" text-anchor="end">{share:.0%}</text>'
        for share in (0, 0.25, 0.5, 0.75, 1)
    )
    return (
        f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="#444"/>{ticks}'
        f'<text x="360" y="390" text-anchor="middle">seconds of this machine</text>'
        f'<text x="{LEFT}" y="24">share of the whole table\'s hypervolume, median of {SEEDS} seeds</text>'
    )


def _x(share: float) -> float:
    return LEFT + share * (RIGHT - LEFT)


def _y(share: float) -> float:
    return BOTTOM - share * (BOTTOM - TOP)


if __name__ == "__main__":
    main()
