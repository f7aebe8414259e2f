"""Predict the latency of any model on any target, with an interval and the probability of meeting a budget."""

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
from advisor.devices.latency.model import Estimate, Queries, estimate, posterior_of, queries_of
from advisor.devices.latency.posterior import NOISE, Posterior
from advisor.devices.latency.store import base_from_json, base_to_json
from advisor.devices.latency.table import LatencyTable, build_table, column_of
from advisor.devices.prediction.forms import similar_form
from advisor.devices.prediction.values import Floats, Prediction, normal_bounds
from advisor.devices.profiles import DeviceProfile, DeviceTarget, Profiles
from advisor.devices.profiles.paths import shipped_profiles

CALIBRATED = "calibrated"
"""``source_repo`` of measurements that a user made with ``advisor devices calibrate``."""

_SCHEMA_VERSION = 3


class Predictor:
    """Predicts latencies on targets; fitting takes seconds, a prediction milliseconds."""

    def __init__(self, profiles: Mapping[str, DeviceProfile], base: Base, calibration: Calibration) -> None:
        self._profiles = profiles
        self._base = base
        self._calibration = calibration
        self._posteriors: dict[tuple[str, str, str], tuple[Posterior, float]] = {}

    @property
    def data_hash(self) -> str:
        """Fingerprint of the measurements that it was fitted to."""
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
            profile: the device: one of the profiles that it was fitted to, or a new one.
            target: its target.
            form: form of the artefact: a precision or the name of a compression recipe.
            models: the models.
            level: confidence of the interval, between 0 and 1.

        Raises:
            UsageError: the form is unknown, a model has no MACs or parameters, or the level is out of range.
        """
        if not models:
            return ()
        posterior, log_sd = self._posterior(profile, target, form)
        queries = queries_of(self._base, models)
        found = _widened(estimate(self._base, posterior, queries), log_sd)
        exact = self._exact(profile, target, posterior.column.precision, queries) if not log_sd else {}
        return tuple(
            self._measured(profile, exact[i], level) if i in exact else self._predicted(posterior, found, i, level)
            for i in range(len(models))
        )

    def posterior(self, profile: DeviceProfile, target: DeviceTarget, form: str) -> Posterior:
        """Return the posterior of a target: its measured models, and the targets that it resembles."""
        return self._posterior(profile, target, form)[0]

    def most_informative(
        self,
        profile: DeviceProfile,
        target: DeviceTarget,
        form: str,
        models: Sequence[str],
        wanted: int,
        costs: Mapping[str, float] | None = None,
    ) -> tuple[str, ...]:
        """Return the models whose measurement would reduce the uncertainty about the others most, the best first.

        Args:
            profile: the device.
            target: its target.
            form: form of the artefacts.
            models: names of models to choose from; unknown models are ignored.
            wanted: how many to choose.
            costs: cost of each model, relative to 1 for measuring it.

        Raises:
            UsageError: none of the models is known.
        """
        names = self._base.table.models
        known = [names.index(model) for model in models if model in names]
        if not known:
            raise UsageError("the predictor knows none of these models", "use models of the catalogue")
        known_costs = {names.index(name): cost for name, cost in (costs or {}).items() if name in names}
        column = self._posterior(profile, target, form)[0].column
        return tuple(names[i] for i in choose(self._base, column, known, wanted, known_costs))

    def save(self, path: Path) -> None:
        """Write the fit as JSON, with the fingerprint of the measurements and each target's runtime and version."""
        data = {
            "schema_version": _SCHEMA_VERSION,
            "base": base_to_json(self._base),
            "calibration": self._calibration.to_json(),
        }
        path.write_text(json.dumps(data, separators=(",", ":")), encoding="utf-8")

    @classmethod
    def load(cls, path: Path, profiles: Profiles, features: FeatureTable | None = None) -> Predictor:
        """Read a file that :meth:`save` wrote.

        Raises:
            UsageError: it is another file, or it was fitted to other measurements than those of ``profiles``.
        """
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} cannot be read: {error}", "delete it; advisor makes it again") from error
        if not isinstance(data, dict) or data.get("schema_version") != _SCHEMA_VERSION:
            raise UsageError(f"{path} is not a stored predictor", "delete it; advisor makes it again")
        table = build_table(profiles.values(), features or load_features(shipped_profiles()))
        return cls(profiles, base_from_json(data.get("base"), table, path), Calibration.from_json(data["calibration"]))

    def _posterior(self, profile: DeviceProfile, target: DeviceTarget, form: str) -> tuple[Posterior, float]:
        """Return the posterior, and the deviation (log) that using the latencies of a similar form adds."""
        # Fitted profiles do not change; another profile may get more measurements under the same name.
        fitted = self._profiles.get(profile.name) is profile
        key = (profile.name if fitted else profile.fingerprint(), target.name, form)
        if key not in self._posteriors:
            self._posteriors[key] = self._make_posterior(profile, target, form)
        return self._posteriors[key]

    def _make_posterior(self, profile: DeviceProfile, target: DeviceTarget, form: str) -> tuple[Posterior, float]:
        table = self._base.table
        known = {column.precision for column in table.columns}
        measured = {m.precision for m in profile.measurements if m.target == target.name and m.usable}
        precision, log_sd = similar_form(form, measured, known)
        column = column_of(profile, target, precision)
        seen, values = _measured_models(table, profile, target, precision)
        identity = (profile.name, target.name, precision)
        excluded = [i for i, c in enumerate(table.columns) if (c.device, c.target, c.precision) == identity]
        return posterior_of(self._base, column, seen, values, excluded=excluded), log_sd

    def _exact(
        self, profile: DeviceProfile, target: DeviceTarget, precision: str, queries: Queries
    ) -> dict[int, tuple[float, str]]:
        """Return the latency (ms) and the source of each query that was measured on this target."""
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


def _widened(found: Estimate, log_sd: float) -> Estimate:
    """Return the estimate with another deviation (log) added."""
    return Estimate(found.mean, np.hypot(found.deviation, log_sd), found.support, found.outside)


def _source(posterior: Posterior, base: Base) -> str:
    """Describe in a few words what a prediction is based on."""
    best = int(np.argmax(posterior.shares))
    like = base.table.columns[best]
    resembled = f"most like {like.device}:{like.target}"
    return f"{len(posterior.seen) or 'no'} models measured on it, {resembled}"
