"""Keeps evaluations in flight, from the first that the study asks for to the last that a limit allows."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Configuration, Evaluation
from advisor.engine.decide import decide_run
from advisor.engine.pipeline.timing import SURVEY
from advisor.engine.progress import Progress
from advisor.engine.question import Request
from advisor.engine.scheduling.finalists import finalists, judge
from advisor.engine.scheduling.promotion import FrontBound
from advisor.engine.scheduling.scheduler import CARDS_IN_FLIGHT, Scheduler
from advisor.engine.scheduling.stopping import COMPLETE, Stop, Worth, max_trials_reached, time_limit_reached
from advisor.engine.scheduling.study import Study
from advisor.engine.space.plan import Plan
from advisor.engine.space.skipped import too_large, too_slow
from advisor.engine.targets.multi_device import MultiDeviceEvaluator
from advisor.store import RunFolder


class SearchLoop:
    """The evaluations of one search.

    Args:
        request: its limits.
        run: takes the evaluations.
        progress: is told of each.
        started: when the search began, on the monotonic clock.
        cores: how many jobs run side by side.
    """

    def __init__(
        self, request: Request, run: RunFolder, progress: Progress, started: float, cores: int = CARDS_IN_FLIGHT - 1
    ) -> None:
        self._cores = cores
        self._question, self._execution = request.question, request.execution
        self._run, self._progress, self._started = run, progress, started
        self._bound = FrontBound(request.question.limits)
        self.stopping = asyncio.Event()

    async def evaluate_all(self, study: Study, evaluator: MultiDeviceEvaluator, plan: Plan, done: int) -> Stop:
        """Keep some cards' configurations in flight until the study, a limit or the user's patience ends; say why."""
        left = max(0, self._execution.max_trials - done) if self._execution.max_trials else plan.size
        worth = Worth(study, self._execution.least_gain(plan.size))
        turns = Scheduler(study, self._bound, plan, left, self._cores)
        flying: dict[asyncio.Task[Evaluation], Configuration] = {}
        stopped = asyncio.ensure_future(self.stopping.wait())
        self._bound.add(self._run.evaluations())
        while True:
            while not worth.ended and (asked := turns.next(flying.values())) is not None:
                flying[asyncio.ensure_future(evaluator.evaluate(asked))] = asked
            self._progress.turned_away(turns.deferred)
            if not flying and (worth.ended or not turns.deferred):
                break
            if not flying:
                self._turn_away(turns, study, evaluator)
                continue
            finished, _ = await asyncio.wait(
                {*flying, stopped}, timeout=self._time_left(), return_when="FIRST_COMPLETED"
            )
            for task in [task for task in flying if task in finished]:
                del flying[task]
                self._record(task.result(), study, evaluator)
            worth.look()
            if stopped in finished or self._time_left() == 0:
                break
        self._turn_away(turns, study, evaluator)
        why = self._why(study, worth, bool(flying))
        await _cancel([*flying, stopped])
        return why

    async def rescue(self, evaluator: MultiDeviceEvaluator, plan: Plan) -> None:
        """Where all was left out or failed, evaluate a little of it: the least-bad answer needs figures too.

        Of cards that were too slow to be trained the fastest, else of files over the size budget the smallest.
        """
        evaluations = self._run.evaluations()
        if self.stopping.is_set() or decide_run(self._run, evaluations, self._question).decision.feasible:
            return
        again = too_slow(plan, evaluations)
        if not again and self._time_left() != 0:
            again = too_large(plan, evaluations)
        evaluator.screening = False
        for card in again:
            for evaluation in await asyncio.gather(*(evaluator.evaluate(c) for c in again[card])):
                self._run.append(evaluation)

    async def time_again(self, evaluator: MultiDeviceEvaluator) -> None:
        """Time finalists of a large space, which was timed briefly, as long as the answer needs.

        What takes their place on the front by that is timed again too, until the front stands.
        """
        seen: set[Configuration] = set()
        while not self.stopping.is_set() and self._time_left() != 0:
            evaluations = self._run.evaluations()
            brief = [e for e in evaluations if _timed_briefly(e) and e.configuration not in seen]
            if not brief:
                return
            answer = decide_run(self._run, evaluations, self._question)
            named = {e.configuration for e in finalists((answer.decision, *answer.by_device.values()), evaluations)}
            chosen = [e for e in brief if e.configuration in named]
            if not chosen:
                return
            seen |= {e.configuration for e in chosen}
            self._progress.say(f"timing {len(chosen)} finalists again, for longer")
            for evaluation in chosen:
                with contextlib.suppress(AdvisorError):  # the brief timing stays, and says that it was brief
                    self._run.append(await evaluator.time_again(evaluation))

    async def judge(self, evaluator: MultiDeviceEvaluator) -> None:
        """Look at the hold-out, once for each finalist; an interrupt leaves it for the run that goes on."""
        if self._question.data is None or self.stopping.is_set():
            return
        self._progress.say("judging the finalists on the hold-out")
        evaluations = self._run.evaluations()
        answer = decide_run(self._run, evaluations, self._question)
        chosen = finalists((answer.decision, *answer.by_device.values()), evaluations)
        judging = asyncio.ensure_future(judge(chosen, evaluator, self._run, lambda: self._time_left() != 0))
        stopped = asyncio.ensure_future(self.stopping.wait())
        finished, _ = await asyncio.wait({judging, stopped}, return_when="FIRST_COMPLETED")
        await _cancel([each for each in (judging, stopped) if each not in finished])
        if judging in finished:
            judging.result()

    def _why(self, study: Study, worth: Worth, in_flight: bool) -> Stop:
        count = study.unevaluated
        if in_flight:
            return time_limit_reached(self._execution.time_limit, count)
        if count == 0:
            return COMPLETE
        return worth.stop(count) if worth.ended else max_trials_reached(self._execution.max_trials, count)

    def _turn_away(self, turns: Scheduler, study: Study, evaluator: MultiDeviceEvaluator) -> None:
        """Keep what was not worth beginning, with the reasons."""
        for configuration, reason in turns.reject_deferred():
            self._record(evaluator.not_worth(configuration, reason), study, evaluator)

    def _record(self, evaluation: Evaluation, study: Study, evaluator: MultiDeviceEvaluator) -> None:
        self._run.append(evaluation)
        study.tell(evaluator.told(evaluation))
        self._bound.add([evaluation])
        self._progress.evaluated(evaluation)

    def _time_left(self) -> float | None:
        limit = self._execution.time_limit_s
        return None if limit is None else max(0.0, limit - (time.monotonic() - self._started))


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _timed_briefly(evaluation: Evaluation) -> bool:
    return evaluation.timing is not None and evaluation.timing.effort == SURVEY
