"""Run one search: from a question to its evaluations, in a run folder.

``advisor.api`` calls ``run_search``, and so do re-evaluations for new cards. This module connects
the rooms and decides nothing: the README of this folder lists the calls in their order.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from advisor.core import Evaluation, Status
from advisor.engine._afterwards import when_answered
from advisor.engine._answer_so_far import answering
from advisor.engine._execution import (
    Executor,
    LocalExecutor,
    Machine,
    executor_for,
    one_blas_thread,
)
from advisor.engine._history.manifest import (
    describe_run,
    require_first_weights,
    write_images,
    write_manifest,
)
from advisor.engine._history.run_inputs import keep_inputs
from advisor.engine._interruptible import run_interruptibly
from advisor.engine._pipeline.cost_calibration import CostCalibration
from advisor.engine._pipeline.evaluation.evaluator import Evaluator
from advisor.engine._pipeline.evaluation.scorer import Scorer
from advisor.engine._pipeline.lookup import CachedCards
from advisor.engine._pipeline.materials import Materials
from advisor.engine._pipeline.rule import Rules
from advisor.engine._pipeline.stage_events import Durations, EventKind, StageEvent
from advisor.engine._pipeline.walker import Walker, Workers
from advisor.engine._preparation import find_end_of_preparation, require_time, resolve_question
from advisor.engine._progress import Progress
from advisor.engine._question import Request
from advisor.engine._rules import rules_of
from advisor.engine._scheduling.scheduler import COMPLETE, INTERRUPTED
from advisor.engine._scheduling.search_loop import SearchLoop
from advisor.engine._scheduling.stop import Stop
from advisor.engine._scheduling.storage import explain_lost_connection, open_storage
from advisor.engine._scheduling.study import Study
from advisor.engine._space.candidates import Candidates
from advisor.engine._space.plan import Plan
from advisor.engine._space.resolved import Resolved
from advisor.engine._space.skipped import record_unevaluated, skip_ruled_out
from advisor.engine._space.weights import find_weights
from advisor.engine._targets.device_prediction import CardPredictor, DevicePredictor
from advisor.engine._targets.multi_device import MultiDeviceEvaluator
from advisor.isolation import PoolKind, Trainers, measure_slowdown, part_of_a_core
from advisor.store import ArtifactCache, RunFolder

THREADS = 32
"""Threads that wait for child processes; more jobs than cores never run."""


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

    A time limit counts from ``started`` seconds of the monotonic clock; None for now. The work
    happens in a thread with its own event loop. A notebook, which already runs a loop, can
    therefore call it. An interrupt reaches the caller's thread, which stops the search in order.
    AdvisorError: the study's database is no longer reachable; finished evaluations are kept.
    UsageError: it cannot be answered here.
    """
    began = time.monotonic() if started is None else started
    resumed = None if resume is None else RunFolder.open(resume)
    with contextlib.ExitStack() as held:
        if resumed is not None:
            # Before anything that may wait for the process that has the run,
            # such as a lock of the cache.
            held.callback(resumed.hold().release)
        try:
            resolved = resolve_question(request, resumed, progress.say, began)
        except KeyboardInterrupt:
            progress.tell(
                "interrupted before the search began: type the same command to begin again"
            )
            raise
        execution = resolved.execution
        executor = executor_for(
            execution, lambda: None if verbose else run.place(run.log_file.name)
        )
        # From here on there is a run, which --resume can continue:
        # what can be refused without one was refused above.
        run = resumed or RunFolder.create(request.folder, request.run_name)
        with contextlib.closing(executor), _keeping_latest(run):
            if resumed is None:
                keep_inputs(run, request.question)
                run.write_request(request.written)
                held.callback(run.hold().release)
            cache = held.enter_context(ArtifactCache.open_limited(execution.cache_size, run.path))
            held.enter_context(progress.kept_in(run))
            calibration = _calibrate_costs(executor.machine)
            search = _Search(resolved, run, cache, executor, progress, began, calibration)
            # The thread releases what is held: after a second interrupt it still writes.
            work = partial(_work_and_release, search, held.pop_all())
            interrupted = run_interruptibly(work, search.ask_to_stop, "advisor-search")
            return SearchResult(run, INTERRUPTED if interrupted else search.stop)


