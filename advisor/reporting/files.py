"""Report files of a run: recommendation.json, front.csv, report.md and report.html."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, replace
from pathlib import Path

from advisor.core.decision import Decision
from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import ImageAnswers
from advisor.core.evaluation_json import evaluation_to_json
from advisor.core.quantity import Quantity
from advisor.reporting.escape import finite, spreadsheet
from advisor.reporting.markdown import render_markdown
from advisor.reporting.risks import risks
from advisor.reporting.view import RunView
from advisor.store.files import write_atomically

SCHEMA_VERSION = 1
"""Of recommendation.json and of front.csv's columns; raised when either changes its meaning."""

FRONT_COLUMNS = (
    "key",
    "role",
    "card",
    "family",
    "training",
    "compression",
    "device",
    "runtime",
    "accelerator",
    "threads",
    "top1_percent",
    "top1_low_percent",
    "top1_high_percent",
    "top1_provenance",
    "holdout_top1_percent",
    "holdout_top1_low_percent",
    "holdout_top1_high_percent",
    "robust_top1_percent",
    "robust_top1_low_percent",
    "robust_top1_high_percent",
    "latency_median_ms",
    "latency_low_ms",
    "latency_high_ms",
    "latency_p90_ms",
    "latency_provenance",
    "size_bytes",
    "size_provenance",
    "memory_bytes",
    "memory_provenance",
    "drop_points",
    "drop_low_points",
    "drop_high_points",
    "meets_budget",
    "contended",
    "artefact",
    "artefact_sha256",
)


def write_all(view: RunView, folder: Path) -> tuple[Path, ...]:
    """Write all four files into ``folder``, each atomically; those for programs first, in case the page fails."""
    written = (
        _write(folder / "recommendation.json", recommendation_json(view)),
        _write(folder / "front.csv", front_csv(view)),
        _write(folder / "report.md", render_markdown(view)),
    )
    from advisor.reporting.html import render_html

    return (*written, _write(folder / "report.html", render_html(view)))


def _write(path: Path, content: str) -> Path:
    """Write a file; bytes in file names that are not text are written as escapes."""
    write_atomically(path, content.encode("utf-8", "backslashreplace").decode("utf-8"))
    return path


def recommendation_json(view: RunView) -> str:
    """Return the answer for programs: ``schema_version`` 1, figures in base units with their provenance."""
    return json.dumps(finite(recommendation(view)), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def recommendation(view: RunView) -> dict[str, object]:
    """Return the answer as plain values."""
    decision = view.decision
    return {
        "schema_version": SCHEMA_VERSION,
        "run": view.name,
        "task": view.request.get("task"),
        "budget": asdict(view.budget),
        "prefer": view.request.get("prefer") or "balanced",
        "feasible": decision.feasible,
        "reason": decision.reason,
        "pick": evaluation_to_json(decision.pick) if decision.pick else None,
        "runner_up": _brief(decision.runner_up) if decision.runner_up else None,
        "runner_up_reason": decision.runner_up_reason,
        "ties": [evaluation.configuration.key for evaluation in decision.ties],
        "flips": [asdict(flip) for flip in decision.flips],
        "relaxations": [asdict(relaxation) for relaxation in decision.relaxations],
        "front": [_brief(evaluation) for evaluation in decision.front],
        "risks": [asdict(risk) for risk in risks(view, decision.pick)] if decision.pick else [],
        "devices": {device: _device(own) for device, own in view.by_device.items()},
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
    """Return an evaluation without its answers by class, which recommendation.json has for the pick alone."""
    answers = ImageAnswers(file=evaluation.answers.file)
    return evaluation_to_json(replace(evaluation, answers=answers, holdout_answers=None))


def front_csv(view: RunView) -> str:
    """Return the front, one line an evaluation, fastest first; a figure that is not known is an empty cell."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(FRONT_COLUMNS)
    for evaluation in _fronts(view):
        writer.writerow([spreadsheet(value) for value in _front_row(view, evaluation)])
    return buffer.getvalue()


def _fronts(view: RunView) -> tuple[Evaluation, ...]:
    """Return the front of the answer, then the rest of the fronts of single devices."""
    decisions = (view.decision, *view.by_device.values())
    found = {evaluation.configuration.key: evaluation for own in decisions for evaluation in own.front}
    return tuple(found.values())


def _front_row(view: RunView, evaluation: Evaluation) -> list[object]:
    configuration = evaluation.configuration
    target = configuration.target
    accuracy, latency, drop = evaluation.accuracy, evaluation.latency, evaluation.drop
    return [
        configuration.key,
        _role(view, configuration.key),
        configuration.card,
        evaluation.family,
        configuration.training,
        configuration.compression,
        target.device,
        target.runtime,
        target.accelerator,
        target.threads,
        *_with_ends(accuracy),
        _origin(accuracy),
        *_with_ends(evaluation.holdout_accuracy),
        *_with_ends(evaluation.capture.holdout),
        *_with_ends(latency),
        evaluation.latency_p90.value if evaluation.latency_p90 else None,
        _origin(latency),
        *_bytes(evaluation.size),
        *_bytes(evaluation.memory),
        *_with_ends(drop),
        str(view.budget.met_by(evaluation)).lower(),
        str(evaluation.contended).lower(),
        evaluation.artefact,
        evaluation.artefact_sha256,
    ]


def _role(view: RunView, key: str) -> str:
    if key == view.pick_key:
        return "pick" if view.decision.feasible else "least_bad"
    if key in view.device_picks:
        return "device_pick"
    return "tie" if key in view.tie_keys else "front"


def _with_ends(quantity: Quantity | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if quantity is None else (quantity.value, quantity.low, quantity.high)


def _origin(quantity: Quantity | None) -> str:
    return "" if quantity is None else quantity.provenance.value


def _bytes(quantity: Quantity | None) -> tuple[int | None, str]:
    return (None, "") if quantity is None else (round(quantity.value), quantity.provenance.value)
