"""What changes if the pick replaces a file that the user ships today.

The answer on every form of a report, and the first section of the page, have one sentence for each
such file (:func:`incumbent_sentences`).
"""

from __future__ import annotations

from advisor.core import plural, show_bytes, show_ms
from advisor.engine import Incumbent
from advisor.reporting import _text as text
from advisor.reporting._view import RunView

TITLE = "What you ship today"


LEARNT = "Its figures are too high if it has learnt from your images."


def incumbent_sentences(view: RunView) -> tuple[str, ...]:
    """Return a sentence about each file that the user ships:
    it is the pick, or what switching gains and costs.
    """
    return tuple(_describe_incumbent(view, incumbent) for incumbent in view.insights.incumbents)


def _compare_with_rival(view: RunView, incumbent: Incumbent) -> str:
    """Compare a shipped file that is the pick with the best file trained here, on the hold-out;
    empty if unknown.
    """
    pick = view.decision.pick
    rival = incumbent.rival
    points = incumbent.points
    if pick is None or rival is None or points is None:
        return ""
    pick_share, rival_share = (
        text.percent(evaluation.holdout_accuracy) for evaluation in (pick, rival)
    )
    gain = f"{points.value:+.1f} points{text.confidence(points, ', ')}"
    best = f"the best file trained here, {text.file(rival)}, {rival_share} %"
    return f"On the hold-out it has {pick_share} %, and {best} ({gain})."


def _describe_incumbent(view: RunView, incumbent: Incumbent) -> str:
    """Return what changes if the pick replaces a file that the user ships;
    what it lacks if it is the pick itself.
    """
    name = text.name(incumbent.evaluation)
    if incumbent.picked:
        still = "is still the pick" if view.decision.feasible else "is the closest to the limits"
        sentences = (f"{name} {still}.", _compare_with_rival(view, incumbent), LEARNT)
        return " ".join(filter(None, sentences))
    pick = view.decision.pick
    shipped = incumbent.evaluation
    points = incumbent.points
    assert pick is not None, "there is an incumbent only beside a pick"
    changes = []
    if points is not None:
        ends = text.confidence(points, " (", ")")
        images = f" on the same {plural(points.n, 'image')}" if points.n else ""
        changes.append(f"{view.metric} by {points.value:+.1f} points{ends}{images}")
    for what, after, before, show in (
        ("latency", pick.latency, shipped.latency, show_ms),
        ("size", pick.size, shipped.size, show_bytes),
    ):
        if after and before and before.value:
            percent = 100 * (after.value / before.value - 1)
            changes.append(
                f"{what} from {show(before.value)} to {show(after.value)} ({percent:+.0f} %)"
            )
    judged = shipped.holdout_accuracy if incumbent.part == "hold-out" else shipped.accuracy
    reached = ""
    if judged:
        on = f" on {incumbent.part}" if incumbent.part else ""
        reached = f" has {text.percent(judged)} % {view.metric}{on}"
    return f"{name}{reached}. Switching to the pick changes {', '.join(changes)}. {LEARNT}"
