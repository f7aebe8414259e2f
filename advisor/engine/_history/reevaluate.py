"""Re-evaluate earlier runs for everything that changed since: predict, measure and score again;
nothing is trained.

``Session`` finds what changed and what a re-evaluation starts from. The functions behind it do the
work: ``remeasure_files`` times and scores the files of a run here, ``judge_pick`` runs a new pick
on the hold-out, ``run_here`` measures in other runtimes. Each result is a new run; the earlier one
stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from advisor.core import (
    HOST,
    AdvisorError,
    Evaluation,
    Status,
    UsageError,
    plural,
    with_new_conditions,
)
from advisor.datasets import HOLDOUT
from advisor.engine._decide import decide_run
from advisor.engine._execution import Machine
from advisor.engine._history.changes import (
    Changes,
    Child,
    Origin,
    find_changes,
    latest_descendant,
    read_origin,
    read_origins,
    write_child,
)
from advisor.engine._history.compare import Reevaluation, compare
from advisor.engine._history.connected import (
    Devices,
    Finalists,
    with_day,
    with_earlier_timings,
)
from advisor.engine._history.loaded_run import LoadedRun, input_spec, load_run
from advisor.engine._history.manifest import other_parts
from advisor.engine._pipeline.evaluation.scorer import HeldOut, artefact_of, scope_of
from advisor.engine._pipeline.images import Images, Role
from advisor.engine._pipeline.materials import Materials, list_versions
from advisor.engine._pipeline.resources import Pool
from advisor.engine._pipeline.stage import StageAborted, StageName
from advisor.engine._pipeline.stages.figures import THOROUGH, timing
from advisor.engine._pipeline.stages.other_runtimes import check_in_interpreter, measure_in_runtime
from advisor.engine._pipeline.walker import Walker, Workers, run_coroutine
from advisor.engine._question import Request, resolve
from advisor.engine._space.question_images import read_images
from advisor.engine._space.resolved import RUNTIME
from advisor.engine._targets.device_prediction import before_measuring, environment_of, one_each
from advisor.engine._targets.device_rows import on_device
from advisor.engine._targets.multi_device import check_arena, measure_here
from advisor.engine._targets.target_devices import TargetDevice, at_threads, remarks_of
from advisor.isolation import ChildPool, Scratch, usable_cores
from advisor.measurement import host
from advisor.store import ArtifactCache, RunFolder, answers_file, artefact_problem

Search = Callable[[Request], RunFolder]
"""Runs a search and returns its run folder. It is passed in, because the search uses this room."""

MOST_JUDGED = 3
"""Files that run on the hold-out for one device at most: each may take the place of the pick."""


class Reports(Protocol):
    """Writes the report files of runs that have none.
    It is passed in, because the reports use this room.
    """

    def write(self, run: LoadedRun) -> None:
        """Write the files of a run, now or while other runs are answered."""

    def wait(self) -> None:
        """Return when the files of all runs are written."""


Evaluations = tuple[Evaluation, ...]

Tell = Callable[[str], None]
"""Is called with what is being done."""


Answers = Mapping[str, Sequence[float]]
"""New answers on the hold-out, and shares in the figure that decides,
by their path within the run.
"""


@dataclass
class Session:
    """The re-evaluation of one run or of several,
    or with ``since_last`` of their latest re-evaluations.
    """

    devices: Devices
    search: Search
    since_last: bool = False
    tell: Tell = lambda _text: None
    reports: Reports | None = None
    known: list[Origin] = field(default_factory=list, init=False)
    _opened: dict[Path, RunFolder] = field(default_factory=dict, init=False)
    _loaded: dict[Path, LoadedRun] = field(default_factory=dict, init=False)

    def reevaluate(self, run: Path) -> tuple[Reevaluation, ...]:
        """Re-evaluate a run: on this machine where its runtime,
        the machine or the catalogue changed; on devices.
        """
        folder = RunFolder.open(run)
        self._opened[folder.path] = folder
        self.known = list(read_origins(folder.path.parent))
        return tuple(self._each(read_origin(folder.path)))

    def reevaluate_all(self, out: Path) -> Iterator[Reevaluation]:
        """Re-evaluate every search under ``out``, oldest first;
        one that cannot be read is reported and skipped.
        """
        if not out.is_dir():
            hint = (
                "name the folder that holds your runs; advisor search makes the first one in runs/"
            )
            raise UsageError(f"--runs: '{out}' is not a folder", hint)
        self.known = list(read_origins(out))
        # Only searches: their re-evaluations are found from them.
        # The list is a copy, as new runs are added to `known`.
        for origin in [origin for origin in self.known if not origin.parent]:
            try:
                yield from self._each(origin)
            except (AdvisorError, OSError) as error:
                yield Reevaluation(
                    origin.path.name, origin.device, error=getattr(error, "message", str(error))
                )

    def _each(self, origin: Origin) -> Iterator[Reevaluation]:
        """Yield the re-evaluation of one run on this machine, then on each device:
        those start from its new run.
        """
        self._loaded.clear()
        if origin.device == HOST:
            outcome = self._on_host(origin)
            yield outcome
            # Devices start from the host's new run,
            # so an error there leaves them nothing to start from.
            if outcome.error:
                return
        for selector, profile, target in self.devices.targets:
            if origin.device in (HOST, selector):
                yield self._on_device(
                    origin, selector, TargetDevice(profile.name, profile, target)
                )

    def _load(self, path: Path) -> LoadedRun:
        """Return a run, which all devices of one origin share."""
        if path not in self._loaded:
            self._loaded[path] = load_run(self._opened.get(path, path))
        return self._loaded[path]

    def _answer(
        self,
        before: LoadedRun,
        device: str,
        causes: tuple[str, ...],
        made: RunFolder,
        remarks: tuple[str, ...],
    ) -> Reevaluation:
        """Return a run that was made now or before, compared with its parent;
        its report is written if it has none.
        """
        after = load_run(made)
        comparison = compare(before, after)
        if self.reports:
            self.reports.write(after)
        return Reevaluation(before.name, device, causes, made.path, comparison, remarks)

    def _start_of(self, origin: Origin, device: str) -> Origin:
        """Return the run to start from: this one,
        or with ``since_last`` its latest descendant for the device.
        """
        return (
            latest_descendant(origin.root, device, self.known) if self.since_last else None
        ) or origin

    def _existing(self, parent: Origin, fits: Callable[[Origin], bool]) -> RunFolder | None:
        """Return the latest run that was made from ``parent`` and fits, or None."""
        for origin in reversed(self.known):
            if origin.parent == parent.path.name and fits(origin):
                return RunFolder.open(origin.path)
        return None

    def _on_device(self, origin: Origin, selector: str, device: TargetDevice) -> Reevaluation:
        """Answer for a device, unless its answer is known:
        measured there, in a runtime here, or predicted.
        """
        self.tell(f"{origin.path.name} on {selector}")
        connected = self.devices.connect(selector, device)
        predictions = environment_of(device, self.devices.predictor)
        settled = connected.hash_conditions(predictions) if connected else ""
        start = self._start_of(origin, selector)
        # The hashes hold all that the figures depend on.
        # If they are equal, the same figures would come out.
        if start.is_current(predictions, settled):
            return Reevaluation(start.path.name, selector)
        before = self._load(start.path)
        # No new run is made of one that has changed:
        # its figures would look as if they had been measured.
        before.require_proof()
        # An interrupted command is repeated: what it made before is shown and not made again.
        last = latest_descendant(origin.root, selector, self.known)
        # A later answer may have timings of a device that is away now.
        made = self._existing(
            start, lambda child: child == last and child.is_current(predictions, settled)
        )
        remarks = tuple[str, ...]()
        cause = f"the device {selector} was {'changed' if start.device == selector else 'added'}"
        if made is not None and not settled:
            known = made.evaluations()
            remarks = self._explain_figures(selector, device, known)
            if connected is not None:
                remarks = (*remarks, *connected.explain_absence(known))
        if made is None:
            measured = self._source_of(origin)
            # The options may connect to a device whose profile names no connection.
            place = connected.device if connected is not None and settled else device
            evaluations = self._anew(measured, measured.evaluations, place)
            evaluations = with_earlier_timings(
                evaluations, self._list_earlier(measured, origin.root, selector, device)
            )
            if not settled:
                remarks = self._explain_figures(selector, device, evaluations)
            finalists = Finalists(evaluations)
            if connected is not None:
                finalists = connected.measure_finalists(measured, evaluations, self.tell)
                remarks = (*remarks, *connected.describe_finalists(finalists))
            environment = finalists.hash_figures(predictions)
            if environment == start.environment:
                return Reevaluation(start.path.name, selector, remarks=remarks)
            if start.device == selector and start.predictions == predictions:
                cause = f"{plural(len(finalists.measured), 'file')} measured on {selector}"
            made = self._existing(start, lambda child: child.environment == environment)
        if made is None:
            evaluations, answers = judge_pick(measured, finalists.evaluations, selector, self.tell)
            manifest = {"devices": {device.profile.name: device.profile.fingerprint()}}
            facts = {"predictions": predictions, "settled": settled if finalists.settled else ""}
            child = Child(
                evaluations,
                selector,
                environment,
                manifest,
                answers,
                (measured.folder.path,),
                facts,
            )
            made = self._made(before, start, child)
        return self._answer(before, selector, (cause,), made, remarks)

    def _explain_figures(
        self, selector: str, device: TargetDevice, evaluations: Sequence[Evaluation]
    ) -> tuple[str, ...]:
        """Return what limits the predictions on a device, and why its files are not measured."""
        reasons = self.devices.measuring.explain_prediction(selector, device, evaluations)
        # What limits predictions is of no use to a reader of measured latencies.
        if any(row.remote is not None for row in evaluations):
            return reasons
        return (*remarks_of(device), *reasons)

    def _source_of(self, origin: Origin) -> LoadedRun:
        """Return the run with the files:
        a run for another device has predictions, and none of its own.
        """
        source = (
            origin if origin.device == HOST else latest_descendant(origin.root, HOST, self.known)
        )
        if source is None:
            why = f"the search '{origin.root}' that '{origin.path.name}' came from is gone"
            raise UsageError(why, "search again")
        return self._load(source.path)

    def _list_earlier(
        self, searched: LoadedRun, root: str, selector: str, device: TargetDevice
    ) -> list[Evaluation]:
        """Return what was evaluated on a device before, each with its day, later ones last."""
        runs = [searched]
        last = latest_descendant(root, selector, self.known)
        if last is not None:
            runs.append(self._load(last.path))
        earlier = list[Evaluation]()
        for run in runs:
            day = str(run.manifest.get("updated", ""))[:10]
            for name in {selector, device.label}:
                earlier += with_day(on_device(run.evaluations, name), day)
        return earlier

    def _on_host(self, origin: Origin) -> Reevaluation:
        """Measure again what a new runtime or machine made outdated,
        and evaluate new cards that need no training.
        """
        start = self._start_of(origin, HOST)
        run = self._load(start.path)
        run.require_proof()
        if run.too_early:
            return Reevaluation(run.name, HOST, error=run.too_early)
        changes = find_changes(run, self.devices.predictor)
        causes = changes.causes
        remarks = changes.remarks
        if not changes.need_work:
            return Reevaluation(run.name, HOST, causes, remarks=remarks)
        made = self._existing(start, lambda child: child.environment == changes.environment)
        if made is None:
            self.tell(f"{run.name}: {'; '.join(causes)}")
            made, more = self._new_run(start, changes)
            remarks = (*remarks, *more)
        return self._answer(run, HOST, causes, made, remarks)

    def _made(self, parent: LoadedRun, start: Origin, child: Child) -> RunFolder:
        """Return the new run with the content of a child."""
        run = write_child(parent, start, child)
        self.known.append(read_origin(run.path))
        return run

    def _new_run(self, start: Origin, changes: Changes) -> tuple[RunFolder, tuple[str, ...]]:
        """Return the new run, and what could not be done."""
        run = changes.run
        names = {device.label for device in changes.devices}
        evaluations = run.evaluations
        remarks = tuple[str, ...]()
        answers: Answers = {}
        if changes.host:
            if self.reports:
                self.reports.wait()  # measuring needs a quiet machine
            here_only = replace(run, evaluations=on_device(run.evaluations, HOST))
            again, answers, remarks = remeasure_files(here_only, self.tell)
            evaluations = (
                *again,
                *(e for e in run.evaluations if e.configuration.target.device != HOST),
            )
        # Timings of this machine are new by now, and the predictions below start from them.
        others = []
        for e in evaluations:
            if e.configuration.target.device not in names:
                others.append(e)
        anew = list[Evaluation]()
        for device in changes.devices:
            anew += self._anew(run, evaluations, device)
        evaluations = (*others, *anew)
        with ExitStack() as stack:
            sources: tuple[Path, ...] = ()
            if changes.new_cards:
                folder = stack.enter_context(Scratch())
                try:
                    new = evaluate_cards(run, changes.new_cards, folder, self.search)
                    sources = (new.path,)
                    evaluations = merge_evaluations(evaluations, new.evaluations())
                except AdvisorError as error:
                    remarks = (
                        *remarks,
                        f"{', '.join(changes.new_cards)} could not be evaluated: {error.message}",
                    )
            child = Child(
                evaluations, HOST, changes.environment, changes.manifest, answers, sources
            )
            return self._made(run, start, child), remarks

    def _anew(
        self, run: LoadedRun, evaluations: Sequence[Evaluation], device: TargetDevice
    ) -> tuple[Evaluation, ...]:
        """Return each artefact of the run on a device:
        predicted, or measured here, in a runtime or an interpreter.
        """
        if device.runtime is not None:
            devices = at_threads(device, run.question.thread_counts)
            made = one_each(evaluations)
            measured = list[Evaluation]()
            for target in devices:
                before = [before_measuring(evaluation, target) for evaluation in made]
                measured += run_here(run, before, target, self.tell)
            return tuple(measured)
        limits = run.question.limits
        predicted = self.devices.predictor.evaluate(
            evaluations, device, limits.latency_ms, limits.confidence
        )
        if device.local:
            return run_here(run, predicted, device, self.tell)
        return predicted


def evaluate_cards(
    run: LoadedRun, names: Sequence[str], folder: Path, search: Search
) -> RunFolder:
    """Search over some cards alone, and return the run:
    of a run without images, so that nothing is trained.
    """
    question = run.question
    paths = {
        "catalog": list(map(str, question.catalog)),
        "profiles": list(map(str, question.profiles)),
    }
    # The limit of trials was for the whole search, and would leave out forms of the new cards.
    forced = {"candidates": list(names), "out": str(folder), "max_trials": 0}
    return search(resolve({**run.request.written, **paths, **forced}))


def merge_evaluations(
    earlier: Sequence[Evaluation], later: Sequence[Evaluation]
) -> tuple[Evaluation, ...]:
    """Return all evaluations; of two with the same key, the later one."""
    return tuple(
        {evaluation.configuration.key: evaluation for evaluation in (*earlier, *later)}.values()
    )


def remeasure_files(run: LoadedRun, tell: Tell) -> tuple[Evaluations, Answers, tuple[str, ...]]:
    """Time every artefact again, score it where the images are the same;
    return also answers and what was not done.
    """
    images, remark = _same_images(run, tell)
    succeeded = []
    for evaluation in run.evaluations:
        if evaluation.status is Status.OK:
            succeeded.append(evaluation)
    others = []
    for evaluation in run.evaluations:
        if evaluation.status is not Status.OK:
            others.append(evaluation)

    async def measure(walker: Walker) -> list[HeldOut]:
        timed = [await _time(run, walker, evaluation) for evaluation in succeeded]
        return [await _score(run, walker, evaluation) for evaluation in timed]

    with Scratch() as folder, ChildPool(folder / "log.txt") as pool:
        measured = run_coroutine(measure(_walker(run, images, succeeded, pool, tell)))
    answers = dict[str, Sequence[float]]()
    for _, answers_of_files in measured:
        answers |= answers_of_files
    return (
        (*(evaluation for evaluation, _ in measured), *others),
        answers,
        (remark,) if remark else (),
    )


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
        if (
            pick is None
            or not decision.feasible
            or pick.holdout_accuracy is not None
            or not pick.artefact
        ):
            break
        # Reading images takes seconds, so they are read once, and only if a pick needs them.
        images = images or _same_images(run, tell)[0]
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
        return run_coroutine(_hold_out(run, _walker(run, images, [pick], pool, tell), pick))


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


def _walker(
    run: LoadedRun,
    images: Images | None,
    evaluations: Sequence[Evaluation],
    pool: ChildPool,
    tell: Tell,
) -> Walker:
    """Return what runs stages for files of the run. It has no weights, so no stage can train."""
    thread_counts = tuple(
        sorted({evaluation.configuration.target.threads for evaluation in evaluations})
    )
    question = replace(run.question, thread_counts=thread_counts)
    materials = Materials(ArtifactCache(), images, {}, host.describe(), question)
    workers = Workers(Machine(usable_cores()), {Pool.LIGHT: pool, Pool.HEAVY: pool})
    return Walker(
        materials,
        workers,
        lambda event: tell(event.stage.subject),
        run.request.execution.remeasure,
    )


def _same_images(run: LoadedRun, tell: Tell) -> tuple[Images | None, str]:
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
        return (
            None,
            (
                "not scored again: the images have changed since the run; a new search would learn"
                " from them"
            ),
        )
    if HOLDOUT in other_parts(run.folder.read_json("split.json"), images):
        return (
            None,
            (
                "not scored again: this version splits the images in another way, so the files"
                " learnt from some"
            ),
        )
    return images, ""


async def _time(run: LoadedRun, walker: Walker, evaluation: Evaluation) -> Evaluation:
    """Return an evaluation with a new latency here,
    or ``failed`` if its file is gone or does not run any more.
    """
    configuration = evaluation.configuration
    # The configuration names the version of the runtime,
    # and the new timing belongs to the version of today.
    target = replace(configuration.target, runtime=f"{RUNTIME}=={list_versions(RUNTIME)[RUNTIME]}")
    moved = replace(evaluation, configuration=replace(configuration, target=target))
    reason = str(artefact_problem(run.folder, evaluation) or "")
    if not reason:
        try:
            timings = await walker.run(
                timing(scope_of(evaluation), artefact_of(run.folder, evaluation))
            )
            return timings[target.threads].apply_to(moved)
        except StageAborted as end:
            reason = end.reason
    return replace(moved, status=Status.FAILED, stage=StageName.TIMING, reason=reason)


def run_here(
    run: LoadedRun, evaluations: Sequence[Evaluation], device: TargetDevice, tell: Tell
) -> Evaluations:
    """Return evaluations of which the ``ok`` ones are measured here:
    in a runtime, or as arena of a microcontroller.
    """

    async def measure(walker: Walker) -> list[Evaluation]:
        return [await _run_one(run, walker, evaluation, device) for evaluation in evaluations]

    with Scratch() as folder, ChildPool(folder / "log.txt") as pool:
        return tuple(run_coroutine(measure(_walker(run, None, evaluations, pool, tell))))


async def _run_one(
    run: LoadedRun, walker: Walker, evaluation: Evaluation, device: TargetDevice
) -> Evaluation:
    """Return an evaluation as measured in a runtime of this machine,
    or with the arena of a microcontroller.
    """
    problem = None
    if evaluation.status is Status.OK:
        problem = artefact_problem(run.folder, evaluation)
    if problem is not None and device.runtime is not None:
        return replace(
            evaluation, status=Status.FAILED, stage=StageName.TIMING, reason=str(problem)
        )
    if problem is not None or evaluation.status is not Status.OK or device.local is None:
        return evaluation  # of a microcontroller, the prediction stays
    if device.runtime is None:
        stage = check_in_interpreter(
            scope_of(evaluation), artefact_of(run.folder, evaluation), device.target.runtime
        )
        return await check_arena(walker, evaluation, device, stage)
    timed = measure_in_runtime(
        scope_of(evaluation), artefact_of(run.folder, evaluation), device.local, THOROUGH
    )
    return await measure_here(walker, evaluation, timed)


async def _score(run: LoadedRun, walker: Walker, evaluation: Evaluation) -> HeldOut:
    """Return a finalist with its accuracy on the hold-out and its new answers;
    others are unchanged.

    The validation accuracy belongs to a file that a run does not keep:
    the same recipe fitted to fewer images.
    """
    if (
        walker.materials.images is None
        or evaluation.status is not Status.OK
        or evaluation.holdout_accuracy is None
    ):
        return evaluation, {}
    return await _hold_out(run, walker, evaluation)


async def _hold_out(run: LoadedRun, walker: Walker, evaluation: Evaluation) -> HeldOut:
    """Return an evaluation with the accuracy of its file on the hold-out, and its answers
    there.
    """
    images = walker.materials.require_images()
    question = run.question
    artefact = artefact_of(run.folder, evaluation)
    stage = question.of_task.score(
        scope_of(evaluation), input_spec(evaluation), artefact, Role.HOLDOUT, 0.0
    )
    answers = await walker.run(stage)
    known = evaluation.holdout_answers
    file = known.file if known else answers_file(f"{HOLDOUT}-{artefact.path.stem}")
    # The whole hold-out is scored here. A search under a time limit may have scored a part of it.
    scored, files = question.of_task.judge(question).held_out(evaluation, answers, images, file)
    return with_new_conditions(replace(scored, holdout_part=None), images.own_holdout), files
