"""Expected gain and time of fine-tuning, for the answer of a run that has heads alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from advisor.catalog.catalogue import load_catalogue
from advisor.core.errors import AdvisorError
from advisor.core.figures import accuracy_of
from advisor.core.training import FINETUNE_CACHED, HEAD, recipe_of
from advisor.core.units import show_seconds
from advisor.engine.history.loaded_run import LoadedRun
from advisor.engine.pipeline.cost_calibration import CostCalibration
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stages.finetuning import training_s
from advisor.engine.scheduling.promotion import PERFECT

LEAST_POINTS = 0.5
"""Fine-tuning that is expected to add less than this is not mentioned."""

LEAST_IMAGES = 300
"""Training images below which no gain is stated. With 400 of TrashNet, MobileNets gained nothing
(``benchmarks/results/tuning_promotion_table.csv``), but hand signs gained 3 points with 866: validation decides."""


@dataclass(frozen=True)
class ExpectedTuning:
    """Expected gain of fine-tuning the pick's card.

    Attributes:
        points: expected gain in points of top-1.
        low: lower end, in points, of the range that holds two thirds of the gains seen on other sets.
        high: upper end of that range in points.
        seconds: rough seconds of one core on this machine.
        card: the card.
    """

    points: float
    low: float
    high: float
    seconds: float
    card: str

    def command(self, folder: str) -> str:
        """Return the command that fine-tunes the card; its head comes from the cache.

        Args:
            folder: the run folder as the user would type it.
        """
        return (
            f"advisor search --request {folder}/request.yaml --training {HEAD},{FINETUNE_CACHED} "
            f"--candidates {self.card}"
        )

    def sentence(self, folder: str) -> str:
        """Return the expectation in words, with the command."""
        return (
            f"Fine-tuning {self.card} is expected to add about {self.points:.0f} points ({self.low:.0f} to "
            f"{self.high:.0f}) in about {show_seconds(self.seconds)}: {self.command(folder)}"
        )


def expected_tuning(run: LoadedRun) -> ExpectedTuning | None:
    """Return what fine-tuning is expected to add to the pick; None if it was fine-tuned, or cannot be or gain."""
    pick, train = run.decision.pick, run.dataset.get("train")
    if pick is None or pick.configuration.training != HEAD or not isinstance(train, int) or train < LEAST_IMAGES:
        return None
    name = pick.configuration.card
    tuned = (each.configuration for each in run.evaluations if each.accuracy is not None)
    if any(each.card == name and recipe_of(each.training).tunes_backbone for each in tuned):
        return None
    try:
        card = load_catalogue(run.question.catalog).get(name)
    except AdvisorError:
        return None
    tuning, room = recipe_of(FINETUNE_CACHED), PERFECT - accuracy_of(pick)
    if card is None or card.own_file or math.isnan(room) or tuning.gain * room < LEAST_POINTS:
        return None
    rough_s = training_s(card, FINETUNE_CACHED, train) + training_s(card, FINETUNE_CACHED, train, ships=True)
    seconds = rough_s * CostCalibration().pace.get(StageName.FINETUNE_CACHED, 1.0)
    low, middle, high = (room * (tuning.gain + sd * tuning.spread) for sd in (-1, 0, 1))
    return ExpectedTuning(middle, low, high, seconds, name)
