"""Exceeded limits, the smallest change of a limit that admits a candidate, and the reasons of a pick."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.core.budget import LICENCE, ON, Budget, is_floor, licence_refusal, show_budget_probability, show_met
from advisor.core.evaluation import Evaluation, accuracy_of, describe, latency_of, name, p90_of, show_figure, size_of
from advisor.core.expectation import metric_on_parts
from advisor.core.metrics import LOST_FACTOR, METRICS, Preference
from advisor.core.quantity import Provenance, percent
from advisor.core.units import plural, show_bytes, show_ms

NAMES = {
    "latency": "p90 latency",
    "size": "size",
    "drop": "drop",
    "accuracy": "accuracy",
    "memory": "memory",
    **{name: metric.label for name, metric in METRICS.items()},
}
"""The figure that each numeric limit is compared with."""

NOT_AT_ALL = 10.0
"""Relative excess of a limit that is met or not (a licence, a device that does not run the file)."""

LOOSER = 0.25
"""Share by which a limit may be looser for the answer to say what that buys. Of a least accuracy, it is the share of
the error that the limit allows; so of another metric."""


@dataclass(frozen=True)
class Relaxation:
    """A change of one limit, or of several where no single one suffices, that makes a candidate feasible."""

    limit: str  #: the limit's name; several are joined by `` and ``
    current: str  #: the limit as it is
    needed: str  #: the limit that admits the candidate
    key: str  #: the candidate
    text: str  #: all of this in words


def overrun(evaluation: Evaluation, budget: Budget) -> float:
    """Return the sum of the relative excesses over the exceeded limits."""
    return sum(
        NOT_AT_ALL if excess == math.inf else excess / max(abs(_allowed(name, budget)), 1e-9)
        for name, excess in budget.violations(evaluation).items()
    )


def _allowed(limit: str, budget: Budget) -> float:
    """Return the value of a limit; that of a required device is the latency limit."""
    return budget.limits.get("latency" if limit.startswith(ON) else limit, 1.0)


def relaxations(known: Sequence[Evaluation], budget: Budget) -> tuple[Relaxation, ...]:
    """Return, for each limit alone, the smallest change that admits a candidate; else for several at once."""
    broken = {e.configuration.key: budget.violations(e) for e in known}
    found = []
    for limit in dict.fromkeys(limit for excesses in broken.values() for limit in excesses):
        only = [e for e in known if set(broken[e.configuration.key]) == {limit} and _loosens(limit, e, budget)]
        if only:
            nearest = min(only, key=lambda e: (broken[e.configuration.key][limit], -accuracy_of(e)))
            found.append(_relaxation((limit,), nearest, budget))
    return tuple(found) or _together(known, budget)


def just_beyond(known: Sequence[Evaluation], budget: Budget) -> dict[str, list[Evaluation]]:
    """Return, by limit, the candidates that break it alone and by at most :data:`LOOSER`, the nearest first."""
    found: dict[str, list[tuple[float, Evaluation]]] = {}
    for evaluation in known:
        violations = budget.violations(evaluation)
        for limit, excess in violations.items():
            allowed = _allowed(limit, budget)
            room = LOOSER * (100 - allowed if is_floor(limit) else allowed)
            if len(violations) == 1 and limit != LICENCE and excess <= room:
                found.setdefault(limit, []).append((excess, evaluation))
    return {
        limit: [e for _, e in sorted(rows, key=lambda row: (row[0], row[1].configuration))]
        for limit, rows in found.items()
    }


def loosening(limit: str, admitted: Evaluation, difference: str, budget: Budget) -> Relaxation:
    """Return the looser limit that admits a candidate, which would be the pick; ``difference`` compares the two."""
    now, then = _step(limit, admitted, budget)
    return Relaxation(limit, now, then, admitted.configuration.key, f"{limit} {now} -> {then} admits {difference}")


def _together(known: Sequence[Evaluation], budget: Budget) -> tuple[Relaxation, ...]:
    """Return the change of all limits that the nearest candidate exceeds, where no single one admits any."""
    possible = [e for e in known if all(_loosens(limit, e, budget) for limit in budget.violations(e))]
    if not possible:
        return ()
    nearest = min(possible, key=lambda e: (overrun(e, budget), -accuracy_of(e)))
    return (_relaxation(tuple(budget.violations(nearest)), nearest, budget),)


def _loosens(limit: str, evaluation: Evaluation, budget: Budget) -> bool:
    """Return whether a looser limit would help: an unknown figure meets none."""
    return limit == LICENCE or limit.startswith(ON) or budget.violations(evaluation)[limit] < math.inf


def _relaxation(limits: Sequence[str], evaluation: Evaluation, budget: Budget) -> Relaxation:
    steps = [_step(limit, evaluation, budget) for limit in limits]
    text = " and ".join(f"{limit} {now} -> {then}" for limit, (now, then) in zip(limits, steps, strict=True))
    now, then = (" and ".join(ends) for ends in zip(*steps, strict=True))
    return Relaxation(
        " and ".join(limits), now, then, evaluation.configuration.key, f"{text} admits {describe(evaluation)}"
    )


def _step(limit: str, evaluation: Evaluation, budget: Budget) -> tuple[str, str]:
    """Return a limit as it is, and as it has to be to admit the evaluation."""
    if limit == LICENCE:
        return ", ".join(budget.licence), evaluation.card_facts.licence or "not stated"
    excess = budget.violations(evaluation)[limit]
    if limit.startswith(ON) and excess == math.inf:
        return "required", "not required"
    current = _allowed(limit, budget)
    wanted = current - excess if is_floor(limit) else current + excess
    figure = "latency" if limit.startswith(ON) else limit
    return show_figure(figure, current), show_figure(figure, _outward(figure, wanted))


def _outward(figure: str, value: float) -> float:
    """Round to the precision of :func:`show_figure` so that the limit as shown still admits the candidate."""
    if is_floor(figure):
        return math.floor(value * 10) / 10
    if figure == "latency":
        step = 0.01 if value < 9.9 else 0.1 if value < 99 else 1.0
    elif figure == "drop":
        step = 0.1
    else:
        step = next((unit / 10 for unit in (1e9, 1e6, 1e3) if value >= unit), 1.0)
    return math.ceil(value / step) * step


def excess_texts(evaluation: Evaluation, budget: Budget) -> list[str]:
    """Return a text for each limit that ``evaluation`` exceeds: the figure against the limit."""
    return [_excess_text(evaluation, budget, limit, excess) for limit, excess in budget.violations(evaluation).items()]


def _excess_text(evaluation: Evaluation, budget: Budget, limit: str, excess: float) -> str:
    if limit == LICENCE:
        return licence_refusal(budget.licence, evaluation.card_facts.licence)
    allowed, device = _allowed(limit, budget), limit.removeprefix(ON)
    if device != limit and excess == math.inf:
        known = (evaluation.required_figures or {}).get(device)
        return f"does not run on {device}: {(known.reason if known else '') or 'nothing is known about it there'}"
    if device != limit:
        return f"{show_ms(allowed + excess)} on {device} against {show_ms(allowed)}"
    if excess == math.inf:
        return f"its {NAMES[limit]} is not known (limit {show_figure(limit, allowed)})"
    if is_floor(limit) or limit == "drop":
        return _excess_on_images(evaluation, budget, limit, allowed)
    shown = f"{NAMES[limit]} {show_figure(limit, allowed + excess)} against {show_figure(limit, allowed)}"
    probability = evaluation.budget_probability
    if limit != "latency" or probability is None:
        return shown
    return f"{shown} ({percent(probability)} sure to meet it, {percent(budget.confidence)} required)"


def _excess_on_images(evaluation: Evaluation, budget: Budget, limit: str, allowed: float) -> str:
    """Return the figure on validation and, of a finalist, on the hold-out, against the limit."""
    robust = evaluation.capture.plain is not None
    if limit in METRICS:
        own, judged = metric_on_parts(evaluation, limit)
    elif limit == "drop":
        own, judged = evaluation.drop, evaluation.holdout_drop
    else:
        own, judged = evaluation.accuracy, evaluation.capture.holdout if robust else evaluation.holdout_accuracy
    figures = show_figure(limit, own.value) if own else ""
    if judged is not None:
        figures += f" on validation and {show_figure(limit, judged.value)} on the hold-out"
    met = show_met(budget, evaluation).get(limit)
    return f"{NAMES[limit]} {figures} against {show_figure(limit, allowed)}{f' ({met})' if met else ''}"


FASTER = 1.05
"""Ratio of latencies or sizes from which a difference is named."""


def reason(
    pick: Evaluation,
    feasible: Sequence[Evaluation],
    ties: Sequence[Evaluation],
    budget: Budget,
    preference: Preference,
    pick_ties: bool = True,
) -> str:
    """Return one sentence why a candidate was picked; ``ties``, and it if ``pick_ties``, tie with the best accuracy."""
    best = max(feasible, key=accuracy_of)
    behind, met = accuracy_of(best) - accuracy_of(pick), _met(pick, budget)
    if not preference.accuracy_first and preference.name != "accuracy":
        price = f", {behind:.1f} points behind the most accurate ({describe(best)})" if behind > 0 else ""
        first = {"latency": "fastest", "size": "smallest"}.get(preference.name, "best")
        weights = f" by the weights {preference}" if first == "best" else ""
        return f"{describe(pick)} is the {first} candidate within the limits{weights}{price}{met}."
    if not preference.accuracy_first or accuracy_of(pick) == accuracy_of(best):
        why = " (slower, larger or less accurate)" if preference.accuracy_first else ""
        tied = f", statistically tied with {plural(len(ties), 'other')}{why}" if ties else ""
        return f"{describe(pick)} is the most accurate candidate within the limits{tied}{met}."
    stands = "is statistically tied with" if pick_ties else "has the smallest expected loss beside"
    return (
        f"{describe(pick)} {stands} the most accurate candidate within the limits "
        f"({name(best)}, {accuracy_of(best):.1f} %). It gives up {behind:.1f} points and "
        f"is {_times(latency_of(best), latency_of(pick), 'faster', 'slower')} and "
        f"{_times(size_of(best), size_of(pick), 'smaller', 'larger')}{_saved(best, pick)}{met}."
    )


def _saved(best: Evaluation, pick: Evaluation) -> str:
    """Return what is saved against the most accurate: `` (3.1 ms and 9.6 MB less)``."""
    found = []
    for figure, show in ((latency_of, show_ms), (size_of, show_bytes)):
        if figure(best) >= FASTER * figure(pick):
            found.append(show(figure(best) - figure(pick)))
    return f" ({' and '.join(found)} less)" if found else ""


def _met(pick: Evaluation, budget: Budget) -> str:
    """Say how the pick meets the latency budget, and with which probability what is uncertain."""
    uncertain = "".join(
        f"; the limit of {show_figure(limit, budget.limits[limit])} {'of drop' if limit == 'drop' else NAMES[limit]} "
        f"is {text}"
        for limit, text in show_met(budget, pick).items()
    )
    if budget.latency_ms is None:
        return uncertain
    if pick.budget_probability is not None:
        sure = show_budget_probability(pick, budget.latency_ms)
        origin = pick.latency.provenance if pick.latency else Provenance.PREDICTED
        return f"; it is {sure}, which is {origin}, not measured{uncertain}"
    return f" and meets the {show_ms(budget.latency_ms)} budget with p90 {show_ms(p90_of(pick))}{uncertain}"


def comparison(other: Evaluation, pick: Evaluation) -> str:
    """Say how another evaluation differs from the pick: points of accuracy, latency, size."""
    points = round(accuracy_of(other) - accuracy_of(pick), 1) + 0.0  # never -0.0
    return (
        f"{describe(other)}: {points:+.1f} points, {_times(latency_of(pick), latency_of(other), 'faster', 'slower')}, "
        f"{_times(size_of(pick), size_of(other), 'smaller', 'larger')}"
    )


def not_the_faster(
    fastest: Evaluation,
    pick: Evaluation,
    preference: Preference,
    shown_points: float = 0.0,
    further_points: float = 0.0,
    expected_points: float | None = None,
) -> str:
    """Return one sentence why the fastest tied evaluation is not the pick; empty where the pick is as fast.

    The images show it to be ``shown_points`` behind the pick, and its network ``further_points`` further behind another
    one. A form of the same network is expected to lose ``expected_points`` against the pick.
    """
    ratio = latency_of(pick) / latency_of(fastest)
    if ratio < FASTER:
        return ""
    costs = latency_of(fastest), size_of(fastest)
    points, larger = accuracy_of(pick) - accuracy_of(fastest), size_of(fastest) / size_of(pick)
    drawbacks = []
    if points > 0:
        why = f"(here a point counts as much as {preference.point(*costs)})"
        if expected_points is not None:
            remain = f"{expected_points:.1f} points are expected to remain"
            why = f"of which {remain} (here such a point counts as much as {preference.point(*costs, LOST_FACTOR)})"
        elif shown_points > 0:
            why = "which is more than noise (odds above 3 to 1)"
        comma = "" if why.startswith("(") else ","
        drawbacks.append(f"it is {points:.1f} points less accurate{comma} {why}")
    if shown_points <= 0 and further_points >= 0.05:
        drawbacks.append(f"its network is {further_points:.1f} points further behind a better one, beyond the noise")
    if larger >= FASTER:
        drawbacks.append(f"it is {larger:.1f}x larger")
    why = " and ".join(drawbacks) or "its loss is larger in sum"
    return f"{name(fastest)} is tied too and {ratio:.1f}x faster, but {why}."


def _times(reference: float, value: float, better: str, worse: str) -> str:
    ratio = reference / value
    if 0.95 < ratio < 1.05:
        return f"no {worse}"
    return f"{ratio:.1f}x {better}" if ratio > 1 else f"{1 / ratio:.1f}x {worse}"
