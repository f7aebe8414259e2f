"""An Optuna sampler for a table of candidates of which much is known beforehand.

Where a search space is a list (model x recipe x threads) and each entry comes with a prior and with costs that are
known or predicted, a cold sampler is no better than random. This one starts with the entries that look best by what
is known, learns from each result how far the prior can be trusted, and asks next for the entry with the largest
expected gain of hypervolume a second. It needs Optuna and numpy only, and works with any study of two or three
objectives.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.exceptions import TrialPruned
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from advisor.search.acquisition import Acquisition
from advisor.search.hypervolume import Floats
from advisor.search.ledger import CLAIM, Ledger, announce, claim_of

_RIVAL_TIMEOUT_S = 2.0
_RIVAL_POLL_S = 0.005


class CandidatesExhausted(RuntimeError):
    """Every candidate of the table has been evaluated or is being evaluated: nothing is left to ask for."""


@dataclass(frozen=True)
class Objective:
    """One value of the study's trials, in the study's order.

    Attributes:
        name: how ``Candidate.known`` calls it.
        direction: ``minimize`` or ``maximize``, as the study has it.
        log: hypervolume is taken over its logarithm, as suits latency and size; its values must be positive.
    """

    name: str
    direction: str = "minimize"
    log: bool = False

    def to_loss(self, value: float) -> float:
        """Return the value on the scale where less is better, ``inf`` where a logarithm does not exist."""
        if self.log:
            value = float(np.log(value)) if value > 0 else float("nan")
        return -value if self.direction == "maximize" else value


@dataclass(frozen=True)
class Candidate:
    """One entry of the table.

    Attributes:
        params: the value of each of the study's parameters, unique within the table.
        prior: what the one unknown objective is believed to be, in its unit or in one that rises with it.
        known: the known or predicted value of every other objective, by name.
        features: what the unknown objective may depend on beyond the prior: numbers as they are (take logarithms
            of counts), strings (such as the family) as groups.
        cost_s: seconds that evaluating it is expected to take.
    """

    params: Mapping[str, Any]
    prior: float
    known: Mapping[str, float]
    features: Mapping[str, float | str] = field(default_factory=dict)
    cost_s: float = 1.0


def candidate_key(params: Mapping[str, Any]) -> str:
    """Return the text by which a candidate is known in a study's trials."""
    return json.dumps(dict(params), sort_keys=True, default=str)


