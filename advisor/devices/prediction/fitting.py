"""Fit the latency predictor to the measurements in device profiles."""

from __future__ import annotations

import json
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.devices.latency.base import fit_base
from advisor.devices.latency.conformal import Calibration
from advisor.devices.latency.features import FeatureTable, load_features
from advisor.devices.latency.table import build_table
from advisor.devices.latency.validation import calibrate
from advisor.devices.prediction.predictor import Predictor
from advisor.devices.profiles import Profiles
from advisor.devices.profiles.paths import shipped_profiles

CALIBRATION_FILE = "prediction_calibration.json"


def fit_predictor(
    profiles: Profiles, features: FeatureTable | None = None, calibration: Calibration | None = None
) -> Predictor:
    """Fit a predictor to all measurements in ``profiles``.

    Args:
        profiles: the devices; a user's measurements count like the shipped ones.
        features: features of the measured models; by default the shipped ones.
        calibration: errors from which intervals are made. By default those stored with the shipped profiles, which are
            also valid for other targets; they are computed again (half a minute) if there are none.

    Raises:
        UsageError: no profile has a measurement.
    """
    folder = shipped_profiles()
    table = build_table(profiles.values(), features or load_features(folder))
    if not table.columns:
        raise UsageError("no device profile has a measurement to predict from", "use the shipped profiles, too")
    if calibration is None:
        stored = folder / CALIBRATION_FILE
        calibration = read_calibration(stored) if stored.is_file() else calibrate(table)
    return Predictor(profiles, fit_base(table), calibration)


def read_calibration(path: Path) -> Calibration:
    """Read a stored calibration.

    Raises:
        UsageError: it is another file.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "install the package again") from error
    if not isinstance(data, dict):
        raise UsageError(f"{path} is not a stored calibration", "install the package again")
    return Calibration.from_json(data)
