"""One pick from the evaluations, its reason, and what would change it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from advisor.core.budget import Budget
from advisor.core.evaluation import (
    Configuration,
    Evaluation,
    Status,
    accuracy_of,
    describe,
    latency_of,
    network_of,
    p90_of,
    size_of,
    variant_of,
)
from advisor.core.metrics import BALANCED, PREFERENCES, Preference
from advisor.core.posterior import Answers, Posterior, not_known
from advisor.core.quantity import Provenance
from advisor.core.relaxation import (
    Relaxation,
    comparison,
    excess_texts,
    just_beyond,
    loosening,
    not_the_faster,
    overrun,
    reason,
    relaxations,
)
from advisor.core.units import show_bytes, show_ms

if TYPE_CHECKING:
    from advisor.core.posterior import Floats

Costs = tuple[float, ...]
"""Accuracy negated, latency and size: less is better."""

LATENCY_BUDGET = "latency budget"

PREDICTED_APART = 0.05
"""Share by which a predicted latency must be below another one to answer a tighter budget. Predictions that differ by
less do not show which is faster."""

UNRANKED = "No candidate has an accuracy: none is published and none was measured. Give labelled images with --data."

CHANCE_DIGITS = 3

MOST_LIKELY = 64
"""Candidates of the least loss whose chance to be the pick is computed."""


def costs(evaluation: Evaluation) -> Costs | None:
    """Return (negative accuracy in %, latency in ms, size in bytes), to be minimised; None where one is missing."""
    accuracy, latency, size = evaluation.accuracy, evaluation.latency, evaluation.size
    if evaluation.status is not Status.OK or accuracy is None or latency is None or size is None:
        return None
    return (-accuracy.value, latency.value, size.value)


def dominates(first: Costs, second: Costs) -> bool:
    """Return whether ``first`` is nowhere worse than ``second`` and somewhere better."""
    return all(a <= b for a, b in zip(first, second, strict=True)) and first != second


def front(evaluations: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Return the evaluations that no other dominates, fastest first, of those that are ok with the three figures."""
    points = [(evaluation, cost) for evaluation in evaluations if (cost := costs(evaluation)) is not None]
    best: list[tuple[Evaluation, Costs]] = []
    for evaluation, cost in sorted(points, key=lambda pair: pair[1]):  # what dominates a point comes before it
        if not any(dominates(other, cost) for _, other in best):
            best.append((evaluation, cost))
    return tuple(evaluation for evaluation, cost in sorted(best, key=lambda pair: (pair[1][1], pair[0].configuration)))


@dataclass(frozen=True)
class Flip:
    """A change of the question that changes the pick."""

    condition: str  #: the change, such as ``the latency budget is below 6.50 ms``
    key: str  #: the other pick
    text: str  #: condition and other pick in words


@dataclass(frozen=True)
class Decision:
    """The answer of a run."""

    #: the recommended evaluation; the one closest to the limits where ``feasible`` is false; None where nothing ran.
    pick: Evaluation | None
    feasible: bool  #: the pick meets the budget
    reason: str  #: one sentence why
    runner_up: Evaluation | None = None  #: the next best evaluation of another artefact, or None
    runner_up_reason: str = ""  #: how its figures differ from those of the pick
    ties: tuple[Evaluation, ...] = ()  #: evaluations that are statistically tied in accuracy with the most accurate
    flips: tuple[Flip, ...] = ()  #: what would change the pick, computed by deciding again
    #: where nothing is feasible, the smallest change of each limit that admits a candidate.
    relaxations: tuple[Relaxation, ...] = ()
    #: the non-dominated evaluations that meet the budget, or all of them where none does.
    front: tuple[Evaluation, ...] = ()
    #: what a slightly looser limit would buy: another pick, and how it differs.
    loosenings: tuple[Relaxation, ...] = ()
    rule: str = ""  #: how the pick was chosen, in words
    #: why the fastest of the ties is not the pick; empty where the pick is the fastest of them.
    why_not_faster: str = ""
    #: by key, how often (0-1) a file would be the pick if images and timings were resampled; the fastest evaluation of
    #: each file, the most probable first.
    chances: Mapping[str, float] = field(default_factory=dict)


