"""Reject a card before it is trained if no device of the question would run it fast enough."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True)
class LatencyEstimate:
    """The estimated latency of one configuration.

    Attributes:
        latency: median in ms: ``measured`` here before, ``predicted``, or ``estimated`` if it is rough.
        chance: probability that it meets the latency budget; None without a budget, or if the latency is rough.
    """

    latency: Quantity
    chance: float | None


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
        """Return the prefilter; None if this machine is the only device, so that nothing is predicted."""
        return cls(targets, limits, DevicePredictor.load()) if targets.devices else None

    def rejection_reason(self, card: Card, recipe: str) -> str:
        """Return why a card is not trained for a recipe; empty if it may be worth training.

        It is rejected if it is too slow for every device of the question, or for one that it must run on as well.
        This machine rejects nothing here: it measures.
        """
        required = [device for device in self.targets.devices if device.label in self.limits.must_run_on]
        others = [device for device in self.targets.devices if device not in required]
        reasons = {device.label: self._too_slow(card, recipe, device) for device in (*required, *others)}
        rejected = next((reasons[device.label] for device in required if reasons[device.label]), "")
        if rejected or self.targets.host or not all(reasons[device.label] for device in others):
            return rejected
        return "; ".join(reasons[device.label] for device in others)

    def worst_latency(self, card: Card, recipe: str, here: LatencyEstimate) -> LatencyEstimate:
        """Return the latency on the slowest device of the question, and the least budget probability.

        Args:
            card: the model card.
            recipe: name of the compression recipe.
            here: the estimate for this machine; it counts if this machine is a device of the question, or if nothing
                can be predicted for the others.
        """
        found = [self.predictor.predict_card(card, recipe, device) for device in self.targets.devices]
        limit = self.limits.latency_ms
        known = [
            LatencyEstimate(each.latency, None if limit is None else each.probability(limit))
            for each in found
            if not isinstance(each, str)
        ]
        if self.targets.host:
            known.append(here)
        if not known:
            return LatencyEstimate(here.latency, None)
        slowest = max((each.latency for each in known), key=lambda latency: latency.value)
        return LatencyEstimate(slowest, min((each.chance for each in known if each.chance is not None), default=None))

    def _too_slow(self, card: Card, recipe: str, device: TargetDevice) -> str:
        reason = form_rejection(form_of(recipe).name, device)
        if reason:
            return reason
        found, limit_ms = self.predictor.predict_card(card, recipe, device), self.limits.latency_ms
        if isinstance(found, str) or limit_ms is None:
            return ""  # if nothing can be predicted for the card, its file decides later
        probability = found.probability(limit_ms)
        if probability >= MIN_BUDGET_PROBABILITY:
            return ""
        sure = f"{percent(probability)} sure to meet {show_ms(limit_ms)}"
        return f"{show_latency(found.latency)} on {device.label}, {sure}: not trained"
