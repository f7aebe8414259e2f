"""Give the sampler of a study what it knows: the costs expected of every candidate, which of them
may start now, and what was measured meanwhile.

The study calls :func:`make_suggester` once. The rule uses the same estimates of latency and size
(:class:`CostEstimates`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from advisor.catalog import Card
from advisor.core import Configuration, Evaluation, Sampler, Status, recipe_of
from advisor.engine._pipeline.cost import rough_ms, rough_size
from advisor.engine._space.plan import Plan
from advisor.engine._space.prior_accuracy import prior_accuracy

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

    from advisor.engine._scheduling.sampler import AdvisorSampler, Candidate

Admits = Callable[[Configuration], bool]
"""Says whether a configuration may start now."""

NOTHING_LEFT_S = 0.05
"""Seconds that another thread count of a measured artefact takes: all are timed in one go."""

FLOATS = ("float32", "float16")
"""Forms that answer as the float file does."""

UPDATE_SHARE = 0.02
"""The sampler scores its whole table again after an update. So an update waits until its new
results are more than 2 % of all results.
"""


def parameters(configuration: Configuration) -> dict[str, str | int]:
    """Return what the study varies."""
    values = {name: getattr(configuration, name) for name in ("card", "training", "compression")}
    return {**values, "threads": configuration.target.threads}


@dataclass(frozen=True)
class CostEstimate:
    """Expected latency in ms and size in bytes of one configuration,
    and the seconds of evaluating it.
    """

    latency_ms: float
    size_bytes: float
    cost_s: float

    @property
    def known(self) -> dict[str, float]:
        """The figures by the names of the study's objectives."""
        return {"latency": self.latency_ms, "size": self.size_bytes}


@dataclass
class _Measured:
    """Measurements of one card by compression recipe and threads:
    latency and size hardly depend on its training.
    """

    latency_ms: dict[tuple[str, int], float] = field(default_factory=dict)
    size_bytes: dict[str, float] = field(default_factory=dict)
    done: set[tuple[str, str]] = field(default_factory=set)


class CostEstimates:
    """Collects what was measured and corrects the rough figures of the same card by it.

    The other forms of a card are expected to be off by as much as those that were measured
    (geometric mean). This is closer than MACs and parameters can be: the head has replaced the
    published classifier, and the machine is known.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._measured: dict[str, _Measured] = {}

    def add(self, evaluation: Evaluation) -> str | None:
        """Add an evaluation; return the card whose estimates changed, None if none did."""
        configuration = evaluation.configuration
        if (
            evaluation.status is not Status.OK
            or evaluation.latency is None
            or evaluation.size is None
        ):
            return None
        measured = self._measured.setdefault(configuration.card, _Measured())
        measured.latency_ms[configuration.compression, configuration.target.threads] = (
            evaluation.latency.value
        )
        measured.size_bytes[configuration.compression] = evaluation.size.value
        measured.done.add((configuration.training, configuration.compression))
        return configuration.card

    def of(self, name: str) -> Mapping[Configuration, CostEstimate]:
        """Return the estimates of every configuration of a card;
        rough ones if nothing of it was measured.
        """
        card = self._plan.cards_by_name[name]
        measured = self._measured.get(name, _Measured())
        plan = self._plan
        pairs = {point: (ms, rough_ms(card, *point)) for point, ms in measured.latency_ms.items()}
        larger = _mean_ratio(
            [(size, rough_size(card, recipe)) for recipe, size in measured.size_bytes.items()]
        )
        slower = {}
        for recipe in plan.forms:
            # By the other thread counts of a recipe, as far as they were measured.
            of_recipe = []
            for point, pair in pairs.items():
                if point[0] == recipe:
                    of_recipe.append(pair)
            slower[recipe] = _mean_ratio(of_recipe or list(pairs.values()))
        sizes = {
            recipe: measured.size_bytes.get(recipe, larger * rough_size(card, recipe))
            for recipe in plan.forms
        }
        costs = {
            variant: self._cost_s(card, measured, *variant)
            for variant in plan.workload.variants_of(card)
        }

        estimates = {}
        for configuration in plan.configurations():
            if configuration.card == name:
                recipe = configuration.compression
                threads = configuration.target.threads
                ms = measured.latency_ms.get(
                    (recipe, threads), slower[recipe] * rough_ms(card, recipe, threads)
                )
                estimates[configuration] = CostEstimate(
                    ms, sizes[recipe], costs[configuration.training, recipe]
                )
        return estimates

    def _cost_s(self, card: Card, measured: _Measured, training: str, recipe: str) -> float:
        """Return the seconds that are left:
        all thread counts are timed in one go, all recipes share a training.
        """
        plan = self._plan
        if not measured.done:
            return plan.costs.variant_s(card, (training, recipe)) / len(plan.threads)
        if (training, recipe) in measured.done:
            return NOTHING_LEFT_S
        costs = plan.costs.of_card(card)
        cost_s = costs.own_s[training, recipe] / len(plan.threads)
        trained = any(training == done for done, _ in measured.done)
        if trained:
            return cost_s
        return cost_s + costs.trained_s[training] / len(plan.recipes) / len(plan.threads)


def _mean_ratio(pairs: Collection[tuple[float, float]]) -> float:
    """Return measured over rough figures (geometric mean)."""
    ratios = []
    for measured, rough in pairs:
        if measured > 0:
            ratios.append(math.log(measured / rough))
    if ratios:
        return math.exp(sum(ratios) / len(ratios))
    return 1.0


def also_shown(
    evaluation: Evaluation, recipes: Collection[str]
) -> list[tuple[Configuration, float]]:
    """Return other forms whose accuracy in % an evaluation has shown too.

    Every form is compared with the float32 one on the same images, so the accuracy of that one is
    known as well. float16 rounds weights to 11 bits, which changed at most one answer in 500
    (``benchmarks/results/compression.md``).
    """
    accuracy = evaluation.accuracy
    drop = evaluation.drop
    if (
        evaluation.status is not Status.OK
        or accuracy is None
        or drop is None
        or evaluation.card_facts.as_it_is
    ):
        return []
    forms = []
    for name in FLOATS:
        if name in recipes and name != evaluation.configuration.compression:
            forms.append(name)
    return [
        (replace(evaluation.configuration, compression=name), accuracy.value + drop.value)
        for name in forms
    ]


class Suggester:
    """One of Optuna's own samplers, which knows nothing of the search space."""

    suggests_admitted = False

    def __init__(self, sampler: BaseSampler) -> None:
        self.sampler = sampler

    def add(self, evaluation: Evaluation) -> None:
        """Note a result."""

    def prepare(self, admitted: Collection[Configuration]) -> None:
        """Tell the sampler what may start now."""


