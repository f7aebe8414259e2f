"""The rule of a search within a limit, replayed in seconds on what each step of a card costs and reaches.

    python -m benchmarks anytime_replay

Only the results are looked up (``anytime_table``): rule, prices and pick are the product's own code. A limit is in CPU
seconds of one core. Beside the rule: ``prior order``, each card by its published accuracy with head, fine-tuning and
int8; ``heads``, all heads in that order and nothing else; and ``hindsight``, the file that is best on the test images
among those that one card can have within the limit. ``trashnet`` and ``grocery`` choose constants of the rule;
``tiles`` and ``few`` judge it.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from unittest.mock import patch

from advisor.catalog import Card, Catalogue
from advisor.core import (
    BALANCED,
    Configuration,
    Decision,
    Evaluation,
    Interval,
    Limits,
    Provenance,
    Quantity,
    Status,
    TrainingName,
)
from advisor.engine._pipeline.graph import ALWAYS
from advisor.engine._scheduling import belief, expected_gain, form_costs, prices
from advisor.engine._scheduling.belief import CardTraining, FormStep
from advisor.engine._scheduling.next_steps import SearchRule
from advisor.engine._scheduling.prices import TimeLimit
from advisor.engine._space.plan import Plan
from advisor.engine._space.prior_accuracy import most_promising_first
from advisor.tasks._task import USUAL_TRAININGS
from benchmarks import anytime_table as table
from benchmarks.tables import Row, keep
from tests.engine.plans import planned

NAME, TITLE = "anytime_replay", "The rule within a limit, replayed on recorded steps"
CHOOSE, JUDGE = ("trashnet", "grocery"), ("tiles", "few")
LIMITS_S = (60, 120, 240, 480, 960)
LIMITS, LEAST = Limits(latency_ms=50.0), 2.0
RULE, PRIOR, HEADS = "rule", "prior order", "heads"
FLOAT, INT8 = ALWAYS
SHIPS = 4 / 3
"""Seconds of both trainings over those of the compared one: that of the file that ships has a third of the epochs."""

CONSTANTS = (
    "TYPICAL_ERROR", "DIFFICULTY_SD", "SLOPE", "SLOPE_SD", "CARD_SD", "FAMILY_SD", "SHAPE_SD", "TUNED_SLOPE",
    "OWN_SHARE", "FILE_SD", "NOISE", "DIFFERENT", "NO_ANSWER", "DROP_SD", "UNMEASURED_SD",
)  # fmt: skip
"""What the rule believes before a search, and how it values an answer."""

HEADER = ("set, limit and method", "set", "limit s", "method", "pick", "test %", "behind hindsight", "CPU s")
REMARKS = (
    f"{', '.join(CHOOSE)} choose constants of the rule, {', '.join(JUDGE)} judge it. The steps are those of "
    "`anytime_table.csv`. A limit inside the first epoch of a fine-tuning leaves nothing of it here.",
    "`tiles` led to the mixture of decision 0138, which is not part of this replay: heads and fine-tuned networks are "
    "compared by their figures alone.",
    "Behind hindsight: points on the test images behind the best file that one card can have within the limit.",
)


@dataclass(frozen=True)
class Made:
    """The result of a step: CPU seconds, accuracies in %, and what the file costs."""

    cpu_s: float
    validation: float
    test: float
    latency_ms: float
    size_bytes: int


class Recorded:
    """The steps of the cards of one set."""

    def __init__(self, name: str, steps: Mapping[tuple[str, str], Sequence[table.Step]]) -> None:
        self.steps = {card: rows for (of, card), rows in steps.items() if of == name}
        first = next(iter(self.steps.values()))[0]
        self.trained, self.validated = first.trained, first.validated

    @cached_property
    def cards(self) -> tuple[Card, ...]:
        """The cards by their published accuracy."""
        catalogue = Catalogue.load()
        return tuple(sorted((catalogue[name] for name in self.steps), key=lambda card: -(card.top1() or 0.0)))

    @cached_property
    def plan(self) -> Plan:
        """The plan of a search over these cards, on one core."""
        counts = {"images": self.trained + self.validated, "validation": self.validated}
        return planned(most_promising_first(self.cards), ALWAYS, (1,), USUAL_TRAININGS, "", cores=1, **counts)

    def made(self, step: FormStep, left_s: float = math.inf) -> Made | None:
        """Return the result of a step in the seconds that are left, of fine-tuning with fewer epochs; None for none."""
        rows = self.steps[step.network.card]
        one = {row.step: row for row in rows}
        head, last = one[table.HEAD], one[table.TUNED]
        if step == FormStep(CardTraining(step.network.card, TrainingName.HEAD), FLOAT):
            found = _made(head, one[table.CONVERT].cpu_s + one[table.FEATURES].cpu_s + head.cpu_s)
        elif not step.network.tuned:
            found = _made(one[table.HEAD_INT8])
        elif step.form == INT8:
            found = _made(one[table.TUNED_INT8])
        else:
            epochs = [row for row in rows if row.step == table.TUNED]
            spent = 0.0
            best: table.Step | None = None
            for row in epochs:
                spent += SHIPS * row.cpu_s
                if spent > left_s:
                    continue
                # Of equal epochs the later one counts, of equals the start.
                is_equal = best is not None and best.epoch > 0 and row.validation == best.validation
                if best is None or row.validation > best.validation or is_equal:
                    best = row
            if best is None:
                return None
            found = Made(min(spent, left_s), best.validation, best.test, last.latency_1_ms, last.size_bytes)
        return found if found.cpu_s <= left_s else None

    def evaluation(self, configuration: Configuration, made: Made) -> Evaluation:
        """Return what a search is told of a result."""
        share = Interval.wilson(round(made.validation / 100 * self.validated), self.validated)
        ends = (100 * share.low, 100 * share.high, 0.95, self.validated)
        return Evaluation(
            configuration,
            Status.OK,
            accuracy=Quantity(made.validation, "%", Provenance.MEASURED, *ends),
            latency=Quantity(made.latency_ms, "ms", Provenance.MEASURED),
            latency_p90=Quantity(made.latency_ms, "ms", Provenance.MEASURED),
            size=Quantity(float(made.size_bytes), "bytes", Provenance.MEASURED),
        )


def _made(row: table.Step, cpu_s: float | None = None) -> Made:
    spent = row.cpu_s + row.score_s if cpu_s is None else cpu_s
    return Made(spent, row.validation, row.test, row.latency_1_ms, row.size_bytes)


@dataclass
class Search:
    """A search within a limit: what it has spent, and its results."""

    recorded: Recorded
    limit_s: float
    spent_s: float = 0.0
    results: dict[FormStep, Made] = field(default_factory=dict)

    def evaluate(self, step: FormStep) -> Evaluation | None:
        """Take the seconds of a step, and return its result; None if the limit ends it."""
        made = self.recorded.made(step, self.limit_s - self.spent_s)
        self.spent_s = self.limit_s if made is None else self.spent_s + made.cpu_s
        if made is None:
            return None
        self.results[step] = made
        return self.recorded.evaluation(self._configuration(step), made)

    def pick(self) -> tuple[str, float]:
        """Return the pick's name and its accuracy on the test images in %."""
        found = {self._configuration(step): (step, made) for step, made in self.results.items()}
        rows = [self.recorded.evaluation(configuration, made) for configuration, (_, made) in found.items()]
        chosen = Decision.of_evaluations(rows, LIMITS).pick
        if chosen is None:
            return "none", 0.0
        return f"{chosen.configuration.card} {chosen.configuration.variant_name}", found[chosen.configuration][1].test

    def _configuration(self, step: FormStep) -> Configuration:
        return self.recorded.plan.configuration(step.network.card, step.form, 1, step.network.training)


