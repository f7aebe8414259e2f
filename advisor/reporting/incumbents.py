"""Sentences that compare the files that the user ships today with the pick."""

from __future__ import annotations

from advisor.core.quantity import Quantity
from advisor.core.units import plural, show_bytes, show_ms
from advisor.engine.history.incumbents import Incumbent
from advisor.reporting import text
from advisor.reporting.view import RunView

TITLE = "What you ship today"
LEARNT = "Its figures are too high if it has learnt from your images."


def sentences(view: RunView) -> tuple[str, ...]:
    """Return a sentence about each file that the user ships: it is the pick, or what switching gains and costs."""
    return tuple(_sentence(view, each) for each in view.incumbents)


def _sentence(view: RunView, own: Incumbent) -> str:
    name = text.name(own.evaluation)
    if own.picked:
        still = "is still the best" if view.decision.feasible else "is the closest to the limits"
        return f"{name} {still}. {LEARNT}"
    pick, shipped = view.decision.pick, own.evaluation
    assert pick is not None, "there is an incumbent only beside a pick"
    changes = [
        _points(view, own),
        _change("latency", pick.latency, shipped.latency, show_ms),
        _change("size", pick.size, shipped.size, show_bytes),
    ]
    judged = shipped.holdout_accuracy if own.part == "hold-out" else shipped.accuracy
    reached = f" has {text.percent(judged)} % {view.metric}{f' on {own.part}' if own.part else ''}" if judged else ""
    known = ", ".join(change for change in changes if change)
    return f"{name}{reached}. Switching to the pick changes {known}. {LEARNT}"


def _points(view: RunView, own: Incumbent) -> str:
    points = own.points
    if points is None:
        return ""
    ends = text.interval(points)
    images = f" on the same {plural(points.n, 'image')}" if points.n else ""
    return f"{view.metric} by {points.value:+.1f} points{f' (95 %: {ends})' if ends else ''}{images}"


def _change(what: str, to: Quantity | None, before: Quantity | None, show: object) -> str:
    if to is None or before is None or not before.value or not callable(show):
        return ""
    return f"{what} from {show(before.value)} to {show(to.value)} ({100 * (to.value / before.value - 1):+.0f} %)"