class AdvisorSampler(BaseSampler):
    """Suggests each candidate of a table once, in the order of expected gain.

    Trials that run, completed, were pruned or failed hold their candidate, whichever process made them: a study
    that is resumed or shared goes on without repeating one. ``Study.enqueue_trial`` goes first and may name some of
    the parameters only. Trials whose constraints (``Trial.set_constraint``) are above zero teach but do not count
    for the front. When nothing is left, ``Study.optimize`` returns, while ``Study.ask`` raises
    :class:`CandidatesExhausted` after marking the empty trial as failed; :meth:`remaining` tells beforehand.

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
        self._objectives = tuple(objectives)
        self._unknown = _unknown_objective(candidates, self._objectives)
        self._known_names = [o for i, o in enumerate(self._objectives) if i != self._unknown]
        self._params = [dict(candidate.params) for candidate in candidates]
        self._rows = {candidate_key(params): row for row, params in enumerate(self._params)}
        _check_params(self._params, self._rows)
        self._acquisition = Acquisition(
            known=np.array([self._known_losses(candidate.known) for candidate in candidates]),
            prior=np.array([self._objectives[self._unknown].to_loss(c.prior) for c in candidates]),
            features=[candidate.features for candidate in candidates],
            cost_s=np.array([candidate.cost_s for candidate in candidates], dtype=float),
            reference=self._reference(reference or {}),
            seed=seed,
        )
        self._independent = independent_sampler or RandomSampler(seed)
        self._held = np.zeros(len(candidates), bool)
        self._lock = threading.RLock()
        self._ledger = Ledger(None, len(self._params))
        self._evidence = self._acquisition.new_evidence()

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Each parameter of the table with its values in order of appearance, as ``Study.ask`` takes them."""
        names = self._params[0]
        return {name: CategoricalDistribution(tuple({p[name]: None for p in self._params})) for name in names}

    def update_known(self, params: Mapping[str, Any], values: Mapping[str, float], cost_s: float | None = None) -> None:
        """Replace predictions by what was measured since, such as ``{"latency": 12.5}``, and the expected seconds.

        Raises:
            ValueError: parameters that are not in the table, or a value of no known objective.
        """
        row = self._rows.get(candidate_key(params))
        if row is None:
            raise ValueError(f"no candidate has the parameters {dict(params)!r}")
        known = {objective.name: i for i, objective in enumerate(self._known_names)}
        for name, value in values.items():
            if name not in known:
                raise ValueError(f"{name!r} is not one of the known objectives {', '.join(known)}")
            with self._lock:
                self._acquisition.update(row, known[name], _finite_loss(self._known_names[known[name]], value))
        if cost_s is not None:
            self._acquisition.cost_s[row] = cost_s

    def hold(self, held: Callable[[Mapping[str, Any]], bool]) -> None:
        """Suggest no candidate for whose parameters ``held`` is true, until it is said otherwise."""
        with self._lock:
            self._held = np.array([held(params) for params in self._params], bool)

    def remaining(self, study: Study) -> int:
        """Return how many more trials ``Study.ask`` can answer: candidates not taken, and enqueued trials."""
        with self._lock:
            self._sync(study)
            return int(self._ledger.free().sum()) + len(self._ledger.waiting)

    def expected_gain(self, study: Study, seconds: float = 3600.0) -> float:
        """Return what ``seconds`` more are expected to add, as a share of the front's hypervolume.

        The gains of the best candidates that fit are summed as if they did not overlap: when even this is small, more
        would not help. Infinite before enough is known to tell, zero where nothing is left.
        """
        with self._lock:
            self._sync(study)
            return self._acquisition.share_in(self._evidence, self._ledger.free(), seconds)

    def reseed_rng(self) -> None:
        """Reseed what samples the parameters outside the table; the table's order has no randomness to reseed."""
        self._independent.reseed_rng()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Choose the trial's candidate and write the choice into the trial, where other processes see it."""
        self._check_study(study)
        if CLAIM in trial.system_attrs:
            return
        with self._lock:
            fixed = trial.system_attrs.get("fixed_params", {})
            if self._claim(study, trial, fixed) is None and not fixed:
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
        if param_name not in self._params[0]:
            return self._independent.sample_independent(study, trial, param_name, param_distribution)
        row = self._rows.get(str(claim_of(trial).get("key")))
        if row is not None:
            return self._params[row][param_name]
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

    def _claim(self, study: Study, trial: FrozenTrial, fixed: Mapping[str, Any]) -> int | None:
        """Choose, announce, look whether another process chose the same, and hold or choose again.

        Two processes cannot hold one candidate: each announces before it looks, so at least one sees the other; the
        younger trial gives way, and the older waits until it has.
        """
        lost: set[int] = set()
        while True:
            self._sync(study, own=trial.number)
            row = self._choose(fixed, lost)
            if row is None:
                if lost:
                    announce(study, trial, None, held=False)
                return None
            announce(study, trial, candidate_key(self._params[row]), held=False)
            if self._wins(study, trial, row):
                announce(study, trial, candidate_key(self._params[row]), held=True)
                return row
            lost.add(row)

    def _wins(self, study: Study, trial: FrozenTrial, row: int) -> bool:
        deadline = time.monotonic() + _RIVAL_TIMEOUT_S
        while True:
            self._sync(study, own=trial.number)
            rivals = self._ledger.holders(row)
            if not rivals:
                return True
            if any(held or number < trial.number for number, held in rivals) or time.monotonic() > deadline:
                return False
            time.sleep(_RIVAL_POLL_S)

    def _choose(self, fixed: Mapping[str, Any], lost: set[int]) -> int | None:
        if fixed and all(name in fixed for name in self._params[0]):
            return None  # a fully enqueued trial is the caller's decision, even where it repeats one
        allowed = self._ledger.free() & ~self._held
        allowed[list(lost)] = False
        for row in np.flatnonzero(allowed) if fixed else ():
            allowed[row] = all(fixed[name] == value for name, value in self._params[row].items() if name in fixed)
        if not allowed.any():
            return None
        return self._acquisition.choose(self._evidence, self._ledger.running(), allowed)

    def _sync(self, study: Study, own: int = -1) -> None:
        if self._ledger.study_id != (study_id := _identity(study)):
            self._ledger = Ledger(study_id, len(self._params))
            self._evidence = self._acquisition.new_evidence()
        for row, trial in self._ledger.read(study.get_trials(deepcopy=False), own, self._row_of):
            self._learn(row, trial)

    def _row_of(self, trial: FrozenTrial) -> int | None:
        claim = claim_of(trial)
        if claim.get("key") in self._rows:
            return self._rows[claim["key"]]
        params = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        wanted = {name: params[name] for name in self._params[0] if name in params}
        return self._rows.get(candidate_key(wanted))

    def _learn(self, row: int, trial: FrozenTrial) -> None:
        losses = [objective.to_loss(value) for objective, value in zip(self._objectives, trial.values, strict=True)]
        losses.append(losses.pop(self._unknown))
        if np.isfinite(losses).all():
            self._evidence.add(row, losses, trial.constraints)

    def _known_losses(self, known: Mapping[str, float]) -> list[float]:
        return [_finite_loss(objective, known[objective.name]) for objective in self._known_names]

    def _reference(self, reference: Mapping[str, float]) -> Floats:
        ordered = [*self._known_names, self._objectives[self._unknown]]
        return np.array([o.to_loss(reference[o.name]) if o.name in reference else np.nan for o in ordered])

    def _check_study(self, study: Study) -> None:
        wanted = [objective.direction for objective in self._objectives]
        if wanted != [direction.name.lower() for direction in study.directions]:
            raise ValueError(f"the study's directions are not those of the sampler's objectives, {wanted}")

    def _end(self, study: Study, trial: FrozenTrial) -> None:
        if _stop(study):
            return
        study.tell(trial.number, state=TrialState.FAIL)
        raise CandidatesExhausted(f"all {len(self._params)} candidates have been taken")


