"""Run one search: from a question to its evaluations, in a run folder."""

import asyncio
import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from advisor.core import Evaluation, Status
from advisor.engine._afterwards import when_answered
from advisor.engine._decide import answering
from advisor.engine._execution import Executor, LocalExecutor, executor_for, one_blas_thread
from advisor.engine._history.loaded_run import continue_command, keep_inputs
from advisor.engine._history.manifest import (
    describe_run,
    keep_thread_counts,
    same_cards,
    same_weights,
    write_images,
    write_manifest,
)
from advisor.engine._interruptible import run_interruptibly
from advisor.engine._pipeline.cost import CostCalibration
from advisor.engine._pipeline.evaluation.evaluator import Evaluator
from advisor.engine._pipeline.evaluation.scorer import Scorer
from advisor.engine._pipeline.rule import Rules
from advisor.engine._pipeline.stage import Durations, EventKind, StageEvent
from advisor.engine._pipeline.walker import Walker, Workers
from advisor.engine._preparation import end_block_at, out_of_time
from advisor.engine._preview import refuse_too_short
from advisor.engine._progress import Progress
from advisor.engine._question import Request
from advisor.engine._question.values import Execution
from advisor.engine._rules import rules_of
from advisor.engine._scheduling.search_loop import SearchLoop
from advisor.engine._scheduling.stop import Stop
from advisor.engine._scheduling.stopping import COMPLETE, INTERRUPTED
from advisor.engine._scheduling.storage import check_storage, explain_lost_connection, open_storage
from advisor.engine._scheduling.study import Study
from advisor.engine._space.plan import ANSWER_CPU_S, ANSWER_S, Plan, record_unevaluated, skip_ruled_out
from advisor.engine._space.resolved import Candidates, Resolved, find_weights, require_installed, resolve_parts
from advisor.engine._targets.device_prediction import CardPredictor, DevicePredictor
from advisor.engine._targets.multi_device import MultiDeviceEvaluator
from advisor.isolation import (
    TRAINERS,
    Load,
    LoadReading,
    Trainers,
    cpu_s_of_tree,
    part_of_a_core,
    sweep_folders,
    waiting_factor,
)
from advisor.store import ArtifactCache, RunFolder, limited_cache, require_cache

THREADS = 32
"""Threads that wait for child processes; more jobs than cores never run."""

MOST_ANSWER_SHARE = 0.2  # Of a time limit, for the end of a command that was ended before its first job


@dataclass(frozen=True)
class SearchResult:
    """The run folder of a search, and why it ended."""

    run: RunFolder
    stop: Stop


def run_search(
    request: Request,
    progress: Progress,
    resume: Path | None = None,
    verbose: bool = False,
    started: float | None = None,
) -> SearchResult:
    """Answer ``request`` in a new run folder, or continue the run in ``resume``.

    A time limit counts from ``started`` seconds of the monotonic clock; None for now.
    The work happens in a thread with its own event loop. A notebook, which already runs a loop, can therefore call it.
    An interrupt reaches the caller's thread, which stops the search in order. AdvisorError: the study's database is no
    longer reachable; finished evaluations are kept. UsageError: it cannot be answered here.
    """
    began = time.monotonic() if started is None else started
    if resume is None:
        return _run_search(request, progress, None, verbose, began)
    run = RunFolder.open(resume)
    with contextlib.ExitStack() as early:
        # Before anything that may wait for the process that has the run, such as a lock of the cache.
        early.callback(run.hold().release)
        return _run_search(request, progress, run, verbose, began)


