"""Expect what fine-tuning would add to a pick that has a new head alone.

A report shows it with the command of the search that does it. The gain is that of the training
recipe (``core/_training.py``), measured on other sets (decision 0048).
"""

import math
import shlex
from dataclasses import dataclass

from advisor.catalog import Card, Catalogue
from advisor.core import AdvisorError, TrainingName, recipe_of
from advisor.engine._history.loaded_run import LoadedRun
from advisor.engine._pipeline.cost_calibration import CostCalibration
from advisor.engine._pipeline.stage import StageName
from advisor.engine._pipeline.stages.finetuning import training_s
from advisor.isolation import agent, part_of_a_core

LEAST_POINTS = 0.5
"""Fine-tuning that is expected to add less than this is not mentioned."""

LEAST_IMAGES = 300
"""Training images below which no gain is stated. With 400 of TrashNet, MobileNets gained nothing
(``benchmarks/results/tuning_promotion_table.csv``), but hand signs gained 3 points with 866:
validation decides.
"""

TUNING_MARGIN = 1.5
AROUND_TUNING_S = 90.0
"""Factor on the expected seconds of fine-tuning, and the seconds of features, head, forms and
hold-out around it, in the time limit of the search that is suggested.
"""


@dataclass(frozen=True)
class ExpectedTuning:
    """Expected gain of fine-tuning the pick's card.

    Attributes:
        points: expected gain in points of top-1.
        low: lower end, in points, of the range that holds two thirds of the gains seen on other
            sets.
        high: upper end of that range in points.
        seconds: rough seconds by the clock on this machine.
        card: the card.
        limited: the search had a time limit, which the next one must exceed.
    """

    points: float
    low: float
    high: float
    seconds: float
    card: str
    limited: bool = False

    def command(self, folder: str) -> str:
        """Return the command that fine-tunes the card; its head comes from the cache."""
        limit = ""
        if self.limited:
            # The request has the limit of the search that had no time for it.
            # A busy machine takes longer than said.
            minutes = math.ceil((TUNING_MARGIN * self.seconds + AROUND_TUNING_S) / 60)
            limit = f" --time-limit {minutes}min"
        return (
            f"advisor search --request {shlex.quote(folder)}/request.yaml --training"
            f" {TrainingName.HEAD},{TrainingName.FINETUNE_CACHED} --candidates {self.card}{limit}"
        )


def expect_tuning_gain(run: LoadedRun) -> ExpectedTuning | None:
    """Return what fine-tuning is expected to add to the pick;
    None if it was fine-tuned, or cannot be or gain.
    """
    pick = run.decision.pick
    train_images = run.dataset.get("train")
    if pick is None or pick.configuration.training != TrainingName.HEAD:
        return None
    if not isinstance(train_images, int) or train_images < LEAST_IMAGES:
        return None
    if TrainingName.FINETUNE_CACHED not in run.question.of_task.trainings:
        return None
    name = pick.configuration.card
    if _was_tuned(run, name):
        return None
    try:
        card = Catalogue.load(run.question.catalog).get(name)
    except AdvisorError:
        return None
    if card is None or card.own_file:
        return None
    tuning = recipe_of(TrainingName.FINETUNE_CACHED)
    # Gains are shares of the errors (decision 0048): a head with 98 % has little left to gain.
    errors_percent = 100.0 - pick.accuracy_percent
    points = errors_percent * tuning.gain
    if math.isnan(points) or points < LEAST_POINTS:
        return None
    return ExpectedTuning(
        points=points,
        low=errors_percent * (tuning.gain - tuning.spread),
        high=errors_percent * (tuning.gain + tuning.spread),
        seconds=_expect_seconds(card, train_images),
        card=name,
        limited=run.request.execution.time_limit_s is not None,
    )


def _was_tuned(run: LoadedRun, card: str) -> bool:
    """Return whether the backbone of a card was fine-tuned in the run."""
    for evaluation in run.evaluations:
        configuration = evaluation.configuration
        if evaluation.accuracy is None or configuration.card != card:
            continue
        if recipe_of(configuration.training).tunes_backbone:
            return True
    return False


def _expect_seconds(card: Card, train_images: int) -> float:
    """Return the expected seconds by the clock on this machine of fine-tuning a card."""
    # The network that ships is trained after the compared one, so both are paid.
    compared_s = training_s(card, TrainingName.FINETUNE_CACHED, train_images)
    shipped_s = training_s(card, TrainingName.FINETUNE_CACHED, train_images, ships=True)
    calibration = CostCalibration(part=part_of_a_core(), cores=agent.count_cores())
    return calibration.expect_s(StageName.FINETUNE_CACHED, compared_s + shipped_s)
