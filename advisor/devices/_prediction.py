"""Predict the latency of models on devices that are not available.

The engine asks a :class:`Predictor` for each configuration on a device that it cannot measure, and
``devices calibrate`` asks it which models to measure. A latency comes from the first of three that
is known: a measurement of the model on the target, kernels that were timed there, or the additive
model of all targets (``_latency/``). The intervals of the last come from the errors of similar
predictions. Any change of a figure here moves picks: compare ``advisor plan`` before and after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from advisor.core import Provenance, Quantity, UsageError
from advisor.devices._latency.base import Base
from advisor.devices._latency.calibration import (
    SUPPORT,
    WIDE,
    Calibration,
    read_calibration,
    regime_of,
)
from advisor.devices._latency.features import ModelFeatures, Models, load_features
from advisor.devices._latency.kept_base import find_base
from advisor.devices._latency.measured import MeasuredLatency, combine_by_model, similar_form
from advisor.devices._latency.model import (
    Estimate,
    choose_models,
    estimate_latencies,
    find_contradicting,
    queries_of,
)
from advisor.devices._latency.operator_times import (
    NetworkTimes,
    model_operators,
    network_times,
    operators_of,
)
from advisor.devices._latency.posterior import LatencyPosterior, posterior_of
from advisor.devices._latency.prediction import Prediction, scale_error
from advisor.devices._latency.table import (
    Column,
    LatencyTable,
    build_table,
    column_of,
    runtime_family,
)
from advisor.devices._profiles import (
    DeviceProfile,
    DeviceTarget,
    Profiles,
    find_shipped_profiles,
)
from advisor.devices._profiles.measurements import CALIBRATED, REQUIRED, SOURCE
from advisor.devices._profiles.storing import load_known_devices

UNLIKE = 10.0
"""Ratio of the ends of an 80 % interval above which a prediction says nothing about a budget."""

_FAR_APART = 1000.0  # From this ratio of the ends on, its exact value tells a reader nothing

_NAMED_OPERATORS = 4  # At most; the others are counted

_MEASURED = 2  # With this many measured networks, a target is compared with itself


def fit_predictor(profiles: Profiles) -> Predictor:
    """Fit a predictor to all measurements in ``profiles``, which takes a second;
    the fit is kept in the cache.

    The calibration of the shipped profiles is also valid for other targets.
    UsageError if there are no measurements.
    """
    table = build_table(profiles.values(), load_features())
    if not table.columns:
        raise UsageError(
            "no device profile has a measurement to predict from", "use the shipped profiles, too"
        )
    return Predictor(profiles, find_base(table), read_calibration(find_shipped_profiles()))


class _Knowledge(NamedTuple):
    """Knowledge of a target before a prediction."""

    posterior: LatencyPosterior  # its measured models, and the targets that it resembles
    log_sd: float  # deviation (log) that using the latencies of a similar form adds
    # Measurements on the target by index of the model; empty for another form.
    measured: Mapping[int, MeasuredLatency]
    # names of measured models whose latencies contradict the others,
    # each with what these expect (ms)
    contradicting: Mapping[str, float]
    networks: NetworkTimes | None  # predictions from the target's kernels; None if none were timed


def _find_columns(table: LatencyTable, device: str, target: str, precision: str) -> list[int]:
    """Return the indices of a target's own columns."""
    identity = (device, target, precision)
    indices = []
    for index, column in enumerate(table.columns):
        if (column.device, column.target, column.precision) == identity:
            indices.append(index)
    return indices