def by_rule(search: Search) -> None:
    """Evaluate what the rule chooses, until it ends the search."""
    expected_s = actual_s = 0.0
    limit = TimeLimit(
        lambda: search.limit_s - search.spent_s, lambda _name: actual_s / expected_s if expected_s else 1.0
    )
    rule = SearchRule(search.recorded.plan, BALANCED, LIMITS, LEAST, limit)
    while chosen := rule.choose_steps():
        for step in chosen:
            price_s, before_s = rule.prices.seconds((step,)), search.spent_s
            found = search.evaluate(step)
            if found is None:
                return
            expected_s, actual_s = expected_s + price_s, actual_s + search.spent_s - before_s
            rule.prices.finished.update(rule.prices.stages(step))
            rule.condition_on(found)


def chain(card: str, trainings: Sequence[str]) -> list[FormStep]:
    """Return the steps of a card with these trainings, and the int8 file of the last one."""
    networks = [CardTraining(card, each) for each in trainings]
    return [*(FormStep(each, FLOAT) for each in networks), FormStep(networks[-1], INT8)]


def in_order(search: Search, trainings: Sequence[str]) -> None:
    """Evaluate one card after the other with these trainings, and the int8 file of the last one."""
    for card in search.recorded.cards:
        for step in chain(card.name, trainings):
            if search.evaluate(step) is None:
                return


