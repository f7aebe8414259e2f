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
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.isolation import ChildPool
from advisor.search.context import Context, Notify
from advisor.search.evaluate import Evaluator
from advisor.search.machine import Machine, one_blas_thread
from advisor.search.pace import PaceBook
from advisor.search.plan import Plan
from advisor.search.prepare import Candidates, chosen_cards, chosen_recipes, find_weights, make_plan, read_pictures
from advisor.search.preview import refuse_too_short
from advisor.search.progress import Progress
from advisor.search.record import describe_run, write_manifest, write_pictures
from advisor.search.request import Request, usable_cores
from advisor.search.resume import same_cards, same_weights
from advisor.search.stages import Stages
from advisor.search.stopping import COMPLETE, INTERRUPTED, Stop, Worth, max_trials_reached, time_limit_reached
from advisor.search.storage import lost_connection, opened, reach
from advisor.search.study import Study
from advisor.store import ArtifactCache, RunFolder

CARDS_IN_FLIGHT = 3
"""How many cards' configurations are handed out at a time: enough to keep the cores busy across measurements."""

RESCUED = 2
"""How many of what was left out are evaluated all the same where nothing meets the budget."""

FILTER = "plan"
"""Stage of evaluations that were not begun: what is known beforehand rules them out."""


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
    with search.run.hold():
        search.write_pictures()
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
        self.request = request
        self.recipes = chosen_recipes(request)
        self._cards = chosen_cards(request)
        self.pictures = read_pictures(request, progress.say)
        if resume:
            self.run = RunFolder.open(resume)
            self._cards = same_cards(self.run, request, self._cards, self.recipes, self.pictures)
        else:
            self._refuse_what_cannot_work()
            self.run = RunFolder.create(Path(request.out), _slug(request))
            self.run.write_request(request.to_dict())
        self._log = None if verbose else self.run.log_file
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._book = PaceBook()
        self.stopped = COMPLETE
        self.error: BaseException | None = None

    def _refuse_what_cannot_work(self) -> None:
        if self.request.time_limit_s is not None:
            refuse_too_short(self.request, self.recipes, self._cards, self.pictures)
        reach(self.request.storage)

    def work(self) -> None:
        """Run the search; what it raises is left in ``error``."""
        try:
            candidates = find_weights(self.request, self._cards, self._progress.say)
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
        if self._loop and self._stopping:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopping.set)

    async def _work(self, candidates: Candidates) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_default_executor(ThreadPoolExecutor(32))
        request, plan = self.request, make_plan(self.request, candidates, self.recipes, self.pictures, self._book.pace)
        done = self._leave_out(plan)
        with opened(request.storage, self.run) as (storage, name), lost_connection(request.storage, self.run.path):
            study = Study(storage, name, plan, request.limits, request.sampler, request.seed, done)
            self._write_manifest(candidates, plan)
            with ChildPool(self._log) as heavy, ChildPool(self._log) as light:
                evaluator = self._evaluator(candidates, plan, heavy, light)
                self._progress.start(plan, len(done))
                await self._evaluate_all(study, evaluator, plan, len(done))
                await self._rescue(evaluator, plan)
                self._book.keep(evaluator.spent)
                spent = {stage: round(seconds, 1) for stage, seconds in sorted(evaluator.spent.items())}
                peak = max(heavy.peak_bytes, light.peak_bytes)
                if self._stopping.is_set():
                    self.stopped = INTERRUPTED
                self._write_manifest(candidates, plan, spent, children_peak_bytes=peak, stopped=self.stopped.to_json())

    def _leave_out(self, plan: Plan) -> list[Evaluation]:
        """Return what need not be evaluated: what is done, and what cannot meet the size budget, which is recorded.

        A failure may have been the machine's: a run that goes on tries it again.
        """
        done = {e.configuration: e for e in self.run.evaluations() if e.status is not Status.FAILED}
        families = {card.name: card.family for card in plan.cards}
        for configuration, reason in plan.too_large(self.request.limits.size_bytes).items():
            if configuration not in done:
                family = families[configuration.card]
                done[configuration] = Evaluation(configuration, Status.SKIPPED, family, reason, FILTER)
                self.run.append(done[configuration])
        return list(done.values())

    def _evaluator(self, candidates: Candidates, plan: Plan, heavy: ChildPool, light: ChildPool) -> Evaluator:
        context = Context(
            request=self.request,
            pictures=self.pictures,
            cache=ArtifactCache(),
            machine=Machine(usable_cores()),
            heavy=heavy,
            light=light,
            notify=self._notify(plan),
        )
        # Of what is in flight the cheapest goes first: answers come early, and the cores stay busy to the end.
        by_price = sorted(plan.cards, key=lambda card: plan.price_s(card, "float32"))
        order = {card.name: place for place, card in enumerate(by_price)}
        stages = Stages(context, candidates.weights, order)
        cards = {card.name: card for card in plan.cards}
        recipes: dict[str, Recipe] = self.recipes
        return Evaluator(context, stages, cards, recipes, self.run, order)

    def _notify(self, plan: Plan) -> Notify:
        cards = {card.name: card for card in plan.cards}
        prices = {name: plan.stage_prices(card) for name, card in cards.items()}

        def notify(stage: str, card: str, doing: str, event: str) -> None:
            self._progress.stage(stage, card, doing, event)
            if event == "done":
                name = stage.rsplit("-", 1)[0]
                self._book.note(name, prices[card].get(name, (0, 0.0))[1])

        return notify

    async def _evaluate_all(self, study: Study, evaluator: Evaluator, plan: Plan, done: int) -> None:
        """Keep some cards' configurations in flight until the study, a limit or the user's patience ends."""
        at_most = CARDS_IN_FLIGHT * len(plan.recipes) * len(plan.threads)
        left = max(0, self.request.max_trials - done) if self.request.max_trials else plan.size
        worth = Worth(study, self.request.least_gain(plan.size))
        flying: set[asyncio.Task[Evaluation]] = set()
        assert self._stopping is not None
        stopped = asyncio.ensure_future(self._stopping.wait())
        asked: Configuration | None = None
        while True:
            while left and len(flying) < at_most and not worth.ended and (asked := study.ask()) is not None:
                flying.add(asyncio.ensure_future(evaluator.evaluate(asked)))
                left -= 1
            if not flying:
                break
            finished, _ = await asyncio.wait(
                {*flying, stopped}, timeout=self._time_left(), return_when="FIRST_COMPLETED"
            )
            for task in finished - {stopped}:
                flying.remove(task)  # type: ignore[arg-type]
                self._record(task.result(), study)  # type: ignore[arg-type]
            worth.look()
            if stopped in finished or self._time_left() == 0:
                break
        self.stopped = self._why(study, plan, worth, bool(flying))
        await _cancel([*flying, stopped])

    def _why(self, study: Study, plan: Plan, worth: Worth, in_flight: bool) -> Stop:
        count = study.unevaluated
        if in_flight:
            return time_limit_reached(self.request.time_limit, count)
        if count == 0:
            return COMPLETE
        return worth.stop(count) if worth.ended else max_trials_reached(self.request.max_trials, count)

    async def _rescue(self, evaluator: Evaluator, plan: Plan) -> None:
        """Where all was left out or failed, evaluate a little of it: the least-bad answer needs figures too.

        Of cards that were too slow to be trained the fastest, else of files over the size budget the smallest.
        """
        evaluations = self.run.evaluations()
        limits = self.request.limits
        if self._stopping is None or self._stopping.is_set() or any(limits.met_by(e) for e in evaluations):
            return
        again = self._screened(plan, evaluations)
        if not again and self._time_left() != 0:
            again = self._filtered(plan, evaluations)
        evaluator.screening = False
        for card in again:
            for evaluation in await asyncio.gather(*(evaluator.evaluate(c) for c in again[card])):
                self.run.append(evaluation)

    @staticmethod
    def _screened(plan: Plan, evaluations: Sequence[Evaluation]) -> dict[str, list[Configuration]]:
        if any(e.status is Status.OK for e in evaluations):
            return {}
        screened = {e.configuration.card for e in evaluations if e.stage == "screen"}
        fastest = sorted((card for card in plan.cards if card.name in screened), key=lambda card: card.macs)[:RESCUED]
        return {card.name: [c for c in plan.configurations() if c.card == card.name] for card in fastest}

    @staticmethod
    def _filtered(plan: Plan, evaluations: Sequence[Evaluation]) -> dict[str, list[Configuration]]:
        cards = {card.name: card for card in plan.cards}
        filtered = [e.configuration for e in evaluations if e.stage == FILTER and e.configuration.card in cards]
        smallest = sorted(filtered, key=lambda c: plan.least_size(cards[c.card], c.compression))
        chosen = [(c.card, c.compression) for c in smallest[: RESCUED * len(plan.threads)]]
        again: dict[str, list[Configuration]] = {}
        for configuration in filtered:
            if (configuration.card, configuration.compression) in chosen:
                again.setdefault(configuration.card, []).append(configuration)
        return again

    def _record(self, evaluation: Evaluation, study: Study) -> None:
        self.run.append(evaluation)
        study.tell(evaluation)
        self._progress.evaluated(evaluation)

    def _time_left(self) -> float | None:
        limit = self.request.time_limit_s
        return None if limit is None else max(0.0, limit - (time.monotonic() - self._started))

    def write_pictures(self) -> None:
        """Write what was read and how it was split."""
        if self.pictures is not None:
            write_pictures(self.run, self.pictures)

    def _write_manifest(
        self, candidates: Candidates, plan: Plan, spent: Mapping[str, float] | None = None, **more: Any
    ) -> None:
        spent = {"search": round(time.monotonic() - self._started, 1), **(spent or {})}
        data = self.pictures.dataset.fingerprint if self.pictures else ""
        manifest = describe_run(self.request, candidates, plan, self._cards, self.recipes, data)
        write_manifest(self.run, {**manifest, "durations": spent, **more})


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _slug(request: Request) -> str:
    name = Path(request.data).resolve().name if request.data else request.task
    return f"{name}-{request.budget}" if request.budget else name
