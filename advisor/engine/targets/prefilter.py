"""What to expect of a card on the devices of the question before there is a file: is it worth training at all."""

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
    """Predictions for cards.

    Attributes:
        targets: the devices of the question.
        limits: what is asked.
        forecaster: what predicts.
    """

    targets: TargetDevices
    limits: Budget
    forecaster: DevicePredictor

    @classmethod
    def of(cls, targets: TargetDevices, limits: Budget) -> Prefilter | None:
        """Return the outlook; None where every device is at hand and nothing is predicted."""
        return cls(targets, limits, DevicePredictor.load()) if targets.devices else None

    def hopeless(self, card: Card, recipe: str) -> str:
        """Say why nothing is to be spent on a card's form: too slow for each device asked about, or one required.

        Empty where it may be worth it; this machine tells by itself.
        """
        required = [place for place in self.targets.devices if place.label in self.limits.must_run_on]
        others = [place for place in self.targets.devices if place not in required]
        reasons = {place.label: self._too_slow(card, recipe, place) for place in (*required, *others)}
        lost = next((reasons[place.label] for place in required if reasons[place.label]), "")
        if lost or self.targets.host or not all(reasons[place.label] for place in others):
            return lost
        return "; ".join(reasons[place.label] for place in others)

    def expected(self, card: Card, recipe: str) -> tuple[Quantity, float | None] | None:
        """Return latency (median) and chance on the device where a card's form does worst; None where none is known."""
        found = [self.forecaster.predict_cards([card], recipe, place)[0] for place in self.targets.devices]
        known = [prediction for prediction in found if not isinstance(prediction, str)]
        if not known:
            return None
        worst = max(known, key=lambda prediction: prediction.latency.value)
        limit = self.limits.latency_ms
        return worst.latency, None if limit is None else min(each.probability(limit) for each in known)

    def _too_slow(self, card: Card, recipe: str, place: TargetDevice) -> str:
        reason = form_rejection(form_of(recipe).name, place)
        if reason:
            return reason
        (found,) = self.forecaster.predict_cards([card], recipe, place)
        # Of what nothing is known yet the file itself will tell.
        return "" if isinstance(found, str) else _below(found, self.limits.latency_ms, place)


def _below(prediction: Prediction, limit_ms: float | None, place: TargetDevice) -> str:
    if limit_ms is None:
        return ""
    chance = prediction.probability(limit_ms)
    if chance >= MIN_BUDGET_PROBABILITY:
        return ""
    return (
        f"{show_latency(prediction.latency)} on {place.label}, {percent(chance)} sure to meet {show_ms(limit_ms)}: "
        "not trained"
    )