class AdvisorSuggester(Suggester):
    """The advisor's sampler, with what is known of every candidate."""

    suggests_admitted = True
    sampler: AdvisorSampler

    def __init__(self, plan: Plan, seed: int, done: Iterable[Evaluation]) -> None:
        from advisor.engine._scheduling.sampler import AdvisorSampler, Objective

        self._rows = plan.configurations()
        self._estimates = CostEstimates(plan)
        self._changed: dict[str, None] = {}
        self._results = 0
        self._updated_at = 0
        for evaluation in done:
            self.add(evaluation)
        self._changed.clear()
        self._updated_at = self._results
        costs = (Objective(name, "minimize", log=True) for name in ("latency", "size"))
        objectives = (Objective("accuracy", "maximize"), *costs)
        super().__init__(
            AdvisorSampler(candidate_table(plan, self._estimates), objectives, seed=seed)
        )

    def add(self, evaluation: Evaluation) -> None:
        """Note a result and which card's estimates it changes."""
        card = self._estimates.add(evaluation)
        self._results += 1
        if card is not None:
            self._changed[card] = None

    def prepare(self, admitted: Collection[Configuration]) -> None:
        """Block the candidates that may not start now, and update the estimates."""
        import numpy as np

        self.sampler.block(np.array([row not in admitted for row in self._rows]))
        self._update()

    def _update(self) -> None:
        """Replace rough figures by measured ones,
        for every configuration of the cards that changed.
        """
        if self._results - self._updated_at <= UPDATE_SHARE * self._results:
            return
        self._updated_at = self._results
        for card in self._changed:
            for configuration, estimate in self._estimates.of(card).items():
                self.sampler.update_known(
                    parameters(configuration), estimate.known, estimate.cost_s
                )
        self._changed.clear()


def make_suggester(name: str, plan: Plan, seed: int, done: Iterable[Evaluation]) -> Suggester:
    """Return the sampler called ``name``, one of :class:`advisor.core.Sampler`."""
    if name == Sampler.ADVISOR:
        return AdvisorSuggester(plan, seed, done)
    from optuna import samplers

    classes = {
        Sampler.TPE: samplers.TPESampler,
        Sampler.NSGA2: samplers.NSGAIISampler,
        Sampler.GP: samplers.GPSampler,
        Sampler.RANDOM: samplers.RandomSampler,
    }
    return Suggester(classes[Sampler(name)](seed=seed))


def candidate_table(plan: Plan, estimates: CostEstimates) -> list[Candidate]:
    """Return a candidate for each configuration, in the order of the plan;
    its prior is the published accuracy.
    """
    from advisor.engine._scheduling.sampler import Candidate

    estimates_of = {card.name: estimates.of(card.name) for card in plan.cards}
    table = []
    for configuration in plan.configurations():
        card = plan.cards_by_name[configuration.card]
        estimate = estimates_of[configuration.card][configuration]
        prior = (
            prior_accuracy(card, configuration.compression)
            + recipe_of(configuration.training).points
        )
        features: dict[str, float | str] = {
            "card": card.name,
            "family": card.family,
            "training": configuration.training,
            "recipe": configuration.compression,
            "input": float(card.input_size),
            "log_params": math.log(max(card.params, 1)),
            "log_macs": math.log(max(card.macs, 1)),
        }
        table.append(
            Candidate(parameters(configuration), prior, estimate.known, features, estimate.cost_s)
        )
    return table
