"""One search from question to evaluations, in its run folder."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.compression.recipes import Recipe
from advisor.core.evaluation import Evaluation
from advisor.engine.card_times import CardTimes
from advisor.engine.execution import executor_for
from advisor.engine.execution.machine import one_blas_thread
from advisor.engine.history.manifest import describe_run, write_images, write_manifest
from advisor.engine.history.resume import same_cards, same_weights
from advisor.engine.pipeline.context import Context, Notify
from advisor.engine.pipeline.cost_calibration import CostCalibration
from advisor.engine.pipeline.evaluator import Evaluator
from advisor.engine.pipeline.stages import StageRunner, Stages
from advisor.engine.pipeline.timing import effort_for
from advisor.engine.progress import Progress
from advisor.engine.question import Request
from advisor.engine.scheduling.samplers import require_parts
from advisor.engine.scheduling.search_loop import SearchLoop
from advisor.engine.scheduling.stopping import COMPLETE, INTERRUPTED, Stop
from advisor.engine.scheduling.storage import lost_connection, opened, reach
from advisor.engine.scheduling.study import Study
from advisor.engine.space.candidates import (
    Candidates,
    chosen_cards,
    chosen_recipes,
    find_weights,
    make_plan,
    read_images,
)
from advisor.engine.space.plan import Plan
from advisor.engine.space.preview import refuse_too_short
from advisor.engine.space.skipped import leave_out, name_the_rest
from advisor.engine.targets.multi_device import MultiDeviceEvaluator
from advisor.engine.targets.selection import select_targets
from advisor.store import ArtifactCache, RunFolder


@dataclass(frozen=True)
class Outcome:
    """What a search left behind.

    Attributes:
        run: its folder.
        stop: why it ended.
    """

    run: RunFolder
    stop: Stop


def run_search(request: Request, progress: Progress, resume: Path | None = None, verbose: bool = False) -> Outcome:
    """Answer ``request`` in a new run folder, or go on with the run in ``resume``.

    The work happens in a thread with an event loop of its own, so that it also runs where a loop runs already, as in a
    notebook, and so that an interrupt reaches the caller's thread and stops the search in order.

    Raises:
        UsageError: the question, the pictures, the catalogue or the output folder is at fault; nothing was spent.
        WeightsError: no candidate's weights can be had.
        AdvisorError: the study's database went away; what was evaluated is kept.
    """
    search = _Search(request, progress, resume, verbose)
    worker = threading.Thread(target=search.work, name="advisor-search", daemon=True)
    with contextlib.closing(search.executor), search.run.hold():
        search.write_images()
        worker.start()
        interrupted = _wait(worker, search.stop)
        if search.error is not None:
            raise search.error
    return Outcome(search.run, INTERRUPTED if interrupted else search.stopped)


def _wait(worker: threading.Thread, stop: Callable[[], None]) -> bool:
    interrupted = False
    while worker.is_alive():
        try:
            worker.join(0.5)
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            stop()
    return interrupted


class _Search:
    """The state of one search while it runs."""

    def __init__(self, request: Request, progress: Progress, resume: Path | None, verbose: bool) -> None:
        self._progress = progress
        self._started = time.monotonic()
        self.request, question = request, request.question
        require_parts(request.execution.sampler)
        self.targets = select_targets(question)
        self.recipes = chosen_recipes(question)
        self._cards = chosen_cards(question)
        self.images = read_images(question, progress.say)
        if resume:
            self.run = RunFolder.open(resume)
            self._cards = same_cards(self.run, question, self._cards, self.recipes, self.images)
        else:
            self._refuse_what_cannot_work()
        self.executor = executor_for(request.execution, lambda: None if verbose else self.run.log_file)
        if not resume:
            self.run = RunFolder.create(request.output.folder, _slug(request))
            self.run.write_request(request.written)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._drive: SearchLoop | None = None
        self._book, self._times = CostCalibration(), CardTimes()
        self.stopped = COMPLETE
        self.error: BaseException | None = None

    def _refuse_what_cannot_work(self) -> None:
        if self.request.execution.time_limit_s is not None:
            refuse_too_short(self.request, self.recipes, self._cards, self.images)
        reach(self.request.execution.storage)

    def work(self) -> None:
        """Run the search; what it raises is left in ``error``."""
        try:
            candidates = find_weights(self.request.question, self.request.execution, self._cards, self._progress.say)
            same_weights(self.run, candidates)
            with one_blas_thread():
                asyncio.run(self._work(candidates))
        except BaseException as error:  # it is raised again in the caller's thread
            self.error = error
        finally:
            self._progress.close()

    def stop(self) -> None:
        """End the search in order: what is in flight is dropped, what is done is kept."""
        self._progress.say("stopping: keeping what is done")
        if self._loop and self._drive:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._drive.stopping.set)

    async def _work(self, candidates: Candidates) -> None:
        self._loop = asyncio.get_running_loop()
        executor = self.executor
        drive = self._drive = SearchLoop(self.request, self.run, self._progress, self._started, executor.machine.cores)
        self._loop.set_default_executor(ThreadPoolExecutor(32))
        question, execution = self.request.question, self.request.execution
        plan = make_plan(question, candidates, self.recipes, self.images, execution.cores, self._book.pace)
        done = leave_out(self.run, plan, question.limits)
        with opened(execution.storage, self.run) as (storage, name), lost_connection(execution.storage, self.run.path):
            study = Study(storage, name, plan, question.limits, execution.sampler, question.seed, done)
            self._write_manifest(candidates, plan)
            with contextlib.closing(executor):
                evaluator = self._evaluator(candidates, plan)
                self._progress.start(plan, len(done))
                began = time.monotonic()
                self.stopped = await drive.evaluate_all(study, evaluator, plan, len(done))
                evaluating = time.monotonic() - began
                executor.trainers.close()  # what a limit cut off would train on beside the finalists' timings
                await drive.rescue(evaluator, plan)
                if not drive.stopping.is_set():
                    name_the_rest(self.run, plan, self.stopped)
                await drive.time_again(evaluator)
                await drive.judge(evaluator)
                self._book.keep(evaluator.spent, disturbed=_disturbed(self.run.evaluations()))
                rows = {"evaluating": evaluating, **evaluator.spent}
                spent = {stage: round(seconds, 1) for stage, seconds in sorted(rows.items())}
                peak = max(each.peak_bytes for each in (executor.heavy, executor.light, executor.trainers))
                if drive.stopping.is_set():
                    self.stopped = INTERRUPTED
                more: dict[str, Any] = {"targets": evaluator.environments} if evaluator.environments else {}
                more |= {
                    "host": executor.host.to_json(),
                    "children_peak_bytes": peak,
                    "stopped": self.stopped.to_json(),
                }
                self._write_manifest(candidates, plan, spent, **more)

    def _evaluator(self, candidates: Candidates, plan: Plan) -> MultiDeviceEvaluator:
        executor = self.executor
        context = Context(
            question=self.request.question,
            remeasure=self.request.execution.remeasure,
            images=self.images,
            cache=ArtifactCache(),
            machine=executor.machine,
            heavy=executor.heavy,
            light=executor.light,
            notify=self._notify(plan),
            effort=effort_for(plan.size),
            trainers=executor.trainers,
            on_device=executor.on_device,
            host=executor.host,
        )
        # Of what is in flight the cheapest goes first: answers come early, and the cores stay busy to the end.
        by_price = sorted(plan.cards, key=lambda card: plan.prices.variant_s(card, (plan.trainings[0], "float32")))
        order = {card.name: place for place, card in enumerate(by_price)}
        stages = Stages(StageRunner(context, order), candidates.weights)
        cards = {card.name: card for card in plan.cards}
        recipes: dict[str, Recipe] = self.recipes
        evaluator = Evaluator(context, stages, cards, recipes, self.run, order)
        return MultiDeviceEvaluator(evaluator, self.targets, self.request.question, cards, self.run, executor.on_device)

    def _notify(self, plan: Plan) -> Notify:
        cards = {card.name: card for card in plan.cards}
        prices = {name: plan.prices.each(card) for name, card in cards.items()}

        def notify(stage: str, card: str, doing: str, event: str) -> None:
            self._progress.stage(stage, card, doing, event)
            self._times.note(stage, card, doing, event)
            if event == "done":
                name = stage.rsplit("-", 1)[0]
                self._book.note(name, prices[card].get(name, (0, 0.0))[1])

        return notify

    def write_images(self) -> None:
        """Write what was read and how it was split."""
        if self.images is not None:
            write_images(self.run, self.images)

    def _write_manifest(
        self, candidates: Candidates, plan: Plan, spent: Mapping[str, float] | None = None, **more: Any
    ) -> None:
        spent = {"search": round(time.monotonic() - self._started, 1), **(spent or {})}
        data = self.images.dataset.fingerprint if self.images else ""
        manifest = describe_run(self.request, candidates, plan, self._cards, self.recipes, data)
        write_manifest(self.run, {**manifest, "durations": spent, "durations_by_card": self._times.to_json(), **more})


def _disturbed(evaluations: Sequence[Evaluation]) -> bool:
    """Say whether other work kept the machine busy: most timings of the run saw some."""
    timed = [evaluation.contended for evaluation in evaluations if evaluation.latency is not None]
    return sum(timed) * 2 > len(timed)


def _slug(request: Request) -> str:
    question, budget = request.question, request.written["budget"]
    name = question.data.resolve().name if question.data else question.task
    return f"{name}-{budget}" if budget else name
