"""The answer in plain lines, for a person who knows the product and not the field.

Every form of a report begins with :func:`opening_lines`; the page has :func:`meeting_line` and
:func:`explain_pick`, too. ``recommendation.json`` keeps the opening, and the list of runs shows it
from there, so its first line must begin with the advice and the path of the file.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from advisor.core import (
    FLOAT,
    HOST,
    Evaluation,
    Provenance,
    Quantity,
    Status,
    UsageError,
    excess_texts,
    show_bytes,
    show_ms,
    units,
)
from advisor.reporting import _text as text
from advisor.reporting._class_counts import (
    are_few,
    count_judged_images,
    find_weakest,
    name_compared,
)
from advisor.reporting._classes import compute_recalls
from advisor.reporting._device_results import remark_build
from advisor.reporting._missing_weights import explain_missing
from advisor.reporting._reference_phones import REFERENCES, describe_unit, predict_on_phones
from advisor.reporting._risks import is_worthless
from advisor.reporting._steps import FLOATS, find_failed_int8, int8_size, lacks_int8, list_int8
from advisor.reporting._unknown_images import is_flattered
from advisor.reporting._view import RunView

UNJUDGED = "; it did not run on the hold-out"
WORTHLESS = "Not worth shipping yet"

FEW_IMAGES = 100
COUNT_ERROR = 0.02
"""Images below which right answers are counted in place of told as a share; and how far from a
whole number a count may be that was rounded as a share.
"""

OF_HUNDRED = " of 100"
"""The end of a share that is told as a count."""

VOWELS = ("8", "11 ", "11.", "18 ", "18.")
"""The beginnings of sizes that take ``an``, such as ``8.9 MB``."""


def opening_lines(
    view: RunView, step_follows: bool = False, phones: int = len(REFERENCES), reasons: bool = True
) -> tuple[str, ...]:
    """Return the lines that every form of an answer begins with; none without a pick.

    They are the file to ship, how often it is right, how long it takes, what was not made of it,
    and what is not known. What was not made is left out if the next step, which makes it,
    ``step_follows``. The latency is predicted on the first ``phones``. With ``reasons``, the lines
    say why networks were not tried.
    """
    pick = view.decision.pick
    if pick is None or pick.accuracy is None or pick.latency is None:
        return ()
    unknown = "; ".join(_list_unknowns(view, pick, reasons))
    lines = (
        _name_file(view, pick),
        " ".join(filter(None, (_describe_accuracy(view, pick), _describe_leaks(view)))),
        _describe_latency(view, pick, phones),
        "" if step_follows else _explain_compression(view, pick),
        f"Not known: {unknown}." if unknown else "",
    )
    return tuple(filter(None, lines))


def _name_file(view: RunView, pick: Evaluation) -> str:
    """Return the advice with the path and the size of the file."""
    advice = "Ship"
    if not view.decision.feasible:
        advice = "Nothing meets the budget. Closest:"
    elif is_worthless(view):
        advice = f"{WORTHLESS}. The best so far:"
    shipped = pick.on_all.file if pick.on_all and pick.on_all.file else pick.artefact
    file = f"{view.folder}/{shipped}" if shipped else text.name(pick)
    size = f" ({show_bytes(pick.size.value)})" if pick.size else ""
    remark = UNJUDGED if _is_unjudged(view, pick) else ""
    return f"{advice} {file}{size}{remark}."


def _is_unjudged(view: RunView, pick: Evaluation) -> bool:
    """Return whether a pick did not run on the hold-out, and other files did."""
    return pick.holdout_accuracy is None and any(row.holdout_accuracy for row in view.ok)


def _explain_compression(view: RunView, pick: Evaluation) -> str:
    """Return why a float pick is not in int8;
    empty if int8 was not asked for, or may still come.
    """
    now = "Not compressed"
    until = "yet"
    if pick.configuration.compression != FLOAT:
        now = "Float16 weights"
        until = "so far"
    failed = find_failed_int8(view, pick)
    if failed is not None:
        return f"{now}: int8 of it failed in the stage {failed.stage}: {failed.reason}."
    if view.insights.unfinished:
        return ""
    if lacks_int8(view, pick):
        return f"{now} {until}: the search did not reach int8{int8_size(pick)}."
    drawback = _explain_float(view, pick)
    return f"{now}: int8 of it {drawback}." if drawback else ""


def _explain_float(view: RunView, pick: Evaluation) -> str:
    """Return why the int8 form of a float pick is not the pick,
    in words that follow ``int8 of it``; empty without it.

    Where the network has several int8 evaluations,
    the most accurate one within the limits answers, then the fastest.
    """
    forms = []
    if pick.configuration.compression in FLOATS:
        forms = list_int8(view, pick)
    judged = []
    for form in forms:
        if form.status is Status.OK and form.accuracy and form.latency and form.size:
            judged.append(form)
    if not judged:
        return f"was skipped: {forms[0].reason}" if forms else ""
    int8 = max(
        judged,
        key=lambda form: (view.limits.met_by(form), form.accuracy_percent, -form.latency_ms),
    )
    broken = excess_texts(int8, view.limits)
    if broken:
        return f"breaks a limit: {', '.join(broken)}"
    points = round(pick.accuracy_percent - int8.accuracy_percent, 1)
    less = ""
    if points > 0:
        less = f"{points:.1f} points less accurate, and "
    if int8.variant not in {tie.variant for tie in view.decision.ties}:
        return f"is {less}not tied with the most accurate file"
    unjudged = view.decision.unjudged
    if unjudged is not None and unjudged.variant == int8.variant:
        return "would be the pick, but it did not run on the hold-out"
    if pick.is_noticeably_faster_than(int8):
        return f"takes {show_ms(int8.latency_ms)} in place of {show_ms(pick.latency_ms)}"
    if less:
        return f"is {less}saves less than that is worth"
    return "comes after it by the rule"


def _describe_accuracy(view: RunView, pick: Evaluation) -> str:
    """Return how often the pick is right, with its interval."""
    reached = _find_reached(view, pick)
    images = _name_images(view, pick)
    counted = pick.holdout_accuracy or pick.accuracy
    if reached is None:
        return ""
    if view.request.question.data is None:
        right = f"Right on {_show_whole_percent(reached)} of 100 {images}"
        return f"{right}; on your images nobody knows yet."
    is_judged = pick.top1_on_parts[1] or pick.holdout_accuracy
    only = "" if is_judged or _is_unjudged(view, pick) else "; no other images judged it"
    if not view.task.probabilities:
        return (
            f"Reaches {reached.value:.0f} % {view.task.metric} on"
            f" {images}{_show_ends(reached)}{only}."
        )
    count = _count_right(reached)
    ends = _show_ends(reached, "" if count.endswith(OF_HUNDRED) else " %")
    other = ""
    if view.other_metric and counted:
        other = f" {counted.value:.0f} % {view.other_metric}."
    return f"Right on {count} {images}{ends}{only}.{other}"


def _count_right(reached: Quantity) -> str:
    """Return how many images were answered rightly:
    of 100, or of all where these are fewer than 100.

    "100 of 100" would say too much of a file that four images have judged.
    """
    images = reached.n or 0
    right = reached.value * images / 100
    # A metric that weighs the images counts no whole images.
    if images >= FEW_IMAGES or not images or abs(right - round(right)) > COUNT_ERROR:
        return f"{_show_whole_percent(reached)}{OF_HUNDRED}"
    return f"{right:.0f} of {images}"


def _show_ends(reached: Quantity, unit: str = "") -> str:
    """Return the interval of an accuracy in words, with its unit after a count of images;
    empty without one.
    """
    if reached.low is None or reached.high is None:
        return ""
    return f" (95 %: {reached.low:.0f} to {reached.high:.0f}{unit})"


def _show_whole_percent(reached: Quantity) -> str:
    """Return an accuracy in whole percent; no file with an error is right on all images."""
    if 99.5 <= reached.value < 100.0:
        return "more than 99"
    return f"{reached.value:.0f}"


def meeting_line(view: RunView) -> str:
    """Return what one would say of the pick in a meeting, in one sentence;
    empty without a pick and its figures.
    """
    pick = view.decision.pick
    reached = _find_reached(view, pick) if pick else None
    if pick is None or pick.latency is None or reached is None:
        return ""
    start = "We can ship a"
    if not view.decision.feasible:
        start = "No file meets our limits; the closest is a"
    elif is_worthless(view):
        start = "Nothing to ship yet; the best is a"
    file = "file"
    if pick.size:
        file = f"{show_bytes(pick.size.value)} file"
    if file.startswith(VOWELS):
        start = f"{start}n"
    right = _describe_share(view, pick, reached)
    return f"{start} {file}: {right}, {_describe_time_on_phone(view, pick, pick.latency)}."


def _describe_share(view: RunView, pick: Evaluation, reached: Quantity) -> str:
    """Return how often the pick is right on which of our images, with the ends of the range."""
    images = _name_images(view, pick).replace("yours", "ours")
    images = images.replace("that chose it", "that also chose it")
    ends = _show_range(reached, "{:.0f}".format)
    if not view.task.probabilities:
        return f"{_show_whole_percent(reached)} % {view.task.metric} on {images}{ends}"
    count = _count_right(reached)
    if count.endswith(OF_HUNDRED):
        return f"{count.removesuffix(OF_HUNDRED)} % right on {images}{ends}"
    # The figure before the range counts images.
    return f"right on {count} {images}{ends.replace(')', ' %)')}"


def _describe_time_on_phone(view: RunView, pick: Evaluation, latency: Quantity) -> str:
    """Return the latency on the first reference phone, or where it was measured.

    The budget was checked on this machine alone, so a phone that may exceed it says so.
    """
    target = pick.configuration.target
    unit = describe_unit(target)
    place = "our computer" if target.device == HOST else target.device
    note = ""
    for (unit_of_phone, phone), predicted in predict_on_phones(view).items():
        unit = unit_of_phone
        place = phone
        latency = predicted
        note = _compare_with_budget(predicted, view.limits.latency_ms)
        break
    whose = place.partition(" (")[0].removeprefix("a ")
    details = f"{whose}, {unit}, {latency.provenance}"
    ends = _show_interval(latency, text.number)
    if ends:
        details = f"{ends}; {details}"
    return f"{show_ms(latency.value)} ({details}){note}"


def _show_range(quantity: Quantity, show: Callable[[float], str]) -> str:
    """Return :func:`_show_interval` in brackets after a space; empty without an interval."""
    ends = _show_interval(quantity, show)
    return f" ({ends})" if ends else ""


def _show_interval(quantity: Quantity, show: Callable[[float], str]) -> str:
    """Return the ends of an interval after its level, ``80 %: 45.9-117``; empty without one."""
    if quantity.low is None or quantity.high is None:
        return ""
    return f"{_show_level(quantity)}{show(quantity.low)}{text.DASH}{show(quantity.high)}"


def _show_level(quantity: Quantity) -> str:
    """Return the confidence level that stands before the ends of an interval, ``80 %: ``;
    empty if it is not known.
    """
    return f"{100 * quantity.level:.0f} %: " if quantity.level else ""


def _find_reached(view: RunView, pick: Evaluation) -> Quantity | None:
    """Return the accuracy that is told in words:
    top-1 of classifiers, on the hold-out where it is known.
    """
    plain, judged = pick.top1_on_parts
    if view.other_metric:
        return judged or plain
    return pick.holdout_accuracy or pick.accuracy


def _name_images(view: RunView, pick: Evaluation) -> str:
    """Return which images that accuracy is of, in words."""
    if view.request.question.data is None:
        return "images of ImageNet"
    if not (pick.top1_on_parts[1] or pick.holdout_accuracy):
        return "images that chose it"
    return "images like these" if view.demonstration else "images like yours"


def _describe_leaks(view: RunView) -> str:
    """Return what the images that are learnt from and that judge share:
    it stands beside the accuracy.
    """
    dataset = view.dataset
    if dataset:
        return " ".join(filter(None, (dataset.copied, dataset.leaking)))
    return ""


def _describe_latency(view: RunView, pick: Evaluation, count: int) -> str:
    """Return the latency on the device of the question;
    beside this machine, that of the first ``count`` phones.
    """
    assert pick.latency is not None, "only a pick with a latency has an opening"
    target = pick.configuration.target
    machine = text.name_place(target.device)
    model = text.describe_machine(view.manifest) if target.device == HOST else ""
    # The reader may be at another machine than the one that searched.
    if model:
        machine = f"{machine} ({model})"
    if len(view.by_device) > 1:
        machine = f"{machine}, the slowest of {len(view.by_device)} devices"
    clock = text.name_clock(pick.latency)
    busy = ""
    if pick.contended:
        busy = " while other programs used it"
        if clock:
            busy += f" ({clock})"
    phones = {}
    separator = ", "
    for (unit, phone), latency in islice(predict_on_phones(view).items(), count):
        note = _compare_with_budget(latency, view.limits.latency_ms)
        phones[unit, f"{phone}{note}"] = latency
        # A note has a comma itself.
        if note:
            separator = "; "
    latencies = {**phones, (describe_unit(target), f"{machine}{busy}"): pick.latency}
    processors = {processor for processor, _ in latencies}
    # One kind of processor for all places is said once.
    is_said_once = len(latencies) > len(processors) == 1
    parts = []
    for (processor, place), latency in latencies.items():
        where = place if is_said_once else f"{processor} of {place}"
        parts.append(f"{_show_latency(latency, view.limits.latency_ms)} on {where}")
    start = f"On {processors.pop()}: " if is_said_once else ""
    return f"{start}{separator.join(parts)}."


def _compare_with_budget(latency: Quantity, budget_ms: float | None) -> str:
    """Return what a predicted latency says of the budget, which was checked on this machine;
    empty if it holds.
    """
    if budget_ms is None or max(latency.value, latency.high or 0.0) <= budget_ms:
        return ""
    _, budget = units.show_against("latency", budget_ms, latency.value)
    over = f"over the {budget} budget"
    if latency.value > budget_ms:
        return f", {over}"
    return f", perhaps {over}"


def _show_latency(latency: Quantity, budget_ms: float | None) -> str:
    """Return a latency and its provenance, of a prediction with its interval:
    ``2 ms (80 %: 1 to 4) predicted``. No latency reads like the budget without being equal to it.
    """
    time = show_ms(latency.value)
    if budget_ms is not None:
        time, _ = units.show_against("latency", budget_ms, latency.value)
    ends = ""
    if (
        latency.low is not None
        and latency.high is not None
        and latency.provenance is not Provenance.MEASURED
    ):
        level = _show_level(latency)
        ends = f" ({level}{text.number(latency.low)} to {text.number(latency.high)})"
    return f"{time}{ends} {latency.provenance}"


def _list_unknowns(view: RunView, pick: Evaluation, reasons: bool) -> Iterator[str]:
    """Say what a reader may take for known and is not,
    with the ``reasons`` why networks were not tried.
    """
    if view.only_here:
        held = "the budget was checked" if view.limits.latency_ms else "all was measured"
        yield f"the latency on your device ({held} on this machine; name your device: --device)"
    build = remark_build(view, pick)
    if build:
        yield build
    if view.unknown_conditions(pick) and not view.demonstration:
        yield "the accuracy on another visit, camera or day"
    without = view.manifest.get("without_weights") or {}
    # A network without weights is only timed.
    tried = {row.configuration.card for row in view.ok} - {*without}
    planned = {*tried, *without, *(view.manifest.get("weights") or ())}
    if tried != planned:
        more = f"; {explain_missing(without)}" if without and reasons else ""
        late = len(planned) - len(tried) - len(without)
        reached = f"{len(tried)} tried"
        if late and reasons:
            reached += f", {late} not reached"
        yield f"{len(planned) - len(tried)} of {len(planned)} networks ({reached}{more})"


def explain_pick(view: RunView) -> str:
    """Return what the pick takes beside time, what could go wrong and what to do next;
    empty without a pick.
    """
    pick = view.decision.pick
    if pick is None or pick.accuracy is None or pick.latency is None or not view.decision.feasible:
        return ""
    return " ".join((*_explain_use(pick), *_list_weaknesses(view, pick)))


def _explain_use(pick: Evaluation) -> Iterator[str]:
    """Yield the memory that the pick takes, and from which probability on it should answer."""
    if pick.memory:
        about = "" if pick.memory.provenance is Provenance.MEASURED else "about "
        yield f"It takes {about}{show_bytes(pick.memory.value)} of memory while it runs."
    facts = (pick.holdout_answers or pick.answers).confidence
    chosen = facts.answered if facts else None
    if facts and chosen and chosen.precision:
        sure = "from its thresholds on"
        if not facts.thresholds.by_class:
            sure = f"when it is at least {100 * chosen.score:.0f} % sure"
        right = f"{100 * chosen.precision.value:.0f} of 100 answers are right"
        if chosen.images < FEW_IMAGES:
            count = round(chosen.precision.value * chosen.images)
            right = f"{count} of the {chosen.images} answers that were judged are right"
        yield (
            f"Let it answer only {sure}: then {right}, and"
            f" {100 * (1 - chosen.coverage):.0f} of 100 images go to a person."
        )


def _list_weaknesses(view: RunView, pick: Evaluation) -> Iterator[str]:
    """Say what is weakest, and what happens to images unlike those of the classes."""
    answers = pick.holdout_answers or pick.answers
    try:
        images = count_judged_images(view, pick)
        class_recalls = compute_recalls(answers, view.classes, images)
    except UsageError:  # they are damaged, which the section on classes says
        class_recalls = ()
    weak = find_weakest(class_recalls)
    if weak is not None and weak.recall is not None and len(class_recalls) > 1:
        if not view.task.probabilities:
            right = f"{weak.recall:.0f} %"
        elif weak.n and weak.n < FEW_IMAGES:
            part = "the hold-out" if pick.holdout_answers else "validation"
            right = f"right on {weak.recall * weak.n / 100:.0f} of its {weak.n} images on {part}"
        else:
            right = f"right on {weak.recall:.0f} of 100 of its images"
        subject = "It"
        compared = name_compared(class_recalls)
        if compared:
            subject = f"{compared.capitalize()}, it"
        yield f"{subject} is weakest on '{weak.label}': {right}."
    elif are_few(class_recalls):
        most = max(row.n or 0 for row in class_recalls)
        yield f"Too few images judged each class to name the weakest: {most} at most."
    worst = min(pick.capture.by_condition, key=lambda row: row.top1, default=None)
    if worst is not None:
        unit = "of 100 images" if view.task.probabilities else f"% {view.task.metric}"
        reached = f"{worst.top1:.0f} {unit}"
        yield f"Its worst capture condition is {worst.condition}: right on {reached}."
    yield from _describe_other_things(pick)


def _describe_other_things(pick: Evaluation) -> Iterator[str]:
    """Say how images of other things are answered:
    the user's own ones, otherwise those of classes left out.
    """
    facts = pick.unknown
    if facts is not None and facts.others is not None:
        passing = (
            f"{100 * (1 - facts.others.found.value):.0f} of 100 of your images of other things"
        )
    elif facts is not None and facts.accepted is not None:
        # A network that was fine-tuned has seen the classes that were left out:
        # others pass more often.
        more = ", or more" if is_flattered(pick) else ""
        passing = f"about {100 * facts.accepted:.0f} of 100 such images{more}"
    else:
        return
    yield (
        "It answers an image of anything else with one of your classes, too; exported with"
        f" --unknown-class, this happens to {passing}."
    )
