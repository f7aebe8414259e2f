"""What Optuna calls: the study's trials in, the next candidate out."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.exceptions import TrialPruned
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from advisor.engine.scheduling.sampler.acquisition import Acquisition
from advisor.engine.scheduling.sampler.allocation import Allocation, CandidatesExhausted
from advisor.engine.scheduling.sampler.table import Candidate, Objective, Table
from advisor.engine.scheduling.sampler.trial_index import CLAIM, TrialIndex, claim_of, shown_by, teaches_only


class AdvisorSampler(BaseSampler):
    """Suggests each candidate of a table once, in the order of expected gain.

    Trials that run, completed, were pruned or failed hold their candidate, whichever process made them: a study
    that is resumed or shared goes on without repeating one. ``Study.enqueue_trial`` goes first and may name some of
    the parameters only. Trials whose constraints (``Trial.set_constraint``) are above zero teach but do not count
    for the front; nor do those whose user attribute ``advisor:teaches-only`` is true. What a trial has shown of other
    candidates' revealed objective on its way can be told in its user attribute ``advisor:also``, pairs of parameters
    and value.

    When nothing is left, ``Study.optimize`` returns, while ``Study.ask`` raises :class:`CandidatesExhausted` after
    marking the empty trial as failed; :meth:`remaining` tells beforehand.

    Args:
        candidates: the table, at least one entry.
        objectives: two or three, in the study's order. Exactly one of them is missing in ``Candidate.known``: the
            one that evaluating reveals.
        seed: decides between equals only. The same seed, table and results give the same order.
        reference: worst value of interest by objective name; the worst of the table where not given.
        independent_sampler: for parameters of the objective function that are not in the table.

    Raises:
        ValueError: a table or objectives that do not fit this description.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        objectives: Sequence[Objective],
        *,
        seed: int = 0,
        reference: Mapping[str, float] | None = None,
        independent_sampler: BaseSampler | None = None,
    ) -> None:
        self._table = Table(candidates, objectives)
        self._acquisition = Acquisition(
            known=self._table.known_losses(candidates),
            prior=self._table.prior_losses(candidates),
            features=[candidate.features for candidate in candidates],
            cost_s=np.array([candidate.cost_s for candidate in candidates], dtype=float),
            reference=self._table.reference(reference or {}),
            seed=seed,
        )
        self._independent = independent_sampler or RandomSampler(seed)
        self._held_back = np.zeros(len(candidates), bool)
        self._lock = threading.RLock()
        self._ledger = TrialIndex(None, len(candidates))
        self._evidence = self._acquisition.new_evidence()

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Each parameter of the table with its values in order of appearance, as ``Study.ask`` takes them."""
        return self._table.distributions

    def update_known(self, params: Mapping[str, Any], values: Mapping[str, float], cost_s: float | None = None) -> None:
        """Replace predictions by what was measured since, such as ``{"latency": 12.5}``, and the expected seconds.

        Raises:
            ValueError: parameters that are not in the table, or a value of no known objective.
        """
        row = self._table.row_of(params)
        if row is None:
            raise ValueError(f"no candidate has the parameters {dict(params)!r}")
        with self._lock:
            for name, value in values.items():
                self._acquisition.update(row, self._table.axis(name), self._table.known_loss(name, value))
            if cost_s is not None:
                self._acquisition.cost_s[row] = cost_s

    def hold(self, held: NDArray[np.bool_]) -> None:
        """Suggest no candidate that is held back, until it is said otherwise.

        Args:
            held: bool (n,), in the order of the candidates.

        Raises:
            ValueError: not one value a candidate.
        """
        if len(held) != len(self._table):
            raise ValueError(f"{len(held)} values for {len(self._table)} candidates")
        with self._lock:
            self._held_back = np.array(held, bool)

    def remaining(self, study: Study) -> int:
        """Return how many more trials ``Study.ask`` can answer: candidates not taken, and enqueued trials."""
        with self._lock:
            ledger = self._sync(study)
            return int(ledger.free().sum()) + len(ledger.waiting)

    def expected_gain(self, study: Study, seconds: float = 3600.0) -> float:
        """Return what ``seconds`` more are expected to add, as a share of the front's hypervolume.

        The gains of the best candidates that fit are summed as if they did not overlap: when even this is small, more
        would not help. Infinite before enough is known to tell, zero where nothing is left.
        """
        with self._lock:
            return self._acquisition.share_in(self._evidence_of(study), self._ledger.free(), seconds)

    def reseed_rng(self) -> None:
        """Reseed what samples the parameters outside the table; the table's order has no randomness to reseed."""
        self._independent.reseed_rng()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Choose the trial's candidate and write the choice into the trial, where other processes see it."""
        self._check_study(study)
        if CLAIM in trial.system_attrs:
            return
        with self._lock:
            claim = Allocation(study, trial, self._table, partial(self._sync, study, own=trial.number))
            if claim.take(self._held_back, self._best) is None and not trial.system_attrs.get("fixed_params"):
                self._end(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return no relative space: the whole candidate is chosen before the trial starts."""
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return nothing: see :meth:`infer_relative_search_space`."""
        return {}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return the parameter of the trial's candidate; parameters outside the table come from the other sampler.

        Raises:
            TrialPruned: the table was exhausted when the trial started.
            ValueError: an enqueued trial that fits no candidate left.
        """
        if param_name not in self._table.names:
            return self._independent.sample_independent(study, trial, param_name, param_distribution)
        row = self._table.row_of_key(claim_of(trial).get("key"))
        if row is not None:
            return self._table.params[row][param_name]
        fixed = trial.system_attrs.get("fixed_params", {})
        if fixed:
            raise ValueError(f"the enqueued trial {fixed!r} fits no candidate that is left")
        raise TrialPruned("every candidate has been taken")

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Stop ``Study.optimize`` once nothing is left to ask for."""
        if self.remaining(study) == 0:
            _stop(study)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def _best(self, allowed: np.ndarray[Any, np.dtype[np.bool_]]) -> int:
        return self._acquisition.choose(self._evidence, self._ledger.running(), allowed)

    def _evidence_of(self, study: Study) -> Any:
        self._sync(study)
        return self._evidence

    def _sync(self, study: Study, own: int = -1) -> TrialIndex:
        """Read what is new in the study's trials; the trial numbered ``own`` is the one being decided."""
        if self._ledger.study_id != (study_id := (id(study._storage), study._study_id)):
            self._ledger = TrialIndex(study_id, len(self._table))
            self._evidence = self._acquisition.new_evidence()
        for row, trial in self._ledger.read(study.get_trials(deepcopy=False), own, self._row_of):
            losses = self._table.losses(trial.values)
            if np.isfinite(losses).all():
                self._evidence.add(row, losses, trial.constraints, teaches_only=teaches_only(trial))
            for params, value in shown_by(trial):
                other, loss = self._table.row_of(params), self._table.revealed_loss(value)
                if other is not None and np.isfinite(loss):
                    self._evidence.hint(other, loss)
        return self._ledger

    def _row_of(self, trial: FrozenTrial) -> int | None:
        row = self._table.row_of_key(claim_of(trial).get("key"))
        if row is not None:
            return row
        return self._table.row_of({**trial.system_attrs.get("fixed_params", {}), **trial.params})

    def _check_study(self, study: Study) -> None:
        wanted = [objective.direction for objective in self._table.objectives]
        if wanted != [direction.name.lower() for direction in study.directions]:
            raise ValueError(f"the study's directions are not those of the sampler's objectives, {wanted}")

    def _end(self, study: Study, trial: FrozenTrial) -> None:
        if _stop(study):
            return
        study.tell(trial.number, state=TrialState.FAIL)
        raise CandidatesExhausted(f"all {len(self._table)} candidates have been taken")


def _stop(study: Study) -> bool:
    """Stop the optimize loop; False where there is none, as under ask and tell."""
    try:
        study.stop()
    except RuntimeError:
        return False
    return True
