"""Evaluates what the study suggests, several configurations at a time, until the search ends; then the finalists."""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import Any, Protocol

from advisor.core.decision import Decision
from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Configuration, Evaluation
from advisor.core.training import recipe_of
from advisor.engine.decide import decide_run
from advisor.engine.pipeline.evaluation.scorer import Scorer
from advisor.engine.pipeline.stage import StageName
from advisor.engine.pipeline.stages.figures import SURVEY
from advisor.engine.question import Request
from advisor.engine.scheduling.promotion import FrontBound
from advisor.engine.scheduling.scheduler import NO_TIME, Allowance, Scheduler, TimeLimit
from advisor.engine.scheduling.stopping import (
    COMPLETE,
    ExpectedGainRule,
    PickSoFar,
    Stop,
    ended_early,
    finalists,
    named_files,
    score,
)
from advisor.engine.scheduling.study import Study
from advisor.engine.space.plan import Plan, too_large, too_slow
from advisor.engine.targets.multi_device import MultiDeviceEvaluator
from advisor.store import RunFolder

MOST_ROUNDS = 3
"""Times that the hold-out may refute a pick before what is picked then stays without a hold-out figure."""


class SearchProgress(Protocol):
    """Shows a search while it runs: what is being done, results, and configurations that are set aside."""

    def say(self, text: str) -> None: ...
    def evaluated(self, evaluation: Evaluation) -> None: ...
    def deferred(self, configurations: Collection[Configuration]) -> None: ...


