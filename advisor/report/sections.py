"""The sections of the page: what each needs from the run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from advisor.core.evaluation import Evaluation, Status
from advisor.core.relaxation import show_limit
from advisor.core.units import show_seconds
from advisor.report import text
from advisor.report.classes import confused_pairs, heatmap, recalls
from advisor.report.figures import foundations, key_figures
from advisor.report.order import fastest_per_artefact, funnel, ranked
from advisor.report.payload import facets
from advisor.report.table import counts
from advisor.report.view import DatasetSummary, RunView

REJECTED_SHOWN = 100

Context = Callable[[RunView], Mapping[str, Any]]


def _always(_: RunView) -> bool:
    return True


@dataclass(frozen=True)
class Section:
    """One part of the page.

    Attributes:
        id: anchor and name of the template.
        title: what the navigation calls it.
        context: the template's variables; an error in it costs this section alone.
        wanted: whether the run has anything for it.
    """

    id: str
    title: str
    context: Context
    wanted: Callable[[RunView], bool] = _always


def limits(view: RunView) -> tuple[tuple[str, str], ...]:
    """Return every limit set, by its name, as text."""
    budget = view.budget
    rows = (
        ("latency", "p90 latency", budget.latency_ms),
        ("size", "size", budget.size_bytes),
        ("drop", "drop", budget.max_drop_points),
        ("accuracy", "top-1", budget.min_accuracy),
        ("memory", "memory", budget.memory_bytes),
    )
    sign = {"accuracy": "≥"}
    return tuple(
        (label, f"{sign.get(name, '≤')} {show_limit(name, value)}") for name, label, value in rows if value is not None
    )


def _answer(view: RunView) -> dict[str, Any]:
    pick = view.decision.pick
    return {
        "pick": pick,
        "figures": key_figures(view, pick) if pick else (),
        "foundations": foundations(view, pick) if pick else (),
        "ties": fastest_per_artefact(view.decision.ties),
        "counts": counts(view),
    }


def _explore(view: RunView) -> dict[str, Any]:
    return {"facets": facets(view), "front": _by_latency(view.decision.front)}


def _by_latency(evaluations: tuple[Evaluation, ...]) -> tuple[Evaluation, ...]:
    return tuple(sorted(evaluations, key=lambda e: e.latency.value if e.latency else float("inf")))


def _evaluations(view: RunView) -> dict[str, Any]:
    rows = tuple((row, verdict(view, row)) for row in ranked(view))
    return {"rows": rows, "judged": any(row.holdout_accuracy for row, _ in rows)}


def verdict(view: RunView, evaluation: Evaluation) -> str:
    """Say in one or two words what became of an evaluation."""
    key = evaluation.configuration.key
    if key == view.pick_key:
        return "pick" if view.decision.feasible else "least bad"
    if evaluation.status is not Status.OK:
        return evaluation.status.value
    if key in view.tie_keys:
        return "tie"
    if key in view.front_keys:
        return "front"
    return "dominated" if view.budget.met_by(evaluation) else "over " + ", ".join(view.budget.violations(evaluation))


def _funnel(view: RunView) -> dict[str, Any]:
    steps = funnel(view)
    return {"steps": steps, "total": max(len(view.evaluations), 1)}


def _failures(view: RunView) -> dict[str, Any]:
    return {
        "rows": (*view.with_status(Status.FAILED), *view.with_status(Status.SKIPPED)),
        "without_weights": view.manifest.get("without_weights") or {},
    }


def _has_failures(view: RunView) -> bool:
    return len(view.ok) < len(view.evaluations) or bool(view.manifest.get("without_weights"))


def _data(view: RunView) -> dict[str, Any]:
    dataset = view.dataset
    assert dataset is not None, "the section is wanted only with data"
    largest = max(dataset.pictures_per_class.values(), default=1)
    return {
        "dataset": dataset,
        "parts": parts(dataset),
        "largest": max(largest, 1),
        "rejected": dataset.rejected[:REJECTED_SHOWN],
        "more_rejected": max(0, len(dataset.rejected) - REJECTED_SHOWN),
    }


def parts(dataset: DatasetSummary) -> str:
    """Say what the pictures were used for."""
    if not dataset.validation:
        return f"{dataset.train} to train and calibrate on, {dataset.holdout} held out to measure accuracy"
    own = " (your own split)" if dataset.own_split else ""
    return (
        f"{dataset.train} to train on, {dataset.validation} to compare candidates on (validation), {dataset.holdout} "
        f"held out to judge the finalists{own}"
    )


def _classes(view: RunView) -> dict[str, Any]:
    pick = view.decision.pick
    assert pick is not None, "the section is wanted only with a pick"
    labels = view.dataset.classes if view.dataset else ()
    judged = pick.details.get("holdout")
    details = judged if judged else pick.details
    found = recalls(details, labels)
    return {
        "pick": pick,
        "judged_on": "pictures held out from training" if judged or not _validated(view) else "validation pictures",
        "recalls": found,
        "weakest": min(found, key=lambda recall: recall.recall, default=None),
        "pairs": confused_pairs(details, labels),
        "heatmap": heatmap(details, labels),
    }


def _validated(view: RunView) -> bool:
    return view.dataset is not None and view.dataset.validation > 0


def _has_classes(view: RunView) -> bool:
    pick = view.decision.pick
    return pick is not None and bool(pick.details.get("confusion") or pick.details.get("per_class_recall"))


def _method(view: RunView) -> dict[str, Any]:
    manifest = view.manifest
    known = ("command_line", "versions", "durations", "weights", "without_weights")
    durations = {str(stage): show_seconds(float(value)) for stage, value in (manifest.get("durations") or {}).items()}
    return {
        "command_line": command_line(view),
        "weights": {name: shown(origin) for name, origin in (manifest.get("weights") or {}).items()},
        "versions": manifest.get("versions") or {},
        "durations": durations,
        "request": {key: shown(value) for key, value in view.request.items() if _is_given(value)},
        "manifest": {key: shown(value) for key, value in manifest.items() if key not in known and _is_given(value)},
        "pick": view.decision.pick,
    }


def _is_given(value: Any) -> bool:
    return value is not None and value is not False and value != "" and value != [] and value != {}


def command_line(view: RunView) -> str:
    """Return what was typed, ready to be typed again; the program without the folder that it lies in."""
    given = view.manifest.get("command_line") or ""
    if isinstance(given, str):
        return given
    program, *arguments = (str(part) for part in given)
    name = PurePath(program).name
    return shlex.join(["advisor" if name in ("__main__.py", "advisor.exe") else name, *arguments])


def shown(value: Any) -> str:
    """Flatten a manifest's value into one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {shown(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(item) for item in value)
    return text.plain(value)


SECTIONS = (
    Section("answer", "Answer", _answer),
    Section("explore", "Trade-offs", _explore, lambda view: bool(view.ok)),
    Section("classes", "Classes", _classes, _has_classes),
    Section("evaluations", "All evaluations", _evaluations, lambda view: bool(view.evaluations)),
    Section("funnel", "Funnel", _funnel, lambda view: bool(view.evaluations)),
    Section("failures", "Failures", _failures, _has_failures),
    Section("data", "Data", _data, lambda view: view.dataset is not None),
    Section("method", "Method", _method),
)