def decide(
    evaluations: Sequence[Evaluation], budget: Budget, answers: Answers = not_known, preference: Preference = BALANCED
) -> Decision:
    """Pick the evaluation with the smallest expected loss among those that meet the budget.

    The loss counts latency, size and accuracy by the preference. By default accuracy comes first: a point by which the
    validation images show a network to be behind another one counts much more than one that may be noise. Forms of one
    network are expected to be nearly equal.
    """
    known = [evaluation for evaluation in evaluations if costs(evaluation) is not None]
    if not known and any(evaluation.status is Status.OK for evaluation in evaluations):
        return Decision(None, False, UNRANKED)
    feasible = [evaluation for evaluation in known if budget.met_by(evaluation)]
    if not feasible:
        return _closest(known, budget)
    preference = preference.within(budget.limits)
    chooser = _Chooser(Posterior(known, answers), preference)
    pick = chooser.pick(feasible)
    others = [e for e in feasible if variant_of(e) != variant_of(pick)]
    runner_up = chooser.pick(others) if others else None
    best, ties = chooser.most_accurate(feasible), chooser.ties(feasible, pick)
    return Decision(
        pick=pick,
        feasible=True,
        reason=reason(pick, feasible, ties, budget, preference, chooser.posterior.tied(best, [pick])[0]),
        runner_up=runner_up,
        runner_up_reason=comparison(runner_up, pick) if runner_up else "",
        ties=ties,
        flips=_flips(feasible, pick, chooser),
        loosenings=_loosenings(known, feasible, pick, budget, chooser),
        front=front(feasible),
        rule=preference.rule,
        why_not_faster=chooser.why_not_faster(pick, ties, feasible),
        chances=chooser.chances(feasible),
    )


@dataclass(frozen=True)
class _Chooser:
    """Chooses by the expected loss under one preference."""

    posterior: Posterior
    preference: Preference

    def pick(self, feasible: Sequence[Evaluation]) -> Evaluation:
        """Return the evaluation with the smallest expected loss among those that no other dominates."""
        return self._by_loss(front(feasible), feasible)[0]

    def most_accurate(self, feasible: Sequence[Evaluation]) -> Evaluation:
        """Return the most accurate evaluation, of equal ones the fastest and smallest."""
        return max(feasible, key=lambda e: (accuracy_of(e), -latency_of(e), -size_of(e)))

    def ties(self, feasible: Sequence[Evaluation], pick: Evaluation) -> tuple[Evaluation, ...]:
        """Return the other files whose accuracy is tied with the best one, the most accurate first."""
        best = self.most_accurate(feasible)
        tied = [e for e, tie in zip(feasible, self.posterior.tied(best, feasible), strict=True) if tie or e is best]
        return tuple(e for e in sorted(tied, key=lambda e: -accuracy_of(e)) if variant_of(e) != variant_of(pick))

    def why_not_faster(self, pick: Evaluation, ties: Sequence[Evaluation], feasible: Sequence[Evaluation]) -> str:
        """Return one sentence why the fastest tie is not the pick; empty where the pick is as fast."""
        if not self.preference.accuracy_first or not ties:
            return ""
        fastest = min(ties, key=lambda e: (latency_of(e), -accuracy_of(e), e.configuration))
        if network_of(fastest) == network_of(pick):
            theirs, own = self.posterior.lost([fastest, pick]).tolist()
            return not_the_faster(fastest, pick, self.preference, expected_points=theirs - own)
        (behind,) = self.posterior.shown_behind([fastest], [pick]).tolist()
        theirs, own = self.posterior.shown_behind(self.posterior.float_forms([fastest, pick]), feasible).tolist()
        return not_the_faster(fastest, pick, self.preference, shown_points=behind, further_points=theirs - own)

    def chances(self, feasible: Sequence[Evaluation]) -> dict[str, float]:
        """Return how often each file would be the pick if images and timings were resampled, most probable first."""
        import numpy as np

        pool = self._by_loss(feasible, feasible)[:MOST_LIKELY]
        bases, shown, lost, latencies = self.posterior.draws(pool, feasible)
        sizes = np.array([size_of(e) for e in pool])
        losses = self.preference.price(np.exp(latencies), sizes) + self.preference.loss(-bases, shown, lost)
        wins = np.bincount(losses.argmin(axis=1), minlength=len(pool)) / len(losses)
        by_file: dict[tuple[str, str, str], tuple[Evaluation, float]] = {}
        for evaluation, share in zip(pool, wins, strict=True):
            other, sum_of = by_file.get(variant_of(evaluation), (evaluation, 0.0))
            by_file[variant_of(evaluation)] = (min(evaluation, other, key=latency_of), sum_of + share)
        found = sorted(by_file.values(), key=lambda pair: (-pair[1], pair[0].configuration))
        return {e.configuration.key: round(float(share), CHANCE_DIGITS) for e, share in found if share > 0}

    def _by_loss(self, pool: Sequence[Evaluation], feasible: Sequence[Evaluation]) -> list[Evaluation]:
        """Return the pool by rising expected loss, each candidate compared with all feasible ones."""
        import numpy as np

        floats = self.posterior.float_forms(pool)
        bases, lost = np.array([accuracy_of(e) for e in floats]), self.posterior.lost(pool)
        if not self.preference.weighs_costs:
            lost = bases - np.array([accuracy_of(e) for e in pool])
        shown = self.posterior.shown_behind(floats, feasible) if self.preference.accuracy_first else 0 * lost
        latencies, sizes = (np.array([figure(e) for e in pool]) for figure in (latency_of, size_of))
        # Rounded, so that neither a unit nor the order of a sum decides between equal losses.
        exact: Floats = self.preference.price(latencies, sizes) + self.preference.loss(-bases, shown, lost)
        losses = exact.round(9).tolist()

        def rank(row: tuple[float, Evaluation]) -> tuple[float, float, float, float, Configuration]:
            loss, evaluation = row
            figures = -accuracy_of(evaluation), latency_of(evaluation), size_of(evaluation)
            return loss, *figures, evaluation.configuration

        return [evaluation for _, evaluation in sorted(zip(losses, pool, strict=True), key=rank)]


