"""A run's artefacts measured again on this machine: after another runtime, or on another machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Evaluation, Status
from advisor.engine.execution.machine import Machine
from advisor.engine.history.input_spec import input_spec
from advisor.engine.history.loaded_run import LoadedRun
from advisor.engine.pipeline import accuracy, jobs
from advisor.engine.pipeline.context import Context, Images, versions
from advisor.engine.pipeline.stages import WORK_LIMITS, Artefact
from advisor.engine.pipeline.timing import Timer
from advisor.engine.space.candidates import read_images
from advisor.isolation import ChildPool
from advisor.isolation.cores import usable_cores
from advisor.isolation.coroutine import run_coroutine
from advisor.measurement import host
from advisor.store import ArtifactCache
from advisor.store.hashing import sha256_json
from advisor.store.integrity import artefact_flaw

Tell = Callable[[str], None]

RUNTIME = "ai-edge-litert"


def causes(run: LoadedRun) -> tuple[str, ...]:
    """Return what makes a run's measurements outdated: another runtime, another machine; empty where nothing does."""
    found = []
    then = versions_of(run).get(RUNTIME)
    now = versions(RUNTIME)[RUNTIME]
    if then is not None and then != now:
        found.append(f"{RUNTIME} {then} -> {now}")
    machine, here = _mapping(run.manifest.get("host")), host.describe()
    known = machine.get("fingerprint", here.fingerprint)
    if known != here.fingerprint:
        found.append(f"machine {machine.get('cpu')} ({known}) -> {here.cpu} ({here.fingerprint})")
    return tuple(found)


def environment() -> str:
    """Return the hash of what a measurement here rests on."""
    return sha256_json([versions(RUNTIME), host.describe().fingerprint])


def manifest_changes(former: Mapping[str, str]) -> dict[str, Any]:
    """Return the entries of the manifest that a run measured here and now has; ``former`` versions are kept."""
    return {"versions": {**former, **versions(RUNTIME)}, "host": host.describe().to_json()}


def versions_of(run: LoadedRun) -> Mapping[str, str]:
    """Return the versions that a run was made with, as far as its manifest says them."""
    return _mapping(run.manifest.get("versions"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def measure_again(run: LoadedRun, tell: Tell) -> tuple[tuple[Evaluation, ...], dict[str, list[int]], tuple[str, ...]]:
    """Time every artefact of the run again, and score it again where the pictures are as they were.

    Returns:
        The evaluations; the new answers on the hold-out by their path within the run; remarks.
    """
    images, remark = _same_images(run, tell)
    ok = [evaluation for evaluation in run.evaluations if evaluation.status is Status.OK]
    with TemporaryDirectory() as folder, ChildPool(Path(folder) / "log.txt") as pool:
        context = Context(
            question=replace(run.question, thread_counts=tuple(sorted({e.configuration.target.threads for e in ok}))),
            remeasure=run.request.execution.remeasure,
            images=None,
            cache=ArtifactCache(),
            machine=Machine(usable_cores()),
            heavy=pool,
            light=pool,
            notify=lambda _stage, subject, doing, _what: tell(f"{doing} {subject}"),
        )
        timed = run_coroutine(_time_all(run, context))
        answers = {} if images is None else _answers(run, images, pool, tell)
    scored = [_scored(e, answers, images) for e in timed]
    rest = [evaluation for evaluation in run.evaluations if evaluation.status is not Status.OK]
    named = {_answers_of(e): answers[e.artefact] for e in ok if e.artefact in answers and _answers_of(e)}
    return (*scored, *rest), named, (remark,) if remark else ()


def _answers_of(evaluation: Evaluation) -> str:
    """Return where the run keeps the artefact's answers on the hold-out, or nothing."""
    answers = evaluation.holdout_answers
    return answers.file if answers else ""


def _same_images(run: LoadedRun, tell: Tell) -> tuple[Images | None, str]:
    if run.question.data is None:
        return None, ""
    try:
        images = read_images(run.question, tell)
    except AdvisorError as error:
        return None, f"not scored again: {error.message}"
    if images is None or images.dataset.fingerprint != run.dataset.get("fingerprint"):
        return None, "not scored again: the pictures are no longer those of the run, which a new search would learn"
    return images, ""


async def _time_all(run: LoadedRun, context: Context) -> tuple[Evaluation, ...]:
    timer = Timer(context)
    return tuple([await _timed(run, timer, e) for e in run.evaluations if e.status is Status.OK])


async def _timed(run: LoadedRun, timer: Timer, evaluation: Evaluation) -> Evaluation:
    configuration = evaluation.configuration
    target = replace(configuration.target, runtime=f"{RUNTIME}=={versions(RUNTIME)[RUNTIME]}")
    moved = replace(evaluation, configuration=replace(configuration, target=target))
    flaw = artefact_flaw(run.folder, evaluation)
    if flaw is not None:
        return _failed(moved, str(flaw))
    size = int(evaluation.size.value) if evaluation.size else 0
    artefact = Artefact(run.folder.path / evaluation.artefact, evaluation.artefact_sha256, size, {})
    try:
        found = await timer.measure(artefact, target.threads, 0, configuration.card, configuration.compression)
    except AdvisorError as error:
        return _failed(moved, error.message)
    return replace(
        moved,
        latency=found.latency,
        latency_p90=found.latency_p90,
        memory=found.memory,
        contended=found.contended,
        timing=found.facts,
    )


def _failed(evaluation: Evaluation, reason: str) -> Evaluation:
    return replace(evaluation, status=Status.FAILED, stage="measure", reason=reason)


def _answers(run: LoadedRun, images: Images, pool: ChildPool, tell: Tell) -> dict[str, list[int]]:
    """Return the labels that each artefact predicts for the images of the hold-out.

    Only artefacts that were scored on the hold-out are scored again. The validation accuracy belongs to a file that a
    run does not keep: the same recipe fitted to fewer images.
    """
    found: dict[str, list[int]] = {}
    with TemporaryDirectory() as folder:
        place = Path(folder) / "probabilities.npy"
        for evaluation in run.evaluations:
            usable = evaluation.status is Status.OK and artefact_flaw(run.folder, evaluation) is None
            if usable and evaluation.holdout_accuracy is not None and evaluation.artefact not in found:
                tell(f"scoring {evaluation.configuration.card} {evaluation.configuration.compression}")
                view = input_spec(evaluation)
                path = run.folder.path / evaluation.artefact
                pool.call(f"{jobs.__name__}:score", path, images.holdout.paths, view, place, limits=WORK_LIMITS)
                found[evaluation.artefact] = list(accuracy.read_answers(place))
    return found


def _scored(
    evaluation: Evaluation,
    answers: Mapping[str, list[int]],
    images: Images | None,
) -> Evaluation:
    own = answers.get(evaluation.artefact)
    if own is None or images is None:
        return evaluation
    labels, classes = images.holdout.labels, images.classes
    right = [answer == label for answer, label in zip(own, labels, strict=True)]
    found = accuracy.per_class(own, labels, classes, _answers_of(evaluation))
    again = accuracy.share_of(right, accuracy.HELD_OUT)
    return replace(evaluation, holdout_accuracy=again, holdout_answers=found)