class Predictor:
    """Predicts latencies on targets; a prediction takes milliseconds."""

    def __init__(
        self, profiles: Mapping[str, DeviceProfile], base: Base, calibration: Calibration
    ) -> None:
        self._profiles = profiles
        self._base = base
        self._calibration = calibration
        self._knowledge: dict[tuple[str, str, str], _Knowledge] = {}

    @property
    def table(self) -> LatencyTable:
        """The measurements that it was fitted to."""
        return self._base.table

    @property
    def data_hash(self) -> str:
        """Fingerprint of the measurements that it was fitted to."""
        return self._base.table.fingerprint()

    def predict(
        self,
        profile: DeviceProfile,
        target: DeviceTarget,
        form: str,
        models: Models,
        level: float = 0.8,
    ) -> tuple[Prediction, ...]:
        """Predict ``models`` on one target of a device that it was fitted to, or of a new one.

        ``form`` is a precision or the name of a compression recipe, ``level`` the confidence of
        the interval. UsageError if the form is unknown, or a model has no MACs or parameters.
        """
        if not models:
            return ()
        knowledge = self._knowledge_of(profile, target, form)
        queries = queries_of(knowledge.posterior.base, models)
        estimates = estimate_latencies(knowledge.posterior, queries, knowledge.log_sd)
        predictions = []
        for place, model in enumerate(queries.known):
            if model in knowledge.measured:
                contradicting = knowledge.contradicting.get(models[place].name)
                prediction = self._quote_measurement(
                    profile, knowledge.measured[model], contradicting, level
                )
            else:
                prediction = self._predict_by_kernels(
                    knowledge, models[place], level
                ) or self._predict_model(knowledge, estimates, place, models[place], level)
            predictions.append(prediction)
        return tuple(predictions)

    def posterior(
        self, profile: DeviceProfile, target: DeviceTarget, form: str
    ) -> LatencyPosterior:
        """Return the posterior of a target:
        its measured models, and the targets that it resembles.
        """
        return self._knowledge_of(profile, target, form).posterior

    def contradicting(
        self, profile: DeviceProfile, target: DeviceTarget, form: str
    ) -> Mapping[str, float]:
        """Return the measured models whose latencies contradict the others,
        each with what these expect (ms).
        """
        return self._knowledge_of(profile, target, form).contradicting

    def most_informative(
        self,
        profile: DeviceProfile,
        target: DeviceTarget,
        form: str,
        costs: Mapping[str, float],
        wanted: int,
    ) -> tuple[str, ...]:
        """Return the models whose measurement would reduce the uncertainty about the others most,
        the best first.

        ``costs`` names the models to choose from, each with its cost relative to 1 for measuring
        it; unknown models are ignored. UsageError if none is known.
        """
        names = self._base.table.models
        cost_of_model = {}
        for name, cost in costs.items():
            if name in names:
                cost_of_model[names.index(name)] = cost
        if not cost_of_model:
            raise UsageError(
                "the predictor knows none of these models", "use models of the catalogue"
            )
        column = self.posterior(profile, target, form).column
        chosen = choose_models(self._base, column, list(cost_of_model), wanted, cost_of_model)
        return tuple(names[model] for model in chosen)

    def _knowledge_of(self, profile: DeviceProfile, target: DeviceTarget, form: str) -> _Knowledge:
        # Fitted profiles do not change;
        # another profile may get more measurements under the same name.
        fitted = self._profiles.get(profile.name) is profile
        key = (profile.name if fitted else profile.fingerprint(), target.name, form)
        if key not in self._knowledge:
            self._knowledge[key] = self._combine_knowledge(profile, target, form)
        return self._knowledge[key]

    def _combine_knowledge(
        self, profile: DeviceProfile, target: DeviceTarget, form: str
    ) -> _Knowledge:
        table = self._base.table
        rows = profile.measurements_on(target)
        measured_forms = {row.precision for row in rows}
        known_forms = {column.precision for column in table.columns}
        precision, log_sd = similar_form(form, measured_forms, known_forms)
        of_form = [row for row in rows if row.precision == precision]
        measured = combine_by_model(table, target, of_form)
        latencies = [latency.milliseconds for latency in measured.values()]
        values = np.log(np.array(latencies, dtype=np.float64))
        posterior = posterior_of(
            self._base,
            column_of(profile, target, precision),
            np.array(list(measured), dtype=np.intp),
            values,
            # The target's own column was fitted without what this profile adds,
            # and would count its measurements twice.
            excluded=_find_columns(table, profile.name, target.name, precision),
        )
        names = {table.models[i]: latency.milliseconds for i, latency in measured.items()}
        return _Knowledge(
            posterior,
            log_sd,
            # Measurements of a similar form are no measurements of this one;
            # they only feed the posterior.
            {} if log_sd else measured,
            find_contradicting(posterior, values),
            network_times(profile, target, precision, names),
        )

    def _predict_by_kernels(
        self, knowledge: _Knowledge, model: ModelFeatures, level: float
    ) -> Prediction | None:
        """Return the prediction from the target's kernels;
        None if there are none, or if operators are not known.
        """
        networks = knowledge.networks
        if networks is None:
            return None
        works = operators_of(model, networks)
        if not works:
            return None
        mean, log_sd = networks.predict(works)
        deviation = float(np.hypot(log_sd, knowledge.log_sd))
        half_width = deviation * NormalDist().inv_cdf((1 + level) / 2)
        count = networks.measured
        quantity = Quantity(
            float(np.exp(mean)),
            "ms",
            Provenance.PREDICTED,
            float(np.exp(mean - half_width)),
            float(np.exp(mean + half_width)),
            level,
            count,
            f"{SOURCE}, and {count or 'no'} models",
        )
        return self._predict_normal(quantity, mean, deviation)

    def _quote_measurement(
        self,
        profile: DeviceProfile,
        measured: MeasuredLatency,
        expected: float | None,
        level: float,
    ) -> Prediction:
        """Return a measurement; ``expected`` (ms) is what contradicting measurements expect."""
        value = measured.milliseconds
        deviation = measured.deviation
        half_width = deviation * NormalDist().inv_cdf((1 + level) / 2)
        remarks = ""
        if measured.other_release:
            remarks += "; measured with another release"
        if expected:
            remarks += f"; contradicts the other models, which expect {expected:.3g} ms"
        provenance = Provenance.MEASURED if measured.source == CALIBRATED else Provenance.PUBLISHED
        quantity = Quantity(
            value,
            "ms",
            provenance,
            value * float(np.exp(-half_width)),
            value * float(np.exp(half_width)),
            level,
            source=f"{measured.source} on {profile.name}{remarks}",
        )
        return self._predict_normal(quantity, float(np.log(value)), deviation)

    def _predict_normal(self, latency: Quantity, mean_log: float, deviation: float) -> Prediction:
        """Return a prediction whose error (log) is normally distributed, so it has no regime."""
        return Prediction(
            latency,
            mean_log,
            deviation=deviation,
            above=deviation,
            regime="",
            outside=0.0,
            calibration=self._calibration,
        )

    def _predict_model(
        self,
        knowledge: _Knowledge,
        estimates: Estimate,
        index: int,
        model: ModelFeatures,
        level: float,
    ) -> Prediction:
        posterior = knowledge.posterior
        count = len(posterior.seen)
        support = SUPPORT[estimates.support[index]]
        regime = regime_of(posterior.column, posterior.likeness, count, support)
        low, high = self._calibration.bounds(regime, level)
        mean = float(estimates.mean[index])
        below = float(estimates.deviation[index])
        above = float(estimates.above[index])
        if model.unmeasured:
            above = self._reach_further(regime, above)
        unlike = self._explain_unlike(knowledge, regime, below, above)
        if model.unmeasured and not unlike.startswith(WIDE):
            unlike = self._explain_operators(posterior, model)
        like = posterior.base.table.columns[int(np.argmax(posterior.shares))]
        source = f"{count or 'no'} models measured on it, most like {like.device}:{like.target}"
        if knowledge.contradicting:
            names = ", ".join(knowledge.contradicting)
            source += f"; contradicting the others, so hardly used: {names}"
        if unlike:
            source += f"; {unlike}"
        latency = Quantity(
            float(np.exp(mean)),
            "ms",
            Provenance.PREDICTED,
            float(np.exp(mean + scale_error(low, below, above))),
            float(np.exp(mean + scale_error(high, below, above))),
            level,
            count,
            source,
        )
        return Prediction(
            latency,
            mean,
            deviation=below,
            above=above,
            regime=regime,
            outside=float(estimates.outside[index]),
            calibration=self._calibration,
            unlike=unlike,
        )

    def _explain_unlike(
        self,
        knowledge: _Knowledge,
        regime: str,
        below: float,
        above: float,
    ) -> str:
        """Return why no latency can be promised, and what to measure;
        empty if a known device is comparable.
        """
        # With its own measurements the target is its own reference,
        # however strange its processor is.
        if len(knowledge.posterior.seen) >= _MEASURED:
            return ""
        reason = WIDE
        column = knowledge.posterior.column
        placed = bool(column.speed or column.gflops) and not knowledge.posterior.beyond
        if not self._calibration.is_wide(regime):
            low, high = self._calibration.bounds(regime, 0.8)
            log_width = scale_error(high, below, above) - scale_error(low, below, above)
            width = float(np.exp(log_width))
            if width <= UNLIKE and not knowledge.posterior.beyond:
                return ""
            if placed:
                factor = f"{width:.0f}" if width < _FAR_APART else f"more than {_FAR_APART:,.0f}"
                reason = f"the ends of its 80 % interval are a factor of {factor} apart"
        measured = tuple(knowledge.posterior.seen.tolist())
        return f"{reason}: {self._advise_measurement(column, measured)}"

    def _reach_further(self, regime: str, above: float) -> float:
        """Return the deviation towards longer latencies if no measurement has the operators.

        Such an operator may take most of the time, whatever was measured on the target. So the
        upper end of the 80 % interval is at least :data:`UNLIKE` times the estimate.
        """
        _, high = self._calibration.bounds(regime, 0.8)
        return float(np.hypot(above, np.log(UNLIKE) / high))

    def _explain_operators(self, posterior: LatencyPosterior, model: ModelFeatures) -> str:
        """Return that nobody measured some operators of a network, and what to measure."""
        names = ", ".join(model.unmeasured[:_NAMED_OPERATORS])
        more = len(model.unmeasured) - _NAMED_OPERATORS
        if more > 0:
            names += f" and {more} more"
        advice = self._advise_measurement(posterior.column, tuple(posterior.seen.tolist()))
        return (
            f"no measured network has its operators {names}, which may take most of its time:"
            f" {advice}, and this network"
        )

    @lru_cache(maxsize=64)  # noqa: B019 - a predictor lives as long as its process
    def _advise_measurement(self, column: Column, measured: tuple[int, ...]) -> str:
        """Return what to measure on a target: the catalogue's networks that tell most about it.

        ``measured`` are the indices of those that were.
        """
        models = self._base.table.models
        ours = []
        for index, name in enumerate(models):
            if name in model_operators() and index not in measured:
                ours.append(index)
        # A microcontroller has no memory for most networks of the catalogue.
        if column.kind == "mcu":
            ours = self._select_small(ours)
        names = [models[i] for i in choose_models(self._base, column, ours, _MEASURED)]
        how = f"and write their latencies into the CSV of its profile: {', '.join(REQUIRED)}"
        can_calibrate = column.kind == "cpu" and runtime_family(column.runtime) == "litert"
        if can_calibrate:
            how = f"advisor devices calibrate {column.device} --adb usb, or --ssh USER@ADDRESS"
        return f"measure two networks on it, such as {' and '.join(names)} ({how})"

    def _select_small(self, models: Sequence[int]) -> list[int]:
        """Return the models with at most the MACs and parameters
        of the largest one that a microcontroller ran.
        """
        table = self._base.table
        on_microcontrollers = table.values[[column.kind == "mcu" for column in table.columns]]
        was_measured = ~np.isnan(on_microcontrollers).all(axis=0)
        # The first two features are the logarithms of MACs and parameters.
        sizes = table.features[:, :2]
        largest = np.nanmax(sizes[was_measured], axis=0)
        return [model for model in models if (sizes[model] <= largest).all()]

    @staticmethod
    def load() -> Predictor:
        """Return the predictor of the shipped profiles and the team's own."""
        return fit_predictor(load_known_devices())