def _run_search(
    request: Request, progress: Progress, resumed: RunFolder | None, verbose: bool, started: float
) -> SearchResult:
    """See :func:`run_search`; the caller holds the run that is ``resumed``."""
    # The load of other programs is measured while the parts of the question are read: it takes no time of its own.
    load = Load(cpu_s_of_tree)
    require_installed(request)
    if resumed:
        request = keep_thread_counts(resumed, request)
    # Without images there is nothing to prepare: a limit that is too short is refused with the shortest useful one.
    ends_at = _end_of_preparation(request.execution, started) if request.question.data else math.inf
    with end_block_at(ends_at, request.execution.time_limit):
        resolved = resolve_parts(request, progress.say)
    # From here on, `resolved` has the question that is answered: a time limit may read fewer images. The run folder
    # keeps the request as it was written.
    # A cache that cannot be written, and folders of killed searches, are dealt with before a run folder exists.
    require_cache()
    sweep_folders()
    if resumed:
        run = resumed
        resolved = replace(resolved, cards=same_cards(run, resolved))
    else:
        if request.execution.time_limit_s is not None:
            refuse_too_short(resolved)
        if request.execution.offline:
            # What is not here will not come: refuse it before there is a run folder.
            find_weights(resolved, progress.say)
        # A database that cannot be reached is named here too, as long as nothing was written.
        check_storage(request.execution.storage)
    executor = executor_for(request.execution, lambda: None if verbose else run.place(run.log_file.name))
    if not resumed:
        # From here on there is a run, which --resume can continue: what can be refused without one was refused above.
        run = RunFolder.create(request.folder, request.run_name)
    with contextlib.closing(executor), contextlib.ExitStack() as held, _keeping_latest(run):
        if not resumed:
            keep_inputs(run, request.question)
            run.write_request(request.written)
        held.callback(run.hold().release)
        cache = held.enter_context(limited_cache(request.execution.cache_size, run.path))
        held.enter_context(progress.kept_in(run))
        return _Search(resolved, run, cache, executor, progress, started, load.result()).result(held.pop_all())


@contextlib.contextmanager
def _keeping_latest(run: RunFolder) -> Iterator[None]:
    """Let ``latest`` lead to the earlier run again if the block fails before this run has a result.

    After an interrupt it leads here, where --resume goes on.
    """
    try:
        yield
    except Exception:
        if not any(evaluation.status is Status.OK for evaluation in run.evaluations()):
            run.give_latest_back()
        raise


def _end_of_preparation(execution: Execution, started: float) -> float:
    """Return when the work before the first job must end, by the monotonic clock; infinite without a limit.

    The end of the command takes its time, too: more of it on a busy machine.
    """
    limit_s = execution.time_limit_s
    if limit_s is None:
        return math.inf
    answer_s = max(ANSWER_S, ANSWER_CPU_S * waiting_factor())
    return started + limit_s - min(answer_s, MOST_ANSWER_SHARE * limit_s)


def _require_time(execution: Execution, ends_at: float, run: RunFolder) -> None:
    """Refuse to begin the first job of a run after ``ends_at`` of the monotonic clock.

    Raises:
        OutOfTime: the moment is over.
    """
    if time.monotonic() > ends_at:
        raise out_of_time(execution.time_limit, "the first job", f"give it more time: {continue_command(run.path)}")


