"""Run a search: evaluate what the scheduler chooses until the search ends, then judge finalists.

``run_search`` makes one :class:`SearchLoop` for each search and calls its public methods, in the
order of ``engine/README.md``. The scheduler says what is evaluated next, and asks the rule or the
sampler of the study for it. Each result is appended to the run at once, so a search that is killed
here loses only what was running.

A time limit has three ends: evaluations end first, so that the hold-out has its time
(``_evaluating_left``), then the answer is written (``_answer_left``), then the limit is over
(``_time_left``). All three are seconds by the clock.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from advisor.catalog import Card
from advisor.core import FLOAT, AdvisorError, Configuration, Decision, Evaluation, Status
from advisor.engine._decide import decide_run
from advisor.engine._pipeline.cost_calibration import CostCalibration
from advisor.engine._pipeline.evaluation.judging import JudgingPace
from advisor.engine._pipeline.evaluation.scorer import Scorer
from advisor.engine._pipeline.materials import TrainingBudget
from advisor.engine._pipeline.stage import Stage, StageName
from advisor.engine._question import Request
from advisor.engine._scheduling.belief import CardTraining
from advisor.engine._scheduling.early_score import PickSoFar
from advisor.engine._scheduling.finalists import (
    choose_finalists,
    choose_named,
    list_brief,
    score_finalists,
)
from advisor.engine._scheduling.next_steps import SearchRule
from advisor.engine._scheduling.prices import TimeLimit
from advisor.engine._scheduling.running_tasks import cancel_tasks, stop_spare
from advisor.engine._scheduling.scheduler import Scheduler
from advisor.engine._scheduling.stop import Stop
from advisor.engine._scheduling.study import Study
from advisor.engine._space.plan import (
    ANSWER_CPU_S,
    ANSWER_S,
    JUDGING_MARGIN,
    JUDGING_SHARE,
    MEASURED_MARGIN,
    Plan,
)
from advisor.engine._space.skipped import (
    UNDECIDED,
    list_failed_timings,
    list_too_large,
    list_too_slow,
)
from advisor.engine._targets.multi_device import MultiDeviceEvaluator
from advisor.isolation import waiting_factor
from advisor.store import RunFolder
from advisor.training import Reserve

MOST_ROUNDS = 3
"""Picks that are judged on the hold-out one after the other at most."""

GRACE = 0.6
"""Share of the hold-out's time for running work: a new file gains more than the last images."""

LEAST_JUDGING_S = 2.0
"""CPU seconds that are kept for the hold-out at least. In a demonstration of 105 s, 0.3 s were
left, and a pick that came last was judged on 12 of 78 images.
"""

WRITING_S = 2.0
"""CPU seconds in which a trained network becomes a file, after the time of its training."""

LOOK_AGAIN_S = 1.0
"""Seconds until the load is read again: one decision asks a hundred times what is left."""


class SearchProgress(Protocol):
    """Shows a search while it runs: what is being done, results,
    and configurations that are set aside.
    """

    def say(self, text: str) -> None: ...
    def evaluated(self, evaluation: Evaluation) -> None: ...
    def deferred(self, configurations: Collection[Configuration]) -> None: ...


