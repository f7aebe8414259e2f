"""Measure a run's artefacts again on this machine, after the runtime or the machine changed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Evaluation, Status
from advisor.core.expectation import with_new_conditions
from advisor.datasets.split import HOLDOUT
from advisor.engine.execution import Machine
from advisor.engine.history.loaded_run import LoadedRun, input_spec
from advisor.engine.history.manifest import other_parts
from advisor.engine.pipeline.evaluation.scorer import HeldOut, artefact_of, scope_of
from advisor.engine.pipeline.materials import Images, Materials, Role
from advisor.engine.pipeline.stage import Pool, StageAborted, StageEvent, StageName
from advisor.engine.pipeline.stages.figures import THOROUGH, timing
from advisor.engine.pipeline.stages.other_runtimes import checked_in, measured_in
from advisor.engine.pipeline.walker import Walker, Workers, run_coroutine
from advisor.engine.space.candidates import read_images, runtime_version
from advisor.engine.targets.multi_device import checked, measured_here
from advisor.engine.targets.target_devices import TargetDevice
from advisor.isolation import ChildPool, Scratch
from advisor.isolation.resources import usable_cores
from advisor.measurement import host
from advisor.store import ArtifactCache
from advisor.store.integrity import artefact_problem

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Remeasured:
    """A run's evaluations, measured again.

    Attributes:
        evaluations: all of them.
        answers: new answers on the hold-out, and shares in the figure that decides, by their path within the run.
        remarks: what could not be done.
    """

    evaluations: tuple[Evaluation, ...]
    answers: Mapping[str, Sequence[float]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def remeasure(run: LoadedRun, tell: Tell) -> Remeasured:
    """Time every artefact of the run again, and score it again where the images are the same."""
    images, remark = _same_images(run, tell)
    succeeded = [evaluation for evaluation in run.evaluations if evaluation.status is Status.OK]
    others = [evaluation for evaluation in run.evaluations if evaluation.status is not Status.OK]
    with Scratch() as folder, ChildPool(folder / "log.txt") as pool:
        walker = _walker(run, images, succeeded, pool, tell)
        measured = run_coroutine(_measure(run, walker, succeeded))
    new_answers = {file: answers for _, kept in measured for file, answers in kept.items()}
    return Remeasured((*(evaluation for evaluation, _ in measured), *others), new_answers, (remark,) if remark else ())


def _walker(
    run: LoadedRun, images: Images | None, evaluations: Sequence[Evaluation], pool: ChildPool, tell: Tell
) -> Walker:
    thread_counts = tuple(sorted({evaluation.configuration.target.threads for evaluation in evaluations}))
    question = replace(run.question, thread_counts=thread_counts)
    materials = Materials(ArtifactCache(), images, {}, host.describe(), question)

    def listen(event: StageEvent) -> None:
        tell(event.stage.subject)

    workers = Workers(Machine(usable_cores()), {Pool.LIGHT: pool, Pool.HEAVY: pool})
    return Walker(materials, workers, listen, run.request.execution.remeasure)


def _same_images(run: LoadedRun, tell: Tell) -> tuple[Images | None, str]:
    """Return the run's images, or None and the reason where they are gone or changed, or split in another way."""
    if run.question.data is None:
        return None, ""
    try:
        images = read_images(run.question, tell)
    except AdvisorError as error:
        return None, f"not scored again: {error.message}"
    if images is None or images.dataset.fingerprint != run.dataset.get("fingerprint"):
        return None, "not scored again: the images have changed since the run; a new search would learn from them"
    if HOLDOUT in other_parts(run.folder.read_json("split.json"), images):
        return None, "not scored again: this version splits the images in another way, so the files learnt from some"
    return images, ""


async def _measure(run: LoadedRun, walker: Walker, evaluations: Sequence[Evaluation]) -> list[HeldOut]:
    """Return each evaluation with its new figures and its new answers on the hold-out, empty where it has none."""
    timed = [await _time(run, walker, evaluation) for evaluation in evaluations]
    return [await _score(run, walker, evaluation) for evaluation in timed]


async def _time(run: LoadedRun, walker: Walker, evaluation: Evaluation) -> Evaluation:
    configuration = evaluation.configuration
    target = replace(configuration.target, runtime=runtime_version())
    moved = replace(evaluation, configuration=replace(configuration, target=target))
    problem = artefact_problem(run.folder, evaluation)
    if problem is not None:
        return _failed(moved, str(problem))
    try:
        timings = await walker.run(timing(scope_of(evaluation), artefact_of(run.folder, evaluation)))
    except StageAborted as end:
        return _failed(moved, end.reason)
    return replace(moved, **vars(timings[target.threads]))


def run_here(
    run: LoadedRun, evaluations: Sequence[Evaluation], device: TargetDevice, tell: Tell
) -> tuple[Evaluation, ...]:
    """Return evaluations on a device whose files run on this machine, with what they measure: latency or arena.

    Args:
        run: has the files.
        evaluations: on the device, before it is measured; those that are not ``ok`` stay as they are.
        device: a runtime of this machine, or a microcontroller.
        tell: called with each step.
    """
    with Scratch() as folder, ChildPool(folder / "log.txt") as pool:
        walker = _walker(run, None, evaluations, pool, tell)
        return run_coroutine(_run_here(run, walker, evaluations, device))


async def _run_here(
    run: LoadedRun, walker: Walker, evaluations: Sequence[Evaluation], device: TargetDevice
) -> tuple[Evaluation, ...]:
    found = []
    for each in evaluations:
        problem = artefact_problem(run.folder, each) if each.status is Status.OK else None
        if problem is not None and device.runtime is not None:
            found.append(_failed(each, str(problem)))
        elif problem is not None or each.status is not Status.OK or device.local is None:
            found.append(each)  # of a microcontroller, the prediction stays
        elif device.runtime is None:
            stage = checked_in(scope_of(each), artefact_of(run.folder, each), device.target.runtime)
            found.append(await checked(walker, each, device, stage))
        else:
            timed = measured_in(scope_of(each), artefact_of(run.folder, each), device.local, THOROUGH)
            found.append(await measured_here(walker, each, timed))
    return tuple(found)


def _failed(evaluation: Evaluation, reason: str) -> Evaluation:
    return replace(evaluation, status=Status.FAILED, stage=StageName.TIMING, reason=reason)


async def _score(run: LoadedRun, walker: Walker, evaluation: Evaluation) -> HeldOut:
    """Return a finalist with its accuracy on the hold-out and its answers; others are unchanged.

    Only artefacts that were scored on the hold-out are scored again. The validation accuracy belongs to a file that a
    run does not keep: the same recipe fitted to fewer images.
    """
    images = walker.materials.images
    if images is None or evaluation.status is not Status.OK or evaluation.holdout_accuracy is None:
        return evaluation, {}
    question, artefact = run.question, artefact_of(run.folder, evaluation)
    stage = question.of_task.score(scope_of(evaluation), input_spec(evaluation), artefact, Role.HOLDOUT, 0.0)
    answers = await walker.run(stage)
    file = evaluation.holdout_answers.file if evaluation.holdout_answers else ""
    judge = question.of_task.judge(question)
    scored, kept = judge.held_out(evaluation, answers, images, file)
    return with_new_conditions(scored, images.own_holdout), kept
