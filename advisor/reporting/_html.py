"""The page of a run: it opens offline, loads nothing, and survives a broken section.

``_files.py`` writes it as ``report.html``. A section is a template of the same name, or blocks
(:func:`list_sections`); a section that fails becomes an error card. What the script draws is in
``_script_data.py``.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from markupsafe import Markup

from advisor.core import (
    FLOAT,
    HOST,
    Evaluation,
    UsageError,
    show_bytes,
)
from advisor.reporting import (
    _blocks as blocks,
    _pages as pages,
    _phrases as phrases,
    _text as text,
)
from advisor.reporting._answer import list_warned_blocks, make_summary, other_risks
from advisor.reporting._app_size import PHONES, AppGrowth, app_growth
from advisor.reporting._class_counts import count_judged_images, find_weakest, name_compared
from advisor.reporting._classes import (
    add_ranges,
    compare_confusions,
    compute_lost_recall,
    compute_recalls,
    list_confused_pairs,
)
from advisor.reporting._compression import diagnosis_html
from advisor.reporting._confidence import describe_confidence, threshold_blocks
from advisor.reporting._device_results import (
    device_decisions,
    device_results,
    find_device,
    runtimes_sentence,
)
from advisor.reporting._explanation import (
    WORTHLESS,
    explain_pick,
    meeting_line,
    opening_lines,
)
from advisor.reporting._failures import failure_blocks
from advisor.reporting._figures import key_figures
from advisor.reporting._foundations import list_foundations
from advisor.reporting._incumbents import incumbent_sentences
from advisor.reporting._metrics import metric_blocks
from advisor.reporting._object_sizes import size_blocks
from advisor.reporting._pages import (
    asset,
    draw,
    json_for_script,
    pack_text,
    plotly_script,
    render,
    render_page,
)
from advisor.reporting._risks import is_worthless
from advisor.reporting._script_data import is_wide, list_facets, make_payload
from advisor.reporting._steps import find_next_command, next_steps
from advisor.reporting._unknown_images import describe_unknown
from advisor.reporting._view import RunView, report_parts

_log = logging.getLogger(__name__)

REJECTED_SHOWN = 100

FIRST_PHOTOS = 6
"""Wrong answers on the first screen."""

ROWS_SHOWN = 1000
"""Evaluations in the page's table, best first; the plots show all of them."""

Variables = Mapping[str, object]


@dataclass(frozen=True)
class Section:
    """One part of the page: its anchor, which is the name of its template,
    and its title in the navigation.

    ``variables`` returns its blocks, or the variables of its template; nothing where the run has
    nothing to show. An error affects this section only.
    """

    id: str
    title: str
    variables: Callable[[RunView], Variables | Sequence[blocks.Block] | None]
    folded: bool = True  #: it is opened by a click, and not printed
    opened: bool = False  #: it is open until a click closes it


def _describe_answer(view: RunView) -> Variables:
    """Return the variables of the page's first section."""
    pick = view.decision.pick
    return {
        "opening": opening_lines(view),
        "meeting_line": meeting_line(view),
        "worthless": WORTHLESS if is_worthless(view) else "",
        "growth": _find_growth(view, pick),
        "phones": PHONES,
        "size_of": show_bytes,
        "chart": _draw_chart(view),
        "mistakes": _list_mistakes(view)[:FIRST_PHOTOS],
        "drawn": _list_drawn_photos(view)[:FIRST_PHOTOS],
        "explanation": explain_pick(view),
        "warnings": list_warned_blocks(view),
        "figures": [blocks.Figures(key_figures(view, pick))] if pick else (),
        "foundations": list_foundations(view, pick) if pick else (),
        "ties": phrases.fastest_per_artefact(view.decision.ties),
        "risks": other_risks(view),
        "incumbents": incumbent_sentences(view),
        "counts": phrases.counts(view),
        "steps": next_steps(view),
        "next_command": find_next_command(view),
    }


def _find_growth(view: RunView, pick: Evaluation | None) -> AppGrowth | None:
    """Return by how much an app for Android grows with a file; nothing where its size is not
    known, and for a device without Android.
    """
    if pick is None or pick.size is None:
        return None
    device = find_device(view, pick)
    if device is not None and not device.profile.is_android:
        return None
    return app_growth(round(pick.size.value), pick.configuration.target.accelerator)


