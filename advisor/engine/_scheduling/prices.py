"""What the steps of a search take, and whether they end within its time limit.

The rule compares steps by **CPU seconds** (:meth:`Prices.seconds`), which a busy machine does not
change. Whether a step ends in time depends on the clock: :meth:`Prices.share`,
:meth:`Prices.is_sure`, :meth:`Prices.may_end`, :meth:`Prices.lasts_s`, :meth:`Prices.training_s`
and :meth:`Prices.finishing_s` reckon in **seconds by the clock**, at the pace that stages of the
same kind had in this search. A stage that is done or in the cache costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from advisor.core import FLOAT, TrainingName, recipe_of
from advisor.engine._pipeline.cost_model import CostModel
from advisor.engine._pipeline.graph import VariantStages, with_all_before
from advisor.engine._pipeline.materials import Purpose
from advisor.engine._pipeline.stage import Stage, StageName
from advisor.engine._scheduling.belief import CardTraining, FormStep
from advisor.engine._space.plan import Plan
from advisor.training import FINETUNING

LEAST_SHARE = 0.22
START_SHARE = 0.17
"""Least share of the seconds of a whole fine-tuning that is begun;
the share that the starts and the maps take.
"""

FEW_LAYERS_SHARE = 0.45
FEW_LAYERS_GAIN = 0.5
"""Share of these seconds in which all epochs of the fewest layers fit
(:meth:`.Finetuning.shorten_to`), and their part of the gain of the whole training:
EfficientNet-Lite0 had 0.25 of it on playing cards, 0.57 on TrashNet and 0.8 on groceries ("Few
layers of a larger network", ``docs/studies/time.md``).
"""

FEW_STEPS = 20.0
MANY_STEPS = 500.0
"""Steps in which fine-tuning gains nothing, and nearly all that it can. With the fewest layers,
EfficientNet-Lite0 on groceries (66 steps an epoch) had 68.6, 73.0 and 80.7 % on another visit
after two, four and eight epochs; on TrashNet (36 steps), six epochs gained its 2.5 points in the
last two.
"""

LEAST_KEPT = 0.9
"""Part of the gain of a fine-tuning that must be left after an int8 file that is made before it.
Without that file, a float32 file ships if the fine-tuned one is not the pick, which happens in
about a fifth of the searches. To lose a tenth of the gain of 3 to 12 points costs about as much.
"""

SURE = 1.5
"""Factor on the expected seconds of a first result,
before a stage has shown how fast this machine is.
"""

FINISHING_MARGIN = 1.5
"""Factor on the expected seconds of compressing, scoring and timing a fine-tuned network before a
time limit. On one core of a Xeon they took 1.2 times the expected seconds; beside other programs,
1.25 cost an int8 file.
"""

MEASURED_MARGIN = 1.2
"""The same for the kinds of stages that this search has run, whose seconds here are known."""


def share_of_gain(share: float, images: int) -> float:
    """Return which part of its gain a fine-tuning on so many images brings
    in a share of its whole time.

    Between the fewest layers and all of them, the part grows with the time. In less time than all
    epochs of the fewest layers take, there are fewer steps. This was measured with
    ``finetune_cached``; it stands for the others, too.
    """
    if share >= 1.0:
        return 1.0
    if share >= FEW_LAYERS_SHARE:
        return FEW_LAYERS_GAIN + (1.0 - FEW_LAYERS_GAIN) * (share - FEW_LAYERS_SHARE) / (
            1.0 - FEW_LAYERS_SHARE
        )
    whole = FINETUNING[TrainingName.FINETUNE_CACHED].for_images(images)
    steps = whole.epochs * images / whole.batch
    begun = max(0.0, share - START_SHARE) / (FEW_LAYERS_SHARE - START_SHARE)
    return FEW_LAYERS_GAIN * min(
        1.0, _compute_learnt_share(begun * steps) / max(_compute_learnt_share(steps), 0.05)
    )


def keeps_gain(share: float, later: float, images: int) -> bool:
    """Return whether a fine-tuning has nearly all of its gain in the share
    of its time that is left later.
    """
    return share_of_gain(later, images) >= LEAST_KEPT * share_of_gain(share, images)


def _compute_learnt_share(steps: float) -> float:
    """Return which part (0-1) of what can be learnt is learnt in so many steps."""
    return min(1.0, max(0.0, (steps - FEW_STEPS) / (MANY_STEPS - FEW_STEPS)))


@dataclass(frozen=True)
class TimeLimit:
    """A time limit.

    ``left_s`` are the seconds left for evaluations. ``observed`` returns how much longer than
    planned a stage of a kind takes now. ``wall`` has the seconds by the clock of a CPU second of a
    stage, below 1 where it uses several cores.
    """

    left_s: Callable[[], float]
    observed: Callable[[StageName], float] = lambda _name: 1.0
    wall: Mapping[StageName, float] = field(default_factory=dict)
    # Seconds left with those for the hold-out; None for the same.
    whole_s: Callable[[], float] | None = None


class Prices:
    """The prices of steps; ``finished`` are the stages that this search has, which cost nothing
    more. Nor do those that the cache had when it began (:attr:`.Plan.cached`).

    ``running`` are the steps that run meanwhile:
    until they have ended, the machine is not free for others.

    With a time limit, prices are those of this machine. Without one they are those of the
    reference machine, so that equal searches do equal work anywhere.
    """

    def __init__(self, plan: Plan, time_limit: TimeLimit | None) -> None:
        self._plan = plan
        self._time_limit = time_limit
        self._costs = CostModel(plan.workload) if time_limit is None else plan.costs
        self._stages = dict[FormStep, tuple[Stage[Any], ...]]()
        self.finished = set[Stage[Any]]()
        self.running: tuple[FormStep, ...] = ()

    def stages(self, step: FormStep) -> tuple[Stage[Any], ...]:
        """Return every stage of a step, in the order of the work."""
        if step not in self._stages:
            card = self._plan.cards_by_name[step.network.card]
            variant = VariantStages(card, step.network.training, step.form, self._plan.workload)
            self._stages[step] = with_all_before(variant.evaluation)
        return self._stages[step]

    def missing(
        self, steps: Iterable[FormStep], before: Iterable[FormStep] = ()
    ) -> list[Stage[Any]]:
        """Return the stages of steps that are not done,
        and that the steps before them do not make either.
        """
        made = self.finished | self._plan.cached
        for step in before:
            made.update(self.stages(step))
        wanted = chain.from_iterable(map(self.stages, steps))
        return [stage for stage in dict.fromkeys(wanted) if stage not in made]

    def seconds(self, steps: Iterable[FormStep], before: Iterable[FormStep] = ()) -> float:
        """Return the CPU seconds of steps, after other steps."""
        return self._costs.total_s(self.missing(steps, before))

    def share(self, steps: Sequence[FormStep], before: Sequence[FormStep] = ()) -> float:
        """Return which share (0-1) of the fine-tuning of steps ends in time after other steps;
        0 if none can.

        A training that no plan may shorten begins only if all of it is expected to end in time.
        """
        if self._time_limit is None:
            return 1.0
        # How much of a running stage is done is not known, so all of it counts.
        # The rule asks again when it ends.
        before = (*self.running, *before)
        stages = self.missing(steps, before)
        earlier = self.missing(before)
        left_s = self._time_limit.left_s() - self._takes_s(earlier)
        tuning_s = self._takes_s(list(filter(_tunes, stages)))
        others_s = self._takes_s([stage for stage in stages if not _tunes(stage)])
        if not tuning_s:
            return float(others_s <= left_s)
        share = min(1.0, (left_s - others_s) / tuning_s)
        shortens = all(stage.shortens for stage in stages if _tunes(stage))
        if share == 1.0 or (shortens and share > LEAST_SHARE):
            return share
        return 0.0

    def is_sure(self, step: FormStep) -> bool:
        """Return whether a step ends in time although nothing has shown how fast this machine
        is.
        """
        time_limit = self._time_limit
        return (
            time_limit is None
            or SURE * self._takes_s(self.missing((step,))) <= time_limit.left_s()
        )

    def may_end(self, step: FormStep) -> bool:
        """Return whether a step ends in time if other programs stop,
        without time for the hold-out.
        """
        time_limit = self._time_limit
        return (
            time_limit is None
            or self._wall_s(self.missing((step,))) <= (time_limit.whole_s or time_limit.left_s)()
        )

    def lasts_s(self, steps: Sequence[FormStep]) -> float:
        """Return the seconds by the clock that steps take,
        of fine-tuning only the share that ends in time.
        """
        share = self.share(steps)
        stages = self.missing(steps)
        tuning = list(filter(_tunes, stages))
        return self._wall_s(
            stage for stage in stages if stage not in tuning
        ) + share * self._wall_s(tuning)

    def later(self, begun_s: Callable[[], float]) -> Prices:
        """Return these prices for work that comes ``begun_s()`` seconds later."""
        time_limit = self._time_limit
        moved = None
        if time_limit is not None:
            moved = replace(time_limit, left_s=lambda: time_limit.left_s() - begun_s())
        other = Prices(self._plan, moved)
        other.finished = set(self.finished)
        return other

    def training_s(self, network: CardTraining) -> float:
        """Return the seconds by the clock of the trainings of a network that are not done,
        without a limit.
        """
        stages = self.missing((FormStep(network, FLOAT),))
        return self._takes_s(list(filter(_tunes, stages)))

    def finishing_s(
        self, network: CardTraining, forms: Iterable[str], whole: bool = True
    ) -> float:
        """Return the seconds from the end of a network's training to the results of its forms.

        A training that is not ``whole`` ships itself:
        the files that are compared are those that ship.
        """
        missing = self.missing(FormStep(network, form) for form in forms)
        stages = []
        for stage in missing:
            if stage.scope.training == network.training != stage.name:
                stages.append(stage)
        if not whole or self._plan.cores > 1:
            # Several cores make the files that are compared beside the final training;
            # one core makes them after it.
            made_once = Purpose.SHIP if not whole else Purpose.COMPARE
            stages = [stage for stage in stages if stage.scope.purpose != made_once]
        seen = {stage.name for stage in self.finished}
        known_s = self._takes_s(stage for stage in stages if stage.name in seen)
        unknown_s = self._takes_s(stage for stage in stages if stage.name not in seen)
        return MEASURED_MARGIN * known_s + FINISHING_MARGIN * unknown_s

    def _takes_s(self, stages: Iterable[Stage[Any]]) -> float:
        """Return the seconds by the clock that stages take now,
        by what others of their kind took in this search.
        """
        if self._time_limit is None:
            return self._wall_s(stages)
        return self._costs.chain_s(
            stages, self._plan.cores, self._time_limit.wall, self._time_limit.observed
        )

    def _wall_s(self, stages: Iterable[Stage[Any]]) -> float:
        """Return the seconds by the clock of stages that wait for each other."""
        return self._costs.chain_s(
            stages, self._plan.cores, self._time_limit.wall if self._time_limit else {}
        )


def _tunes(stage: Stage[Any]) -> bool:
    return recipe_of(stage.name).tunes_backbone