def in_hindsight(recorded: Recorded, limit_s: float) -> float:
    """Return the best accuracy on the test images in % of a file that one card can have within the limit."""
    best = 0.0
    for name, trainings in product(recorded.steps, ((TrainingName.HEAD,), USUAL_TRAININGS)):
        search = Search(recorded, limit_s)
        for step in chain(name, trainings):
            search.evaluate(step)
        best = max([best, *(made.test for made in search.results.values())])
    return best


def replayed(name: str, recorded: Recorded, limit_s: float) -> Iterator[Row]:
    """Yield the row of each method."""
    best = in_hindsight(recorded, limit_s)
    for method in (RULE, PRIOR, HEADS):
        search = Search(recorded, limit_s)
        if method == RULE:
            by_rule(search)
        else:
            in_order(search, USUAL_TRAININGS if method == PRIOR else (TrainingName.HEAD,))
        pick, test = search.pick()
        key = f"{name}, {limit_s:g} s, {method}"
        yield (key, name, f"{limit_s:g}", method, pick, f"{test:.1f}", f"{best - test:.1f}", f"{search.spent_s:.0f}")


def main() -> None:
    """Replay every set of the table within every limit, and keep the table."""
    steps = table.read()
    sets = [name for name in (*CHOOSE, *JUDGE) if sum(of == name for of, _ in steps) > 1]
    rows = [row for name in sets for limit_s in LIMITS_S for row in replayed(name, Recorded(name, steps), limit_s)]
    varied = sensitivity({name: Recorded(name, steps) for name in CHOOSE})
    print(keep(NAME, TITLE, HEADER, rows, (*REMARKS, *summary(rows), varied)), flush=True)


def sensitivity(sets: Mapping[str, Recorded]) -> str:
    """Return how far the rule is behind hindsight on some sets if one of its constants is half or twice as large."""
    best = {(name, limit_s): in_hindsight(recorded, limit_s) for name, recorded in sets.items() for limit_s in LIMITS_S}

    def behind() -> float:
        points = []
        for (name, limit_s), most in best.items():
            search = Search(sets[name], limit_s)
            by_rule(search)
            points.append(most - search.pick()[1])
        return statistics.mean(points)

    as_it_is, found = behind(), {}
    for name, factor in product(CONSTANTS, (0.5, 2.0)):
        owners = [module for module in (belief, expected_gain, prices, form_costs) if hasattr(module, name)]
        with ExitStack() as patches:
            for module in owners:
                patches.enter_context(patch.object(module, name, getattr(module, name) * factor))
            found[name, factor] = behind()
    (least, _), (most, _) = min(found, key=lambda key: found[key]), max(found, key=lambda key: found[key])
    return (
        f"Each of {len(CONSTANTS)} constants of the rule at half and at twice its value, on the sets that choose: "
        f"{min(found.values()):.2f} ({least}) to {max(found.values()):.2f} ({most}) points behind hindsight, "
        f"{as_it_is:.2f} as it is."
    )


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the points behind hindsight of each method, on the sets that choose and on those that judge."""
    for kind, names in (("choose", CHOOSE), ("judge", JUDGE)):
        own = [row for row in rows if row[1] in names]
        for method in dict.fromkeys(row[3] for row in own):
            behind = [float(str(row[6])) for row in own if row[3] == method]
            mean, worst = statistics.mean(behind), max(behind)
            yield f"Sets that {kind}, {method}: {mean:.1f} points behind hindsight in the mean, {worst:.1f} at worst."


if __name__ == "__main__":
    main()
