"""Exceeded limits in words, and the smallest change of a limit that admits a candidate.

``_decision.py`` asks for it if nothing meets the budget (:func:`list_relaxations`), and for what
a slightly looser limit would buy (:func:`list_just_beyond`). Reports turn a relaxation into the
command that asks for it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from advisor.core._configuration import Configuration
from advisor.core._evaluation import Evaluation
from advisor.core._limits import DROP, LICENCE, NAMES, ON, Limits, is_drop, is_floor
from advisor.core._metrics import METRICS
from advisor.core._quantity import show_probability
from advisor.core._units import show_against, show_figure

NOT_AT_ALL = 10.0
"""Relative excess of a limit that is met or not (a licence, a device that does not run the
file).
"""

LOOSER = 0.25
"""Share by which a limit may be looser for the answer to say what that buys. Of a least accuracy,
it is the share of the error that the limit allows; so of another metric.
"""


@dataclass(frozen=True)
class Relaxation:
    """A change of one limit, or of several where no single one suffices,
    that makes a candidate feasible.
    """

    limit: str  #: the limit's name; several are joined by `` and ``
    current: str  #: the limit as it is
    needed: str  #: the limit that admits the candidate
    key: str  #: the candidate
    text: str  #: all of this in words

    @property
    def is_of_floor(self) -> bool:
        """True if the limit is a least value: of the accuracy or of another metric."""
        return is_floor(self.limit)


def sum_overrun(evaluation: Evaluation, limits: Limits) -> float:
    """Return the sum of the relative excesses over the exceeded limits."""
    overrun = 0.0
    for name, excess in limits.violations(evaluation).items():
        if excess == math.inf:
            overrun += NOT_AT_ALL
        else:
            overrun += excess / max(abs(_limit_of(name, limits)), 1e-9)
    return overrun


def _limit_of(limit: str, limits: Limits) -> float:
    """Return the value of a limit; that of a required device is the latency limit."""
    return limits.by_figure.get("latency" if limit.startswith(ON) else limit, 1.0)


def list_relaxations(ranked: Sequence[Evaluation], limits: Limits) -> tuple[Relaxation, ...]:
    """Return, for each limit alone, the smallest change that admits a candidate;
    else for several at once.
    """
    broken = {e.configuration.key: limits.violations(e) for e in ranked}
    changes = []
    for limit in dict.fromkeys(chain.from_iterable(broken.values())):
        candidates = []
        for evaluation in ranked:
            breaks_it_alone = set(broken[evaluation.configuration.key]) == {limit}
            if breaks_it_alone and _can_loosen(limit, evaluation, limits):
                candidates.append(evaluation)

        # Of equally small changes, the more accurate candidate is what a reader would loosen a
        # limit for. Of equal ones it is the one that the answer names as closest.
        def rank(evaluation: Evaluation, limit: str = limit) -> tuple[float, float, Configuration]:
            excess = broken[evaluation.configuration.key][limit]
            return excess, -evaluation.accuracy_percent, evaluation.configuration

        if candidates:
            changes.append(_make_relaxation((limit,), min(candidates, key=rank), limits))
    return tuple(changes) or _relax_together(ranked, limits)


def list_just_beyond(ranked: Sequence[Evaluation], limits: Limits) -> dict[str, list[Evaluation]]:
    """Return, by limit, the candidates that break it alone and by at most :data:`LOOSER`,
    the nearest first.
    """
    nearest: dict[str, list[tuple[float, Evaluation]]] = {}
    for evaluation in ranked:
        violations = limits.violations(evaluation)
        for limit, excess in violations.items():
            allowed = _limit_of(limit, limits)
            room = LOOSER * (100 - allowed if is_floor(limit) else allowed)
            if len(violations) == 1 and limit != LICENCE and excess <= room:
                nearest.setdefault(limit, []).append((excess, evaluation))
    ordered = {}
    for limit, rows in nearest.items():
        by_excess = sorted(rows, key=lambda row: (row[0], row[1].configuration))
        ordered[limit] = [evaluation for _, evaluation in by_excess]
    return ordered


def find_loosening(
    limit: str, admitted: Evaluation, difference: str, limits: Limits
) -> Relaxation:
    """Return the looser limit that admits a candidate, which would be the pick;
    ``difference`` compares the two.
    """
    now, then = _show_change(limit, admitted, limits)
    return Relaxation(
        limit,
        now,
        then,
        admitted.configuration.key,
        f"{limit} {now} -> {then} admits {difference}",
    )


def _relax_together(ranked: Sequence[Evaluation], limits: Limits) -> tuple[Relaxation, ...]:
    """Return the change of all limits that the nearest candidate exceeds,
    where no single one admits any.
    """
    # A figure that is not known meets no limit, however loose: such a candidate is no way out.
    possible = []
    for evaluation in ranked:
        if all(_can_loosen(limit, evaluation, limits) for limit in limits.violations(evaluation)):
            possible.append(evaluation)
    if not possible:
        return ()
    nearest = min(
        possible, key=lambda e: (sum_overrun(e, limits), -e.accuracy_percent, e.configuration)
    )
    return (_make_relaxation(tuple(limits.violations(nearest)), nearest, limits),)


def _can_loosen(limit: str, evaluation: Evaluation, limits: Limits) -> bool:
    """Return whether a looser limit would help: an unknown figure meets none."""
    if limit == LICENCE or limit.startswith(ON):
        return True
    return limits.violations(evaluation)[limit] < math.inf


def _make_relaxation(names: Sequence[str], evaluation: Evaluation, limits: Limits) -> Relaxation:
    steps = [_show_change(limit, evaluation, limits) for limit in names]
    text = " and ".join(
        f"{limit} {now} -> {then}" for limit, (now, then) in zip(names, steps, strict=True)
    )
    now, then = (" and ".join(ends) for ends in zip(*steps, strict=True))
    figures = evaluation.describe_figures(with_p90="latency" in names)
    return Relaxation(
        " and ".join(names), now, then, evaluation.configuration.key, f"{text} admits {figures}"
    )


def _show_change(limit: str, evaluation: Evaluation, limits: Limits) -> tuple[str, str]:
    """Return a limit as it is, and as it has to be to admit the evaluation."""
    if limit == LICENCE:
        return ", ".join(limits.licence), evaluation.card_facts.licence or "not stated"
    excess = limits.violations(evaluation)[limit]
    if limit.startswith(ON) and excess == math.inf:
        return "required", "not required"
    current = _limit_of(limit, limits)
    wanted = current - excess if is_floor(limit) else current + excess
    figure = "latency" if limit.startswith(ON) else limit
    return show_figure(figure, current), show_figure(figure, _round_outward(figure, wanted))


def _round_outward(figure: str, value: float) -> float:
    """Round to the precision of :func:`show_figure` so that the limit
    as shown still admits the candidate.
    """
    if is_floor(figure):
        return math.floor(value * 10) / 10
    if figure == "latency":
        step = 1.0
        if value < 9.9:
            step = 0.01
        elif value < 99:
            step = 0.1
    elif is_drop(figure):
        step = 0.1
    else:
        step = 1.0
        for unit in (1e3, 1e6, 1e9):
            if value >= unit:
                step = unit / 10
    return math.ceil(value / step) * step


def excess_texts(evaluation: Evaluation, limits: Limits) -> list[str]:
    """Return a text for each limit that ``evaluation`` exceeds: the figure against the limit."""
    return [
        _describe_excess(evaluation, limits, limit, excess)
        for limit, excess in limits.violations(evaluation).items()
    ]


def _describe_excess(evaluation: Evaluation, limits: Limits, limit: str, excess: float) -> str:
    if limit == LICENCE:
        return limits.licence_refusal(evaluation.card_facts.licence)
    allowed = _limit_of(limit, limits)
    device = limit.removeprefix(ON)
    if device != limit and excess == math.inf:
        figures = (evaluation.required_figures or {}).get(device)
        why = "nothing is known about it there"
        if figures is not None and figures.reason:
            why = figures.reason
        return f"does not run on {device}: {why}"
    if device != limit:
        shown, allowed_ms = show_against("latency", allowed, allowed + excess)
        return f"{shown} on {device} against {allowed_ms}"
    if excess == math.inf:
        return f"its {NAMES[limit]} is not known (limit {show_figure(limit, allowed)})"
    if is_floor(limit) or is_drop(limit):
        return _describe_excess_on_images(evaluation, limits, limit, allowed)
    value, most = show_against(limit, allowed, allowed + excess)
    shown = f"{NAMES[limit]} {value} against {most}"
    probability = evaluation.budget_probability
    if limit != "latency" or probability is None:
        return shown
    return (
        f"{shown} ({show_probability(probability)} sure to meet it,"
        f" {show_probability(limits.confidence)} required)"
    )


def _describe_excess_on_images(
    evaluation: Evaluation, limits: Limits, limit: str, allowed: float
) -> str:
    """Return the figure on validation and, of a finalist, on the hold-out, against the limit."""
    robust = evaluation.capture.plain is not None
    if limit in METRICS:
        validated, judged = evaluation.metric_on_parts(limit)
    elif limit == DROP:
        validated = evaluation.drop
        judged = evaluation.holdout_drop
    elif is_drop(limit):
        validated = evaluation.answers.metric_drops.get(limit.split()[0])
        judged = None
    else:
        validated = evaluation.accuracy
        judged = evaluation.capture.holdout if robust else evaluation.holdout_accuracy
    parts = [part.value for part in (validated, judged) if part is not None]
    *texts, required = show_against(limit, allowed, *parts)
    figures = " on validation and ".join(texts)
    if judged is not None:
        figures += " on the hold-out"
    shown = f"{NAMES[limit]} {figures} against {required}"
    met = limits.show_met(evaluation).get(limit)
    return f"{shown} ({met})" if met else shown
