"""A finished or interrupted run as a value, decided anew: with its own question, or with another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from advisor.core.decision import Decision
from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation
from advisor.core.preference import BALANCED, Preference
from advisor.devices.profiles import HOST
from advisor.search.conclude import conclude
from advisor.search.request import Request, resolve
from advisor.store import RunFolder


@dataclass(frozen=True)
class StoredRun:
    """What a run folder says, and what follows from it.

    Attributes:
        folder: the run folder.
        request: the question, with the limits that the decision was made under.
        manifest: versions, host, weights, ...; empty where it is missing or damaged.
        dataset: the pictures in figures; empty without pictures.
        evaluations: the last one of each configuration.
        preference: what counted.
        decision: the answer, computed now.
        own_question: limits and preference are those that the run was asked with.
    """

    folder: RunFolder
    request: Request
    manifest: Mapping[str, Any]
    dataset: Mapping[str, Any]
    evaluations: tuple[Evaluation, ...]
    preference: Preference
    decision: Decision
    own_question: bool = True

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.path.name


def read_run(
    path: Path | str, changes: Mapping[str, Any] | None = None, preference: Preference = BALANCED
) -> StoredRun:
    """Read a run folder, however far it came, and decide.

    Args:
        path: the folder, such as ``runs/latest``.
        changes: options of the request to change, such as ``{"budget": "30ms"}``; None values change nothing.
        preference: what counts among those that meet the budget.

    Raises:
        UsageError: not a run folder, its request is damaged or of another version, or a change is not valid.
    """
    folder = RunFolder.open(Path(path))
    stored = {key: value for key, value in folder.read_request().items() if key != "schema_version"}
    request = _resolved(folder, stored)
    wanted = {key: value for key, value in (changes or {}).items() if value is not None}
    if wanted:
        request = replace(resolve({**request.to_dict(), "device": HOST, **wanted}), device=request.device)
    evaluations = folder.evaluations()
    return StoredRun(
        folder=folder,
        request=request,
        manifest=_without_version(folder.read_json("manifest.json")),
        dataset=_without_version(folder.read_json("dataset.json")),
        evaluations=evaluations,
        preference=preference,
        decision=conclude(folder, evaluations, request.limits, preference),
        own_question=not wanted and preference == BALANCED,
    )


def _resolved(folder: RunFolder, stored: Mapping[str, Any]) -> Request:
    device = str(stored.get("device") or HOST)
    try:
        # A run that was evaluated again may be for a device that no search can measure on.
        return replace(resolve({**stored, "device": HOST}), device=device)
    except UsageError as error:
        raise UsageError(
            f"the request of '{folder.path}' is damaged or of another version: {error.message}",
            "correct its request.yaml, or open it with the version that wrote it (manifest.json names it)",
        ) from None


def _without_version(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != "schema_version"}
