"""Hand out the configurations that are evaluated next, as many as the machine has room for.

The search loop asks after each result. By default the rule chooses them. Where everything is to be
evaluated, the study does, among those that may start: for a fleet, with recipes that the user
names, with another sampler, and with ``--stop-below 0`` (``Execution.least_gain`` is 0 then). The
manifest keeps the reason of the end, so the values of :class:`.StopKind` stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING

from advisor.core import Configuration
from advisor.engine._question import Execution
from advisor.engine._scheduling.belief import CardTraining, FormStep
from advisor.engine._scheduling.next_steps import SearchRule
from advisor.engine._scheduling.stop import Stop, StopKind, end_early
from advisor.engine._scheduling.suggesting import Admits

if TYPE_CHECKING:
    from advisor.engine._scheduling.study import Study

COMPLETE = Stop(StopKind.COMPLETE, "every configuration was evaluated")
INTERRUPTED = Stop(StopKind.INTERRUPT, "interrupted")


class Scheduler:
    """Hands out configurations: those that the ``rule`` ``chooses``,
    until nothing is worth its price.

    If it does not choose, the sampler of the study does, until every configuration that may be
    picked has a result. Then at most ``trainings`` networks are fine-tuned at the same time; the
    rule waits for the result of each. With the rule, up to ``spare_jobs`` more steps run on the
    time that these leave.
    """

    def __init__(
        self,
        study: Study,
        rule: SearchRule,
        trials_left: int,
        cores: int,
        chooses: bool,
        trainings: int = 1,
        spare_jobs: int = 0,
    ) -> None:
        self._study = study
        self._rule = rule
        self.trials_left = trials_left
        self._cores = cores
        self._chooses = chooses
        self._trainings = trainings
        self._spare_jobs = spare_jobs
        self._spare = set[FormStep]()  # all steps that began on spare time

    def next(self, running: Collection[Configuration]) -> list[Configuration]:
        """Return what to evaluate next; nothing if nothing may start
        before a running evaluation ends.
        """
        begun, spare = self._divide_steps(running)
        # A sampler gets one more step than there are cores, so that a core that becomes free has
        # work at once. The rule waits: the next result can change what it would choose.
        if not self.trials_left or len(begun) >= self._cores + (not self._chooses):
            return []
        if self._chooses:
            chosen = self._take_configurations(self._rule.choose_steps(begun, spare))
        else:
            asked = self._study.ask(self._admits(begun))
            chosen = [] if asked is None else [asked]
        self.trials_left -= len(chosen)
        return chosen

    def next_spare(self, running: Collection[Configuration]) -> list[Configuration]:
        """Return what to evaluate next on the time that others leave of the cores."""
        begun, spare = self._divide_steps(running)
        most = 1 if begun else self._spare_jobs
        if not self._chooses or len(spare) >= min(most, self._spare_jobs):
            return []
        step = self._rule.choose_spare_step(begun, spare)
        if step is None:
            return []
        self._spare.add(step)
        return self._take_configurations((step,))

    def take_spare_back(self, running: Collection[Configuration]) -> list[Configuration]:
        """Return what runs on spare time, which the caller stops. It may be chosen again."""
        _, spare = self._divide_steps(running)
        stopped = []
        for configuration in running:
            if FormStep.of(configuration) in spare:
                self._study.give_back(configuration)
                stopped.append(configuration)
        self._spare -= spare
        self.trials_left += len(stopped)
        return stopped

    def list_begun(self, running: Collection[Configuration]) -> Collection[FormStep]:
        """Return the steps that run, without those on spare time."""
        begun, _ = self._divide_steps(running)
        return begun

    def has_ended(self, running: Collection[Configuration]) -> bool:
        """Return whether nothing runs but on spare time, which the search does not wait for:
        only where a limit is too near for what would gain more, it has the rest.
        """
        return not self.list_begun(running) and not self._rule.is_out_of_time

    def _divide_steps(
        self, running: Collection[Configuration]
    ) -> tuple[set[FormStep], set[FormStep]]:
        """Return the steps that run, and those of them that run on spare time."""
        steps = set(map(FormStep.of, running))
        return steps - self._spare, steps & self._spare

    def _take_configurations(self, steps: Collection[FormStep]) -> list[Configuration]:
        """Take the configurations of steps from the study, as far as trials are left.

        One step makes a file for every device and number of threads: its configurations start
        together.
        """
        chosen = []
        for configuration in self._study.not_started:
            if FormStep.of(configuration) in steps:
                chosen.append(configuration)
        for configuration in chosen[: self.trials_left]:
            self._study.take(configuration)
        return chosen

    @property
    def waiting(self) -> Collection[Configuration]:
        """The configurations that are not expected to start."""
        left = self._study.not_started
        planned = self._rule.planned
        return (
            [configuration for configuration in left if FormStep.of(configuration) not in planned]
            if self._chooses
            else []
        )

    @property
    def evaluates_all(self) -> bool:
        """True if every configuration that may be picked gets a result,
        where there is time for it.
        """
        return not self._chooses

    def explain_end(self, execution: Execution, left: int, cut_off: bool, late: bool) -> Stop:
        """Return why the search ended with ``left`` configurations.

        ``cut_off``: the limit ended work. ``late``:
        a network that may be picked does not fit into what is left of it.
        """
        # Where nothing is cut off, time may be left: the end is before the limit.
        how = "at" if cut_off else "because the rest does not fit into"
        out_of_time = partial(
            end_early, StopKind.TIME_LIMIT, f"{how} the time limit of {execution.time_limit}"
        )
        if cut_off or late:
            return out_of_time(left)
        if left and not self.trials_left:
            return end_early(StopKind.MAX_TRIALS, f"at --max-trials {execution.max_trials}", left)
        # What is left of a search that evaluates everything would not end in time.
        if execution.time_limit_s is not None and self.evaluates_all and left:
            return out_of_time(left)
        if not left or not self._chooses:
            return COMPLETE
        how = f"because a CPU hour more is expected to add less than {self._rule.stops_below}"
        return end_early(StopKind.GAIN, how, left)

    def refused(self) -> Iterator[tuple[Configuration, str]]:
        """Yield each configuration that fine-tunes a network and does not start, with the
        reason.
        """
        if self.trials_left <= 0:
            return
        for configuration in tuple(self._study.not_started):
            # Heads are cheap and always start;
            # only a fine-tuning is refused, so only it needs a reason.
            if not CardTraining.of(configuration).tuned:
                continue
            self._study.leave_out(configuration)
            yield configuration, self._rule.explain_refusal(FormStep.of(configuration))

    def _admits(self, begun: Collection[FormStep]) -> Admits:
        """Return the test of whether a configuration may start if everything is to be
        evaluated.
        """
        tuned = {step.network for step in begun if step.network.tuned}

        def admits(configuration: Configuration) -> bool:
            network = CardTraining.of(configuration)
            # A fine-tuning that runs may get further forms: they need no training of their own.
            free = not network.tuned or len(tuned | {network}) <= self._trainings
            return free and self._rule.may_begin(FormStep.of(configuration))

        return admits
