"""ONE pick from the evaluations, its reason, and what would change it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from advisor.core.budget import Budget
from advisor.core.evaluation import Evaluation, Status
from advisor.core.pareto import costs, front
from advisor.core.preference import BALANCED, PREFERENCES, Preference
from advisor.core.quantity import Provenance
from advisor.core.units import show_bytes, show_ms

TIE_POINTS = 0.5
"""Published figures closer than this, in points, count as equal: sources round and re-measure by about as much."""

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
class Relaxation:
    """The smallest loosening of one limit that makes a candidate feasible."""

    limit: str
    current: str
    needed: str
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
        reason=_reason(pick, feasible, ties, budget, preference),
        runner_up=runner_up,
        runner_up_reason=_compare(runner_up, pick) if runner_up else "",
        ties=ties,
        flips=_flips(feasible, pick, tie, preference),
        front=front(feasible),
    )


def _choose(
    feasible: Sequence[Evaluation], tie: Tie, preference: Preference
) -> tuple[Evaluation, tuple[Evaluation, ...]]:
    """Return the pick and the other evaluations whose accuracy ties with the best one's."""
    best = max(feasible, key=lambda e: (_accuracy(e), -_latency(e), -_size(e)))
    tied = [e for e in feasible if e is best or tie(best, e)]
    pool = tied if preference.among_ties else feasible
    cost = _cost(pool, preference)
    pick = min(pool, key=lambda e: (cost(e), -_accuracy(e), _latency(e), _size(e), e.configuration))
    others = tuple(e for e in sorted(tied, key=lambda e: -_accuracy(e)) if _artefact(e) != _artefact(pick))
    return pick, others


def _cost(pool: Sequence[Evaluation], preference: Preference) -> Callable[[Evaluation], float]:
    """Return what the preference minimises, each figure relative to the best of ``pool``."""
    fastest, smallest = min(map(_latency, pool)), min(map(_size, pool))
    most = max(map(_accuracy, pool))
    return lambda e: preference.cost(_latency(e) / fastest, _size(e) / smallest, most - _accuracy(e))


def _least_bad(known: Sequence[Evaluation], budget: Budget) -> Decision:
    if not known:
        return Decision(
            None,
            False,
            "No candidate could be evaluated: see the failures and their reasons.",
        )
    pick = min(known, key=lambda e: (_overrun(e, budget), -_accuracy(e), e.configuration))
    broken = " and ".join(excess_texts(pick, budget))
    return Decision(
        pick=pick,
        feasible=False,
        reason=f"Nothing meets the budget; the least bad is {describe(pick)}: {broken}.",
        relaxations=_relaxations(known, budget),
        front=front(known),
    )


def _overrun(evaluation: Evaluation, budget: Budget) -> float:
    """Sum of the relative excesses over the broken limits."""
    limits = _limits(budget)
    return sum(excess / max(abs(limits[name]), 1e-9) for name, excess in budget.violations(evaluation).items())


def _limits(budget: Budget) -> dict[str, float]:
    values = {
        "latency": budget.latency_ms,
        "size": budget.size_bytes,
        "drop": budget.max_drop_points,
        "accuracy": budget.min_accuracy,
        "memory": budget.memory_bytes,
    }
    return {name: float(value) for name, value in values.items() if value is not None}


def _relaxations(known: Sequence[Evaluation], budget: Budget) -> tuple[Relaxation, ...]:
    """For each limit alone, the smallest loosening that makes something feasible, if any does."""
    found = []
    for limit, current in _limits(budget).items():
        only = [e for e in known if set(budget.violations(e)) == {limit} and budget.violations(e)[limit] < float("inf")]
        if not only:
            continue
        nearest = min(only, key=lambda e: (budget.violations(e)[limit], -_accuracy(e)))
        excess = budget.violations(nearest)[limit]
        wanted = current - excess if limit == "accuracy" else current + excess
        found.append(_relaxation(limit, current, wanted, nearest))
    return tuple(found)


def _relaxation(limit: str, current: float, wanted: float, evaluation: Evaluation) -> Relaxation:
    now, then = show_limit(limit, current), show_limit(limit, _outward(limit, wanted))
    text = f"{limit} {now} -> {then} admits {describe(evaluation)}"
    return Relaxation(limit, now, then, evaluation.configuration.key, text)


def _outward(limit: str, value: float) -> float:
    """Round to what :func:`show_limit` shows so that the limit as shown still admits the candidate."""
    if limit == "accuracy":
        return math.floor(value * 10) / 10
    if limit == "latency":
        step = 0.01 if value < 9.9 else 0.1 if value < 99 else 1.0
    elif limit == "drop":
        step = 0.1
    else:
        step = next((unit / 10 for unit in (1e9, 1e6, 1e3) if value >= unit), 1.0)
    return math.ceil(value / step) * step


def show_limit(limit: str, value: float) -> str:
    """Format the value of a limit (``latency``, ``size``, ``drop``, ``accuracy``, ``memory``) with its unit."""
    if limit == "latency":
        return show_ms(value)
    if limit in ("size", "memory"):
        return show_bytes(value)
    return f"{value:.1f} points" if limit == "drop" else f"{value:.1f} %"