def _draw_chart(view: RunView) -> tuple[blocks.Chart, ...]:
    """Return the plot of accuracy against latency with the pick in it;
    nothing where there is nothing to compare.
    """
    pick = view.decision.pick
    if pick is None:
        return ()
    rows = []
    dots = []
    for row in phrases.fastest_per_artefact(view.ok)[:ROWS_SHOWN]:
        # The pick may have another number of threads than the fastest evaluation of its file,
        # which breaks a limit.
        shown = pick if row.variant == pick.variant else row
        rows.append(shown)
        if shown.latency and shown.accuracy:
            dots.append((text.name(shown), shown.latency.value, shown.accuracy.value))
    if len(dots) < 2:
        return ()
    wide = is_wide(latency for _, latency, _ in dots)
    caption = "Accuracy against latency of each file; the large dot is the pick"
    # The sentence beside the plot may be about a phone:
    # the axis says which device its figures are of.
    devices = {row.configuration.target.device for row in rows}
    where = ""
    if devices == {HOST}:
        where = " on this machine"
    elif len(devices) == 1:
        where = f" on {devices.pop()}"
    # The sentence beside the plot has the figure of the hold-out, which few files have.
    accuracy_title = f"{view.metric} on validation, %" if view.dataset else f"{view.metric}, %"
    return (blocks.Chart(caption, f"ms{where}", accuracy_title, (), dots, text.name(pick), wide),)


def _list_mistakes(view: RunView) -> list[pages.Photo]:
    """Return images of the hold-out that the pick answers wrongly, first one of each confusion."""
    pick = view.decision.pick
    confidence = pick.holdout_answers.confidence if pick and pick.holdout_answers else None
    if confidence is None:
        return []
    return pages.wrong_photos(confidence.varied_mistakes, view.images, view.classes)


def _list_drawn_photos(view: RunView) -> list[pages.Photo]:
    """Return the images of the hold-out with the most errors,
    with the answers that are drawn on them: boxes, masks.

    Nothing for a classifier, whose wrong answers are words,
    and where the images are left out or gone.
    """
    pick = view.decision.pick
    answers = pick.holdout_answers if pick else None
    shown: list[pages.Photo] = []
    if answers and answers.boxes:
        shown += pages.photos(answers.boxes.worst, view.images, view.classes)
    if answers and answers.overlays:
        # Of each image, the truth comes first: the section below has it.
        wrong = pages.overlaid_photos(answers.overlays.mistaken, view.images)
        shown += [photo for photo in wrong if not photo.first]
    return [photo for photo in shown if photo.image]


def _describe_devices(view: RunView) -> Variables | None:
    if not view.by_device and not view.limits.must_run_on:
        return None
    pick = view.decision.pick
    results = device_results(view, pick) if pick else ()
    return {
        "results": results,
        "decisions": device_decisions(view),
        "runtimes": runtimes_sentence(view),
    }


def _describe_classes(view: RunView) -> Variables | None:
    """Return the variables of the section on classes; None if the pick's answers have none."""
    pick = view.decision.pick
    labels = view.classes
    if pick is None or not pick.answers.has_classes:
        return None
    answers = pick.holdout_answers or pick.answers
    class_recalls = compute_recalls(answers, labels, count_judged_images(view, pick))
    if not class_recalls:
        return None
    class_recalls = add_ranges(class_recalls, answers, view.task.by_class)
    return {
        "judged_on": (
            "images held out from training" if pick.holdout_answers else "validation images"
        ),
        "recalls": class_recalls,
        "counted": any(recall.precision is not None for recall in class_recalls),
        "lost": _compute_lost_recall(view, pick),
        "weakest": find_weakest(class_recalls),
        "weakest_of": name_compared(class_recalls),
        "pairs": list_confused_pairs(answers, labels),
        "confusions": compare_confusions(pick, view.decision.runner_up, labels),
        "boxes": answers.boxes,
        "promised": list(threshold_blocks(view)) if answers.boxes else [],
        "sizes": list(size_blocks(view)),
    }


def _compute_lost_recall(view: RunView, pick: Evaluation) -> dict[str, float]:
    """Return the points of recall that compression costs each class; nothing for a float file,
    for other answers than classes, and without the float file.
    """
    configuration = pick.configuration
    if configuration.compression == FLOAT or not view.task.probabilities:
        return {}
    of_float = replace(configuration, compression=FLOAT)
    for row in view.ok:
        if row.configuration == of_float:
            return compute_lost_recall(row.answers, pick.answers)
    return {}


def _describe_images(view: RunView) -> Variables | None:
    labels = view.classes
    changed = view.insights.disagreements
    mistakes = _list_mistakes(view)
    if not mistakes and changed is None:
        return None
    changes = pages.list_changed_photos(changed, view.images, labels) if changed else []
    return {"mistakes": mistakes, "changes": changes, "changed": changed}


def _describe_boxes(view: RunView) -> Variables | None:
    """Return the variables of the section with photographs and their boxes;
    None if there are none.
    """
    pick = view.decision.pick
    boxes = pick.holdout_answers.boxes if pick and pick.holdout_answers else None
    if boxes is None or not boxes.worst:
        return None
    return {
        "shown": pages.photos(boxes.worst, view.images, view.classes),
        "looks": pages.LOOKS,
        "threshold": boxes.threshold,
    }


def _describe_overlays(view: RunView) -> Variables | None:
    pick = view.decision.pick
    overlays = pick.holdout_answers.overlays if pick and pick.holdout_answers else None
    if overlays is None:
        return None
    return {
        "shown": pages.overlaid_photos(overlays.images, view.images),
        "legend": overlays.legend,
    }


