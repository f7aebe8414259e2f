"""The sections of the page, and the variables of their templates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from advisor.core.evaluation import Evaluation, Status
from advisor.reporting.classes import confused_pairs, heatmap, recalls
from advisor.reporting.device_results import device_decisions, device_results
from advisor.reporting.figures import foundations, key_figures
from advisor.reporting.funnel import funnel
from advisor.reporting.graphs import graph_summary
from advisor.reporting.method import method
from advisor.reporting.payload import facets
from advisor.reporting.phrases import counts, parts, verdict
from advisor.reporting.ranking import fastest_per_artefact, ranked
from advisor.reporting.risks import captured, risks
from advisor.reporting.view import RunView

REJECTED_SHOWN = 100

ROWS_SHOWN = 1000
"""Evaluations in the page's table, best first; the plots show all of them."""

FAILURES_SHOWN = 500

Context = Callable[[RunView], Mapping[str, object]]


def _always(_: RunView) -> bool:
    return True


@dataclass(frozen=True)
class Section:
    """One part of the page.

    Attributes:
        id: anchor and name of the template.
        title: title in the navigation.
        context: returns the template's variables; an error in it affects this section only.
        wanted: whether the run has something to show in it.
    """

    id: str
    title: str
    context: Context
    wanted: Callable[[RunView], bool] = _always


def _answer(view: RunView) -> dict[str, object]:
    pick = view.decision.pick
    return {
        "pick": pick,
        "figures": key_figures(view, pick) if pick else (),
        "foundations": foundations(view, pick) if pick else (),
        "ties": fastest_per_artefact(view.decision.ties),
        "risks": risks(view, pick) if pick else (),
        "results": device_results(view, pick) if pick else (),
        "counts": counts(view),
    }


def _devices(view: RunView) -> dict[str, object]:
    pick = view.decision.pick
    return {"pick": pick, "results": device_results(view, pick) if pick else (), "decisions": device_decisions(view)}


def _has_devices(view: RunView) -> bool:
    return bool(view.by_device or view.budget.must_run_on)


def _robustness(view: RunView) -> dict[str, object]:
    pick = view.decision.pick
    assert pick is not None, "the section is wanted only with a pick"
    return {
        "pick": pick,
        "robust": pick.capture.holdout,
        "rows": sorted(captured(pick), key=lambda row: row.accuracy),
    }


def _has_robustness(view: RunView) -> bool:
    return view.decision.pick is not None and bool(view.decision.pick.capture.by_condition)


def _has_operators(view: RunView) -> bool:
    return view.decision.pick is not None and view.decision.pick.file_features is not None


def _operators(view: RunView) -> dict[str, object]:
    pick = view.decision.pick
    assert pick is not None, "the section is wanted only with a pick"
    return {"pick": pick, "graph": pick.file_features and graph_summary(pick.file_features)}


def _explore(view: RunView) -> dict[str, object]:
    return {"facets": facets(view), "front": _by_latency(view.decision.front)}


def _by_latency(evaluations: tuple[Evaluation, ...]) -> tuple[Evaluation, ...]:
    return tuple(sorted(evaluations, key=lambda e: e.latency.value if e.latency else float("inf")))


def _evaluations(view: RunView) -> dict[str, object]:
    devices = {row.configuration.target.device for row in view.evaluations}
    rows = ranked(view)
    return {
        "rows": tuple((row, verdict(view, row)) for row in rows[:ROWS_SHOWN]),
        "several": len(devices) > 1,
        "judged": any(row.holdout_accuracy for row in rows),
        "hidden": max(0, len(rows) - ROWS_SHOWN),
    }


def _funnel(view: RunView) -> dict[str, object]:
    steps = funnel(view)
    return {"steps": steps, "total": max(len(view.evaluations), 1)}


def _failures(view: RunView) -> dict[str, object]:
    ended = (*view.with_status(Status.FAILED), *view.with_status(Status.SKIPPED))
    return {
        "rows": ended[:FAILURES_SHOWN],
        "hidden": max(0, len(ended) - FAILURES_SHOWN),
        "without_weights": view.manifest.get("without_weights") or {},
    }


def _has_failures(view: RunView) -> bool:
    return len(view.ok) < len(view.evaluations) or bool(view.manifest.get("without_weights"))


def _data(view: RunView) -> dict[str, object]:
    dataset = view.dataset
    assert dataset is not None, "the section is wanted only with data"
    largest = max(dataset.images_per_class.values(), default=1)
    return {
        "dataset": dataset,
        "parts": parts(dataset),
        "largest": max(largest, 1),
        "rejected": dataset.rejected[:REJECTED_SHOWN],
        "more_rejected": max(0, len(dataset.rejected) - REJECTED_SHOWN),
    }


def _classes(view: RunView) -> dict[str, object]:
    pick = view.decision.pick
    assert pick is not None, "the section is wanted only with a pick"
    labels = view.dataset.classes if view.dataset else ()
    judged = pick.holdout_answers
    answers = judged or pick.answers
    found = recalls(answers, labels)
    return {
        "pick": pick,
        "judged_on": "images held out from training" if judged else "validation images",
        "recalls": found,
        "weakest": min(found, key=lambda recall: recall.recall, default=None),
        "pairs": confused_pairs(answers, labels),
        "heatmap": heatmap(answers, labels),
    }


def _has_classes(view: RunView) -> bool:
    pick = view.decision.pick
    return pick is not None and pick.answers.has_classes


def _losses(view: RunView) -> dict[str, object]:
    from advisor.reporting.profile.diagnosis_html import diagnosis_html

    rows = [row for row in view.ok if row.configuration.key in view.diagnoses]
    found = ((row, view.diagnoses[row.configuration.key]) for row in rows)
    return {"losses": tuple((row, diagnosis, diagnosis_html(diagnosis)) for row, diagnosis in found)}


SECTIONS = (
    Section("answer", "Answer", _answer),
    Section("explore", "Trade-offs", _explore, lambda view: bool(view.ok)),
    Section("devices", "Devices", _devices, _has_devices),
    Section("classes", "Classes", _classes, _has_classes),
    Section("robustness", "Capture", _robustness, _has_robustness),
    Section("operators", "Operators", _operators, _has_operators),
    Section("losses", "Losses", _losses, lambda view: bool(view.diagnoses)),
    Section("evaluations", "All evaluations", _evaluations, lambda view: bool(view.evaluations)),
    Section("funnel", "Funnel", _funnel, lambda view: bool(view.evaluations)),
    Section("failures", "Failures", _failures, _has_failures),
    Section("data", "Data", _data, lambda view: view.dataset is not None),
    Section("method", "Method", method),
)