def excess_texts(evaluation: Evaluation, budget: Budget) -> list[str]:
    """Say of each limit that ``evaluation`` breaks what it is against what is allowed."""
    names = {
        "latency": "p90 latency",
        "size": "size",
        "drop": "drop",
        "accuracy": "accuracy",
        "memory": "memory",
    }
    texts = []
    for limit, excess in budget.violations(evaluation).items():
        allowed = _limits(budget)[limit]
        if excess == float("inf"):
            texts.append(f"its {names[limit]} is not known (limit {show_limit(limit, allowed)})")
            continue
        actual = allowed - excess if limit == "accuracy" else allowed + excess
        texts.append(f"{names[limit]} {show_limit(limit, actual)} against {show_limit(limit, allowed)}")
    return texts


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
    for name, figure, show in (("latency budget", _p90, show_ms), ("size budget", _size, show_bytes)):
        below = [e for e in feasible if figure(e) < figure(pick) and _artefact(e) != _artefact(pick)]
        if below:
            other = _choose(below, tie, preference)[0]
            rows.append(_flip(f"{name} below {show(figure(pick))}", other))
    return rows


def _preferences(feasible: Sequence[Evaluation], pick: Evaluation, tie: Tie, preference: Preference) -> list[Flip]:
    questions = [
        *((f"if {name} mattered twice as much", preference.doubled(name)) for name in ("latency", "size")),
        *((f"if only {name} mattered", PREFERENCES[name]) for name in ("accuracy", "latency", "size")),
    ]
    answers = [(condition, _choose(feasible, tie, other)[0]) for condition, other in questions]
    return [_flip(condition, other) for condition, other in answers if _artefact(other) != _artefact(pick)]


def _flip(condition: str, other: Evaluation) -> Flip:
    return Flip(condition, other.configuration.key, f"{condition}: {describe(other)}")


def _reason(
    pick: Evaluation,
    feasible: Sequence[Evaluation],
    ties: Sequence[Evaluation],
    budget: Budget,
    preference: Preference,
) -> str:
    best = max(feasible, key=_accuracy)
    met = (
        f" and meets the {show_ms(budget.latency_ms)} budget with p90 {show_ms(_p90(pick))}"
        if budget.latency_ms
        else ""
    )
    if not preference.among_ties and preference.name != "accuracy":
        return f"{describe(pick)} is {_praise(preference)}{_price_of(pick, best)}{met}."
    if not preference.among_ties:
        doubt = f", though the figures cannot tell it from {len(ties)} others" if ties else ""
        return f"{describe(pick)} has the best accuracy of what fits{doubt}{met}."
    if pick is best or _accuracy(pick) == _accuracy(best):
        tied = f", tied with {len(ties)} others that are slower or larger" if ties else ""
        return f"{describe(pick)} has the best accuracy of what fits{tied}{met}."
    return (
        f"{describe(pick)} ties in accuracy with the best that fits ({name(best)}, {_accuracy(best):.1f} %), "
        f"is {_times(_latency(best), _latency(pick), 'faster', 'slower')} and "
        f"{_times(_size(best), _size(pick), 'smaller', 'larger')}{met}."
    )


def _praise(preference: Preference) -> str:
    named = {"latency": "the fastest of what fits", "size": "the smallest of what fits"}
    return named.get(preference.name, f"the best of what fits by the weights {preference}")


def _price_of(pick: Evaluation, best: Evaluation) -> str:
    """Say how far the pick is behind the most accurate candidate that fits."""
    behind = _accuracy(best) - _accuracy(pick)
    return f", {behind:.1f} points behind the most accurate ({describe(best)})" if behind > 0 else ""


def _compare(other: Evaluation, pick: Evaluation) -> str:
    points = _accuracy(other) - _accuracy(pick)
    return (
        f"{describe(other)}: {points:+.1f} points, {_times(_latency(pick), _latency(other), 'faster', 'slower')}, "
        f"{_times(_size(pick), _size(other), 'smaller', 'larger')}"
    )


def _times(reference: float, value: float, better: str, worse: str) -> str:
    ratio = reference / value
    if 0.95 < ratio < 1.05:
        return f"no {worse}"
    return f"{ratio:.1f}x {better}" if ratio > 1 else f"{1 / ratio:.1f}x {worse}"


def name(evaluation: Evaluation) -> str:
    """Name an evaluation for people: card, recipe and threads."""
    configuration = evaluation.configuration
    threads = configuration.target.threads
    return f"{configuration.card} {configuration.compression} on {threads} thread{'s'[: threads > 1]}"


def describe(evaluation: Evaluation) -> str:
    """Name an evaluation with its three figures."""
    figures = f"{_accuracy(evaluation):.1f} %, {show_ms(_latency(evaluation))}, {show_bytes(_size(evaluation))}"
    return f"{name(evaluation)} ({figures})"


def _without_artefact(evaluations: Sequence[Evaluation], pick: Evaluation) -> list[Evaluation]:
    return [e for e in evaluations if _artefact(e) != _artefact(pick)]


def _artefact(evaluation: Evaluation) -> tuple[str, str, str]:
    configuration = evaluation.configuration
    return (configuration.card, configuration.training, configuration.compression)


def _accuracy(evaluation: Evaluation) -> float:
    return evaluation.accuracy.value if evaluation.accuracy else 0.0


def _latency(evaluation: Evaluation) -> float:
    return evaluation.latency.value if evaluation.latency else float("inf")


def _p90(evaluation: Evaluation) -> float:
    return evaluation.latency_p90.value if evaluation.latency_p90 else _latency(evaluation)


def _size(evaluation: Evaluation) -> float:
    return evaluation.size.value if evaluation.size else float("inf")
