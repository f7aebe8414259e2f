"""Add a calibration's measurements to a profile, and compute how they change the errors of predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from advisor.core.errors import UsageError
from advisor.devices.latency.features import ModelFeatures
from advisor.devices.prediction.predictor import CALIBRATED, Predictor
from advisor.devices.profiles import DeviceProfile, DeviceTarget
from advisor.devices.profiles.measurements import Measurement


@dataclass(frozen=True)
class CalibrationReport:
    """The errors of predictions of the measured models.

    Attributes:
        models: names of the models measured on the target.
        before: relative error of each, predicted without the new measurements.
        after: relative error of each, predicted from all other models (leave-one-out); empty for a single model.
    """

    models: tuple[str, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def median_before(self) -> float:
        """Median of the absolute relative errors."""
        return float(np.median(np.abs(self.before)))

    @property
    def median_after(self) -> float:
        """Median of the absolute relative errors, NaN for a single model."""
        return float(np.median(np.abs(self.after))) if self.after else float("nan")


def with_measurements(
    profile: DeviceProfile, target: DeviceTarget, form: str, latency_ms: Mapping[str, float]
) -> DeviceProfile:
    """Return the profile with the user's measurements, which replace earlier ones of the same models on the target.

    Raises:
        UsageError: there is no measurement.
    """
    if not latency_ms:
        raise UsageError("there is no measurement to calibrate from", "measure at least one model")
    others = [
        row
        for row in profile.measurements
        if not (row.target == target.name and row.precision == form and row.model in latency_ms)
    ]
    new = [
        Measurement(target.name, model, form, milliseconds, "median", source_repo=CALIBRATED, source_path=profile.name)
        for model, milliseconds in sorted(latency_ms.items())
    ]
    taken = target.precisions if form in target.precisions else (*target.precisions, form)
    targets = tuple(replace(t, precisions=taken) if t.name == target.name else t for t in profile.targets)
    return replace(profile, measurements=(*others, *new), targets=targets)


def calibration_report(
    predictor: Predictor,
    before: DeviceProfile,
    after: DeviceProfile,
    target: DeviceTarget,
    form: str,
    models: Sequence[ModelFeatures],
) -> CalibrationReport:
    """Compare predictions of the measured models without the new measurements, and from each other.

    Args:
        predictor: fitted without the new measurements.
        before: the profile without them.
        after: the profile with the new measurements.
        target: the target.
        form: form of the artefacts.
        models: features of the measured models.
    """
    truth = {
        row.model: row.latency_ms
        for row in after.measurements
        if row.target == target.name and row.precision == form and row.source_repo == CALIBRATED
    }
    measured = [model for model in models if model.name in truth]
    blank = replace(before, measurements=tuple(row for row in before.measurements if row.model not in truth))
    predictions = predictor.predict(blank, blank.target(target.name), form, measured)
    errors = [p.latency.value / truth[m.name] - 1 for p, m in zip(predictions, measured, strict=True)]
    left_out = []
    for model in measured if len(measured) > 1 else []:
        others = replace(after, measurements=tuple(row for row in after.measurements if row.model != model.name))
        found = predictor.predict(others, others.target(target.name), form, [model])[0].latency.value
        left_out.append(found / truth[model.name] - 1)
    return CalibrationReport(tuple(model.name for model in measured), tuple(errors), tuple(left_out))
