"""The self-contained page of a run: it opens offline, loads nothing, and survives a broken section."""

import base64
import gzip
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from markupsafe import Markup

from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation, Status, latency_of
from advisor.core.expectation import top1_on_parts
from advisor.core.posterior import FLOAT
from advisor.core.units import plural
from advisor.reporting import blocks, phrases
from advisor.reporting.answer import other_risks, summary, warned
from advisor.reporting.classes import confused_pairs, confusions, lost, recalls, weakest
from advisor.reporting.confidence import confidence, unknown
from advisor.reporting.device_results import device_decisions, device_results, runtimes_sentence
from advisor.reporting.diagnosis import diagnosis_html
from advisor.reporting.explanation import explanation, incumbent_sentences
from advisor.reporting.figures import foundations, key_figures
from advisor.reporting.metrics import metric_blocks
from advisor.reporting.outlines import LOOKS, changed_photos, photos, wrong_photos
from advisor.reporting.payload import facets, payload
from advisor.reporting.templating import asset, draw, json_for_script, plotly_script, render, render_page, trusted
from advisor.reporting.view import RunView

_log = logging.getLogger(__name__)

REJECTED_SHOWN = 100

ROWS_SHOWN = 1000
"""Evaluations in the page's table, best first; the plots show all of them."""

FAILURES_SHOWN = 500

Variables = Mapping[str, object]


@dataclass(frozen=True)
class Section:
    """One part of the page.

    Attributes:
        id: anchor and name of the template.
        title: title in the navigation.
        variables: returns its blocks, or the variables of its template; nothing where the run has nothing to show. An
            error affects this section only.
    """

    id: str
    title: str
    variables: Callable[[RunView], Variables | Sequence[blocks.Block] | None]


def _answer(view: RunView) -> Variables:
    pick = view.decision.pick
    return {
        "explanation": explanation(view),
        "warnings": warned(view),
        "figures": [blocks.Figures(key_figures(view, pick))] if pick else (),
        "foundations": foundations(view, pick) if pick else (),
        "ties": phrases.fastest_per_artefact(view.decision.ties),
        "risks": other_risks(view),
        "incumbents": incumbent_sentences(view),
        "counts": phrases.counts(view),
    }


def _explore(view: RunView) -> Variables | None:
    if not view.ok:
        return None
    return {"facets": facets(view), "front": sorted(view.decision.front, key=latency_of)}


def _devices(view: RunView) -> Variables | None:
    if not view.by_device and not view.budget.must_run_on:
        return None
    pick = view.decision.pick
    return {
        "results": device_results(view, pick) if pick else (),
        "decisions": device_decisions(view),
        "runtimes": runtimes_sentence(view),
    }


def _classes(view: RunView) -> Variables | None:
    pick = view.decision.pick
    if pick is None or not pick.answers.has_classes:
        return None
    labels = view.classes
    answers = pick.holdout_answers or pick.answers
    found = recalls(answers, labels)
    if not found:
        return None
    return {
        "judged_on": "images held out from training" if pick.holdout_answers else "validation images",
        "recalls": found,
        "counted": any(each.precision is not None for each in found),
        "lost": _lost(view, pick) if view.task.probabilities else {},
        "weakest": weakest(found),
        "pairs": confused_pairs(answers, labels),
        "confusions": confusions(pick, view.decision.runner_up, labels),
        "boxes": answers.boxes,
    }


def _lost(view: RunView, pick: Evaluation) -> dict[str, float]:
    """Return what compression costs each class on validation; empty for float32."""
    own = pick.configuration
    wanted = replace(own, compression=FLOAT)
    floats = next((row for row in view.ok if row.configuration == wanted), None)
    if floats is None or own == wanted:
        return {}
    return lost(floats.answers, pick.answers)


def _images(view: RunView) -> Variables | None:
    pick, labels, changed = view.decision.pick, view.classes, view.disagreements
    confidence = pick.holdout_answers.confidence if pick and pick.holdout_answers else None
    mistakes = wrong_photos(confidence.mistakes, view.images, labels) if confidence else []
    if not mistakes and changed is None:
        return None
    changes = changed_photos(changed, view.images, labels) if changed else []
    return {"mistakes": mistakes, "changes": changes, "changed": changed}


def _boxes(view: RunView) -> Variables | None:
    pick = view.decision.pick
    boxes = pick.holdout_answers.boxes if pick and pick.holdout_answers else None
    if boxes is None or not boxes.worst:
        return None
    labels = view.classes
    return {"shown": photos(boxes.worst, view.images, labels), "looks": LOOKS, "threshold": boxes.threshold}


def _robustness(view: RunView) -> Variables | None:
    pick = view.decision.pick
    if pick is None or not pick.capture.by_condition:
        return None
    rows = sorted(pick.capture.by_condition, key=lambda row: row.top1)
    plain, judged = top1_on_parts(pick)
    return {
        "robust": pick.capture.holdout,
        "rows": rows,
        "usual": judged or plain,
        "compared": plain if view.other_metric else pick.accuracy,
    }