@contextlib.contextmanager
def _keeping_latest(run: RunFolder) -> Iterator[None]:
    """Let ``latest`` lead to the earlier run again if the block fails before this run has a
    result.

    After an interrupt it leads here, where --resume goes on.
    """
    try:
        yield
    except Exception:
        has_result = any(evaluation.status is Status.OK for evaluation in run.evaluations())
        if not has_result:
            run.give_latest_back()
        raise


class _Search:
    """One search while it runs. ``stop`` says why it ended.

    :meth:`work` does all of it in the thread that calls it.
    Another thread may call :meth:`ask_to_stop` meanwhile.
    """

    def __init__(
        self,
        resolved: Resolved,
        run: RunFolder,
        cache: ArtifactCache,
        executor: Executor,
        progress: Progress,
        started: float,
        calibration: CostCalibration,
    ) -> None:
        self.stop = COMPLETE
        self._resolved = resolved
        self._run = run
        self._cache = cache
        self._executor = executor
        self._progress = progress
        self._started = started
        self._calibration = calibration
        self._durations = Durations()
        self._loop: asyncio.AbstractEventLoop | None = None
        machine = executor.machine
        # The loop, the evaluator and the progress share one calibration:
        # the time that a stage took changes what others cost.
        self._search_loop = SearchLoop(
            resolved.request,
            run,
            progress,
            started,
            machine.cores,
            calibration,
            machine.trainings,
            machine.spare_jobs,
        )

    def work(self) -> None:
        """Search: first what needs no event loop, then the rest in one."""
        self._begin_child()
        if self._resolved.images is not None:
            write_images(self._run, self._resolved.images)
        candidates = self._fetch_candidates()
        # Many children run at once; a BLAS with a thread
        # for each core would fight them for the cores.
        with one_blas_thread():
            asyncio.run(self._search_among(candidates))

    def ask_to_stop(self) -> None:
        """Let the search end in order; what is done is kept."""
        self._progress.tell(
            "stopping; finished evaluations are kept. Interrupt again to end at once."
        )
        stopping = self._search_loop.stopping
        # The search has no event loop yet, so nobody waits for the event: it can be set from here.
        if self._loop is None:
            stopping.set()
            return
        # A loop that has just been closed has nothing left to stop.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(stopping.set)

    def _begin_child(self) -> None:
        """Let a child that will convert begin:
        it takes seconds to import TensorFlow, while weights are fetched.
        """
        converts = any(card.needs_converter for card in self._resolved.cards)
        if converts and isinstance(self._executor, LocalExecutor):
            self._executor.begin()

    def _fetch_candidates(self) -> Candidates:
        """Return the cards with their weights;
        refuse to go on where the time is over, or a resumed run had others.
        """
        execution = self._resolved.execution
        ends_at = find_end_of_preparation(execution, self._started)
        # Weights that lie here would be called late if the images have taken the whole limit.
        require_time(execution, ends_at, self._run)
        candidates = find_weights(self._resolved, self._progress.say, ends_at)
        require_time(execution, ends_at, self._run)
        require_first_weights(self._run, candidates)
        return candidates

    async def _search_among(self, candidates: Candidates) -> None:
        """Plan, evaluate, judge the finalists, do what is left with an answer,
        and note how the search went.
        """
        self._enter_loop()
        resolved = self._resolved
        plan = self._make_plan(candidates)
        predictor = DevicePredictor()
        rules = rules_of(plan, CardPredictor(resolved.targets, plan.cards_by_name, predictor))
        done = skip_ruled_out(self._run, plan, rules)
        with self._open_study(plan, done) as study:
            # The manifest is written before the first job,
            # so that a killed search can be continued and read.
            self._write_manifest(candidates, plan, {}, {})
            with contextlib.closing(self._executor):
                walker = self._make_walker(candidates, plan)
                evaluator = self._make_evaluator(walker, plan, rules, predictor)
                scorer = self._make_scorer(walker, plan)
                self._show_start(plan, done)
                async with answering(self._run, self._progress.answer, self._executor.machine):
                    began = time.monotonic()
                    self.stop = await self._search_loop.evaluate_all(
                        study, evaluator, plan, len(done), scorer
                    )
                    evaluating_s = time.monotonic() - began
                    await self._finish_evaluations(evaluator, plan)
                    await self._judge_finalists(evaluator, scorer)
                    await self._use_time_left(scorer)
                # A search that other work disturbed says nothing about this machine:
                # its pace is not kept for the next one.
                self._calibration.keep(disturbed=_was_disturbed(self._run.evaluations()))
                if self._search_loop.stopping.is_set():
                    self.stop = INTERRUPTED
                durations = self._list_durations(evaluating_s)
                self._write_manifest(candidates, plan, durations, self._describe_end(evaluator))

    def _make_plan(self, candidates: Candidates) -> Plan:
        """Return the search space; with a time limit, it knows what the cache has."""
        resolved = self._resolved
        plan = resolved.plan(candidates, self._calibration.pace)
        # Without a limit, equal searches do equal work, whatever the cache has.
        if resolved.execution.time_limit_s is None:
            return plan
        materials = replace(resolved.materials(candidates, plan), cache=self._cache)
        remeasure = resolved.execution.remeasure
        cached = CachedCards(plan.cards, plan.workload, materials, remeasure)
        return replace(plan, cached=cached.list_done())

    def _enter_loop(self) -> None:
        """Note the event loop that runs, and give it threads for the jobs that wait."""
        self._loop = asyncio.get_running_loop()
        # The default executor has few threads on small machines,
        # and each waiting job occupies one.
        self._loop.set_default_executor(ThreadPoolExecutor(THREADS))

    @contextlib.contextmanager
    def _open_study(self, plan: Plan, done: Sequence[Evaluation]) -> Iterator[Study]:
        """Open the study of the run, which has the results that are ``done``."""
        question = self._resolved.question
        execution = self._resolved.execution
        with (
            open_storage(execution.storage, self._run) as (storage, name),
            explain_lost_connection(execution.storage, self._run.path),
        ):
            yield Study(
                storage, name, plan, question.limits, execution.sampler, question.seed, done
            )

    def _make_walker(self, candidates: Candidates, plan: Plan) -> Walker:
        """Return what runs the stages of candidates."""
        executor = self._executor
        search_loop = self._search_loop
        materials = replace(
            self._resolved.materials(candidates, plan, executor.host),
            cache=self._cache,
            budget_training=search_loop.budget_training,
        )
        trainers = self._trainers()
        if trainers is not None:
            # Trainers say when they leave a GPU that failed.
            trainers.tell = self._progress.say
        workers = Workers(
            executor.machine,
            executor.pools,
            executor.on_device,
            search_loop.places,
            search_loop.spare,
        )
        listen = partial(self._note_event, materials, plan)
        return Walker(materials, workers, listen, self._resolved.execution.remeasure)

    def _note_event(self, materials: Materials, plan: Plan, event: StageEvent) -> None:
        """Show an event of a stage, and learn from it what stages take."""
        # A job on spare time waits for others: its seconds say nothing of the machine.
        spare = event.stage.scope.card in self._search_loop.spare
        if not spare:
            self._calibration.note(event, plan.costs.seconds(event.stage))
            if event.stage.reads is not None:
                images = len(event.stage.reads(materials).paths)
                self._search_loop.judging.note(event, images)
        self._progress.stage(event, spare)
        self._durations.note(replace(event, seconds=event.cpu_s) if spare else event)
        if event.kind in (EventKind.DONE, EventKind.CACHED):
            self._search_loop.finished.add(event.stage)

    def _make_evaluator(
        self,
        walker: Walker,
        plan: Plan,
        rules: Rules,
        predictor: DevicePredictor,
    ) -> MultiDeviceEvaluator:
        """Return what evaluates configurations, on all devices of the question."""
        resolved = self._resolved
        targets = resolved.targets
        on_host = Evaluator(
            walker,
            plan.workload,
            plan.cards_by_name,
            resolved.recipes,
            rules,
            self._run,
            targets.host,
        )
        return MultiDeviceEvaluator(
            on_host,
            targets,
            predictor,
            resolved.question,
            self._run,
            self._executor,
            self._progress.doing,
        )

    def _make_scorer(self, walker: Walker, plan: Plan) -> Scorer | None:
        """Return what scores finalists on the hold-out; None without images."""
        if self._resolved.images is None:
            return None
        return Scorer(
            walker, plan.workload, plan.cards_by_name, self._run, self._search_loop.judging
        )

    def _show_start(self, plan: Plan, done: Sequence[Evaluation]) -> None:
        """Show what the search is going to do, and how long it may take."""
        limit_s = self._resolved.execution.time_limit_s
        left_s = None
        if limit_s is not None:
            left_s = max(1.0, self._started + limit_s - time.monotonic())
        configurations = [evaluation.configuration for evaluation in done]
        self._progress.start(plan, configurations, self._calibration, left_s)

    async def _finish_evaluations(self, evaluator: MultiDeviceEvaluator, plan: Plan) -> None:
        """End what still runs, try again what deserves it,
        and record the cards that the search did not reach.
        """
        # What still runs would keep cores from the finalists.
        await evaluator.drop()
        # In this order: a timing that succeeds now can make the rescue
        # of skipped configurations needless.
        await self._search_loop.retry_timings(evaluator)
        await self._search_loop.rescue(evaluator, plan)
        await self._search_loop.finish_beside(evaluator)
        for remark in evaluator.remarks:
            self._progress.say(remark)
        # After an interrupt the cards without a result are not recorded:
        # the resumed run still evaluates them.
        if not self._search_loop.stopping.is_set():
            record_unevaluated(self._run, plan, self.stop.reason)

    async def _judge_finalists(
        self, evaluator: MultiDeviceEvaluator, scorer: Scorer | None
    ) -> None:
        """Time the finalists for longer, then score them on the hold-out."""
        await self._search_loop.time_again(evaluator)
        # Last, because a longer timing can change which files are finalists,
        # and the hold-out judges only finalists.
        await self._search_loop.judge(scorer)

    async def _use_time_left(self, scorer: Scorer | None) -> None:
        """Do what a search still can when it has its answer."""
        await when_answered(
            scorer,
            self._run,
            self._search_loop.stopping,
            self._resolved.execution,
            self._started,
            self._progress.say,
            self._search_loop.answer_s,
        )

    def _trainers(self) -> Trainers | None:
        """Return the children of this machine that train, None if other machines do."""
        trainers = self._executor.pools[PoolKind.TRAINERS]
        return trainers if isinstance(trainers, Trainers) else None

    def _write_manifest(
        self,
        candidates: Candidates,
        plan: Plan,
        durations: Mapping[str, float],
        more: Mapping[str, Any],
    ) -> None:
        """Write the manifest, with the seconds since the search began;
        ``more`` replaces entries, or adds some.
        """
        searched = {"search": round(time.monotonic() - self._started, 1)}
        manifest = {
            **describe_run(self._resolved, candidates, plan),
            "durations": {**searched, **durations},
            "durations_by_card": self._durations.by_card(),
            "cpu_seconds_by_card": self._durations.by_card(cpu=True),
        }
        write_manifest(self._run, {**manifest, **more})

    def _list_durations(self, evaluating_s: float) -> dict[str, float]:
        """Return the seconds of the evaluations, and those of each stage."""
        durations = {"evaluating": round(evaluating_s, 1)}
        for stage, seconds in self._durations.by_stage.items():
            durations[str(stage)] = round(seconds, 1)
        return durations

    def _describe_end(self, evaluator: MultiDeviceEvaluator) -> dict[str, Any]:
        """Return the entries of the manifest that are known only when a search has ended."""
        executor = self._executor
        entries: dict[str, Any] = {
            "host": executor.host.to_json(),
            "children_peak_bytes": max(pool.peak_bytes for pool in executor.pools.values()),
            "stopped": {"why": self.stop.why, "text": self.stop.text},
        }
        if evaluator.environments:
            entries["targets"] = evaluator.environments
        if evaluator.remarks:
            entries["remarks"] = [*self._resolved.remarks, *evaluator.remarks]
        trainers = self._trainers()
        if trainers is not None and trainers.gpu_failed:
            entries["trains_on"] = f"CPU, after a failure on the GPU: {trainers.gpu_failed}"
        return entries


def _work_and_release(search: _Search, held: contextlib.ExitStack) -> None:
    """Search, and release what is ``held`` for the search."""
    with held:
        search.work()


def _calibrate_costs(machine: Machine) -> CostCalibration:
    """Return what stages cost on this machine now, beside the other programs that use it."""
    slowdown = measure_slowdown(machine.cores)
    return CostCalibration(slowdown=slowdown, part=part_of_a_core(), cores=machine.cores)


def _was_disturbed(evaluations: Sequence[Evaluation]) -> bool:
    """Return whether other work kept the machine busy: most timings of the run saw some."""
    # Single disturbed timings happen on any machine.
    # Most of them together show other work throughout.
    timed = [evaluation.contended for evaluation in evaluations if evaluation.latency is not None]
    return sum(timed) * 2 > len(timed)
