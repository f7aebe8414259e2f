"""Measure a run's artefacts again on this machine, after the runtime or the machine changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Evaluation, Status
from advisor.engine.execution.machine import Machine
from advisor.engine.history.documents import section
from advisor.engine.history.input_spec import input_spec
from advisor.engine.history.loaded_run import LoadedRun
from advisor.engine.pipeline import accuracy, jobs
from advisor.engine.pipeline.context import Context, Images, versions
from advisor.engine.pipeline.stages import WORK_LIMITS, Artefact
from advisor.engine.pipeline.timing import Timer
from advisor.engine.space.candidates import RUNTIME, read_images, runtime_version
from advisor.isolation import ChildPool
from advisor.isolation.cores import usable_cores
from advisor.isolation.coroutine import run_coroutine
from advisor.measurement import host
from advisor.store import ArtifactCache
from advisor.store.hashing import sha256_json
from advisor.store.integrity import artefact_flaw

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Remeasured:
    """A run's evaluations, measured again.

    Attributes:
        evaluations: all of them.
        answers: new answers on the hold-out, by their path within the run.
        remarks: what could not be done.
    """

    evaluations: tuple[Evaluation, ...]
    answers: Mapping[str, list[int]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def find_host_changes(run: LoadedRun) -> tuple[str, ...]:
    """Return why the measurements of a run are outdated, in words; empty where they are not."""
    changes = []
    then, now = section(run.manifest, "versions").get(RUNTIME), versions(RUNTIME)[RUNTIME]
    if then is not None and then != now:
        changes.append(f"{RUNTIME} {then} -> {now}")
    before, here = section(run.manifest, "host"), host.describe()
    fingerprint = before.get("fingerprint", here.fingerprint)
    if fingerprint != here.fingerprint:
        changes.append(f"machine {before.get('cpu')} ({fingerprint}) -> {here.cpu} ({here.fingerprint})")
    return tuple(changes)


def host_environment() -> str:
    """Return the hash of what a measurement on this machine depends on."""
    return sha256_json([versions(RUNTIME), host.describe().fingerprint])


def host_manifest(versions_before: Mapping[str, str]) -> dict[str, Any]:
    """Return the entries of the manifest about this machine and its runtime; other versions stay as they were."""
    return {"versions": {**versions_before, **versions(RUNTIME)}, "host": host.describe().to_json()}


def remeasure(run: LoadedRun, tell: Tell) -> Remeasured:
    """Time every artefact of the run again, and score it again where the images are the same."""
    images, remark = _same_images(run, tell)
    succeeded = [evaluation for evaluation in run.evaluations if evaluation.status is Status.OK]
    others = [evaluation for evaluation in run.evaluations if evaluation.status is not Status.OK]
    with TemporaryDirectory() as folder, ChildPool(Path(folder) / "log.txt") as pool:
        timed = run_coroutine(_time_all(run, succeeded, _context(run, succeeded, pool, tell)))
        answers = {} if images is None else _answer_holdout(run, images, pool, tell)
    scored = [_with_accuracy(e, answers[e.artefact], images) if images and e.artefact in answers else e for e in timed]
    kept = {e.holdout_answers.file: answers[e.artefact] for e in scored if e.artefact in answers and e.holdout_answers}
    kept.pop("", None)
    return Remeasured((*scored, *others), kept, (remark,) if remark else ())


def _context(run: LoadedRun, evaluations: list[Evaluation], pool: ChildPool, tell: Tell) -> Context:
    thread_counts = tuple(sorted({evaluation.configuration.target.threads for evaluation in evaluations}))
    return Context(
        question=replace(run.question, thread_counts=thread_counts),
        remeasure=run.request.execution.remeasure,
        images=None,
        cache=ArtifactCache(),
        machine=Machine(usable_cores()),
        heavy=pool,
        light=pool,
        notify=lambda _stage, subject, doing, _what: tell(f"{doing} {subject}"),
    )


def _same_images(run: LoadedRun, tell: Tell) -> tuple[Images | None, str]:
    """Return the run's images, or None and the reason where they are gone or changed."""
    if run.question.data is None:
        return None, ""
    try:
        images = read_images(run.question, tell)
    except AdvisorError as error:
        return None, f"not scored again: {error.message}"
    if images is None or images.dataset.fingerprint != run.dataset.get("fingerprint"):
        return None, "not scored again: the images have changed since the run; a new search would learn from them"
    return images, ""


async def _time_all(run: LoadedRun, evaluations: list[Evaluation], context: Context) -> list[Evaluation]:
    timer = Timer(context)
    return [await _time_one(run, timer, evaluation) for evaluation in evaluations]


async def _time_one(run: LoadedRun, timer: Timer, evaluation: Evaluation) -> Evaluation:
    configuration = evaluation.configuration
    target = replace(configuration.target, runtime=runtime_version())
    moved = replace(evaluation, configuration=replace(configuration, target=target))
    flaw = artefact_flaw(run.folder, evaluation)
    if flaw is not None:
        return _failed(moved, str(flaw))
    size = int(evaluation.size.value) if evaluation.size else 0
    artefact = Artefact(run.folder.path / evaluation.artefact, evaluation.artefact_sha256, size, {})
    try:
        timing = await timer.measure(artefact, target.threads, 0, configuration.card, configuration.compression)
    except AdvisorError as error:
        return _failed(moved, error.message)
    return replace(
        moved,
        latency=timing.latency,
        latency_p90=timing.latency_p90,
        memory=timing.memory,
        contended=timing.contended,
        timing=timing.facts,
    )


def _failed(evaluation: Evaluation, reason: str) -> Evaluation:
    return replace(evaluation, status=Status.FAILED, stage="measure", reason=reason)


def _answer_holdout(run: LoadedRun, images: Images, pool: ChildPool, tell: Tell) -> dict[str, list[int]]:
    """Return the labels that each artefact predicts for the images of the hold-out, by artefact.

    Only artefacts that were scored on the hold-out are scored again. The validation accuracy belongs to a file that a
    run does not keep: the same recipe fitted to fewer images.
    """
    answers: dict[str, list[int]] = {}
    with TemporaryDirectory() as folder:
        probabilities = Path(folder) / "probabilities.npy"
        for evaluation in run.evaluations:
            usable = evaluation.status is Status.OK and artefact_flaw(run.folder, evaluation) is None
            if usable and evaluation.holdout_accuracy is not None and evaluation.artefact not in answers:
                tell(f"scoring {evaluation.configuration.card} {evaluation.configuration.compression}")
                paths, spec = images.holdout.paths, input_spec(evaluation)
                path = run.folder.path / evaluation.artefact
                pool.call(f"{jobs.__name__}:score", path, paths, spec, probabilities, limits=WORK_LIMITS)
                answers[evaluation.artefact] = list(accuracy.read_answers(probabilities))
    return answers


def _with_accuracy(evaluation: Evaluation, answers: list[int], images: Images) -> Evaluation:
    labels = images.holdout.labels
    correct = [answer == label for answer, label in zip(answers, labels, strict=True)]
    file = evaluation.holdout_answers.file if evaluation.holdout_answers else ""
    return replace(
        evaluation,
        holdout_accuracy=accuracy.share_of(correct, accuracy.HELD_OUT),
        holdout_answers=accuracy.per_class(answers, labels, images.classes, file),
    )
