"""Estimate the work that a search has left, and how long it will take by what stages took so far.

What a stage costs says ``CostCalibration`` (``_pipeline/cost_calibration.py``), for the rule of
the search and for this estimate alike; here is how many CPU seconds a second brings.
``Progress`` (``_progress.py``) notes every event of a stage here and asks for the seconds. It
writes a ``Snapshot`` to ``progress.json`` of the run, whose attributes are keys of that file: the
list of runs reads it (``advisor runs``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from advisor.core import Configuration, parse_known, show_seconds, to_json
from advisor.engine._pipeline.cost import judging_s
from advisor.engine._pipeline.cost_calibration import PACE_S, CostCalibration
from advisor.engine._pipeline.graph import VariantStages, with_all_before
from advisor.engine._pipeline.images import Role
from advisor.engine._pipeline.materials import RecipePair
from advisor.engine._pipeline.stage import Stage, StageName
from advisor.engine._pipeline.stage_events import EventKind, StageEvent
from advisor.engine._space.plan import Plan
from advisor.store import RunFolder

PRIOR_CONFIGURATIONS = 10
"""Weight of the plan, in configurations, in the share of forms that are made:
the plan says that all are.
"""

MOST_DONE = 0.9
"""Largest share of a running stage without epochs that counts as done."""

PRIOR_SHARE = 0.2
"""Share of a running stage with epochs after which its own pace weighs
as much as the expected seconds.
"""

CAPTURED_FILES = 2
"""Files that run under capture conditions: the pick and the runner-up."""

FILE = "progress.json"


@dataclass(frozen=True)
class _Running:
    """A running stage."""

    since: float  # seconds of the monotonic clock
    alone_s: float  # seconds that measurements had taken by then
    reached: float = 0.0  # share (0-1) of its epochs


class Remaining:
    """The stages of a plan that are left;
    it ``started`` at these seconds of the monotonic clock.

    ``calibration`` says what stages cost here; it learns of their events before this does.
    """

    def __init__(
        self,
        plan: Plan,
        done: Collection[Configuration],
        started: float,
        calibration: CostCalibration,
    ) -> None:
        self._plan = plan
        self._started = started
        self._calibration = calibration
        self._left = set(plan.configurations()) - set(done)
        self._deferred = frozenset[Configuration]()
        self._finished: set[Stage[Any]] = set()
        self._running: dict[Stage[Any], _Running] = {}
        self._judged: set[tuple[str, str]] = set()
        self._captured = 0
        self._evaluated = 0
        self._made = 0
        self._jobs_cpu_s = 0.0  # of the jobs that are done
        self._alone_s = 0.0

    def note(self, event: StageEvent, now: float, spare: bool = False) -> None:
        """Record an event of a stage at ``now`` seconds of the monotonic clock.

        Of a job on the ``spare`` time that others leave, only its end counts.
        """
        stage = event.stage
        if spare:
            if event.kind in (EventKind.DONE, EventKind.CACHED):
                self._finished.add(stage)
            return
        if event.kind is EventKind.STARTED:
            self._running[stage] = _Running(now, self._alone_s)
        elif event.kind is EventKind.EPOCH and stage in self._running:
            done, epochs = event.epochs
            reached = event.share or done / epochs
            self._running[stage] = replace(self._running[stage], reached=reached)
        elif event.kind is EventKind.ENDED:
            self._running.pop(stage, None)
        elif event.kind in (EventKind.DONE, EventKind.CACHED):
            self._running.pop(stage, None)
            self._finished.add(stage)
            # The stages that judge finalists belong to no evaluation of the plan.
            if stage not in self._planned:
                if stage.name is StageName.CAPTURE:
                    self._captured += 1
                elif stage.name is StageName.SCORE:
                    self._judged.add((stage.scope.card, stage.scope.training))
            if event.kind is EventKind.DONE and stage.resources.alone:
                self._alone_s += event.seconds
            elif event.kind is EventKind.DONE:
                self._jobs_cpu_s += event.cpu_s

    def evaluated(self, configuration: Configuration, made: bool) -> None:
        """Record that a configuration needs no more work; it was ``made``, or skipped."""
        self._left.discard(configuration)
        self._evaluated += 1
        self._made += made

    def defer(self, configurations: Collection[Configuration]) -> None:
        """Exclude the deferred configurations;
        one that is not among them any more counts again.
        """
        self._deferred = frozenset(configurations)

    def seconds(self, now: float) -> float:
        """Return the expected seconds to the end."""
        alone_s = 0.0
        jobs_cpu_s = 0.0
        for stage, share in self._list_left():
            expected = share * self._expect_cpu_s(stage)
            if stage in self._running:
                expected = self._find_left_s(stage, expected, now)
            if stage.resources.alone:
                alone_s += expected
            else:
                jobs_cpu_s += expected
        return alone_s + (jobs_cpu_s + self._capturing_cpu_s()) / self._count_used_cores(now)

    def _expect_cpu_s(self, stage: Stage[Any]) -> float:
        """Return the CPU seconds of a stage, by what others of its kind took in this search."""
        return self._plan.costs.seconds(stage) * self._calibration.observed_cpu(stage.name)

    def share(self) -> float:
        """Return the share (0-1) of the planned work that is done."""
        price = self._plan.costs.seconds
        reached = sum(price(stage) * running.reached for stage, running in self._running.items())
        left = sum(share * price(stage) for stage, share in self._list_left())
        done = sum(map(price, self._finished))
        if done + left:
            return min(1.0, (done + reached) / (done + left))
        return 1.0

    def _list_left(self) -> Iterable[tuple[Stage[Any], float]]:
        """Yield the stages that are left, each with the share of it that is expected to run."""
        # The thread counts of a variant share its stages.
        variants = set()
        for configuration in self._left - self._deferred:
            recipes = (configuration.training, configuration.compression)
            variants.add((configuration.card, recipes))
        needed = set[Stage[Any]]()
        for variant in variants:
            needed.update(self._by_variant[variant])
        needed -= self._finished
        # As if so many configurations had been made before:
        # the first one that is skipped does not halve the estimate.
        made = (self._made + PRIOR_CONFIGURATIONS) / (self._evaluated + PRIOR_CONFIGURATIONS)
        for stage in needed:
            yield stage, made if stage.scope.compression else 1.0
        expected = set()
        for configuration in self._plan.configurations():
            if configuration not in self._deferred:
                expected.add((configuration.card, configuration.training))
        for network, stage in self._judging.items():
            if network not in self._judged and network in expected:
                yield stage, 1.0

    def _count_used_cores(self, now: float) -> float:
        """Return how many CPU seconds of jobs a second brings:
        as many as there are cores, corrected by what was seen.
        """
        cores = self._plan.cores
        # A measurement that still runs has paused the jobs until now,
        # so its seconds are no work of theirs.
        measuring_s = 0.0
        jobs = []
        for stage, running in self._running.items():
            if stage.resources.alone:
                measuring_s += now - running.since
            else:
                jobs.append(stage)
        used_s = self._jobs_cpu_s
        for stage in jobs:
            used_s += self._used_cpu_s(stage, now - measuring_s)
        # A measurement has the machine for itself,
        # so the time of jobs is what measurements left of it.
        elapsed = now - self._started - self._alone_s - measuring_s
        # All cores for the first PACE_S seconds, as the plan assumes:
        # a few seconds of work tell little.
        return min(cores, (used_s + cores * PACE_S) / (elapsed + PACE_S))

    def _find_left_s(self, stage: Stage[Any], expected: float, now: float) -> float:
        """Return the CPU seconds that are left of a running stage of ``expected`` ones,
        by its epochs if it has any.
        """
        used_s = self._used_cpu_s(stage, now)
        reached = self._running[stage].reached
        if not reached:
            # A stage that takes longer than expected keeps a tenth,
            # so that the time left never reads 0 while it runs.
            return expected - min(used_s, MOST_DONE * expected)
        # After few epochs their pace is not certain, so the expected seconds still count.
        whole_s = (used_s + PRIOR_SHARE * expected) / (reached + PRIOR_SHARE)
        return (1 - reached) * whole_s

    def _used_cpu_s(self, stage: Stage[Any], now: float) -> float:
        """Return the CPU seconds that a running stage has used, by its seconds of work."""
        worked_s = self._worked_s(self._running[stage], now)
        return worked_s / self._calibration.wall_of_cpu_s(stage.name)

    def _worked_s(self, running: _Running, now: float) -> float:
        """Return the seconds that a stage has worked:
        measurements that ended meanwhile had paused it.
        """
        return now - running.since - (self._alone_s - running.alone_s)

    def _capturing_cpu_s(self) -> float:
        """Return the CPU seconds that runs under capture conditions still take;
        for a robust question, stages are these.
        """
        images = 0
        if self._plan.workload.images:
            images = self._plan.workload.images[Role.CAPTURED]
        files = max(0, CAPTURED_FILES - self._captured)
        if not images or not files or self._plan.workload.question.robust:
            return 0.0
        prices = [judging_s(card, images) for card in self._plan.cards]
        pace = self._calibration.observed_cpu(StageName.CAPTURE)
        return files * pace * sum(prices) / len(prices)

    @cached_property
    def _by_variant(self) -> Mapping[tuple[str, RecipePair], tuple[Stage[Any], ...]]:
        """The stages of each variant until it is evaluated."""
        workload = self._plan.workload
        stages = {}
        for card in self._plan.cards:
            for variant in workload.variants_of(card):
                evaluation = VariantStages(card, *variant, workload).evaluation
                stages[card.name, variant] = with_all_before(evaluation)
        return stages

    @cached_property
    def _planned(self) -> frozenset[Stage[Any]]:
        """The stages of all variants."""
        planned = list[Stage[Any]]()
        for stages in self._by_variant.values():
            planned += stages
        return frozenset(planned)

    @cached_property
    def _judging(self) -> Mapping[tuple[str, str], Stage[Any]]:
        """The stage that judges each network, once."""
        workload = self._plan.workload
        stages = {}
        for card in self._plan.cards:
            for training, compression in workload.variants_of(card):
                judging = VariantStages(card, training, compression, workload).judging
                # All forms of a network cost about the same, so one stands for the others.
                if judging:
                    stages[card.name, training] = judging[0]
        return stages


@dataclass(frozen=True)
class Snapshot:
    """A moment of a search: the current work in words,
    and the configurations that need no more work.

    ``left_s`` are the expected seconds to the end, None before the plan is known. ``share`` (0-1)
    of the planned work is done, or of the time limit is over if it ends the search first
    (``limited``).
    """

    now: str
    evaluated: int = 0
    configurations: int = 0
    left_s: float | None = None
    share: float = 0.0
    limited: bool = False

    @property
    def left(self) -> str:
        """The time left in words;
        empty before the plan is known, and when the time limit is over.
        """
        if self.left_s is None or (self.limited and not self.left_s):
            return ""
        # A limit ends the search at its second; the end of the work is estimated.
        about = "" if self.limited else "about "
        return f"{about}{show_seconds(self.left_s)} left"

    @property
    def line(self) -> str:
        """All of it in one line."""
        if self.left_s is None:
            return self.now
        left = f", {self.left}" if self.left else ""
        return f"{self.evaluated} of {self.configurations} evaluated{left}: {self.now}"

    @staticmethod
    def read_last(run: RunFolder) -> Snapshot | None:
        """Return the last moment that the search wrote; None if there is none.
        After a killed search it stays.
        """
        known = parse_known(Snapshot, run.read_json(FILE))
        return Snapshot(**known) if "now" in known else None


def write_snapshot(run: RunFolder, snapshot: Snapshot) -> None:
    """Write a moment to the run; it replaces the last one."""
    run.write_json(FILE, to_json(snapshot))
