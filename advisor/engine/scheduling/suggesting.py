"""How a study's sampler is kept informed: what may start now, and what was measured meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from advisor.core.evaluation import Evaluation
from advisor.engine.question.names import ADVISOR, GP, NSGA2, RANDOM, TPE
from advisor.engine.scheduling.candidate_table import candidate_table
from advisor.engine.scheduling.cost_estimates import CostEstimates
from advisor.engine.scheduling.halving import CardTraining, HasCapacity, SuccessiveHalving
from advisor.engine.scheduling.trial_record import parameters
from advisor.engine.space.plan import Plan

if TYPE_CHECKING:
    from optuna import Study
    from optuna.samplers import BaseSampler

UPDATE_SHARE = 0.02
"""The sampler scores its whole table again after an update. So updates wait until so large a share of the results is
new: 2 % of all results."""


class Suggester(Protocol):
    """A sampler of a study over accuracy, latency and size."""

    @property
    def sampler(self) -> BaseSampler:
        """The sampler that suggests the trials' parameters."""

    @property
    def suggests_runnable(self) -> bool:
        """True if it never suggests what may not start now."""

    def add(self, evaluation: Evaluation) -> None:
        """Note a result."""

    def prepare(self, has_capacity: HasCapacity) -> None:
        """Tell the sampler what may start now."""

    def expected_gain(self, study: Study, seconds: float) -> float:
        """Return what ``seconds`` more are expected to add, as a share of the front's hypervolume."""


class OptunaSuggester:
    """One of Optuna's own samplers, which knows nothing of the search space and has no expectation.

    Args:
        name: of the sampler.
        seed: of its random numbers.
    """

    suggests_runnable = False

    def __init__(self, name: str, seed: int) -> None:
        self.sampler = _optuna_sampler(name, seed)

    def add(self, evaluation: Evaluation) -> None:
        """Do nothing: the sampler reads the study's trials."""

    def prepare(self, has_capacity: HasCapacity) -> None:
        """Do nothing: the sampler suggests from the whole space."""

    def expected_gain(self, study: Study, seconds: float) -> float:
        """Return infinity: the sampler has no expectation."""
        return float("inf")


class AdvisorSuggester:
    """The advisor's sampler, with what is known of every candidate.

    Args:
        plan: the search space.
        halving: says what may start.
        seed: decides between equals.
        done: earlier results.
    """

    suggests_runnable = True

    def __init__(self, plan: Plan, halving: SuccessiveHalving, seed: int, done: Iterable[Evaluation]) -> None:
        import numpy as np

        from advisor.engine.scheduling.sampler import AdvisorSampler, Objective

        self._halving, self._estimates = halving, CostEstimates(plan)
        self._changed: dict[str, None] = {}
        self._results = 0
        for evaluation in done:
            self.add(evaluation)
        self._changed.clear()
        units = (CardTraining.of(each) for each in plan.configurations())
        self._positions = np.array([halving.position(unit) for unit in units])
        objectives = (
            Objective("accuracy", "maximize"),
            Objective("latency", "minimize", log=True),
            Objective("size", "minimize", log=True),
        )
        self.sampler: AdvisorSampler = AdvisorSampler(candidate_table(plan, self._estimates), objectives, seed=seed)

    def add(self, evaluation: Evaluation) -> None:
        """Note a result and which card's estimates it changes."""
        card = self._estimates.add(evaluation)
        self._results += 1
        if card is not None:
            self._changed[card] = None

    def prepare(self, has_capacity: HasCapacity) -> None:
        """Block the candidates that may not start now, and update the estimates."""
        self.sampler.block(self._halving.blocked(self._positions, has_capacity))
        self._update()

    def expected_gain(self, study: Study, seconds: float) -> float:
        """Return what ``seconds`` more are expected to add, as a share of the front's hypervolume."""
        self._update()
        return self.sampler.expected_gain(study, seconds)

    def _update(self) -> None:
        """Replace rough figures by measured ones, for every configuration of the cards that changed."""
        if len(self._changed) <= UPDATE_SHARE * self._results:
            return
        for card in self._changed:
            for configuration, estimate in self._estimates.of(card).items():
                self.sampler.update_known(parameters(configuration), estimate.known, estimate.cost_s)
        self._changed.clear()


def make_suggester(
    name: str, plan: Plan, halving: SuccessiveHalving, seed: int, done: Iterable[Evaluation]
) -> Suggester:
    """Return the sampler called ``name``, one of :data:`advisor.engine.question.names.SAMPLERS`."""
    return AdvisorSuggester(plan, halving, seed, done) if name == ADVISOR else OptunaSuggester(name, seed)


def _optuna_sampler(name: str, seed: int) -> BaseSampler:
    from optuna import samplers

    if name == TPE:
        return samplers.TPESampler(seed=seed)
    if name == NSGA2:
        return samplers.NSGAIISampler(seed=seed)
    if name == GP:
        return samplers.GPSampler(seed=seed)
    if name == RANDOM:
        return samplers.RandomSampler(seed=seed)
    raise ValueError(f"no sampler is called {name!r}")
