"""Time and score the files of an earlier run again; nothing is trained.

A re-evaluation (``reevaluate.py``) calls this after it has found what changed:
``remeasure_files`` for a new runtime or machine, ``judge_pick`` for a new pick that has not run
on the hold-out, ``run_here`` for a runtime of this machine or the arena of a microcontroller.
They run the same stages as a search, so what the cache has is not done again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from advisor.core import AdvisorError, Evaluation, Status, with_new_conditions
from advisor.datasets import SplitPart
from advisor.engine._decide import decide_run
from advisor.engine._execution import Machine
from advisor.engine._history.loaded_run import LoadedRun, input_spec
from advisor.engine._history.manifest import other_parts
from advisor.engine._pipeline.evaluation.judge import HeldOut
from advisor.engine._pipeline.evaluation.scorer import artefact_of, scope_of
from advisor.engine._pipeline.images import Images, Role
from advisor.engine._pipeline.materials import Materials, list_versions
from advisor.engine._pipeline.resources import Pool
from advisor.engine._pipeline.stage import StageAborted, StageName
from advisor.engine._pipeline.stages.figures import THOROUGH, timing_stage
from advisor.engine._pipeline.stages.other_runtimes import check_in_interpreter, measure_in_runtime
from advisor.engine._pipeline.walker import Walker, Workers, run_coroutine
from advisor.engine._space.question_images import read_images
from advisor.engine._space.resolved import RUNTIME
from advisor.engine._targets.device_measurement import check_arena, measure_here
from advisor.engine._targets.target_devices import TargetDevice
from advisor.isolation import ChildPool, Scratch, usable_cores
from advisor.measurement import host
from advisor.store import ArtifactCache, Problem, RunFolder

MOST_JUDGED = 3
"""Files that run on the hold-out for one device at most: each may take the place of the pick."""

Evaluations = tuple[Evaluation, ...]

Tell = Callable[[str], None]
"""Is called with a line about what is being done."""

Answers = Mapping[str, Sequence[float]]
"""New answers on the hold-out, and shares in the figure that decides,
by their path within the run.
"""


def remeasure_files(run: LoadedRun, tell: Tell) -> tuple[Evaluations, Answers, tuple[str, ...]]:
    """Time every artefact of a run again, and score it where the images are the same.

    Return the evaluations, new answers on the hold-out, and remarks on what was not done.
    """
    images, remark = _read_same_images(run, tell)
    succeeded = []
    others = []
    for evaluation in run.evaluations:
        if evaluation.status is Status.OK:
            succeeded.append(evaluation)
        else:
            others.append(evaluation)

    async def measure(walker: Walker) -> list[HeldOut]:
        timed = [await _time_file(run, walker, evaluation) for evaluation in succeeded]
        return [await _score_finalist(run, walker, evaluation) for evaluation in timed]

    with Scratch() as folder, ChildPool(folder / "log.txt") as pool:
        measured = run_coroutine(measure(_make_walker(run, images, succeeded, pool, tell)))
    answers = dict[str, Sequence[float]]()
    evaluations = list[Evaluation]()
    for evaluation, answers_of_file in measured:
        evaluations.append(evaluation)
        answers |= answers_of_file
    remarks = (remark,) if remark else ()
    return (*evaluations, *others), answers, remarks


def judge_pick(
    run: LoadedRun, evaluations: Evaluations, device: str, tell: Tell
) -> tuple[Evaluations, dict[str, Sequence[float]]]:
    """Run what the rule picks for a device on the hold-out, unless it ran there;
    return its new answers, too.

    Without the run's images, or if they have changed, nothing runs,
    and the answer says what judged the pick.
    """
    question = replace(run.question, devices=(device,))
    holdout_answers = dict[str, Sequence[float]]()
    images: Images | None = None
    # A new pick must have run on the hold-out, as that of a search has.
    # Its figure there may make another file the pick.
    for _ in range(MOST_JUDGED):
        decision = decide_run(run.folder, evaluations, question, judged_first=False).decision
        pick = decision.pick
        if pick is None or not decision.feasible:
            break
        if pick.holdout_accuracy is not None or not pick.artefact:
            break
        # Reading images takes seconds, so they are read once, and only if a pick needs them.
        if images is None:
            images, _remark = _read_same_images(run, tell)
        if images is None or not images.part(Role.HOLDOUT).paths:
            break
        try:
            scored, answers = _run_on_holdout(run, images, pick, tell)
        except StageAborted:
            break
        holdout_answers |= answers
        evaluations = tuple(_with_holdout(evaluation, scored) for evaluation in evaluations)
    return evaluations, holdout_answers


def _run_on_holdout(run: LoadedRun, images: Images, pick: Evaluation, tell: Tell) -> HeldOut:
    with Scratch() as folder, ChildPool(folder / "log.txt") as pool:
        walker = _make_walker(run, images, [pick], pool, tell)
        return run_coroutine(_score_on_holdout(run, walker, pick))


def _with_holdout(evaluation: Evaluation, scored: Evaluation) -> Evaluation:
    """Return an evaluation of the same file with what is known of it on the hold-out;
    others as they are.
    """
    if evaluation.artefact_sha256 != scored.artefact_sha256:
        return evaluation
    return replace(
        evaluation,
        holdout_accuracy=scored.holdout_accuracy,
        holdout_answers=scored.holdout_answers,
        new_conditions=scored.new_conditions,
    )


def _make_walker(
    run: LoadedRun,
    images: Images | None,
    evaluations: Sequence[Evaluation],
    pool: ChildPool,
    tell: Tell,
) -> Walker:
    """Return what runs stages for files of the run. It has no weights, so no stage can train."""
    thread_counts = sorted({evaluation.configuration.target.threads for evaluation in evaluations})
    question = replace(run.question, thread_counts=tuple(thread_counts))
    materials = Materials(ArtifactCache(), images, {}, host.describe(), question)
    workers = Workers(Machine(usable_cores()), {Pool.LIGHT: pool, Pool.HEAVY: pool})
    return Walker(
        materials,
        workers,
        lambda event: tell(event.stage.subject),
        run.request.execution.remeasure,
    )


def _read_same_images(run: LoadedRun, tell: Tell) -> tuple[Images | None, str]:
    """Return the run's images, or None and the reason where they are gone or changed,
    or split in another way.
    """
    if run.question.data is None:
        return None, ""
    try:
        images = read_images(run.question, tell, run.request.execution)
    except AdvisorError as error:
        return None, f"not scored again: {error.message}"
    # Other images would give figures that cannot stand beside those of the run.
    if images is None or images.dataset.fingerprint != run.dataset.get("fingerprint"):
        why = "the images have changed since the run; a new search would learn from them"
        return None, f"not scored again: {why}"
    if SplitPart.HOLDOUT in other_parts(run.folder.read_json("split.json"), images):
        why = "this version splits the images in another way, so the files learnt from some"
        return None, f"not scored again: {why}"
    return images, ""


async def _time_file(run: LoadedRun, walker: Walker, evaluation: Evaluation) -> Evaluation:
    """Return an evaluation with a new latency on this machine,
    or ``failed`` if its file is gone or does not run any more.
    """
    configuration = evaluation.configuration
    # The configuration names the version of the runtime,
    # and the new timing belongs to the version of today.
    runtime = f"{RUNTIME}=={list_versions(RUNTIME)[RUNTIME]}"
    target = replace(configuration.target, runtime=runtime)
    moved = replace(evaluation, configuration=replace(configuration, target=target))
    reason = str(Problem.find_in_artefact(run.folder, evaluation) or "")
    if not reason:
        stage = timing_stage(scope_of(evaluation), artefact_of(run.folder, evaluation))
        try:
            timings = await walker.run(stage)
            return timings[target.threads].apply_to(moved)
        except StageAborted as end:
            reason = end.reason
    return replace(moved, status=Status.FAILED, stage=StageName.TIMING, reason=reason)


async def _score_finalist(run: LoadedRun, walker: Walker, evaluation: Evaluation) -> HeldOut:
    """Return a finalist with its accuracy on the hold-out and its new answers;
    others are unchanged.

    The validation accuracy belongs to a file that a run does not keep:
    the same recipe fitted to fewer images.
    """
    is_finalist = evaluation.status is Status.OK and evaluation.holdout_accuracy is not None
    if walker.materials.images is None or not is_finalist:
        return evaluation, {}
    return await _score_on_holdout(run, walker, evaluation)


async def _score_on_holdout(run: LoadedRun, walker: Walker, evaluation: Evaluation) -> HeldOut:
    """Return an evaluation with the accuracy of its file on the hold-out,
    and the answers of the file there.
    """
    images = walker.materials.require_images()
    question = run.question
    artefact = artefact_of(run.folder, evaluation)
    stage = question.of_task.score(
        scope_of(evaluation), input_spec(evaluation), artefact, Role.HOLDOUT, 0.0
    )
    answers = await walker.run(stage)
    known = evaluation.holdout_answers
    file = RunFolder.name_answers(f"{SplitPart.HOLDOUT}-{artefact.path.stem}")
    if known:
        file = known.file
    # The whole hold-out is scored here. A search under a time limit may have scored a part of it.
    scored, files = question.of_task.judge(question).held_out(evaluation, answers, images, file)
    return with_new_conditions(replace(scored, holdout_part=None), images.own_holdout), files


def run_here(
    run: LoadedRun, evaluations: Sequence[Evaluation], device: TargetDevice, tell: Tell
) -> Evaluations:
    """Return evaluations of which the ``ok`` ones are measured here:
    in a runtime, or as arena of a microcontroller.
    """

    async def measure(walker: Walker) -> list[Evaluation]:
        return [await _measure_file(run, walker, evaluation, device) for evaluation in evaluations]

    with Scratch() as folder, ChildPool(folder / "log.txt") as pool:
        walker = _make_walker(run, None, evaluations, pool, tell)
        return tuple(run_coroutine(measure(walker)))


async def _measure_file(
    run: LoadedRun, walker: Walker, evaluation: Evaluation, device: TargetDevice
) -> Evaluation:
    """Return an evaluation as measured in a runtime of this machine,
    or with the arena of a microcontroller.
    """
    if evaluation.status is not Status.OK or device.local is None:
        return evaluation
    problem = Problem.find_in_artefact(run.folder, evaluation)
    if problem is not None:
        # Of a microcontroller, the prediction stays. A runtime has none.
        if device.runtime is None:
            return evaluation
        return replace(
            evaluation, status=Status.FAILED, stage=StageName.TIMING, reason=str(problem)
        )
    scope = scope_of(evaluation)
    artefact = artefact_of(run.folder, evaluation)
    if device.runtime is None:
        stage = check_in_interpreter(scope, artefact, device.target.runtime)
        return await check_arena(walker, evaluation, device, stage)
    timed = measure_in_runtime(scope, artefact, device.local, THOROUGH)
    return await measure_here(walker, evaluation, timed)
