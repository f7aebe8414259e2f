"""What is wrong with a run folder: files that are damaged, missing or not those that the run wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from advisor.core.evaluation import Evaluation, Status
from advisor.store.hashing import sha256_file
from advisor.store.run_folder import SCHEMA_VERSION, RunFolder

DOCUMENTS = ("manifest.json", "dataset.json", "split.json")


@dataclass(frozen=True)
class Flaw:
    """One thing that is wrong.

    Attributes:
        file: path within the run folder.
        what: what is wrong with it, and what that costs.
    """

    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file} {self.what}"


def find_flaws(run: RunFolder, artefacts: bool = True) -> tuple[Flaw, ...]:
    """Look the whole run over; what is not named here can be relied on.

    Args:
        run: the run.
        artefacts: also hash every artefact (a second a gigabyte).
    """
    found = [flaw for name in DOCUMENTS for flaw in _document(run, name)]
    found += _lines(run)
    evaluations = [evaluation for evaluation in run.evaluations() if evaluation.status is Status.OK]
    found += _answers(run, evaluations)
    return (*found, *(_artefacts(run, evaluations) if artefacts else ()))


def artefact_flaw(run: RunFolder, evaluation: Evaluation) -> Flaw | None:
    """Return what is wrong with the artefact of one evaluation, or None."""
    if not evaluation.artefact:
        return Flaw("evaluations.jsonl", f"names no artefact for {evaluation.configuration.key}")
    path = run.path / evaluation.artefact
    if not path.resolve().is_relative_to(run.path.resolve()):
        return Flaw(evaluation.artefact, "lies outside the run folder: it is not read")
    if not path.is_file():
        return Flaw(evaluation.artefact, "is missing: it cannot be shipped or measured again")
    if sha256_file(path) != evaluation.artefact_sha256:
        return Flaw(evaluation.artefact, "was changed since it was measured (its hash differs): it is not used")
    return None


def _document(run: RunFolder, name: str) -> Iterator[Flaw]:
    path = run.path / name
    if not path.is_file():
        if name == "manifest.json":
            yield Flaw(name, "is missing: versions, host and weights are not known")
        return
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        yield Flaw(name, "is damaged: what it says is left out")
        return
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version != SCHEMA_VERSION:
        yield Flaw(name, f"is of schema {version}, not {SCHEMA_VERSION}: what it says may be misread")


def _lines(run: RunFolder) -> Iterator[Flaw]:
    name = run.evaluations_file.name
    if not run.evaluations_file.is_file():
        yield Flaw(name, "is missing: nothing was evaluated")
        return
    unread = run.unread_lines()
    if unread:
        yield Flaw(name, f"has {unread} unreadable line{'s'[: unread > 1]}: left out")


def _answers(run: RunFolder, evaluations: list[Evaluation]) -> Iterator[Flaw]:
    for name in sorted({evaluation.answers.file for evaluation in evaluations} - {""}):
        if not (run.path / name).is_file():
            yield Flaw(name, "is missing: ties are told from intervals, not picture by picture")


def _artefacts(run: RunFolder, evaluations: list[Evaluation]) -> Iterator[Flaw]:
    for evaluation in {e.artefact: e for e in evaluations if e.artefact}.values():
        flaw = artefact_flaw(run, evaluation)
        if flaw:
            yield flaw