class SearchLoop:
    """The evaluations of one search, which began at ``started`` seconds of the monotonic clock.

    ``observed`` returns the seconds that stages take here over those that the plan expects. Set ``stopping`` to end the
    search; what is done is kept.
    """

    def __init__(
        self, request: Request, run: RunFolder, progress: SearchProgress, started: float, cores: int,
        observed: Callable[[], float] = lambda: 1.0,
    ) -> None:  # fmt: skip
        self._cores, self._observed, self._judging_s, self._late = cores, observed, 0.0, 0
        self._question, self._execution = request.question, request.execution
        self._run, self._progress, self._started = run, progress, started
        self._bound, self._early = FrontBound(request.question.limits), dict[Configuration, Evaluation]()
        self._so_far: PickSoFar | None = None
        self.stopping = asyncio.Event()

    async def evaluate_all(
        self, study: Study, evaluator: MultiDeviceEvaluator, plan: Plan, bound: FrontBound, done: int,
        scorer: Scorer | None = None,
    ) -> Stop:  # fmt: skip
        """Evaluate until nothing is left, a limit is reached or the user stops the search; return the reason.

        ``done`` configurations have a result already. ``scorer`` runs the pick so far on the hold-out.
        """
        self._bound, self._judging_s = bound, plan.judging_s
        self._so_far = so_far = PickSoFar(lambda: self._decisions()[0].pick, scorer, self._run)
        bound.add(self._run.evaluations())
        allowance = self._allowance(plan) if self._question.tuning_limited else None
        trials_left = max(0, self._execution.max_trials - done) if self._execution.max_trials else plan.size
        scheduler = Scheduler(study, self._bound, plan, trials_left, self._cores, allowance)
        counted = [e for e in plan.configurations() if not (allowance and recipe_of(e.training).tunes_backbone)]
        rule = ExpectedGainRule(study, self._execution.least_gain(len(counted)))

        def record(evaluations: Iterable[Evaluation]) -> None:
            for evaluation in evaluations:
                if self._early.pop(evaluation.configuration, None) != evaluation:
                    self._run.append(evaluation)
                study.tell(evaluator.on_worst_device(evaluation))
                self._bound.add([evaluation])
                self._progress.evaluated(evaluation)

        def record_rejected(rejected: Iterable[tuple[Configuration, str]]) -> None:
            for each, reason in rejected:
                self._late += reason == NO_TIME
                record([plan.skipped(each, reason, StageName.PROMOTION)])

        running: dict[asyncio.Future[Any], Configuration] = {}
        stopped: asyncio.Future[Any] = asyncio.ensure_future(self.stopping.wait())
        ended = False
        while not ended:
            while not rule.met and (configuration := scheduler.next(running.values())) is not None:
                running[asyncio.ensure_future(evaluator.evaluate(configuration))] = configuration
            self._progress.deferred([*scheduler.deferred, *scheduler.waiting])
            if running:
                left_s = self._evaluating_left()
                finished, _ = await asyncio.wait({*running, stopped}, timeout=left_s, return_when="FIRST_COMPLETED")
                tasks = [task for task in running if task in finished]
                for task in tasks:
                    del running[task]
                record(task.result() for task in tasks)
                so_far.look()
                rule.update()
                ended = stopped.done() or self._evaluating_left() == 0
            elif scheduler.deferred and not rule.met:
                record_rejected(scheduler.reject_deferred())
            else:
                ended = True
                record_rejected([] if rule.met else scheduler.refuse_rest())
        record_rejected(scheduler.reject_deferred())
        stop = self._stop(study, rule, unfinished=bool(running))
        await _cancel([*running, stopped])
        await so_far.close()
        return stop

    def keep(self, floats: Evaluation) -> None:
        """Keep the result of a float32 file that a form needed, though the study may ask for it later."""
        if floats.configuration not in self._bound.results:
            self._run.append(floats)
            self._bound.add([floats])
            self._early[floats.configuration] = floats
            if self._so_far is not None:
                self._so_far.look()

    async def rescue(self, evaluator: MultiDeviceEvaluator, plan: Plan) -> None:
        """Evaluate a few skipped configurations if nothing meets the budget: the closest answer needs figures."""
        evaluations = self._run.evaluations()
        if self.stopping.is_set() or decide_run(self._run, evaluations, self._question).decision.feasible:
            return
        again = too_slow(plan, evaluations)
        if not again and self._time_left() != 0:
            again = too_large(plan, evaluations)
        evaluator.stop_screening()
        for evaluation in await asyncio.gather(*map(evaluator.evaluate, again)):
            self._run.append(evaluation)

    async def time_again(self, evaluator: MultiDeviceEvaluator) -> None:
        """Time the finalists for longer. In a large space every configuration was timed briefly.

        A longer timing can bring others to the front: they are timed again too, until the front stays the same.
        """
        seen: set[Configuration] = set()
        while not self.stopping.is_set() and self._time_left() != 0:
            brief = [e for e in self._run.evaluations() if e.timing is not None and e.timing.effort == SURVEY]
            brief = [e for e in brief if e.configuration not in seen]
            named = {file for decision in self._decisions() for file in named_files(decision)} if brief else set[str]()
            chosen = [e for e in brief if e.artefact_sha256 in named]
            if not chosen:
                return
            seen |= {e.configuration for e in chosen}
            self._progress.say(f"timing {len(chosen)} finalists again, for longer")
            for evaluation in chosen:
                with contextlib.suppress(AdvisorError):  # the brief timing stays, and the report says that it was brief
                    self._run.append(await evaluator.time_again(evaluation))

    async def judge(self, scorer: Scorer | None) -> None:
        """Score the finalists on the hold-out if there are images. After an interrupt the resumed run does it."""
        if scorer is None or self.stopping.is_set():
            return
        self._progress.say("judging the finalists on the hold-out")
        judging = asyncio.ensure_future(self._judge(scorer))
        stopped = asyncio.ensure_future(self.stopping.wait())
        finished, _ = await asyncio.wait({judging, stopped}, return_when="FIRST_COMPLETED")
        await _cancel(each for each in (judging, stopped) if each not in finished)
        if judging in finished:
            judging.result()

    async def _judge(self, scorer: Scorer) -> None:
        """Score the finalists. Where the hold-out refutes a pick, score what is picked then, too."""
        tried: set[str] = set()
        for _ in range(MOST_ROUNDS):
            with_drop = self._question.limits.max_drop_points is not None
            chosen = finalists(self._decisions(), self._run.evaluations(), scorer.holdout_images, with_drop)
            if not chosen or chosen[0].artefact_sha256 in tried:
                return
            everywhere = self._question.robust or self._execution.capture_all
            await score(chosen, scorer, self._run, self._time_left, everywhere)
            tried |= {e.artefact_sha256 for e in chosen}

    def _decisions(self) -> tuple[Decision, ...]:
        answer = decide_run(self._run, self._run.evaluations(), self._question)
        return answer.decision, *answer.by_device.values()

    def _allowance(self, plan: Plan) -> Allowance:
        """Return what limits fine-tuning if the user chose no training recipes."""

        @lru_cache(maxsize=16)
        def decided(cards: frozenset[str], _results: int) -> str | None:
            known = [each for each in self._bound.results.values() if each.configuration.card in cards]
            pick = decide_run(self._run, known, self._question).decision.pick
            return None if pick is None else pick.configuration.card

        def favourite(cards: Collection[str]) -> str | None:
            return decided(frozenset(cards), len(self._bound.results))

        seconds = self._execution.time_limit_s
        limit = None if seconds is None else TimeLimit(seconds, lambda: self._evaluating_left() or 0.0, self._observed)
        return Allowance(plan, self._bound, favourite, limit, self._question.preference)

    def _stop(self, study: Study, rule: ExpectedGainRule, unfinished: bool) -> Stop:
        left = study.unevaluated + self._late
        if unfinished or self._late:
            return ended_early("time_limit", f"at --time-limit {self._execution.time_limit}", left)
        if left == 0:
            return COMPLETE
        how = f"at --max-trials {self._execution.max_trials}"
        return rule.stop(left) if rule.met else ended_early("max_trials", how, left)

    def _evaluating_left(self) -> float | None:
        """Return the seconds until evaluations must end, so that pick and runner-up still run on the hold-out."""
        left_s = self._time_left()
        return None if left_s == math.inf else max(0.0, left_s - self._observed() * self._judging_s)

    def training_left_s(self, plan: Plan, card: str) -> float | None:
        """Return the seconds in which a card must be fine-tuned, so that its forms have results; None for no limit."""
        left_s = self._evaluating_left()
        return None if left_s is None else max(0.0, left_s - self._observed() * plan.finishing_s[card])

    def _time_left(self) -> float:
        limit = self._execution.time_limit_s
        return math.inf if limit is None else max(0.0, limit - (time.monotonic() - self._started))


async def _cancel(tasks: Iterable[asyncio.Future[Any]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
