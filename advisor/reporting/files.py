"""Report files of a run: recommendation.json, front.csv, report.md and report.html."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from advisor.core.decision import Decision
from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import ImageAnswers
from advisor.core.evaluation_json import evaluation_to_json
from advisor.core.metrics import METRICS, TOP1
from advisor.engine.history.incumbents import Incumbent
from advisor.reporting.device_results import foreign_runtimes
from advisor.reporting.html import render_html
from advisor.reporting.markdown import render_markdown
from advisor.reporting.risks import risks
from advisor.reporting.text import finite, spreadsheet
from advisor.reporting.view import RunView
from advisor.store.files import ensure_output_dir, write_atomically

SCHEMA_VERSION = 1
"""Of recommendation.json and of front.csv's columns; raised when either changes its meaning."""

FRONT: Mapping[str, str] = {
    "key": "configuration.key",
    "role": "",
    "card": "configuration.card",
    "family": "family",
    "training": "configuration.training",
    "compression": "configuration.compression",
    "device": "configuration.target.device",
    "runtime": "configuration.target.runtime",
    "accelerator": "configuration.target.accelerator",
    "threads": "configuration.target.threads",
    "top1_percent": "accuracy.value",
    "top1_low_percent": "accuracy.low",
    "top1_high_percent": "accuracy.high",
    "top1_provenance": "accuracy.provenance",
    "holdout_top1_percent": "holdout_accuracy.value",
    "holdout_top1_low_percent": "holdout_accuracy.low",
    "holdout_top1_high_percent": "holdout_accuracy.high",
    "new_conditions_top1_percent": "new_conditions.value",
    "new_conditions_top1_low_percent": "new_conditions.low",
    "new_conditions_top1_high_percent": "new_conditions.high",
    "new_conditions_top1_provenance": "new_conditions.provenance",
    "robust_top1_percent": "capture.holdout.value",
    "robust_top1_low_percent": "capture.holdout.low",
    "robust_top1_high_percent": "capture.holdout.high",
    "latency_median_ms": "latency.value",
    "latency_low_ms": "latency.low",
    "latency_high_ms": "latency.high",
    "latency_p90_ms": "latency_p90.value",
    "latency_provenance": "latency.provenance",
    "size_bytes": "size.value",
    "size_provenance": "size.provenance",
    "memory_bytes": "memory.value",
    "memory_provenance": "memory.provenance",
    "drop_points": "drop.value",
    "drop_low_points": "drop.low",
    "drop_high_points": "drop.high",
    "meets_budget": "",
    "contended": "contended",
    "artefact": "artefact",
    "artefact_sha256": "artefact_sha256",
    "metric": "",
    **{
        f"{part}{name.replace('-', '_')}_percent": f"{answers}.metrics.{name}.value"
        for part, answers in (("", "answers"), ("holdout_", "holdout_answers"))
        for name in METRICS
        if name != TOP1
    },
}
"""Columns of front.csv, each with the attribute of an evaluation that it holds, or empty. The columns of top-1 hold the
accuracy of the run, which ``metric`` names."""


REPORT_FILES = ("recommendation.json", "front.csv", "report.md", "report.html")


def report_folder(folder: Path, force: bool = False) -> Path:
    """Make the folder for the report files and return it.

    Raises:
        UsageError: it is a run folder or a file, it cannot be made, or it holds report files and ``force`` is not set.
    """
    if (folder / "request.yaml").exists():
        raise UsageError(
            f"--to: '{folder}' is a run folder, which keeps the report of its own question", "choose another folder"
        )
    ensure_output_dir(folder, REPORT_FILES, force)
    return folder


def write_all(view: RunView, folder: Path) -> tuple[Path, ...]:
    """Write all four files into ``folder``, each atomically; those for programs first, in case the page fails."""
    renderers = (recommendation_json, front_csv, render_markdown, render_html)
    paths = tuple(folder / name for name in REPORT_FILES)
    for path, render in zip(paths, renderers, strict=True):
        # Bytes of file names that are not text are written as escapes.
        write_atomically(path, render(view).encode("utf-8", "backslashreplace").decode("utf-8"))
    return paths


