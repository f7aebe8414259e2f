"""From a run folder to what the reports show; the decision is computed anew from the evaluations."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.core.decision import Decision
from advisor.report.view import DatasetSummary, RejectedPicture, RunView
from advisor.search.conclude import conclude
from advisor.search.request import resolve
from advisor.store import RunFolder


def load_view(run: RunFolder) -> RunView:
    """Read a run folder, however far it came, and decide.

    Raises:
        UsageError: its request is damaged.
    """
    stored = run.read_request()
    request = resolve({key: value for key, value in stored.items() if key != "schema_version"})
    evaluations = run.evaluations()
    folder = _typed(run.path)
    decision = conclude(run, evaluations, request.limits)
    return RunView(
        name=run.path.name,
        request=request.to_dict(),
        manifest={key: value for key, value in run.read_json("manifest.json").items() if key != "schema_version"},
        budget=request.limits,
        evaluations=evaluations,
        decision=decision,
        dataset=_dataset(run.read_json("dataset.json")),
        folder=folder,
        next_command=_next_command(folder, bool(request.data), decision),
    )


def _dataset(stored: Mapping[str, Any]) -> DatasetSummary | None:
    if not stored:
        return None
    return DatasetSummary(
        folder=stored["folder"],
        pictures_per_class=stored["pictures_per_class"],
        train=stored["train"],
        holdout=stored["holdout"],
        rejected=tuple(RejectedPicture(row["path"], row["reason"]) for row in stored["rejected"]),
        fingerprint=stored["fingerprint"],
    )


def _typed(path: Path) -> str:
    """Return the path as the user would type it from here."""
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else str(path)


def _next_command(folder: str, with_data: bool, decision: Decision) -> str:
    """Return what to type next: look at the answer, or ask the question that has one."""
    options = {"latency": "--budget", "size": "--size-budget", "drop": "--max-drop", "memory": "--memory-budget"}
    for relaxation in decision.relaxations:
        if relaxation.limit in options:
            needed = relaxation.needed.replace(" points", "pt").replace(" ", "")
            return f"advisor search --request {folder}/request.yaml {options[relaxation.limit]} {needed}"
    if not with_data and decision.feasible:
        return f"advisor search --request {folder}/request.yaml --data YOUR_PICTURES"
    opener = {"darwin": "open", "win32": "start"}.get(sys.platform, "xdg-open")
    return f"{opener} {folder}/report.html"