def _closest(known: Sequence[Evaluation], budget: Budget) -> Decision:
    if not known:
        return Decision(None, False, "No candidate could be evaluated. The failures list the reasons.")
    pick = min(known, key=lambda e: (overrun(e, budget), -accuracy_of(e), e.configuration))
    broken = " and ".join(excess_texts(pick, budget))
    return Decision(
        pick=pick,
        feasible=False,
        reason=f"Nothing meets the budget; closest to the limits is {describe(pick)}: {broken}.",
        relaxations=relaxations(known, budget),
        front=front(known),
    )


def _flips(feasible: Sequence[Evaluation], pick: Evaluation, chooser: _Chooser) -> tuple[Flip, ...]:
    """Decide again with tighter limits, then with other preferences; keep the first change to each other artefact."""
    found = list[Flip]()
    for changes in (_tighter(feasible, pick, chooser), _preferences(feasible, chooser)):
        first = dict[str, Flip]()
        for condition, other in changes:
            key = other.configuration.key
            if variant_of(other) != variant_of(pick):
                first.setdefault(key, Flip(condition, key, f"{condition}: {describe(other)}"))
        found += first.values()
    return tuple(found)


def _loosenings(
    known: Sequence[Evaluation], feasible: Sequence[Evaluation], pick: Evaluation, budget: Budget, chooser: _Chooser
) -> tuple[Relaxation, ...]:
    """Decide again with each limit a little looser; keep the smallest change that gives the best other pick."""
    found = []
    for limit, beyond in just_beyond(known, budget).items():
        other = chooser.pick([*feasible, *beyond])
        admitted = [*feasible, *beyond[: beyond.index(other) + 1]] if other in beyond else []
        if admitted and variant_of(other) != variant_of(pick) and chooser.pick(admitted) == other:
            found.append(loosening(limit, other, comparison(other, pick), budget))
    return tuple(found)


def _tighter(feasible: Sequence[Evaluation], pick: Evaluation, chooser: _Chooser) -> Iterator[tuple[str, Evaluation]]:
    predicted = pick.latency is not None and pick.latency.provenance is Provenance.PREDICTED
    for limit, figure, show in ((LATENCY_BUDGET, p90_of, show_ms), ("size budget", size_of, show_bytes)):
        margin = PREDICTED_APART if limit == LATENCY_BUDGET and predicted else 0.0
        bound = figure(pick) * (1 - margin)
        below = [e for e in feasible if figure(e) < bound and variant_of(e) != variant_of(pick)]
        if below:
            yield f"the {limit} is below {show(bound)}", chooser.pick(below)


def _preferences(feasible: Sequence[Evaluation], chooser: _Chooser) -> Iterator[tuple[str, Evaluation]]:
    for name in ("latency", "size"):
        doubled = replace(chooser, preference=chooser.preference.doubled(name))
        yield f"{name} matters twice as much", doubled.pick(feasible)
    for name in ("accuracy", "latency", "size"):
        yield f"only {name} matters", replace(chooser, preference=PREFERENCES[name]).pick(feasible)
