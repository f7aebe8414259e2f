"""Choose networks to measure so that the pick for a latency budget becomes sure.

A calibration with ``--budget`` asks for one network after the other: each is chosen by what the
ones before it have shown.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from advisor.core import CONFIDENCE, show_ms, show_probability
from advisor.devices._calibration.networks import forms_of
from advisor.devices._latency.features import Models
from advisor.devices._latency.model import choose_decisive
from advisor.devices._latency.model_space import Floats
from advisor.devices._prediction import Predictor
from advisor.devices._profiles import DeviceProfile, DeviceTarget


@dataclass(frozen=True)
class PickForBudget:
    """The choice of a network to ship on a target:
    the most accurate that meets a budget, as far as latencies are known.
    """

    predictor: Predictor
    target: DeviceTarget
    models: Models
    rated: Mapping[str, float]  # published top-1 by model, percent; 0 if none is published
    budget_ms: float

    def names(self, read_profile: Callable[[], DeviceProfile], wanted: int) -> Iterator[str]:
        """Yield ``wanted`` models to measure.

        ``read_profile`` returns the profile with all measurements so far; it is called before each
        choice.
        """
        measured = np.zeros(len(self.models), dtype=bool)
        for _ in range(min(wanted, len(self.models))):
            chances, distance = self._judge_models(read_profile())
            chosen = choose_decisive(chances, self._accuracy, distance, measured)
            measured[chosen] = True
            yield self.models[chosen].name

    def pick(self, profile: DeviceProfile) -> str:
        """Say which model is the most accurate that meets the budget."""
        budget = show_ms(self.budget_ms)
        # A network is sure to meet the budget if one of its forms is.
        sure = self._judge_models(profile)[0] >= CONFIDENCE
        if not sure.any():
            return f"no network meets {budget} with {show_probability(CONFIDENCE)} yet"
        best = self.models[int(np.argmax(np.where(sure, self._accuracy, -1.0)))].name
        return (
            f"{best} is the most accurate that meets {budget} with {show_probability(CONFIDENCE)}"
        )

    @property
    def _accuracy(self) -> Floats:
        return np.array([self.rated[model.name] for model in self.models])

    def _judge_models(self, profile: DeviceProfile) -> tuple[Floats, Floats]:
        """Return each model's probability to meet the budget, and its distance (log),
        both in its best form.
        """
        predictions = []
        for form in forms_of(self.target):
            predictions.append(self.predictor.predict(profile, self.target, form, self.models))
        log_budget = math.log(self.budget_ms)
        chances = []
        distance = []
        for of_form in predictions:
            chances.append([prediction.probability(self.budget_ms) for prediction in of_form])
            distance.append([abs(prediction.mean_log - log_budget) for prediction in of_form])
        return np.max(chances, axis=0), np.min(distance, axis=0)
