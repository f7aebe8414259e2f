"""The exhaustive table of TrashNet as search problems: what each evaluation costs, and what has been reached by it.

Made by ``benchmarks.trashnet_table`` and ``benchmarks.trashnet_climb``, replayed by ``benchmarks.search_cost``.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from advisor.catalog import Card, Catalogue
from advisor.core import Configuration, TrainingName
from advisor.engine._scheduling.sampler.hypervolume import hypervolume
from advisor.engine._space.plan import Plan
from advisor.engine._space.prior_accuracy import most_promising_first
from benchmarks.tables import RESULTS
from tests.engine.plans import planned

TABLE = RESULTS / "trashnet_table.csv"
ENOUGH = 0.99
"""Share of the hypervolume at which a replay ends."""

CORES = 2

FIRST_LOOK = 400
"""Images of the quick head: the product has none at sets as small as TrashNet, so the rule is scaled down."""

IMAGES, VALIDATION = 2021, 404
"""Pictures that were learnt from, and those of them that the table's accuracies come from."""

WHOLE = "whole"
PROBLEMS: Mapping[str, tuple[str, ...]] = {
    "head": (TrainingName.HEAD,),
    "rungs": (TrainingName.HEAD_SUBSET, TrainingName.HEAD, TrainingName.FINETUNE_TOP),
    WHOLE: (TrainingName.HEAD, TrainingName.FINETUNE_TOP),
}
"""The trainings of each problem, the lightest first. Its cards are those that the table has on all of them; of the
whole table all cards, of which those that were not fine-tuned say that they cannot be, as files cannot."""


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

    @property
    def answers(self) -> bool:
        """False for a quick head, which decides who climbs and is no answer itself."""
        return self.training != TrainingName.HEAD_SUBSET

    @property
    def point(self) -> tuple[float, float, float]:
        """What is to be little: accuracy turned round, and the logarithms of latency and size."""
        return -self.accuracy, math.log(self.latency_ms), math.log(self.bytes)


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


class Purse:
    """Seconds of the machine that evaluations take, where stages that they share are paid once."""

    def __init__(self) -> None:
        self.spent = 0.0
        self._paid: dict[tuple[str, ...], float] = {}

    def due(self, rows: Iterable[Row]) -> float:
        """Return the seconds that the rows would take now, one after the other."""
        other = Purse()
        other._paid = dict(self._paid)
        for row in rows:
            other.pay(row)
        return other.spent

    def pay(self, row: Row) -> None:
        """Take what is due for the row: of stages of the card, only what no lighter rung has paid of them."""
        parts = (
            ((row.card,), row.shared_s / CORES),
            ((row.card, row.training), row.training_s / CORES),
            ((row.card, row.training, "float32"), row.own_s / CORES),  # which every form is held against
            ((row.card, row.training, row.recipe), row.own_s / CORES),
            ((row.card, row.training, row.recipe, "timing"), row.timing_s),
        )
        for key, price in parts:
            before = self._paid.get(key, 0.0)
            self.spent += max(0.0, price - before)
            self._paid[key] = max(price, before)


class Problem:
    """A search problem with every answer known.

    Args:
        trainings: its rungs, the lightest first.
        rows: the table.
        whole: a card that lacks a rung stays; else it is left out.
    """

    def __init__(self, trainings: Sequence[str], rows: Iterable[Row], *, whole: bool = False) -> None:
        self.trainings = tuple(trainings)
        own = [row for row in rows if row.training in self.trainings]
        climbed = [{row.card for row in own if row.training == training} for training in self.trainings]
        cards = climbed[0] if whole else set.intersection(*climbed)
        self.rows = {(r.card, r.training, r.recipe, r.threads): r for r in own if r.card in cards}

    @cached_property
    def plan(self) -> Plan:
        """The search space, as a search over a team's catalogue of these cards would make it."""
        catalogue = Catalogue.load()
        cards = {row.card: _card(catalogue[row.base], row) for row in self.rows.values()}
        recipes = tuple(dict.fromkeys(row.recipe for row in self.rows.values() if row.answers))
        threads = tuple(sorted({row.threads for row in self.rows.values()}))
        ordered = most_promising_first(tuple(cards.values()))
        return planned(
            ordered, recipes, threads, self.trainings, "", images=IMAGES, validation=VALIDATION, subset=FIRST_LOOK
        )

    def row(self, configuration: Configuration) -> Row | None:
        """Return what the configuration came to, None where its card cannot be trained so."""
        threads = configuration.target.threads
        return self.rows.get((configuration.card, configuration.training, configuration.compression, threads))

    def course(self, order: Iterator[Row]) -> Course:
        """Return what evaluating in this order costs and reaches."""
        points = np.array([row.point for row in self.answers])
        reference = points.max(axis=0)
        whole, share, purse = hypervolume(points, reference), 0.0, Purse()
        seen: list[tuple[float, ...]] = []
        seconds, shares = [], []
        for row in order:
            purse.pay(row)
            if row.answers and not any(all(a <= b for a, b in zip(s, row.point, strict=True)) for s in seen):
                seen.append(row.point)
                share = hypervolume(np.array(seen), reference) / whole
            seconds.append(purse.spent)
            shares.append(share)
            if share >= ENOUGH:
                break
        return Course(tuple(seconds), tuple(shares))

    @property
    def answers(self) -> list[Row]:
        """What counts: everything but quick heads."""
        return [row for row in self.rows.values() if row.answers]

    @property
    def everything_s(self) -> float:
        """Seconds that evaluating everything that counts takes; nobody who does needs a quick head."""
        purse = Purse()
        for row in self.answers:
            purse.pay(row)
        return purse.spent


def read(problem: str, path: Path = TABLE) -> Problem:
    """Read one of :data:`PROBLEMS`."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [_row(values) for values in csv.DictReader(file)]
    return Problem(PROBLEMS[problem], rows, whole=problem == WHOLE)


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
