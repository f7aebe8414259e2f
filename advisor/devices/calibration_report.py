"""Judge a calibration: errors of predictions before and after, and the errors that the predictor itself expects."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from advisor.core.quantity import Provenance
from advisor.devices.latency.features import ModelFeatures
from advisor.devices.prediction.predictor import CALIBRATED, Predictor
from advisor.devices.profiles import DeviceProfile, DeviceTarget


@dataclass(frozen=True)
class CalibrationReport:
    """The errors of predictions in one form.

    Attributes:
        form: ``float32`` or ``int8``.
        models: names of the models measured on the target.
        before: relative error of each, predicted without the new measurements.
        after: relative error of each, predicted from all other models (leave-one-out); empty for a single model.
        expected_before: expected median error of the models of the catalogue that were not measured, as the predictor
            itself knew before; NaN if there are none.
        expected_after: the same with the new measurements.
        contradicting: measured models whose latencies contradict the others, each with what these expect (ms).
    """

    form: str
    models: tuple[str, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    expected_before: float
    expected_after: float
    contradicting: Mapping[str, float] = field(default_factory=dict)

    @property
    def median_before(self) -> float:
        """Median of the absolute relative errors."""
        return float(np.median(np.abs(self.before)))

    @property
    def median_after(self) -> float:
        """Median of the absolute relative errors, NaN for a single model."""
        return float(np.median(np.abs(self.after))) if self.after else float("nan")


def calibration_report(
    predictor: Predictor,
    before: DeviceProfile,
    after: DeviceProfile,
    target: DeviceTarget,
    models: Sequence[ModelFeatures],
    form: str,
) -> CalibrationReport:
    """Compare predictions of the measured models without the new measurements, and from each other.

    Args:
        predictor: fitted without the new measurements.
        before: the profile without them.
        after: the profile with the new measurements.
        target: the target.
        models: features of the models that can be measured.
        form: form of the measured files.
    """
    truth = {
        row.model: row.latency_ms
        for row in after.measurements
        if row.target == target.name and row.precision == form and row.source_repo == CALIBRATED
    }
    measured_models = [model for model in models if model.name in truth]
    names = tuple(model.name for model in measured_models)
    predictions = predictor.predict(_without(before, truth), target, form, measured_models)
    errors = [p.latency.value / truth[name] - 1 for p, name in zip(predictions, names, strict=True)]
    left_out = []
    for model in measured_models if len(names) > 1 else []:
        (found,) = predictor.predict(_without(after, [model.name]), target, form, [model])
        left_out.append(found.latency.value / truth[model.name] - 1)
    now, later = (expected_error(predictor, profile, target, form, models) for profile in (before, after))
    contradicting = predictor.contradicting(after, target, form)
    return CalibrationReport(form, names, tuple(errors), tuple(left_out), now, later, contradicting)


def _without(profile: DeviceProfile, models: Collection[str]) -> DeviceProfile:
    """Return the profile without the measurements of some models."""
    return replace(profile, measurements=tuple(row for row in profile.measurements if row.model not in models))


def expected_error(
    predictor: Predictor, profile: DeviceProfile, target: DeviceTarget, form: str, models: Sequence[ModelFeatures]
) -> float:
    """Return the median relative error to expect of models that are predicted, from their own distributions.

    It is NaN if every model is known.
    """
    predictions = predictor.predict(profile, target, form, models)
    spreads = [
        math.sqrt(found.quantile(0.75) / found.quantile(0.25)) - 1
        for found in predictions
        if found.latency.provenance is Provenance.PREDICTED
    ]
    return statistics.median(spreads) if spreads else math.nan
