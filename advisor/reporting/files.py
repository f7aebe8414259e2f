"""Report files of a run: recommendation.json, front.csv, front.parquet, report.md and report.html."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from advisor.core.decision import Decision
from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import ImageAnswers
from advisor.core.evaluation_json import evaluation_to_json
from advisor.engine.history.incumbents import Incumbent
from advisor.isolation import Scratch
from advisor.reporting.device_results import foreign_runtimes
from advisor.reporting.frames import COLUMNS, AnswerRows, chosen, front_frame
from advisor.reporting.html import render_html
from advisor.reporting.markdown import render_markdown
from advisor.reporting.risks import risks
from advisor.reporting.text import finite, spreadsheet
from advisor.reporting.view import RunView
from advisor.store.files import ensure_output_dir, write_atomically

PARQUET = "front.parquet"
SCHEMA_VERSION = 1
"""Of recommendation.json and of front.csv's columns; raised when either changes its meaning."""


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
    """Write all files into ``folder``, each atomically; those for programs first, in case the page fails.

    ``front.parquet`` is left out if the package that writes it is not installed.
    """
    names = tuple(name for name in REPORT_FILES if name != PARQUET or find_spec("fastparquet"))
    for name in names:
        content = RENDERERS[name](view)
        # Bytes of file names that are not text are written as escapes.
        data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
        write_atomically(folder / name, data)
    return tuple(folder / name for name in names)


def recommendation_json(view: RunView) -> str:
    """Return the answer for programs: ``schema_version`` 1, figures in base units with their provenance."""
    return json.dumps(finite(recommendation(view)), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def recommendation(view: RunView, rows: AnswerRows | None = None) -> dict[str, object]:
    """Return the answer as plain values; ``rows`` says which ones of the front, and in which order."""
    decision = view.decision
    return {
        "schema_version": SCHEMA_VERSION,
        "run": view.name,
        "unfinished": asdict(view.unfinished) if view.unfinished else None,
        "task": view.request.question.task,
        "metric": view.metric,
        "budget": asdict(view.budget),
        "prefer": view.request.written["prefer"] or "balanced",
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
        "front": [_brief(evaluation) for evaluation in chosen(view, decision.front, rows)],
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
    writer.writerow(COLUMNS)
    writer.writerows([_cell(value) for value in row] for row in front_frame(view).itertuples(index=False))
    return buffer.getvalue()


def _cell(value: Any) -> object:
    import pandas as pd

    if pd.isna(value):
        return ""
    return str(value).lower() if isinstance(value, bool) else spreadsheet(value)


def front_parquet(view: RunView) -> bytes:
    """Return the table of :func:`front_csv` as a Parquet file, which keeps the types of its columns."""
    from fastparquet import write

    with Scratch() as folder:
        write(str(folder / PARQUET), front_frame(view), object_encoding="utf8")
        return (folder / PARQUET).read_bytes()


RENDERERS: Mapping[str, Callable[[RunView], str | bytes]] = {
    "recommendation.json": recommendation_json,
    "front.csv": front_csv,
    PARQUET: front_parquet,
    "report.md": render_markdown,
    "report.html": render_html,
}
REPORT_FILES = tuple(RENDERERS)
