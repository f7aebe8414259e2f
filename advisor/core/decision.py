"""One pick from the evaluations, its reason, and what would change it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from advisor.core.budget import Budget
from advisor.core.evaluation import Evaluation, Status
from advisor.core.figures import accuracy_of, artefact_of, describe, latency_of, p90_of, size_of
from advisor.core.pareto import costs, front
from advisor.core.preference import BALANCED, PREFERENCES, Preference
from advisor.core.quantity import Provenance
from advisor.core.reasons import comparison, reason
from advisor.core.relaxation import Relaxation, excess_texts, overrun, relaxations
from advisor.core.units import show_bytes, show_ms

TIE_POINTS = 0.5
"""Published figures closer than this, in points, count as equal: sources differ by about as much."""

DEVIATIONS = 1.96
"""Standard errors in half of a 95 % interval."""

LATENCY_BUDGET = "latency budget"

PREDICTED_APART = 0.05
"""Share by which a predicted latency must be below another one to answer a tighter budget. Predictions that differ by
less do not show which is faster."""

UNRANKED = "No candidate has an accuracy: none is published and none was measured. Give labelled images with --data."

Tie = Callable[[Evaluation, Evaluation], bool]


@dataclass(frozen=True)
class Flip:
    """A change of the question that changes the pick.

    Attributes:
        condition: the change, such as ``the latency budget is below 6.50 ms``.
        key: the other pick.
        text: condition and other pick in words.
    """

    condition: str
    key: str
    text: str


@dataclass(frozen=True)
class Decision:
    """The answer of a run.

    Attributes:
        pick: the recommended evaluation; the one closest to the limits where ``feasible`` is false; None where nothing
            ran.
        feasible: the pick meets the budget.
        reason: one sentence why.
        runner_up: the next best evaluation of another artefact, or None.
        runner_up_reason: how its figures differ from those of the pick.
        ties: evaluations that are statistically tied in accuracy with the most accurate.
        flips: what would change the pick, computed by deciding again.
        relaxations: where nothing is feasible, the smallest change of each limit that admits a candidate.
        front: the non-dominated evaluations that meet the budget, or all of them where none does.
    """

    pick: Evaluation | None
    feasible: bool
    reason: str
    runner_up: Evaluation | None = None
    runner_up_reason: str = ""
    ties: tuple[Evaluation, ...] = ()
    flips: tuple[Flip, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()
    front: tuple[Evaluation, ...] = ()


def tied_by_interval(first: Evaluation, second: Evaluation) -> bool:
    """Return whether two accuracies are statistically tied, from their own figures alone.

    Measured accuracies are tied where their intervals overlap; others where they differ by at most
    :data:`TIE_POINTS`.
    """
    if first.accuracy is None or second.accuracy is None:
        return False
    measured = {first.accuracy.provenance, second.accuracy.provenance} == {Provenance.MEASURED}
    if measured and first.accuracy.low is not None and second.accuracy.low is not None:
        return first.accuracy.overlaps(second.accuracy)
    return abs(first.accuracy.value - second.accuracy.value) <= TIE_POINTS


def decide(
    evaluations: Sequence[Evaluation],
    budget: Budget,
    tie: Tie = tied_by_interval,
    preference: Preference = BALANCED,
) -> Decision:
    """Pick the evaluation that the preference ranks first among those that meet the budget.

    By default that is the fastest and smallest of the evaluations that are tied with the most accurate one.

    Args:
        evaluations: all evaluations of the run.
        budget: the hard limits.
        tie: whether two accuracies are statistically tied (a paired test where the images are known).
        preference: how to rank the evaluations that meet the budget.
    """
    known = [evaluation for evaluation in evaluations if costs(evaluation) is not None]
    if not known and any(evaluation.status is Status.OK for evaluation in evaluations):
        return Decision(None, False, UNRANKED)
    feasible = [evaluation for evaluation in known if budget.met_by(evaluation)]
    if not feasible:
        return _closest(known, budget)
    pick, ties = _choose(feasible, tie, preference)
    others = [e for e in feasible if artefact_of(e) != artefact_of(pick)]
    runner_up = _choose(others, tie, preference)[0] if others else None
    return Decision(
        pick=pick,
        feasible=True,
        reason=reason(pick, feasible, ties, budget, preference),
        runner_up=runner_up,
        runner_up_reason=comparison(runner_up, pick) if runner_up else "",
        ties=ties,
        flips=_flips(feasible, pick, tie, preference),
        front=front(feasible),
    )


def _choose(
    feasible: Sequence[Evaluation], tie: Tie, preference: Preference
) -> tuple[Evaluation, tuple[Evaluation, ...]]:
    """Return the pick, and the other evaluations whose accuracy is tied with the best one."""
    best = max(feasible, key=lambda e: (accuracy_of(e), -latency_of(e), -size_of(e)))
    tied = [e for e in feasible if e is best or tie(best, e)]
    pool = [e for e in tied if _close(best, e)] if preference.among_ties else feasible
    cost = _cost(pool, preference)
    pick = min(pool, key=lambda e: (cost(e), -accuracy_of(e), latency_of(e), size_of(e), e.configuration))
    others = tuple(e for e in sorted(tied, key=lambda e: -accuracy_of(e)) if artefact_of(e) != artefact_of(pick))
    return pick, others


def _close(best: Evaluation, other: Evaluation) -> bool:
    """Return whether the other lies within one standard error of the best accuracy.

    With few images, tied accuracies may still differ by much. The one-standard-error rule limits how far a simpler
    model counts as equal (Breiman et al., "Classification and Regression Trees", 1984).
    """
    accuracy = best.accuracy
    measured = accuracy is not None and accuracy.provenance is Provenance.MEASURED
    if accuracy is None or not measured or accuracy.low is None or accuracy.high is None:
        return True
    return accuracy.value - accuracy_of(other) <= (accuracy.high - accuracy.low) / (2 * DEVIATIONS)


def _cost(pool: Sequence[Evaluation], preference: Preference) -> Callable[[Evaluation], float]:
    """Return the cost that the preference minimises, each figure relative to the best of ``pool``."""
    fastest, smallest = min(map(latency_of, pool)), min(map(size_of, pool))
    most = max(map(accuracy_of, pool))
    return lambda e: preference.cost(latency_of(e) / fastest, size_of(e) / smallest, most - accuracy_of(e))


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


def _flips(feasible: Sequence[Evaluation], pick: Evaluation, tie: Tie, preference: Preference) -> tuple[Flip, ...]:
    """Decide again with tighter limits, then with other preferences; keep the changes that pick another artefact."""
    return (
        *_one_per_answer(_tighter(feasible, pick, tie, preference)),
        *_one_per_answer(_preferences(feasible, pick, tie, preference)),
    )


def _one_per_answer(flips: Sequence[Flip]) -> tuple[Flip, ...]:
    """Keep the first flip to each other pick."""
    first = {flip.key: flip for flip in reversed(flips)}
    return tuple(flip for flip in flips if first[flip.key] is flip)


def _tighter(feasible: Sequence[Evaluation], pick: Evaluation, tie: Tie, preference: Preference) -> list[Flip]:
    predicted = pick.latency is not None and pick.latency.provenance is Provenance.PREDICTED
    rows = []
    for limit, figure, show in ((LATENCY_BUDGET, p90_of, show_ms), ("size budget", size_of, show_bytes)):
        margin = PREDICTED_APART if limit == LATENCY_BUDGET and predicted else 0.0
        bound = figure(pick) * (1 - margin)
        below = [e for e in feasible if figure(e) < bound and artefact_of(e) != artefact_of(pick)]
        if below:
            other = _choose(below, tie, preference)[0]
            rows.append(_flip(f"the {limit} is below {show(bound)}", other))
    return rows


def _preferences(feasible: Sequence[Evaluation], pick: Evaluation, tie: Tie, preference: Preference) -> list[Flip]:
    questions = [
        *((f"{name} matters twice as much", preference.doubled(name)) for name in ("latency", "size")),
        *((f"only {name} matters", PREFERENCES[name]) for name in ("accuracy", "latency", "size")),
    ]
    answers = [(condition, _choose(feasible, tie, other)[0]) for condition, other in questions]
    return [_flip(condition, other) for condition, other in answers if artefact_of(other) != artefact_of(pick)]


def _flip(condition: str, other: Evaluation) -> Flip:
    return Flip(condition, other.configuration.key, f"{condition}: {describe(other)}")
