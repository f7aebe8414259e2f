"""Fit the latency predictor of all known devices once, and keep it in the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.core.errors import UsageError
from advisor.store import cache_root

if TYPE_CHECKING:
    from advisor.devices.prediction.predictor import Predictor

PREDICTOR_FILE = "latency-predictor.json"


def device_predictor() -> Predictor:
    """Return the predictor of the shipped profiles and the team's own.

    Fitting takes seconds, so the predictor is kept in the cache. It is fitted again if a measurement changed.

    Raises:
        UsageError: a profile in the team's own folder is not valid.
    """
    from advisor.devices.prediction.fitting import fit_predictor
    from advisor.devices.prediction.predictor import Predictor
    from advisor.devices.profiles.team import known_devices

    file, profiles = cache_root() / PREDICTOR_FILE, known_devices()
    if file.is_file():
        try:
            return Predictor.load(file, profiles)
        except UsageError:  # fitted to other measurements, or damaged
            file.unlink(missing_ok=True)
    predictor = fit_predictor(profiles)
    file.parent.mkdir(parents=True, exist_ok=True)
    predictor.save(file)
    return predictor
