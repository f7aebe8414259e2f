"""The pick in one paragraph for a person who knows the product, and compared with what the user ships today."""

from collections.abc import Iterator

from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation
from advisor.core.expectation import top1_on_parts
from advisor.core.units import plural, show_bytes, show_ms
from advisor.engine.history.insights import Incumbent
from advisor.reporting import text
from advisor.reporting.classes import recalls, weakest
from advisor.reporting.confidence import flattered
from advisor.reporting.view import RunView

TITLE = "What you ship today"
LEARNT = "Its figures are too high if it has learnt from your images."

WIDE = 0.1
"""A class whose interval has a larger half width (0-1) needs more images before its figure says much."""


def explanation(view: RunView) -> str:
    """Return what the pick gives, what it takes, what could go wrong and what to do next; empty without a pick."""
    pick = view.decision.pick
    if pick is None or pick.accuracy is None or pick.latency is None or not view.decision.feasible:
        return ""
    return " ".join((*_gives(view, pick), *_takes(pick), *_could_go_wrong(view, pick)))


def _gives(view: RunView, pick: Evaluation) -> Iterator[str]:
    counted, (plain, judged) = pick.holdout_accuracy or pick.accuracy, top1_on_parts(pick)
    reached = (judged or plain) if view.other_metric else counted
    if reached is None:
        return
    if view.dataset is None:
        yield f"On ImageNet this model is right in {reached.value:.0f} of 100 cases. On your images nobody knows yet."
    elif view.task.probabilities:
        ends = "" if reached.low is None or reached.high is None else f" ({reached.low:.0f} to {reached.high:.0f})"
        yield f"On images like yours this model is right in {reached.value:.0f}{ends} of 100 cases."
        if view.other_metric and counted:
            yield f"What counts here is another figure: {counted.value:.0f} % {view.other_metric}."
    else:
        yield f"On images like yours this model reaches {reached.value:.0f} % {view.task.metric}."
    facts = (pick.holdout_answers or pick.answers).confidence
    chosen = facts.answered if facts else None
    if facts and chosen and chosen.precision:
        sure = "from its thresholds on"
        if not facts.thresholds.by_class:
            sure = f"when it is at least {100 * chosen.score:.0f} % sure"
        yield (
            f"Let it answer only {sure}: then {100 * chosen.precision.value:.0f} of 100 answers are right, and "
            f"{100 * (1 - chosen.coverage):.0f} of 100 images go to a person."
        )


def _takes(pick: Evaluation) -> Iterator[str]:
    target = pick.configuration.target
    parts = [f"{show_ms(pick.latency.value)} for an image on {target.device}"] if pick.latency else []
    sizes = ((pick.size, "in the app"), (pick.memory, "of memory while it runs"))
    parts += [f"{show_bytes(size.value)} {what}" for size, what in sizes if size]
    yield f"It takes {', '.join(parts[:-1])} and {parts[-1]}." if len(parts) > 1 else f"It takes {parts[0]}."


def _could_go_wrong(view: RunView, pick: Evaluation) -> Iterator[str]:
    """Say what is weakest, and how many images would halve its interval: four times as many as there are."""
    answers = pick.holdout_answers or pick.answers
    try:
        found = recalls(answers, view.classes) if answers.has_classes else ()
    except UsageError:  # they are damaged, which the section on classes says
        found = ()
    weak = weakest(found)
    if weak is not None and weak.recall is not None and len(found) > 1:
        what = "of 100 of its images are right" if view.task.probabilities else "%"
        yield f"It is weakest on '{weak.label}': {weak.recall:.0f} {what}."
    worst = min(pick.capture.by_condition, key=lambda each: each.top1, default=None)
    if worst is not None:
        yield f"Under {worst.condition} it falls to {worst.top1:.0f} of 100."
    yield from _other_things(pick)
    known = ((each.high - each.low, each.label) for each in found if each.low is not None and each.high is not None)
    width, label = max(known, default=(0.0, ""))
    images = view.dataset.images_per_class.get(label, 0) if view.dataset else 0
    if width > 200 * WIDE and images:
        yield f"To be surer, add images: {plural(3 * images, 'more image')} of '{label}' would halve its interval."


def _other_things(pick: Evaluation) -> Iterator[str]:
    """Say how images of other things are answered: the user's own ones, otherwise those of classes left out."""
    others, accepted = (pick.unknown.others, pick.unknown.accepted) if pick.unknown else (None, None)
    if others is not None:
        passing = f"{100 * (1 - others.found.value):.0f} of 100 of your images of other things"
    elif accepted is not None:
        passing = f"{'at least ' if flattered(pick) else ''}{100 * accepted:.0f} of 100 such images"
    else:
        return
    yield (
        f"It answers an image of anything else with one of your classes, too; exported with --unknown-class, this "
        f"happens to {passing}."
    )


def incumbent_sentences(view: RunView) -> tuple[str, ...]:
    """Return a sentence about each file that the user ships: it is the pick, or what switching gains and costs."""
    return tuple(_incumbent(view, each) for each in view.incumbents)


def _incumbent(view: RunView, own: Incumbent) -> str:
    name = text.name(own.evaluation)
    if own.picked:
        still = "is still the best" if view.decision.feasible else "is the closest to the limits"
        return f"{name} {still}. {LEARNT}"
    pick, shipped, points = view.decision.pick, own.evaluation, own.points
    assert pick is not None, "there is an incumbent only beside a pick"
    changes = []
    if points is not None:
        images = f" on the same {plural(points.n, 'image')}" if points.n else ""
        changes.append(f"{view.metric} by {points.value:+.1f} points{text.confidence(points, ' (', ')')}{images}")
    for what, to, before, show in (
        ("latency", pick.latency, shipped.latency, show_ms),
        ("size", pick.size, shipped.size, show_bytes),
    ):
        if to and before and before.value:
            percent = 100 * (to.value / before.value - 1)
            changes.append(f"{what} from {show(before.value)} to {show(to.value)} ({percent:+.0f} %)")
    judged = shipped.holdout_accuracy if own.part == "hold-out" else shipped.accuracy
    reached = f" has {text.percent(judged)} % {view.metric}{f' on {own.part}' if own.part else ''}" if judged else ""
    return f"{name}{reached}. Switching to the pick changes {', '.join(changes)}. {LEARNT}"
