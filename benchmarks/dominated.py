"""What leaving out forms that cannot reach the front saves and loses, on the exhaustive table of TrashNet.

    python -m benchmarks dominated

Each draw has twelve networks of the table, as many as a search has by default. The product's rule decides form by form;
cards come cheapest first, as a search gives them cores, or in random order. The last row also leaves out expensive
cards that cannot be picked (decision 0058).
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from advisor.core.budget import Budget
from advisor.core.decision import dominates
from advisor.core.evaluation import Configuration
from advisor.engine.scheduling.promotion import FLOAT, ExpensiveCards, FrontBound, dominated
from advisor.engine.scheduling.sampler.hypervolume import hypervolume
from benchmarks import cost_table
from benchmarks.cost_table import Problem, Row
from benchmarks.replay import evaluation
from benchmarks.tables import keep

DRAWS, CARDS = 30, 12
HEADER = (
    "order of cards", "forms left out %", "seconds of making and scoring forms saved %", "members of the front",
    "of these left out", "least hypervolume kept",
)  # fmt: skip


@dataclass(frozen=True)
class Draw:
    """One search: what was made, and what was left out."""

    made: tuple[Row, ...]
    left_out: tuple[Row, ...]

    @property
    def members(self) -> list[Row]:
        """The front of everything."""
        rows = [*self.made, *self.left_out]
        return [row for row in rows if not any(dominates(other.point, row.point) for other in rows)]

    @property
    def kept(self) -> float:
        """Hypervolume of what was made over that of everything."""
        points = np.array([row.point for row in (*self.made, *self.left_out)])
        made = np.array([row.point for row in self.made])
        return hypervolume(made, points.max(axis=0)) / hypervolume(points, points.max(axis=0))


def main() -> None:
    """Replay the draws in both orders and keep the table."""
    problem = cost_table.read("head")
    orders = ("cheapest first", "random")
    rows = [summary(order, [drawn(problem, seed, order) for seed in range(DRAWS)]) for order in orders]
    picky = [drawn(problem, seed, orders[0], expensive=True) for seed in range(DRAWS)]
    rows.append(summary("cheapest first, expensive cards only if they can be picked", picky))
    remarks = [f"{DRAWS} draws of {CARDS} networks from benchmarks/results/trashnet_table.csv; heads, 404 images."]
    print(keep("dominated", "Forms that cannot reach the front", HEADER, rows, remarks))


def drawn(problem: Problem, seed: int, order: str, expensive: bool = False) -> Draw:
    """Decide on every form of twelve networks; with ``expensive``, also on whole cards."""
    draw, bound = random.Random(seed), FrontBound(Budget())
    cards = draw.sample(sorted({row.card for row in problem.rows.values()}), CARDS)
    if order == "cheapest first":
        cards.sort(key=lambda name: min(row.macs for row in problem.rows.values() if row.card == name))
    plan = replace(problem.plan, cards=tuple(problem.plan.cards_by_name[name] for name in cards))
    dear = ExpensiveCards.of(plan)
    made, left_out = list[Row](), list[Row]()
    for configuration in _configurations(problem, cards):
        row = problem.row(configuration)
        floats = problem.row(replace(configuration, compression=FLOAT))
        if row is None or floats is None:
            continue
        reference = evaluation(problem, replace(configuration, compression=FLOAT), floats)
        if expensive and _unpicked(dear, configuration, bound):
            left_out.append(row)
            continue
        if configuration.compression != FLOAT and dominated(configuration, replace(bound.known, floats=reference)):
            left_out.append(row)
        else:
            made.append(row)
            bound.add([evaluation(problem, configuration, row)])
    return Draw(tuple(made), tuple(left_out))


def _unpicked(dear: ExpensiveCards, configuration: Configuration, bound: FrontBound) -> bool:
    """Return whether the card could not be picked, by the results of the other cards."""
    others = {key: each for key, each in bound.results.items() if key.card != configuration.card}
    return bool(dear.reason(configuration, replace(bound.known, results=others)))


def _configurations(problem: Problem, cards: Sequence[str]) -> Iterator[Configuration]:
    """Yield the configurations of the cards, float32 first."""
    known = {(each.card, each.compression, each.target.threads): each for each in problem.plan.configurations()}
    recipes = sorted(problem.plan.recipes, key=lambda name: name != FLOAT)
    for card in cards:
        for recipe in recipes:
            yield from (known[card, recipe, threads] for threads in problem.plan.threads)


def summary(order: str, draws: Sequence[Draw]) -> tuple[object, ...]:
    """Return the row of the table."""
    made, left_out = ([row for draw in draws for row in getattr(draw, name)] for name in ("made", "left_out"))
    forms = [row for row in (*made, *left_out) if row.recipe != FLOAT]
    lost = sum(row in draw.left_out for draw in draws for row in draw.members)
    saved = sum(row.own_s for row in left_out) / sum(row.own_s for row in forms)
    members = sum(len(draw.members) for draw in draws)
    least = min(draw.kept for draw in draws)
    return order, f"{100 * len(left_out) / len(forms):.0f}", f"{100 * saved:.0f}", members, lost, f"{least:.4f}"