def _operators(view: RunView) -> Variables | None:
    pick = view.decision.pick
    if pick is None or pick.file_features is None:
        return None
    operators = sorted(pick.file_features.operators.items(), key=lambda row: -row[1])
    total = max(sum(count for _, count in operators), 1)
    return {"file": pick.file_features, "operators": operators, "total": total}


def _losses(view: RunView) -> Variables | None:
    if not view.diagnoses:
        return None
    return {"losses": [(row, found, diagnosis_html(found)) for row, found in view.diagnosed]}


def _evaluations(view: RunView) -> Variables | None:
    if not view.evaluations:
        return None
    rows = phrases.ranked(view)
    return {
        "rows": [(row, phrases.verdict(view, row)) for row in rows[:ROWS_SHOWN]],
        "several": len({row.configuration.target.device for row in rows}) > 1,
        "judged": any(row.holdout_accuracy for row in rows),
        "hidden": max(0, len(rows) - ROWS_SHOWN),
    }


def _funnel(view: RunView) -> Variables | None:
    return {"steps": phrases.funnel(view), "total": len(view.evaluations)} if view.evaluations else None


def _failures(view: RunView) -> list[blocks.Block]:
    stopped = (*view.with_status(Status.FAILED), *view.with_status(Status.SKIPPED))
    without_weights = view.manifest.get("without_weights") or {}
    if not stopped and not without_weights:
        return []
    more = f" The first {FAILURES_SHOWN} are listed; evaluations.jsonl has all." if stopped[FAILURES_SHOWN:] else ""
    said = f"{plural(len(stopped), 'configuration')} failed or were skipped. A failure does not stop the run.{more}"
    shown: list[blocks.Block] = [blocks.Heading("Failures and skips", "failures"), blocks.Paragraph(said, "lead")]
    if stopped:
        shown.append(phrases.failures(stopped[:FAILURES_SHOWN]))
    if without_weights:
        models = plural(len(without_weights), "model was", "models were")
        reasons = blocks.Items([f"{card}: {reason}" for card, reason in without_weights.items()])
        shown.append(blocks.Group([reasons], f"{models} skipped: no weights could be fetched"))
    return shown


def _data(view: RunView) -> Variables | None:
    dataset = view.dataset
    if dataset is None:
        return None
    return {
        "dataset": dataset,
        "parts": phrases.parts(dataset),
        "largest": max([1, *dataset.per_class.values()]),
        "rejected": dataset.rejected[:REJECTED_SHOWN],
        "more_rejected": max(0, len(dataset.rejected) - REJECTED_SHOWN),
    }


SECTIONS = (
    Section("answer", "Answer", _answer),
    Section("explore", "Trade-offs", _explore),
    Section("devices", "Devices", _devices),
    Section("classes", "Classes", _classes),
    Section("metrics", "Metrics", metric_blocks),
    Section("confidence", "Confidence", confidence),
    Section("unknown", "Unknown", unknown),
    Section("images", "Images", _images),
    Section("boxes", "Boxes", _boxes),
    Section("robustness", "Capture", _robustness),
    Section("operators", "Operators", _operators),
    Section("losses", "Losses", _losses),
    Section("evaluations", "All evaluations", _evaluations),
    Section("funnel", "Funnel", _funnel),
    Section("failures", "Failures", _failures),
    Section("data", "Data", _data),
    Section("method", "Method", phrases.method),
)


def render_html(view: RunView, sections: Sequence[Section] = SECTIONS) -> str:
    """Return the whole page. A section that fails becomes an error card; the other sections are not affected."""
    bodies = [(section, _section(section, view)) for section in sections]
    return render_page(
        "page",
        styles=["report.css"],
        scripts=[asset("unpack.js"), asset("report.js")],
        packed_scripts=[plotly_script()],
        view=view,
        limits=phrases.limits(view),
        sections=[(section, body) for section, body in bodies if body is not None],
        data=trusted(packed(_script_data(view))),
        library=trusted(packed_plotly()),
    )


def summary_html(view: RunView) -> str:
    """Return what a notebook shows: a fragment of HTML without scripts; names are escaped."""
    return str(Markup("<div>{}</div>").format(draw(summary(view))))


def _section(section: Section, view: RunView) -> Markup | None:
    try:
        variables = section.variables(view)
        if isinstance(variables, Mapping):
            return render(section.id, view=view, pick=view.decision.pick, **variables)
        return draw(variables) if variables else None
    except Exception as error:
        damaged = isinstance(error, UsageError)  # the run folder is at fault, so the code's place tells nothing
        _log.error("report: the section '%s' could not be made: %s", section.id, error, exc_info=not damaged)
        return render("error", section=section, error=error, kind=type(error).__name__)


def _script_data(view: RunView) -> str:
    """Return the data of the script; if that fails, the error: the page still has every table."""
    try:
        return json_for_script(payload(view))
    except Exception as error:
        _log.exception("report: the plots' data could not be made")
        return json_for_script({"error": f"{type(error).__name__}: {error}"})


@cache
def packed_plotly() -> str:
    """Return plotly.js as :func:`packed` text, a third of its size."""
    return packed(plotly_script())


def packed(content: str) -> str:
    """Return text as base64 of gzip, always the same for the same text; the page's script unpacks it."""
    return base64.b64encode(gzip.compress(content.encode(), mtime=0)).decode()
