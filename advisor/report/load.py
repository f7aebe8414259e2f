"""From a run folder to what the reports show; the decision is computed anew from the evaluations."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
        next_command=_next_command(folder, bool(request.data)),
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


def _next_command(folder: str, with_data: bool) -> str:
    if not with_data:
        return "advisor search --data YOUR_PICTURES --budget ...   # the same on your own pictures"
    return f"open {folder}/report.html"
