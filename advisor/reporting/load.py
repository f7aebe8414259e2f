"""Read a run folder for the reports; the decision is computed again from the evaluations."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.compression.diagnosis.values import Diagnosis
from advisor.core.decision import Decision
from advisor.engine.history.diagnoses import FILE as DIAGNOSES
from advisor.engine.history.loaded_run import LoadedRun, load_run
from advisor.reporting.view import DatasetSummary, RejectedImage, RunView
from advisor.store import RunFolder


def load_view(run: RunFolder, changes: Mapping[str, Any] | None = None) -> RunView:
    """Read a run folder, however far it came, and decide; see :func:`advisor.engine.history.loaded_run.load_run`.

    Raises:
        UsageError: its request is damaged, or a change is not valid.
    """
    return view_of(load_run(run.path, changes))


def view_of(stored: LoadedRun) -> RunView:
    """Return the content of the reports of a run."""
    folder = _typed(stored.folder.path)
    request = stored.request.written
    return RunView(
        name=stored.name,
        request=request,
        manifest=stored.manifest,
        budget=stored.question.limits,
        evaluations=stored.evaluations,
        decision=stored.decision,
        by_device=stored.by_device,
        dataset=_dataset(stored.dataset),
        folder=folder,
        next_command=_next(folder, stored),
        diagnoses=_diagnoses(stored.folder),
    )


def _dataset(stored: Mapping[str, Any]) -> DatasetSummary | None:
    try:
        return DatasetSummary(
            folder=stored["folder"],
            images_per_class=stored["pictures_per_class"],
            train=stored["train"],
            holdout=stored["holdout"],
            rejected=tuple(RejectedImage(row["path"], row["reason"]) for row in stored["rejected"]),
            fingerprint=stored["fingerprint"],
            validation=stored["validation"],
            own_split=tuple(stored["own_split"]),
            leaks=len(stored["leaks"]),
        )
    except (KeyError, TypeError):
        return None


def _diagnoses(folder: RunFolder) -> dict[str, Diagnosis]:
    """Return the diagnoses of compressed files; nothing where they are missing or of another version."""
    try:
        rows = folder.read_json(DIAGNOSES).get("forms") or []
        return {str(row["key"]): Diagnosis.from_json(row["diagnosis"]) for row in rows}
    except (KeyError, TypeError, ValueError):
        return {}


def _typed(path: Path) -> str:
    """Return the path relative to the working directory, as the user would type it."""
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else str(path)


def _next(folder: str, stored: LoadedRun) -> str:
    """Return the command to run next: for a changed question, the export of its answer."""
    pick = stored.decision.pick
    if stored.own_question or pick is None or not stored.decision.feasible:
        return _next_command(folder, stored.question.data is not None, stored.decision)
    return f"advisor export {folder} --pick {pick.configuration.key} --to bundle"


def _next_command(folder: str, with_data: bool, decision: Decision) -> str:
    """Return the command to run next: open the report, or search with a limit that can be met."""
    options = {"latency": "--budget", "size": "--size-budget", "drop": "--max-drop", "memory": "--memory-budget"}
    for relaxation in decision.relaxations:
        if relaxation.limit in options:
            needed = relaxation.needed.replace(" points", "pt").replace(" ", "")
            return f"advisor search --request {folder}/request.yaml {options[relaxation.limit]} {needed}"
    pick = decision.pick
    if pick is not None and pick.card_facts.lacks_weights:
        return f"advisor catalog show {pick.configuration.card}"
    if not with_data and decision.feasible:
        return f"advisor search --request {folder}/request.yaml --data YOUR_IMAGES"
    opener = {"darwin": "open", "win32": "start"}.get(sys.platform, "xdg-open")
    return f"{opener} {folder}/report.html"