class SearchLoop:
    """The evaluations of one search, which began at ``started`` seconds of the monotonic clock.

    ``calibration`` knows what stages take here over what the plan expects. ``finished`` are the
    stages that are done, which the search adds. ``judging`` knows what the hold-out takes.
    ``places`` are the cards in the order in which they were begun: the first has the cores before
    the others. Those in ``spare`` have what these leave, in ``spare_jobs`` jobs at most. Set
    ``stopping`` to end it; what is done is kept.
    """

    def __init__(
        self,
        request: Request,
        run: RunFolder,
        progress: SearchProgress,
        started: float,
        cores: int,
        calibration: CostCalibration | None = None,
        trainings: int = 1,
        spare_jobs: int = 0,
    ) -> None:
        self._cores = cores
        self._trainings = trainings
        self._spare_jobs = spare_jobs
        self._observed = calibration.observed if calibration else lambda _name: 1.0
        self._wall = calibration.wall if calibration else dict[StageName, float]()
        self._question = request.question
        self._execution = request.execution
        paced = calibration.pace.get(StageName.SCORE, 1.0) if calibration else 1.0
        self._calibration = calibration
        self.judging = JudgingPace(paced, request.question.of_task.judging_s, self._slowdown)
        self._run = run
        self._progress = progress
        self._started = started
        self._waits = 1.0  # as long as on a free processor, when it was looked at
        self._looked_at = -math.inf
        self._rule: SearchRule | None = None
        self._plan: Plan | None = None
        self.finished = set[Stage[Any]]()
        self.places = dict[str, float]()
        self.spare = set[str]()
        self.stopping = asyncio.Event()

    async def evaluate_all(
        self,
        study: Study,
        evaluator: MultiDeviceEvaluator,
        plan: Plan,
        done: int,
        scorer: Scorer | None = None,
    ) -> Stop:
        """Evaluate until nothing is left, a limit is reached or the user stops the search;
        return the reason.

        ``done`` configurations have a result. ``scorer`` runs the pick so far on the hold-out.
        """
        rule = self._rule_of(plan)
        self._plan = plan
        self._rule = rule
        self._learn_from_earlier(rule, plan)
        scheduler = self._make_scheduler(study, rule, plan, done)
        so_far = PickSoFar(lambda: self._decisions()[0].pick, scorer, self._run, self._time_left)
        running: dict[asyncio.Future[Any], Configuration] = {}
        # An interrupt must wake the loop at once, not when the next evaluation ends:
        # it is one of the futures waited for.
        stopped: asyncio.Future[Any] = asyncio.ensure_future(self.stopping.wait())
        ended = False
        answered = any(e.status is Status.OK for e in self._run.evaluations())
        while not ended:
            await self._stop_spare(scheduler, running, evaluator)
            # Each start changes what is worth starting next,
            # so the scheduler is asked again until it has nothing.
            while chosen := scheduler.next(running.values()):
                await so_far.wait_for_first(chosen, stopped)
                running |= self._begin(chosen, evaluator)
            running |= self._begin_spare(scheduler, running, evaluator)
            self._progress.deferred(scheduler.waiting)
            # Nothing runs and nothing may start: waiting would never end.
            if not running or scheduler.has_ended(running.values()):
                break
            wait_s = self._evaluating_left(answered, GRACE)
            finished, _ = await asyncio.wait(
                {*running, stopped}, timeout=wait_s, return_when="FIRST_COMPLETED"
            )
            # In the order of their start, so that equal searches learn in one order.
            for task in [task for task in running if task in finished]:
                del running[task]
                answered |= self._record(task.result(), evaluator, study, rule)
            # The pick so far is scored on the hold-out meanwhile,
            # so that the end of the search need not wait for it.
            so_far.begin_scoring()
            ended = stopped.done() or self._evaluating_left(answered, GRACE) == 0
        left = study.unevaluated
        late = self._execution.time_limit_s is not None and rule.is_out_of_time
        # While something still ran, a time limit or an interrupt ended the search:
        # a resumed run may start the rest.
        begun = scheduler.list_begun(running.values())
        if not begun:
            self._record_refused(scheduler, plan)
        cut_off = bool(begun) or (ended and left > 0)
        await cancel_tasks([*running, stopped])
        await so_far.close()
        return scheduler.explain_end(self._execution, left, cut_off, late)

    def _make_scheduler(self, study: Study, rule: SearchRule, plan: Plan, done: int) -> Scheduler:
        """Return the scheduler of a search in which ``done`` configurations have a result."""
        most = self._execution.max_trials
        trials_left = max(0, most - done) if most else plan.size
        chooses = self._execution.least_gain(self._question) > 0
        # A number of trials is for the best steps.
        spare_jobs = 0 if most else self._spare_jobs
        return Scheduler(
            study, rule, trials_left, self._cores, chooses, self._trainings, spare_jobs
        )

    def _begin(
        self,
        chosen: Collection[Configuration],
        evaluator: MultiDeviceEvaluator,
        spare: bool = False,
    ) -> dict[asyncio.Future[Any], Configuration]:
        """Begin evaluations side by side, and give their cards the next place, or spare time."""
        place = float(len(self.places))
        tasks = dict[asyncio.Future[Any], Configuration]()
        for configuration in chosen:
            if spare:
                self.spare.add(configuration.card)
            else:
                self.spare.discard(configuration.card)
                self.places.setdefault(configuration.card, place)
            tasks[asyncio.ensure_future(evaluator.evaluate(configuration))] = configuration
        return tasks

    def _begin_spare(
        self,
        scheduler: Scheduler,
        running: Mapping[asyncio.Future[Any], Configuration],
        evaluator: MultiDeviceEvaluator,
    ) -> dict[asyncio.Future[Any], Configuration]:
        """Begin what uses the time that the running evaluations leave of the cores."""
        begun = dict[asyncio.Future[Any], Configuration]()
        if self._is_loaded():
            return begun
        while chosen := scheduler.next_spare((*running.values(), *begun.values())):
            begun |= self._begin(chosen, evaluator, spare=True)
        return begun

    async def _stop_spare(
        self,
        scheduler: Scheduler,
        running: dict[asyncio.Future[Any], Configuration],
        evaluator: MultiDeviceEvaluator,
    ) -> None:
        # At the lowest priority nothing ends beside other programs that never wait.
        if self._is_loaded():
            self.spare -= await stop_spare(scheduler, running, evaluator)

    def _record(
        self,
        evaluation: Evaluation,
        evaluator: MultiDeviceEvaluator,
        study: Study,
        rule: SearchRule,
    ) -> bool:
        """Append a result to the run, and let the study and the rule learn from it;
        return whether it is an answer.
        """
        self._run.append(evaluator.newest(evaluation))
        # A file must do on every device of the question,
        # so the study and the rule learn from its slowest device.
        worst = evaluator.on_worst_device(evaluation)
        study.tell(worst)
        # A figure of the hold-out decides nothing in a search that goes on.
        rule.condition_on(worst.without_holdout())
        # The hold-out keeps time for a pick that came on spare time, too.
        picked = rule.find_picked_card()
        if picked:
            self.places.setdefault(picked, float(len(self.places)))
        self._progress.evaluated(evaluation)
        return evaluation.status is Status.OK

    def _record_refused(self, scheduler: Scheduler, plan: Plan) -> None:
        """Record why the configurations that the scheduler refused have no result."""
        for configuration, reason in scheduler.refused():
            skipped = plan.skipped(configuration, reason, StageName.PROMOTION)
            self._run.append(skipped)
            self._progress.evaluated(skipped)

    def _learn_from_earlier(self, rule: SearchRule, plan: Plan) -> None:
        """Tell the rule what the run has of the plan already."""
        known = frozenset(plan.configurations())
        for evaluation in self._run.evaluations():
            if evaluation.configuration in known and evaluation.stage not in UNDECIDED:
                rule.condition_on(evaluation.without_holdout())

    def _rule_of(self, plan: Plan) -> SearchRule:
        """Return the rule of this search, which knows what is left of its time."""
        question = self._question
        least = self._execution.least_gain(self._question)
        limit = TimeLimit(
            lambda: self._evaluating_left() or 0.0, self._observed, self._wall, self._time_left
        )
        limited = limit if self._execution.time_limit_s else None
        rule = SearchRule(plan, question.preference, question.limits, least, limited)
        rule.prices.finished = self.finished
        return rule

    async def rescue(self, evaluator: MultiDeviceEvaluator, plan: Plan) -> None:
        """Evaluate a few skipped configurations if nothing meets the budget, for its figures."""
        evaluations = self._run.evaluations()
        if (
            self.stopping.is_set()
            or decide_run(self._run, evaluations, self._question).decision.feasible
        ):
            return
        again = list_too_slow(plan, evaluations)
        if not again and self._time_left() != 0:
            again = list_too_large(plan, evaluations)
        # What was skipped as hopeless is evaluated after all,
        # so that the answer can say how far off the budget is.
        evaluator.stop_screening()
        await self._evaluate_again(evaluator, again)

    async def finish_beside(self, evaluator: MultiDeviceEvaluator) -> None:
        """Wait for devices of clouds as long as the search may take;
        what they have not measured stays predicted.
        """
        if not evaluator.measures_beside:
            return
        self._progress.say("waiting for the device cloud")
        measuring = asyncio.ensure_future(evaluator.finish_beside())
        stopped = asyncio.ensure_future(self.stopping.wait())
        timeout = self._answer_left()
        await asyncio.wait({measuring, stopped}, timeout=timeout, return_when="FIRST_COMPLETED")
        await cancel_tasks([measuring, stopped])

    async def retry_timings(self, evaluator: MultiDeviceEvaluator) -> None:
        """Evaluate again what failed while it was timed:
        a machine that stood still for minutes is back by then.
        """
        failed = list_failed_timings(self._run.evaluations())
        if self.stopping.is_set() or not failed or self._evaluating_left() == 0:
            return
        self._progress.say("timing again what could not be timed")
        # A failed stage is remembered, and would fail again without being run.
        evaluator.forget_failures()
        await self._evaluate_again(evaluator, failed)

    async def _evaluate_again(
        self, evaluator: MultiDeviceEvaluator, configurations: Collection[Configuration]
    ) -> None:
        """Evaluate some configurations side by side; what a time limit ends stays as it was."""
        if not configurations:
            return
        evaluations = map(evaluator.evaluate, configurations)
        tasks = list(map(asyncio.ensure_future, evaluations))
        done, late = await asyncio.wait(tasks, timeout=self._answer_left())
        await cancel_tasks(late)
        for task in tasks:
            if task in done:
                self._run.append(evaluator.newest(task.result()))

    async def time_again(self, evaluator: MultiDeviceEvaluator) -> None:
        """Time the finalists for longer. In a large space every configuration was timed briefly.

        A longer timing can bring others to the front:
        they are timed again too, until the front stays the same.
        """
        seen: set[Configuration] = set()
        while not self.stopping.is_set() and self._time_left() != 0:
            brief = []
            for evaluation in list_brief(self._run.evaluations()):
                if evaluation.configuration not in seen:
                    brief.append(evaluation)
            chosen = choose_named(brief, self._decisions()) if brief else []
            if not chosen:
                return
            seen |= {e.configuration for e in chosen}
            self._progress.say(f"timing {len(chosen)} finalists again, for longer")
            for evaluation in chosen:
                # The brief timing stays, and the report says that it was brief.
                with contextlib.suppress(AdvisorError):
                    self._run.append(await evaluator.time_again(evaluation))

    async def judge(self, scorer: Scorer | None) -> None:
        """Score the finalists on the hold-out if there are images.
        After an interrupt the resumed run does it.
        """
        has_result = any(evaluation.status is Status.OK for evaluation in self._run.evaluations())
        if scorer is None or self.stopping.is_set() or not has_result:
            return
        self._progress.say("judging the finalists on the hold-out")
        judging = asyncio.ensure_future(self._judge(scorer))
        stopped = asyncio.ensure_future(self.stopping.wait())
        timeout = self._answer_left()
        finished, _ = await asyncio.wait(
            {judging, stopped}, timeout=timeout, return_when="FIRST_COMPLETED"
        )
        await cancel_tasks(task for task in (judging, stopped) if task not in finished)
        if judging in finished:
            judging.result()

    async def _judge(self, scorer: Scorer) -> None:
        """Score the finalists. Where the hold-out refutes a pick, score what is picked then,
        too.
        """
        tried: set[str] = set()
        for _ in range(MOST_ROUNDS):
            with_drop = self._question.limits.max_drop_points is not None
            chosen = choose_finalists(
                self._decisions(), self._run.evaluations(), scorer.holdout_images, with_drop
            )
            # The first finalist is the pick.
            # It was judged already, so the hold-out did not refute it.
            if not chosen or chosen[0].artefact_sha256 in tried:
                return
            everywhere = self._question.robust or self._execution.capture_all
            await score_finalists(
                chosen, scorer, self._run, lambda: self._time_left() - self.answer_s, everywhere
            )
            tried |= {e.artefact_sha256 for e in chosen}

    def _decisions(self) -> tuple[Decision, ...]:
        """Return the decisions as if every file had run on the hold-out:
        what they name is to run there.
        """
        answer = decide_run(self._run, self._run.evaluations(), self._question, judged_first=False)
        return answer.decision, *answer.by_device.values()

    def _evaluating_left(self, answered: bool = True, grace: float = 0.0) -> float | None:
        """Return the seconds until evaluations must end,
        so that pick and runner-up still run on the hold-out.

        ``grace`` is the share of the time of the hold-out that they may take.
        """
        left_s = self._answer_left()
        limit_s = self._execution.time_limit_s
        if left_s is None or limit_s is None:
            return None
        # Without any result there is no finalist, and no time needs to be kept for judging one.
        if self._plan is None or not answered or not self._plan.holdout:
            return left_s
        judging_s = self._plan.judging_s(self.places, limit_s, self._holdout_s)
        least_s = min(LEAST_JUDGING_S * self._slowdown(), JUDGING_SHARE * limit_s)
        return max(0.0, left_s - max((1.0 - grace) * judging_s, least_s))

    def _answer_left(self) -> float | None:
        """Return the seconds until the answer must be written; None for no limit."""
        left_s = self._time_left()
        if left_s == math.inf:
            return None
        return max(0.0, left_s - self.answer_s)

    @property
    def answer_s(self) -> float:
        """The seconds that the answer takes on this machine now, or did a second ago."""
        now = time.monotonic()
        if now - self._looked_at > LOOK_AGAIN_S:
            self._looked_at = now
            self._waits = waiting_factor()
        return max(ANSWER_S, ANSWER_CPU_S * max(self._slowdown(), self._waits))

    def _holdout_s(self, card: Card) -> float:
        """Return the seconds in which one core runs a float file of a card over the hold-out,
        with their margin.
        """
        images = self._plan.holdout if self._plan else 0
        margin = MEASURED_MARGIN if self.judging.has_run(card) else JUDGING_MARGIN
        return margin * self.judging.seconds(card, FLOAT, images)

    def budget_training(self, card: str, training: str) -> TrainingBudget | None:
        """Return what the time limit leaves for a training,
        so that the forms of its network have results.
        """
        left_s = self._evaluating_left()
        if left_s is None or self._rule is None:
            return None
        network = CardTraining(card, training)
        # A trained network becomes a file after the time of its training,
        # and before its forms begin.
        left_s -= WRITING_S * self._slowdown()
        forms_s = self._rule.finishing_s_within(network, left_s)
        training_s = max(0.0, left_s - forms_s)
        whole_s = self._rule.prices.training_s(network)
        share = min(1.0, training_s / whole_s) if whole_s else 1.0
        # Without a calibration nothing says how fast a training should be,
        # so nothing can show that it is slower.
        if self._calibration is None:
            return TrainingBudget(training_s, share)
        wall_s = self._calibration.wall_of_cpu_s(StageName(training))
        return TrainingBudget(training_s, share, Reserve(forms_s, wall_s))

    def _is_loaded(self) -> bool:
        """Return whether other programs keep the machine busy."""
        return self._calibration is not None and self._calibration.is_loaded

    def _slowdown(self) -> float:
        """Return the seconds that jobs take now over those on a quiet machine."""
        return self._calibration.slowdown if self._calibration else 1.0

    def _time_left(self) -> float:
        limit = self._execution.time_limit_s
        if limit is None:
            return math.inf
        return max(0.0, limit - (time.monotonic() - self._started))