def _unknown_objective(candidates: Sequence[Candidate], objectives: Sequence[Objective]) -> int:
    if not candidates:
        raise ValueError("the table of candidates is empty")
    if len(objectives) not in (2, 3):
        raise ValueError(f"{len(objectives)} objectives: the sampler takes two or three")
    names = [objective.name for objective in objectives]
    unknown = [i for i, name in enumerate(names) if any(name not in c.known for c in candidates)]
    if len(unknown) != 1 or any(names[unknown[0]] in c.known for c in candidates):
        raise ValueError(f"each candidate must have a known value for all but one of the objectives {', '.join(names)}")
    return unknown[0]


def _check_params(params: Sequence[Mapping[str, Any]], rows: Mapping[str, int]) -> None:
    if len(rows) < len(params):
        seen = [candidate_key(p) for p in params]
        raise ValueError(f"two candidates have the same parameters: {next(k for k in seen if seen.count(k) > 1)}")
    for other in params:
        if set(other) != set(params[0]):
            raise ValueError(
                f"candidates differ in the names of their parameters: {sorted(other)}, {sorted(params[0])}"
            )


def _finite_loss(objective: Objective, value: float) -> float:
    loss = objective.to_loss(value)
    if not np.isfinite(loss):
        positive = "a positive number" if objective.log else "a number"
        raise ValueError(f"{value!r} for the objective {objective.name!r}: it must be {positive}")
    return loss


def _identity(study: Study) -> tuple[int, int]:
    return id(study._storage), study._study_id


def _stop(study: Study) -> bool:
    """Stop the optimize loop; False where there is none, as under ask and tell."""
    try:
        study.stop()
    except RuntimeError:
        return False
    return True
