"""Predicted latency of any model on any known target, with an interval and the chance of meeting a budget."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.core.errors import UsageError
from advisor.core.quantity import Provenance, Quantity
from advisor.devices.latency.anchors import choose
from advisor.devices.latency.base import Base
from advisor.devices.latency.conformal import SUPPORT, Calibration, Regime
from advisor.devices.latency.features import FeatureTable, ModelFeatures, load_features
from advisor.devices.latency.model import Estimate, Queries, estimate, place, posterior_of
from advisor.devices.latency.posterior import NOISE, Posterior
from advisor.devices.latency.store import base_from_json, base_to_json
from advisor.devices.latency.table import LatencyTable, build_table, column_of
from advisor.devices.prediction.forms import stand_in
from advisor.devices.prediction.values import Floats, Prediction, normal_bounds
from advisor.devices.profiles import DeviceProfile, DeviceTarget, Profiles
from advisor.devices.profiles.paths import shipped_profiles

CALIBRATED = "calibrated"
"""``source_repo`` of measurements that a user made on the device."""

_SCHEMA_VERSION = 3


class Predictor:
    """Latency predictions for the targets of some profiles; fitted once, then under a millisecond a model."""

    def __init__(self, profiles: Mapping[str, DeviceProfile], base: Base, calibration: Calibration) -> None:
        self._profiles = profiles
        self._base = base
        self._calibration = calibration
        self._posteriors: dict[tuple[str, str, str], tuple[Posterior, float]] = {}

    @property
    def data_hash(self) -> str:
        """Fingerprint of the measurements behind the predictions."""
        return self._base.table.fingerprint()

    def predict(
        self,
        profile: DeviceProfile,
        target: DeviceTarget,
        form: str,
        models: Sequence[ModelFeatures],
        level: float = 0.8,
    ) -> tuple[Prediction, ...]:
        """Predict ``models`` on one target.

        Args:
            profile: the device, one of the profiles fitted or a new one.
            target: its target.
            form: form of the artefact: a precision or the name of a compression recipe.
            models: the models.
            level: confidence of the interval, between 0 and 1.

        Raises:
            UsageError: a form that nothing is known of, a model without MACs or parameters, a level out of range.
        """
        if not models:
            return ()
        posterior, doubt = self._posterior(profile, target, form)
        queries = place(self._base, models)
        found = _doubtful(estimate(self._base, posterior, queries), doubt)
        exact = self._exact(profile, target, posterior.column.precision, queries) if not doubt else {}
        return tuple(
            self._measured(profile, exact[i], level) if i in exact else self._predicted(posterior, found, i, level)
            for i in range(len(models))
        )

    def posterior(self, profile: DeviceProfile, target: DeviceTarget, form: str) -> Posterior:
        """Return what stands behind the predictions on a target: its measured models, and whom it resembles."""
        return self._posterior(profile, target, form)[0]

    def most_telling(
        self,
        profile: DeviceProfile,
        target: DeviceTarget,
        form: str,
        models: Sequence[str],
        wanted: int,
        costs: Mapping[str, float] | None = None,
    ) -> tuple[str, ...]:
        """Return the ``wanted`` of ``models`` whose measurement would tell most about the others, most telling first.

        Args:
            profile: the device.
            target: its target.
            form: form of the artefacts.
            models: names of models; those that no table knows are passed over.
            wanted: how many.
            costs: what each costs, against 1 for having it at all.

        Raises:
            UsageError: none of the models is known.
        """
        names = self._base.table.models
        known = [names.index(model) for model in models if model in names]
        if not known:
            raise UsageError("none of these models is known to the predictor", "take models of the catalogue")
        prices = {names.index(name): cost for name, cost in (costs or {}).items() if name in names}
        column = self._posterior(profile, target, form)[0].column
        return tuple(names[i] for i in choose(self._base, column, known, wanted, prices))

    def save(self, path: Path) -> None:
        """Store the fit as JSON, with the fingerprint of the measurements and every target's runtime and version."""
        data = {
            "schema_version": _SCHEMA_VERSION,
            "base": base_to_json(self._base),
            "calibration": self._calibration.to_json(),
        }
        path.write_text(json.dumps(data, separators=(",", ":")), encoding="utf-8")

    @classmethod
    def load(cls, path: Path, profiles: Profiles, features: FeatureTable | None = None) -> Predictor:
        """Read back :meth:`save`.

        Raises:
            UsageError: not such a file, or made from other measurements than ``profiles`` hold now.
        """
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} cannot be read: {error}", "delete it: it is made again") from error
        if not isinstance(data, dict) or data.get("schema_version") != _SCHEMA_VERSION:
            raise UsageError(f"{path} is not a stored predictor", "delete it: it is made again")
        table = build_table(profiles.values(), features or load_features(shipped_profiles()))
        return cls(profiles, base_from_json(data.get("base"), table, path), Calibration.from_json(data["calibration"]))

    def _posterior(self, profile: DeviceProfile, target: DeviceTarget, form: str) -> tuple[Posterior, float]:
        """Return the posterior and the doubt that standing in for another form adds."""
        # The profiles that were fitted do not change; any other may come again with more measurements.
        fitted = self._profiles.get(profile.name) is profile
        key = (profile.name if fitted else profile.fingerprint(), target.name, form)
        if key not in self._posteriors:
            self._posteriors[key] = self._make_posterior(profile, target, form)
        return self._posteriors[key]

    def _make_posterior(self, profile: DeviceProfile, target: DeviceTarget, form: str) -> tuple[Posterior, float]:
        table = self._base.table
        known = {column.precision for column in table.columns}
        measured = {m.precision for m in profile.measurements if m.target == target.name and m.usable}
        precision, doubt = stand_in(form, measured, known)
        column = column_of(profile, target, precision)
        seen, values = _measured_models(table, profile, target, precision)
        identity = (profile.name, target.name, precision)
        excluded = [i for i, c in enumerate(table.columns) if (c.device, c.target, c.precision) == identity]
        return posterior_of(self._base, column, seen, values, excluded=excluded), doubt

    def _exact(
        self, profile: DeviceProfile, target: DeviceTarget, precision: str, queries: Queries
    ) -> dict[int, tuple[float, str]]:
        """Return latency (ms) and source of each query that was measured on this very target."""
        rows: dict[str, list[tuple[float, str]]] = {}
        for row in profile.measurements:
            if row.usable and row.target == target.name and row.precision == precision:
                rows.setdefault(row.model, []).append((row.latency_ms, row.source_repo))
        names = self._base.table.models
        found = {}
        for index, known in enumerate(queries.known):
            if known >= 0 and names[known] in rows:
                figures = rows[names[known]]
                found[index] = (float(np.exp(np.mean(np.log([f[0] for f in figures])))), figures[0][1])
        return found

    def _measured(self, profile: DeviceProfile, figure: tuple[float, str], level: float) -> Prediction:
        milliseconds, source = figure
        low, high = normal_bounds(level)
        provenance = Provenance.MEASURED if source == CALIBRATED else Provenance.PUBLISHED
        quantity = Quantity(
            milliseconds, "ms", provenance, milliseconds * float(np.exp(NOISE * low)),
            milliseconds * float(np.exp(NOISE * high)), level, None, f"{source} on {profile.name}",
        )  # fmt: skip
        return Prediction(quantity, float(np.log(milliseconds)), NOISE, None, 0.0, self._calibration)

    def _predicted(self, posterior: Posterior, found: Estimate, index: int, level: float) -> Prediction:
        regime = Regime.of(len(posterior.seen), SUPPORT[found.support[index]])
        low, high = self._calibration.bounds(regime, level)
        mean, deviation = float(found.mean[index]), float(found.deviation[index])
        quantity = Quantity(
            float(np.exp(mean)), "ms", Provenance.PREDICTED, float(np.exp(mean + low * deviation)),
            float(np.exp(mean + high * deviation)), level, len(posterior.seen), _source(posterior, self._base),
        )  # fmt: skip
        return Prediction(quantity, mean, deviation, regime, float(found.outside[index]), self._calibration)


def _measured_models(
    table: LatencyTable, profile: DeviceProfile, target: DeviceTarget, precision: str
) -> tuple[NDArray[np.intp], Floats]:
    """Return the indices and mean log latencies of the models measured on a target."""
    position = {name: i for i, name in enumerate(table.models)}
    cells: dict[int, list[float]] = {}
    for row in profile.measurements:
        if row.usable and row.target == target.name and row.precision == precision and row.model in position:
            cells.setdefault(position[row.model], []).append(float(np.log(row.latency_ms)))
    seen = np.array(sorted(cells), dtype=np.intp)
    return seen, np.array([np.mean(cells[int(i)]) for i in seen], dtype=np.float64)


def _doubtful(found: Estimate, doubt: float) -> Estimate:
    return Estimate(found.mean, np.hypot(found.deviation, doubt), found.support, found.outside)


def _source(posterior: Posterior, base: Base) -> str:
    """Say in a few words what a prediction rests on."""
    best = int(np.argmax(posterior.shares))
    like = base.table.columns[best]
    resembled = f"most like {like.device}:{like.target}"
    return f"{len(posterior.seen) or 'no'} models measured on it, {resembled}"