class _Search:
    """One search while it runs."""

    def __init__(
        self,
        resolved: Resolved,
        run: RunFolder,
        cache: ArtifactCache,
        executor: Executor,
        progress: Progress,
        started: float,
        load: LoadReading,
    ) -> None:
        self._cache = cache
        self._resolved = resolved
        self._run = run
        self._executor = executor
        self._progress = progress
        self._started = started
        self._stop = COMPLETE
        # Other programs and a quota both leave less than the cores of the machine. The larger loss sets the price.
        taken = compute_taken_share(load["cores"], load["others_cores"] or 0.0, executor.machine.cores)
        self._calibration = CostCalibration(others=max(taken, 1.0 - part_of_a_core()))
        self._durations = Durations()
        self._loop: asyncio.AbstractEventLoop | None = None
        machine = executor.machine
        request = resolved.request
        # The loop, the evaluator and the progress share one calibration: what a stage took changes what others cost.
        self._search_loop = SearchLoop(
            request, run, progress, started, machine.cores, self._calibration, machine.trainings
        )

    def result(self, held: contextlib.ExitStack) -> SearchResult:
        """Run the search in a thread and wait for it; the first interrupt stops it in order, the second does not wait.

        The thread may still write then, so that it gives the run back itself, by ``held``.
        """
        interrupted = run_interruptibly(partial(self._work, held), self._ask_to_stop, "advisor-search")
        return SearchResult(self._run, INTERRUPTED if interrupted else self._stop)

    def _ask_to_stop(self) -> None:
        """Let the search end in order; the caller's thread calls it."""
        self._progress.say("stopping; finished evaluations are kept")
        stopping = self._search_loop.stopping
        # The search has no event loop yet, so nobody waits for the event: it can be set from here.
        if self._loop is None:
            stopping.set()
            return
        # A loop that has just been closed has nothing left to stop.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(stopping.set)

    def _work(self, held: contextlib.ExitStack) -> None:
        """Run the search."""
        with held:
            converts = any(card.needs_converter for card in self._resolved.cards)
            if converts and isinstance(self._executor, LocalExecutor):
                # TensorFlow takes seconds to import: the child begins with it while weights are still fetched.
                self._executor.begin()
            if self._resolved.images is not None:
                write_images(self._run, self._resolved.images)
            ends_at = _end_of_preparation(self._resolved.execution, self._started)
            # Weights that lie here would be called late if the images have taken the whole limit.
            _require_time(self._resolved.execution, ends_at, self._run)
            candidates = find_weights(self._resolved, self._progress.say, ends_at)
            _require_time(self._resolved.execution, ends_at, self._run)
            same_weights(self._run, candidates)
            # Many children run at once; a BLAS with a thread for each core would fight them for the cores.
            with one_blas_thread():
                asyncio.run(self._search(candidates))

    async def _search(self, candidates: Candidates) -> None:
        """Plan, evaluate, score the finalists on the hold-out, and write the durations."""
        self._loop = asyncio.get_running_loop()
        # The default executor has few threads on small machines, and each waiting job occupies one.
        self._loop.set_default_executor(ThreadPoolExecutor(THREADS))
        run = self._run
        question = self._resolved.question
        execution = self._resolved.execution
        limit_s = execution.time_limit_s
        plan = self._resolved.plan(candidates, self._calibration.pace)
        predictor = DevicePredictor()
        rules = rules_of(plan, CardPredictor(self._resolved.targets, plan.cards_by_name, predictor))
        done = skip_ruled_out(run, plan, rules)
        with (
            open_storage(execution.storage, run) as (storage, name),
            explain_lost_connection(execution.storage, run.path),
        ):
            study = Study(storage, name, plan, question.limits, execution.sampler, question.seed, done)
            # The manifest is written before the first job, so that a killed search can be continued and read.
            self._write_manifest(candidates, plan)
            with contextlib.closing(self._executor):
                evaluator, scorer = self._evaluator(candidates, plan, rules, predictor)
                until_s = None if limit_s is None else max(1.0, self._started + limit_s - time.monotonic())
                self._progress.start(plan, [evaluation.configuration for evaluation in done], until_s)
                async with answering(run, self._progress.answer, self._executor.machine):
                    evaluating_s = await self._evaluate(study, evaluator, plan, len(done), scorer)
                    await self._search_loop.time_again(evaluator)
                    # Last, because a longer timing can change which files are finalists, and the hold-out judges only
                    # finalists.
                    await self._search_loop.judge(scorer)
                    stopping = self._search_loop.stopping
                    say = self._progress.say
                    answer_s = self._search_loop.answer_s
                    await when_answered(scorer, run, stopping, execution, self._started, say, answer_s)
                # A search that other work disturbed says nothing about this machine: its pace is not kept for the
                # next one.
                self._calibration.keep(disturbed=_was_disturbed(run.evaluations()))
                if self._search_loop.stopping.is_set():
                    self._stop = INTERRUPTED
                self._write_manifest(candidates, plan, evaluating_s, evaluator)

    async def _evaluate(
        self, study: Study, evaluator: MultiDeviceEvaluator, plan: Plan, done: int, scorer: Scorer | None
    ) -> float:
        """Evaluate what the study proposes, record the cards that it did not reach, and return the seconds."""
        began = time.monotonic()
        self._stop = await self._search_loop.evaluate_all(study, evaluator, plan, done, scorer)
        seconds = time.monotonic() - began
        # What still runs would keep cores from the finalists.
        await evaluator.drop()
        # In this order: a timing that succeeds now can make the rescue of skipped configurations needless.
        await self._search_loop.retry_timings(evaluator)
        await self._search_loop.rescue(evaluator, plan)
        await self._search_loop.finish_beside(evaluator)
        for remark in evaluator.remarks:
            self._progress.say(remark)
        # After an interrupt the cards without a result are not recorded: the resumed run still evaluates them.
        if not self._search_loop.stopping.is_set():
            record_unevaluated(self._run, plan, self._stop.reason)
        return seconds

    def _evaluator(
        self, candidates: Candidates, plan: Plan, rules: Rules, predictor: DevicePredictor
    ) -> tuple[MultiDeviceEvaluator, Scorer | None]:
        """Return what evaluates configurations, and what scores finalists on the hold-out; None without images."""
        executor = self._executor
        resolved = self._resolved
        cards = plan.cards_by_name
        materials = resolved.materials(candidates, plan, executor.host)
        loop = self._search_loop
        materials = replace(
            materials,
            cache=self._cache,
            training_left_s=loop.training_left_s,
            training_share=loop.training_share,
        )

        def listen(event: StageEvent) -> None:
            self._progress.stage(event)
            self._durations.note(event)
            if event.kind in (EventKind.DONE, EventKind.CACHED):
                self._search_loop.finished.add(event.stage)
            if event.stage.reads is not None:
                self._search_loop.judging.note(event, len(event.stage.reads(materials).paths))
            self._calibration.note(event, plan.costs.seconds(event.stage))

        trainers = self._trainers()
        if trainers is not None:
            # Trainers say when they leave a GPU that failed.
            trainers.tell = self._progress.say
        workers = Workers(executor.machine, executor.pools, executor.on_device, self._search_loop.places)
        walker = Walker(materials, workers, listen, resolved.execution.remeasure)
        evaluator = Evaluator(walker, plan.workload, cards, resolved.recipes, rules, self._run, resolved.targets.host)
        devices = MultiDeviceEvaluator(
            evaluator, resolved.targets, predictor, resolved.question, self._run, executor, self._progress.doing
        )
        scorer = Scorer(walker, plan.workload, cards, self._run, self._search_loop.judging)
        return devices, scorer if resolved.images else None

    def _trainers(self) -> Trainers | None:
        """Return the children of this machine that train, None if other machines do."""
        trainers = self._executor.pools[TRAINERS]
        return trainers if isinstance(trainers, Trainers) else None

    def _write_manifest(
        self,
        candidates: Candidates,
        plan: Plan,
        evaluating_s: float | None = None,
        evaluator: MultiDeviceEvaluator | None = None,
    ) -> None:
        """Write the manifest; at the end of a search, with its durations."""
        durations = {"search": round(time.monotonic() - self._started, 1)}
        more: dict[str, Any] = {}
        if evaluator is not None and evaluator.environments:
            more["targets"] = evaluator.environments
        if evaluator is not None and evaluator.remarks:
            more["remarks"] = [*self._resolved.remarks, *evaluator.remarks]
        if evaluating_s is not None:
            durations["evaluating"] = round(evaluating_s, 1)
            durations |= {str(stage): round(seconds, 1) for stage, seconds in self._durations.by_stage.items()}
            executor = self._executor
            more |= {
                "host": executor.host.to_json(),
                "children_peak_bytes": max(pool.peak_bytes for pool in executor.pools.values()),
                "stopped": {"why": self._stop.why, "text": self._stop.text},
            }
            trainers = self._trainers()
            if trainers is not None and trainers.gpu_failed:
                more["trains_on"] = f"CPU, after a failure on the GPU: {trainers.gpu_failed}"
        wall = self._durations.by_card()
        cpu = self._durations.by_card(cpu=True)
        times = {"durations": durations, "durations_by_card": wall, "cpu_seconds_by_card": cpu}
        write_manifest(self._run, {**describe_run(self._resolved, candidates, plan), **times, **more})


def compute_taken_share(cores: int, others_cores: float, wanted: int) -> float:
    """Return the share (0-1) of the ``wanted`` cores of a machine that other programs keep.

    They first take those that a quota, or the user, keeps from this search.
    """
    free = max(0.0, cores - others_cores)
    return max(0.0, 1.0 - free / wanted)


def _was_disturbed(evaluations: Sequence[Evaluation]) -> bool:
    """Return whether other work kept the machine busy: most timings of the run saw some."""
    # Single disturbed timings happen on any machine. Most of them together show other work throughout.
    timed = [evaluation.contended for evaluation in evaluations if evaluation.latency is not None]
    return sum(timed) * 2 > len(timed)