def _describe_robustness(view: RunView) -> Variables | None:
    pick = view.decision.pick
    if pick is None or not pick.capture.by_condition:
        return None
    rows = sorted(pick.capture.by_condition, key=lambda row: row.top1)
    plain, judged = pick.top1_on_parts
    # The conditions were tried on the hold-out.
    return {"robust": pick.capture.holdout, "rows": rows, "usual": judged or plain}


def _describe_operators(view: RunView) -> Variables | None:
    pick = view.decision.pick
    return {"file": pick.file_features} if pick and pick.file_features else None


def _describe_losses(view: RunView) -> Variables | None:
    losses = [(row, diagnosis, diagnosis_html(diagnosis)) for row, diagnosis in view.diagnosed]
    return {"losses": losses} if view.insights.diagnoses else None


def _describe_evaluations(view: RunView) -> Variables | None:
    """Return the variables of the table of evaluations; None if there are none."""
    if not view.evaluations:
        return None
    rows = phrases.rank_begun(view)
    return {
        "rows": [(row, phrases.verdict(view, row)) for row in rows[:ROWS_SHOWN]],
        "several": len({row.configuration.target.device for row in rows}) > 1,
        "judged": any(row.holdout_accuracy for row in rows),
        "hidden": max(0, len(rows) - ROWS_SHOWN),
    }


def _describe_data(view: RunView) -> Variables | None:
    dataset = view.dataset
    if dataset is None:
        return None
    return {"dataset": dataset, "parts": phrases.parts(dataset), "shown": REJECTED_SHOWN}


@cache
def list_sections() -> tuple[Section, ...]:
    """Return the sections of the page in their order."""
    return (
        Section("answer", "Answer", _describe_answer, folded=False),
        Section(
            "explore",
            "Trade-offs",
            lambda view: {"facets": list_facets(view)} if view.ok else None,
            folded=False,
        ),
        Section("devices", "Devices", _describe_devices, folded=False),
        Section("classes", "Classes", _describe_classes, opened=True),
        Section("metrics", "Metrics", metric_blocks),
        Section("confidence", "Confidence", describe_confidence),
        Section("unknown", "Unknown", describe_unknown),
        Section("images", "Images", _describe_images, opened=True),
        Section("boxes", "Boxes", _describe_boxes),
        Section("overlays", "Images by errors", _describe_overlays),
        Section("robustness", "Capture", _describe_robustness),
        Section("operators", "Operators", _describe_operators),
        Section("losses", "Losses", _describe_losses),
        Section("evaluations", "Evaluations", _describe_evaluations),
        Section(
            "funnel",
            "Funnel",
            lambda view: {"steps": phrases.funnel(view)} if view.evaluations else None,
        ),
        Section("failures", "Failures", failure_blocks),
        Section("data", "Data", _describe_data),
        Section("method", "Method", phrases.method),
    )


def render_html(view: RunView, sections: Sequence[Section] = list_sections()) -> str:
    """Return the whole page. A section that fails becomes an error card;
    the other sections are not affected.
    """
    added = []
    for name, part in report_parts().items():
        added.append(Section(name, part.TITLE, part.blocks, folded=False))
    bodies = []
    for section in (sections[0], *added, *sections[1:]):
        body = _render_section(section, view)
        if body is not None:
            bodies.append((section, body))
    return render_page(
        "page",
        styles=["report.css"],
        # The drawing library is most of the page, so it is packed.
        scripts=[asset("unpack.js"), asset("report.js")],
        packed_scripts=[plotly_script()],
        view=view,
        limits=phrases.describe_limits(view),
        sections=bodies,
        data=pack_text(_make_script_data(view)),
        library=pack_text(plotly_script()),
    )


def summary_html(view: RunView) -> str:
    """Return what a notebook shows: a fragment of HTML without scripts; names are escaped."""
    return str(Markup("<div>{}</div>").format(draw(make_summary(view))))


def _render_section(section: Section, view: RunView) -> Markup | None:
    """Return a section as HTML; if it cannot be made, an error card in its place,
    so that the report survives.
    """
    try:
        variables = section.variables(view)
        if isinstance(variables, Mapping):
            return render(section.id, view=view, pick=view.decision.pick, **variables)
        return draw(variables) if variables else None
    except Exception as error:
        # The run folder is at fault, so the code's place tells nothing.
        damaged = isinstance(error, UsageError)
        _log.error(
            "report: the section '%s' could not be made: %s",
            section.id,
            error,
            exc_info=not damaged,
        )
        return render("error", section=section, error=error, kind=type(error).__name__)


def _make_script_data(view: RunView) -> str:
    """Return the data of the script; if that fails, the error: the page still has every table."""
    try:
        return json_for_script(make_payload(view))
    except Exception as error:
        _log.exception("report: the plots' data could not be made")
        return json_for_script({"error": f"{type(error).__name__}: {error}"})
