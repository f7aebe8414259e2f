"""Load a run and decide anew, under its own limits or others.

Every command on a finished run begins with ``LoadedRun.load``: reports, comparisons, exports and
re-evaluations. Damaged and changed files are left out, and ``problems`` names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from advisor.core import Decision, Evaluation, Status, UsageError
from advisor.datasets import InputSpec
from advisor.engine._decide import decide_run
from advisor.engine._history.run_inputs import (
    images_folder,
    locate_paths,
    read_section,
    read_stored_request,
)
from advisor.engine._question import Question, Request, resolve
from advisor.store import SEAL, Problem, RunFolder

PATHS = ("data", "profiles", "catalog")
"""Options of the question that name files."""


@dataclass(frozen=True)
class LoadedRun:
    """The content of a run folder, and the decision over it.

    Attributes:
        folder: the run folder.
        request: what was asked, with the limits that the decision was made under.
        manifest: empty where it is missing, damaged or changed.
        dataset: the same of ``dataset.json``.
        evaluations: the last one of each configuration.
        decision: the one model for all devices.
        by_device: the decision for each of several devices.
        own_question: the limits are those that the run was asked with.
        changes: the options that replaced those of the run, by name.
        problems: what does not prove itself, see :meth:`Problem.list_in_seal`.
    """

    folder: RunFolder
    request: Request
    manifest: Mapping[str, Any]
    dataset: Mapping[str, Any]
    evaluations: tuple[Evaluation, ...]
    decision: Decision
    by_device: Mapping[str, Decision] = field(default_factory=dict)
    own_question: bool = True
    changes: Mapping[str, object] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.path.name

    @property
    def images_folder(self) -> Path:
        """The folder that the paths of the images in ``split.json`` are relative to."""
        return images_folder(self.folder)

    @property
    def question(self) -> Question:
        """The question, with the limits that the decision was made under."""
        return self.request.question

    @property
    def too_early(self) -> str:
        """A sentence that a time limit or an interruption ended the search before its first
        result; empty if there is one.
        """
        has_result = any(evaluation.status != Status.SKIPPED for evaluation in self.evaluations)
        if has_result or "reevaluated" in self.manifest:
            return ""
        stopped = read_section(self.manifest, "stopped")
        reason = stopped.get("why")
        # The manifest is written before the first job and once more at the end.
        # Without a reason, the search was killed.
        was_killed = "why" not in stopped and (
            not self.manifest or "configurations" in self.manifest
        )
        if reason == "time_limit":
            ended = "Time ran out"
            advice = "Give it more time, or continue it."
        elif reason == "interrupt" or was_killed:
            ended = "The search ended"
            advice = "Continue it."
        else:
            return ""
        return f"{ended} before the first result, so nothing is known about the limits. {advice}"

    def require_proof(self, beside: tuple[str, ...] = ()) -> None:
        """Refuse a run that has changed since it was written;
        files that begin with ``beside`` may have.
        """
        for problem in self.problems:
            may_change = problem.is_of_report or problem.file.startswith(beside)
            if problem.is_change and not may_change:
                raise UsageError(
                    f"'{self.folder.path}' does not prove itself: {problem}",
                    f"advisor doctor {self.folder.path} names all that does not fit; restore the"
                    " run, or search again",
                )

    @classmethod
    def load(
        cls, run: Path | str | RunFolder, changes: Mapping[str, object] | None = None
    ) -> LoadedRun:
        """Load a run folder, complete or not, and decide;
        refuse a damaged request or one of another version.

        ``changes`` are options of the request to change, such as ``{"budget": "30ms"}``;
        None values change nothing.
        """
        folder = run if isinstance(run, RunFolder) else RunFolder.open(Path(run))
        stored = _read_request(folder)
        changes = changes or {}
        request = _change_request(stored, changes)
        question = request.question
        evaluations = _with_required(folder.evaluations(), question)
        answer = decide_run(folder, evaluations, question)
        loaded = cls(
            folder=folder,
            request=request,
            manifest=_without_version(folder.read_json("manifest.json")),
            dataset=_without_version(folder.read_json("dataset.json")),
            evaluations=answer.evaluations,
            decision=answer.decision,
            by_device=answer.by_device,
            own_question=_list_deciding(question) == _list_deciding(stored.question),
            changes={name: value for name, value in changes.items() if value is not None},
            problems=tuple(Problem.list_in_seal(folder)),
        )
        early = loaded.too_early
        if early:
            return replace(loaded, decision=replace(loaded.decision, reason=early))
        return loaded


def _read_request(folder: RunFolder) -> Request:
    """Return the request of a run with paths that can be opened;
    UsageError if it is damaged or of another version.
    """
    try:
        request = resolve(_without_version(read_stored_request(folder)))
    except UsageError as error:
        raise UsageError(
            f"the request of '{folder.path}' is damaged or of another version: {error.message}",
            "correct its request.yaml, or open it with the version that wrote it (manifest.json"
            " names it)",
        ) from None
    return locate_paths(request, folder)


def _change_request(stored: Request, changes: Mapping[str, object]) -> Request:
    """Return a request with the options that have another value than None;
    paths that stay were found already.
    """
    changed = {name: value for name, value in changes.items() if value is not None}
    if not changed:
        return stored
    request = resolve({**stored.written, **changed})
    located = dict[str, Any]()
    # The written paths count from the folder of the search, which may be another one than here.
    for name in PATHS:
        if name not in changed:
            located[name] = getattr(stored.question, name)
    return replace(request, question=replace(request.question, **located))


def _list_deciding(question: Question) -> tuple[object, ...]:
    """Return the parts of a question that the decision over given evaluations depends on."""
    return question.limits, question.preference, question.fleet


def _with_required(
    evaluations: tuple[Evaluation, ...], question: Question
) -> tuple[Evaluation, ...]:
    """Return the evaluations, with predictions on required devices for which the run has no
    evaluations.
    """
    known = {evaluation.configuration.target.device for evaluation in evaluations}
    missing = [device for device in question.limits.must_run_on if device not in known]
    has_files = any(evaluation.status is Status.OK for evaluation in evaluations)
    if not missing or not has_files:
        return evaluations
    from advisor.engine._targets.device_prediction import DevicePredictor
    from advisor.engine._targets.target_devices import TargetDevice

    devices = TargetDevice.select(missing, question.profiles, "--must-run-on")
    for device in devices:
        if device.runtime is not None:
            raise UsageError(
                f"--must-run-on: the run has no measurements with '{device.label}'",
                f"measure its files first: advisor reevaluate runs/latest --device {device.label}",
            )
    predictor = DevicePredictor()
    limits = question.limits
    predicted = list[Evaluation]()
    for device in devices:
        predicted += predictor.evaluate(evaluations, device, limits.latency_ms, limits.confidence)
    return (*evaluations, *predicted)


def _without_version(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document of a run without the entries that belong to the file alone."""
    return {key: value for key, value in document.items() if key not in ("schema_version", SEAL)}


def input_spec(evaluation: Evaluation) -> InputSpec:
    """Return size and normalisation of the model's input;
    ValueError if the evaluation does not know them.
    """
    size = evaluation.card_facts.input_size
    preprocessing = evaluation.card_facts.preprocessing
    if size is None or preprocessing is None:
        raise ValueError(
            f"the run does not say how {evaluation.configuration.card} takes its images"
        )
    return InputSpec(size, preprocessing.mean, preprocessing.std)
