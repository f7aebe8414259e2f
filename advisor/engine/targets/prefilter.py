"""Reject a card before it is trained where no device of the question would run it fast enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.catalog.cards import Card
from advisor.core.budget import Budget
from advisor.core.figures import show_latency
from advisor.core.forms import form_of
from advisor.core.latency_distribution import percent
from advisor.core.quantity import Quantity
from advisor.core.units import show_ms
from advisor.engine.targets.compatibility import TargetDevice, form_rejection
from advisor.engine.targets.device_prediction import MIN_BUDGET_PROBABILITY, DevicePredictor
from advisor.engine.targets.selection import TargetDevices

if TYPE_CHECKING:
    from advisor.devices.prediction.values import Prediction


@dataclass(frozen=True)
class Prefilter:
    """Predictions for cards that have no file yet.

    Attributes:
        targets: the devices of the question.
        limits: the budget.
        predictor: predicts latencies.
    """

    targets: TargetDevices
    limits: Budget
    predictor: DevicePredictor

    @classmethod
    def of(cls, targets: TargetDevices, limits: Budget) -> Prefilter | None:
        """Return the prefilter; None where this machine is the only device, so that nothing is predicted."""
        return cls(targets, limits, DevicePredictor.load()) if targets.devices else None

    def rejection_reason(self, card: Card, recipe: str) -> str:
        """Return why a card is not trained for a recipe; empty where it may be worth training.

        It is rejected where it is too slow for every device of the question, or for one that it must run on as well.
        This machine rejects nothing here: it measures.
        """
        required = [device for device in self.targets.devices if device.label in self.limits.must_run_on]
        others = [device for device in self.targets.devices if device not in required]
        reasons = {device.label: self._too_slow(card, recipe, device) for device in (*required, *others)}
        rejected = next((reasons[device.label] for device in required if reasons[device.label]), "")
        if rejected or self.targets.host or not all(reasons[device.label] for device in others):
            return rejected
        return "; ".join(reasons[device.label] for device in others)

    def worst_latency(self, card: Card, recipe: str) -> tuple[Quantity, float | None] | None:
        """Return median latency and budget probability on the slowest device, None where nothing can be predicted.

        Args:
            card: the model card.
            recipe: name of the compression recipe.
        """
        found = [self.predictor.predict_cards([card], recipe, device)[0] for device in self.targets.devices]
        known = [prediction for prediction in found if not isinstance(prediction, str)]
        if not known:
            return None
        worst = max(known, key=lambda prediction: prediction.latency.value)
        limit = self.limits.latency_ms
        return worst.latency, None if limit is None else min(each.probability(limit) for each in known)

    def _too_slow(self, card: Card, recipe: str, device: TargetDevice) -> str:
        reason = form_rejection(form_of(recipe).name, device)
        if reason:
            return reason
        (found,) = self.predictor.predict_cards([card], recipe, device)
        # Where nothing can be predicted for the card, its file decides later.
        return "" if isinstance(found, str) else _misses_budget(found, self.limits.latency_ms, device)


def _misses_budget(prediction: Prediction, limit_ms: float | None, device: TargetDevice) -> str:
    if limit_ms is None:
        return ""
    probability = prediction.probability(limit_ms)
    if probability >= MIN_BUDGET_PROBABILITY:
        return ""
    sure = f"{percent(probability)} sure to meet {show_ms(limit_ms)}"
    return f"{show_latency(prediction.latency)} on {device.label}, {sure}: not trained"
