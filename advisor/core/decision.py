"""ONE pick from the evaluations, its reason, and what would change it."""

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
"""Published figures closer than this, in points, count as equal: sources round and re-measure by about as much."""

DEVIATIONS = 1.96
"""Standard errors in half of a 95 % interval."""

LATENCY_BUDGET = "latency budget"

PREDICTED_APART = 0.05
"""Share by which a predicted latency must be below another one's to be an answer to a tighter budget."""

UNRANKED = (
    "What ran has no accuracy to be chosen by: no figure is published for it, and none was measured; "
    "give labelled pictures with --data."
)

Tie = Callable[[Evaluation, Evaluation], bool]


@dataclass(frozen=True)
class Flip:
    """A change of the question that changes the pick: ``text`` says both; ``key`` names the other pick."""

    condition: str
    key: str
    text: str


@dataclass(frozen=True)
class Decision:
    """The answer of a run.

    Attributes:
        pick: the recommended evaluation, the least-bad one where ``feasible`` is false, None where nothing ran.
        feasible: the pick meets the budget.
        reason: one sentence why.
        runner_up: the next best evaluation of another artefact, or None.
        runner_up_reason: what it would cost or win.
        ties: evaluations whose accuracy the figures cannot tell from the pick's.
        flips: what would change the pick, computed by deciding again.
        relaxations: where nothing is feasible, the price of loosening each limit.
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
    """True where the accuracies cannot be told apart from what each evaluation says of itself.

    Two artefacts of one card differ by their measured ``drop``; others by overlapping intervals, or by less than
    :data:`TIE_POINTS` where a figure has no interval.
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
    """Pick what the preference puts first of the evaluations that meet the budget.

    By default that is the most accurate one, and among its ties the cheapest to run and to carry.

    Args:
        evaluations: everything that the run knows.
        budget: the hard limits.
        tie: tells whether two evaluations' accuracies cannot be told apart (paired intervals where pictures are known).
        preference: what counts among those that meet the budget.
    """
    known = [evaluation for evaluation in evaluations if costs(evaluation) is not None]
    if not known and any(evaluation.status is Status.OK for evaluation in evaluations):
        return Decision(None, False, UNRANKED)
    feasible = [evaluation for evaluation in known if budget.met_by(evaluation)]
    if not feasible:
        return _least_bad(known, budget)
    pick, ties = _choose(feasible, tie, preference)
    others = _without_artefact(feasible, pick)
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
    """Return the pick and the other evaluations whose accuracy ties with the best one's."""
    best = max(feasible, key=lambda e: (accuracy_of(e), -latency_of(e), -size_of(e)))
    tied = [e for e in feasible if e is best or tie(best, e)]
    pool = [e for e in tied if _close(best, e)] if preference.among_ties else feasible
    cost = _cost(pool, preference)
    pick = min(pool, key=lambda e: (cost(e), -accuracy_of(e), latency_of(e), size_of(e), e.configuration))
    others = tuple(e for e in sorted(tied, key=lambda e: -accuracy_of(e)) if artefact_of(e) != artefact_of(pick))
    return pick, others


def _close(best: Evaluation, other: Evaluation) -> bool:
    """Whether the other lies within one standard error of the best accuracy: what few pictures cannot tell apart may
    still differ by much, and this is as far as a simpler model is taken for an equal one (Breiman et al.,
    "Classification and Regression Trees", 1984)."""
    accuracy = best.accuracy
    measured = accuracy is not None and accuracy.provenance is Provenance.MEASURED
    if accuracy is None or not measured or accuracy.low is None or accuracy.high is None:
        return True
    return accuracy.value - accuracy_of(other) <= (accuracy.high - accuracy.low) / (2 * DEVIATIONS)


def _cost(pool: Sequence[Evaluation], preference: Preference) -> Callable[[Evaluation], float]:
    """Return what the preference minimises, each figure relative to the best of ``pool``."""
    fastest, smallest = min(map(latency_of, pool)), min(map(size_of, pool))
    most = max(map(accuracy_of, pool))
    return lambda e: preference.cost(latency_of(e) / fastest, size_of(e) / smallest, most - accuracy_of(e))


def _least_bad(known: Sequence[Evaluation], budget: Budget) -> Decision:
    if not known:
        return Decision(
            None,
            False,
            "No candidate could be evaluated: see the failures and their reasons.",
        )
    pick = min(known, key=lambda e: (overrun(e, budget), -accuracy_of(e), e.configuration))
    broken = " and ".join(excess_texts(pick, budget))
    return Decision(
        pick=pick,
        feasible=False,
        reason=f"Nothing meets the budget; the least bad is {describe(pick)}: {broken}.",
        relaxations=relaxations(known, budget),
        front=front(known),
    )


def _flips(feasible: Sequence[Evaluation], pick: Evaluation, tie: Tie, preference: Preference) -> tuple[Flip, ...]:
    """Decide again under tighter limits, then under other preferences; keep what has another artefact as the answer."""
    return (
        *_one_per_answer(_tighter(feasible, pick, tie, preference)),
        *_one_per_answer(_preferences(feasible, pick, tie, preference)),
    )


def _one_per_answer(flips: Sequence[Flip]) -> tuple[Flip, ...]:
    """Keep the first flip to each answer."""
    first = {flip.key: flip for flip in reversed(flips)}
    return tuple(flip for flip in flips if first[flip.key] is flip)


def _tighter(feasible: Sequence[Evaluation], pick: Evaluation, tie: Tie, preference: Preference) -> list[Flip]:
    rows = []
    for limit, figure, show in ((LATENCY_BUDGET, p90_of, show_ms), ("size budget", size_of, show_bytes)):
        bound = figure(pick) * (1 - _margin(pick, limit))
        below = [e for e in feasible if figure(e) < bound and artefact_of(e) != artefact_of(pick)]
        if below:
            other = _choose(below, tie, preference)[0]
            rows.append(_flip(f"{limit} below {show(bound)}", other))
    return rows


def _margin(pick: Evaluation, limit: str) -> float:
    """Two predictions that differ by less say nothing of which is faster."""
    predicted = pick.latency is not None and pick.latency.provenance is Provenance.PREDICTED
    return PREDICTED_APART if predicted and limit == LATENCY_BUDGET else 0.0


def _preferences(feasible: Sequence[Evaluation], pick: Evaluation, tie: Tie, preference: Preference) -> list[Flip]:
    questions = [
        *((f"if {name} mattered twice as much", preference.doubled(name)) for name in ("latency", "size")),
        *((f"if only {name} mattered", PREFERENCES[name]) for name in ("accuracy", "latency", "size")),
    ]
    answers = [(condition, _choose(feasible, tie, other)[0]) for condition, other in questions]
    return [_flip(condition, other) for condition, other in answers if artefact_of(other) != artefact_of(pick)]


def _flip(condition: str, other: Evaluation) -> Flip:
    return Flip(condition, other.configuration.key, f"{condition}: {describe(other)}")


def _without_artefact(evaluations: Sequence[Evaluation], pick: Evaluation) -> list[Evaluation]:
    return [e for e in evaluations if artefact_of(e) != artefact_of(pick)]