def recommendation_json(view: RunView) -> str:
    """Return the answer for programs: ``schema_version`` 1, figures in base units with their provenance."""
    return json.dumps(finite(recommendation(view)), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def recommendation(view: RunView) -> dict[str, object]:
    """Return the answer as plain values."""
    decision = view.decision
    return {
        "schema_version": SCHEMA_VERSION,
        "run": view.name,
        "unfinished": asdict(view.unfinished) if view.unfinished else None,
        "task": view.request.get("task"),
        "metric": view.metric,
        "budget": asdict(view.budget),
        "prefer": view.request.get("prefer") or "balanced",
        "feasible": decision.feasible,
        "probabilities": view.budget.probabilities(decision.pick) if decision.pick else {},
        "reason": decision.reason,
        "why_not_faster": decision.why_not_faster,
        "rule": decision.rule,
        "pick": evaluation_to_json(decision.pick) if decision.pick else None,
        "runner_up": _brief(decision.runner_up) if decision.runner_up else None,
        "runner_up_reason": decision.runner_up_reason,
        "incumbents": [_incumbent(each) for each in view.incumbents],
        "ties": [evaluation.configuration.key for evaluation in decision.ties],
        "chances": decision.chances,
        "flips": [asdict(flip) for flip in decision.flips],
        "relaxations": [asdict(relaxation) for relaxation in decision.relaxations],
        "loosenings": [asdict(loosening) for loosening in decision.loosenings],
        "fine_tuning": {**asdict(view.tuning), "command": view.tuning.command(view.folder)} if view.tuning else None,
        "front": [_brief(evaluation) for evaluation in decision.front],
        "risks": [asdict(risk) for risk in risks(view, decision.pick)] if decision.pick else [],
        "remarks": foreign_runtimes(view),
        "devices": {device: _device(own) for device, own in view.by_device.items()},
    }


def _incumbent(own: Incumbent) -> dict[str, object]:
    """Return a file that the user ships, and what the pick has more of accuracy on the same images."""
    points = own.points.to_json() if own.points else None
    return {
        "evaluation": _brief(own.evaluation),
        "picked": own.picked,
        "switching_points": points,
        "switching_part": own.part,
    }


def _device(decision: Decision) -> dict[str, object]:
    """Return the decision for one device alone."""
    return {
        "feasible": decision.feasible,
        "reason": decision.reason,
        "pick": _brief(decision.pick) if decision.pick else None,
        "runner_up": decision.runner_up.configuration.key if decision.runner_up else None,
        "relaxations": [asdict(relaxation) for relaxation in decision.relaxations],
        "front": [evaluation.configuration.key for evaluation in decision.front],
    }


def _brief(evaluation: Evaluation) -> dict[str, object]:
    """Return an evaluation without its answers by class and to unknown images, which only the pick has."""
    answers = ImageAnswers(file=evaluation.answers.file, metrics=evaluation.answers.metrics)
    judged = evaluation.holdout_answers
    held = ImageAnswers(metrics=judged.metrics) if judged and judged.metrics else None
    return evaluation_to_json(replace(evaluation, answers=answers, holdout_answers=held, unknown=None))


def front_csv(view: RunView) -> str:
    """Return the front, one line an evaluation, fastest first; a figure that is not known is an empty cell."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(FRONT)
    # The front of the answer comes first, then the rest of the fronts of single devices.
    decisions = (view.decision, *view.by_device.values())
    rows = {evaluation.configuration.key: evaluation for decision in decisions for evaluation in decision.front}
    for evaluation in rows.values():
        writer.writerow([spreadsheet(_front_cell(view, evaluation, column)) for column in FRONT])
    return buffer.getvalue()


def _front_cell(view: RunView, evaluation: Evaluation, column: str) -> object:
    if column == "role":
        return _role(view, evaluation.configuration.key)
    if column == "meets_budget":
        return str(view.budget.met_by(evaluation)).lower()
    if column == "metric":
        return view.metric
    value: Any = evaluation
    for name in FRONT[column].split("."):
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    if column in ("size_bytes", "memory_bytes") and value is not None:
        return round(value)
    return str(value).lower() if isinstance(value, bool) else value


def _role(view: RunView, key: str) -> str:
    if key == view.pick_key:
        return "pick" if view.decision.feasible else "least_bad"
    if key in view.device_picks:
        return "device_pick"
    return "tie" if key in view.tie_keys else "front"
