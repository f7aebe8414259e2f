"""Predict the latency and the memory of models on devices that are not available."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import NormalDist, median
from typing import NamedTuple

import numpy as np

from advisor.core import FORMS, FileFeatures, Provenance, Quantity, UsageError, nearest, show_ms
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
from advisor.devices._latency.placement import estimate_change
from advisor.devices._latency.posterior import PREDICTION_NOISE, LatencyPosterior, posterior_of
from advisor.devices._latency.table import (
    MAJOR,
    Column,
    LatencyTable,
    build_table,
    column_of,
    count_releases,
    runtime_family,
)
from advisor.devices._profiles import (
    MICRO_RUNTIME,
    DeviceProfile,
    DeviceTarget,
    Profiles,
    find_shipped_profiles,
)
from advisor.devices._profiles.listing import load_known_devices
from advisor.devices._profiles.measurement import Measurement
from advisor.devices._profiles.measurements import REQUIRED, SOURCE

UNLIKE = 10.0
"""Ratio of the ends of an 80 % interval above which a prediction says nothing about a budget."""

_FAR_APART = 1000.0  # From this ratio of the ends on, its exact value tells a reader nothing

_MEASURED = 2  # With this many measured networks, a target is compared with itself

# ``source_repo`` of measurements that a user made with ``advisor devices calibrate``.
CALIBRATED = "calibrated"

_SIMILAR = {name: form for name, form in FORMS.items() if name == form.name != form.like}

RUNTIME_BYTES = 4.5e6
"""Memory of the runtime on a CPU: the median of what processes took besides, in which LiteRT 2 ran
files of nine networks in up to five forms with XNNPACK. It is 3 MB less while another process has
the runtime's library loaded.
"""

WIDEST = 1.2

_UNLIKELY = 0.05
_DOUBTED_FACTOR = 2.0
"""Measurements are doubted if something as extreme has at most this probability before them, and
if they are apart from what was expected by this factor at least.
"""


class MeasuredLatency(NamedTuple):
    """A measured latency (ms) with its source, its deviation (log),
    and whether another release measured it.
    """

    milliseconds: float
    source: str
    deviation: float
    other_release: bool


def combine_measurements(
    table: LatencyTable, target: DeviceTarget, rows: Sequence[Measurement]
) -> MeasuredLatency:
    """Return the latency of one model from its measurements on a target: their geometric mean.

    If another release of the runtime measured it,
    the deviation grows with the distance of the releases.
    """
    # Errors of timings are factors, so their mean is geometric.
    milliseconds = float(np.exp(np.mean([np.log(row.latency_ms) for row in rows])))
    versions = []
    if target.version:
        versions = [row.runtime_version for row in rows if row.runtime_version]
    steps = [count_releases(version, target.version) for version in versions]
    # Without a stated version, a row is taken as one of the target's release:
    # nothing tells otherwise.
    furthest = max(steps, default=0)
    deviation = float(np.hypot(PREDICTION_NOISE, estimate_change(table, target.runtime, furthest)))
    return MeasuredLatency(milliseconds, rows[0].source_repo, deviation, furthest > 0)


def device_predictor() -> Predictor:
    """Return the predictor of the shipped profiles and the team's own."""
    return fit_predictor(load_known_devices())


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


@dataclass(frozen=True)
class Prediction:
    """The predicted or known latency of one model on one target."""

    # Milliseconds with an interval; ``predicted``, or ``published`` / ``measured`` if it is known.
    latency: Quantity
    mean_log: float  # expected natural logarithm of the milliseconds
    # Standard deviation of the logarithm before calibration, towards shorter latencies.
    deviation: float
    above: float  # the same towards longer latencies
    # the knowledge of the target and the model
    # (:func:`advisor.devices._latency.calibration.regime_of`); empty for a measured latency or one
    # from kernels, whose errors are normally distributed
    regime: str
    outside: float  # distance (log) of the model's size from the measured sizes; 0 if it is within
    calibration: Calibration = field(repr=False)  # the known errors of predictions
    # why no latency can be promised:
    # no device is comparable or the interval is wide, and what to measure; else empty
    unlike: str = ""

    @property
    def is_comparable(self) -> bool:
        """False if no known device is comparable,
        so that the level of the latency is not known at all.
        """
        return not self.unlike.startswith(WIDE)

    def probability(self, budget_ms: float) -> float:
        """Return the probability that the latency is at most ``budget_ms`` (above 0)."""
        error = float(np.log(budget_ms)) - self.mean_log
        standardised = error / (self.above if error > 0 else self.deviation)
        if self.regime:
            return self.calibration.below(self.regime, standardised)
        return NormalDist().cdf(standardised)

    def quantile(self, share: float) -> float:
        """Return the latency in ms that is not exceeded
        with probability ``share`` (above 0, below 1).
        """
        standardised = (
            self.calibration.quantile(self.regime, share)
            if self.regime
            else NormalDist().inv_cdf(share)
        )
        return float(
            np.exp(
                self.mean_log + standardised * (self.above if standardised > 0 else self.deviation)
            )
        )


class _Known(NamedTuple):
    """Knowledge of a target before a prediction."""

    posterior: LatencyPosterior  # its measured models, and the targets that it resembles
    log_sd: float  # deviation (log) that using the latencies of a similar form adds
    # Measurements on the target by index of the model; empty for another form.
    measured: Mapping[int, MeasuredLatency]
    # names of measured models whose latencies contradict the others,
    # each with what these expect (ms)
    contradicting: Mapping[str, float]
    networks: NetworkTimes | None  # predictions from the target's kernels; None if none were timed


class Predictor:
    """Predicts latencies on targets; a prediction takes milliseconds."""

    def __init__(
        self, profiles: Mapping[str, DeviceProfile], base: Base, calibration: Calibration
    ) -> None:
        self._profiles = profiles
        self._base = base
        self._calibration = calibration
        self._known: dict[tuple[str, str, str], _Known] = {}

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
        known = self._facts_of(profile, target, form)
        queries = queries_of(known.posterior.base, models)
        estimates = estimate_latencies(known.posterior, queries, known.log_sd)
        predictions = []
        for place, model in enumerate(queries.known):
            if model in known.measured:
                contradicting = known.contradicting.get(models[place].name)
                prediction = self._quote_measurement(
                    profile, known.measured[model], contradicting, level
                )
            else:
                by_kernels = self._predict_by_kernels(known, models[place], level)
                prediction = by_kernels or self._predict_model(known, estimates, place, level)
            predictions.append(prediction)
        return tuple(predictions)

    def posterior(
        self, profile: DeviceProfile, target: DeviceTarget, form: str
    ) -> LatencyPosterior:
        """Return the posterior of a target:
        its measured models, and the targets that it resembles.
        """
        return self._facts_of(profile, target, form).posterior

    def contradicting(
        self, profile: DeviceProfile, target: DeviceTarget, form: str
    ) -> Mapping[str, float]:
        """Return the measured models whose latencies contradict the others,
        each with what these expect (ms).
        """
        return self._facts_of(profile, target, form).contradicting

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
        known = {}
        for name, cost in costs.items():
            if name in names:
                known[names.index(name)] = cost
        if not known:
            raise UsageError(
                "the predictor knows none of these models", "use models of the catalogue"
            )
        column = self.posterior(profile, target, form).column
        return tuple(
            names[i] for i in choose_models(self._base, column, list(known), wanted, known)
        )

    def _facts_of(self, profile: DeviceProfile, target: DeviceTarget, form: str) -> _Known:
        # Fitted profiles do not change;
        # another profile may get more measurements under the same name.
        fitted = self._profiles.get(profile.name) is profile
        key = (profile.name if fitted else profile.fingerprint(), target.name, form)
        if key not in self._known:
            self._known[key] = self._learn(profile, target, form)
        return self._known[key]

    def _learn(self, profile: DeviceProfile, target: DeviceTarget, form: str) -> _Known:
        table = self._base.table
        rows = []
        for row in profile.measurements:
            if row.usable and row.target == target.name:
                rows.append(row)
        precision, log_sd = similar_form(
            form, {row.precision for row in rows}, {column.precision for column in table.columns}
        )
        of_model: dict[str, list[Measurement]] = defaultdict(list)
        for row in rows:
            if row.precision == precision:
                of_model[row.model].append(row)
        measured = {}
        for index, name in enumerate(table.models):
            if name in of_model:
                measured[index] = combine_measurements(table, target, of_model[name])
        values = np.log(
            np.array([latency.milliseconds for latency in measured.values()], dtype=np.float64)
        )
        identity = (profile.name, target.name, precision)
        # The target's own column was fitted without what this profile adds,
        # and would count its measurements twice.
        excluded = []
        for index, fitted in enumerate(table.columns):
            if (fitted.device, fitted.target, fitted.precision) == identity:
                excluded.append(index)
        column = column_of(profile, target, precision)
        posterior = posterior_of(
            self._base, column, np.array(list(measured), dtype=np.intp), values, excluded=excluded
        )
        names = {table.models[i]: latency.milliseconds for i, latency in measured.items()}
        networks = network_times(profile, target, precision, names)
        # Measurements of a similar form are no measurements of this one;
        # they only feed the posterior.
        return _Known(
            posterior,
            log_sd,
            {} if log_sd else measured,
            find_contradicting(posterior, values),
            networks,
        )

    def _predict_by_kernels(
        self, known: _Known, model: ModelFeatures, level: float
    ) -> Prediction | None:
        """Return the prediction from the target's kernels;
        None if there are none, or if operators are not known.
        """
        works = operators_of(model, known.networks) if known.networks else ()
        if known.networks is None or not works:
            return None
        mean, log_sd = known.networks.predict(works)
        deviation = float(np.hypot(log_sd, known.log_sd))
        half_width = deviation * NormalDist().inv_cdf((1 + level) / 2)
        count = known.networks.measured
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
        return Prediction(quantity, mean, deviation, deviation, "", 0.0, self._calibration)

    def _quote_measurement(
        self,
        profile: DeviceProfile,
        measured: MeasuredLatency,
        expected: float | None,
        level: float,
    ) -> Prediction:
        """Return a measurement; ``expected`` is what the others expect (ms) if they contradict
        it.
        """
        value = measured.milliseconds
        deviation = measured.deviation
        half_width = deviation * NormalDist().inv_cdf((1 + level) / 2)
        remarks = "; measured with another release" if measured.other_release else ""
        remarks += (
            f"; contradicts the other models, which expect {expected:.3g} ms" if expected else ""
        )
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
        return Prediction(
            quantity, float(np.log(value)), deviation, deviation, "", 0.0, self._calibration
        )

    def _predict_model(
        self, known: _Known, estimates: Estimate, index: int, level: float
    ) -> Prediction:
        posterior = known.posterior
        count = len(posterior.seen)
        regime = regime_of(
            posterior.column, posterior.likeness, count, SUPPORT[estimates.support[index]]
        )
        low, high = self._calibration.bounds(regime, level)
        mean, below, above = (
            float(side[index]) for side in (estimates.mean, estimates.deviation, estimates.above)
        )
        names = ", ".join(known.contradicting)
        doubted = f"; contradicting the others, so hardly used: {names}" if names else ""
        like = posterior.base.table.columns[int(np.argmax(posterior.shares))]
        least, most = (
            float(np.exp(mean + side * (above if side > 0 else below))) for side in (low, high)
        )
        unlike = self._explain_unlike(known, regime, below, above)
        source = (
            f"{count or 'no'} models measured on it, most like"
            f" {like.device}:{like.target}{doubted}"
        )
        source += f"; {unlike}" if unlike else ""
        value = Quantity(
            float(np.exp(mean)), "ms", Provenance.PREDICTED, least, most, level, count, source
        )
        return Prediction(
            value,
            mean,
            below,
            above,
            regime,
            float(estimates.outside[index]),
            self._calibration,
            unlike,
        )

    def _explain_unlike(self, known: _Known, regime: str, below: float, above: float) -> str:
        """Return why no latency can be promised, and what to measure;
        empty if a known device is comparable.
        """
        # With its own measurements the target is its own reference,
        # however strange its processor is.
        if len(known.posterior.seen) >= _MEASURED:
            return ""
        reason = WIDE
        column = known.posterior.column
        placed = bool(column.speed or column.gflops) and not known.posterior.beyond
        if not self._calibration.is_wide(regime):
            low, high = self._calibration.bounds(regime, 0.8)
            width = float(
                np.exp(high * (above if high > 0 else below) - low * (above if low > 0 else below))
            )
            if width <= UNLIKE and not known.posterior.beyond:
                return ""
            if placed:
                factor = f"{width:.0f}" if width < _FAR_APART else f"more than {_FAR_APART:,.0f}"
                reason = f"the ends of its 80 % interval are a factor of {factor} apart"
        return f"{reason}: {self._advise_measurement(column)}"

    @lru_cache(maxsize=64)  # noqa: B019 - a predictor lives as long as its process
    def _advise_measurement(self, column: Column) -> str:
        """Return what to measure on a target: the catalogue's networks that tell most about it."""
        models = self._base.table.models
        ours = []
        for i, name in enumerate(models):
            if name in model_operators():
                ours.append(i)
        # A microcontroller has no memory for most networks of the catalogue.
        if column.kind == "mcu":
            ours = self._select_small(ours)
        names = [models[i] for i in choose_models(self._base, column, ours, _MEASURED)]
        measures = (column.kind, runtime_family(column.runtime)) == ("cpu", "litert")
        how = f"and write their latencies into the CSV of its profile: {', '.join(REQUIRED)}"
        if measures:
            how = f"advisor devices calibrate {column.device} --adb, or --ssh USER@HOST"
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


def describe_doubts(profile: DeviceProfile, target: DeviceTarget) -> tuple[str, ...]:
    """Return a sentence for each doubt about the latencies on a target;
    none for a shipped profile.

    Measurements under load contradict each other, or all take longer than the processor should. So
    do those of another build. Nothing tells how a release differs if none near it was measured.
    """
    if (
        profile.origin is None
        or profile.predicted_from
        or profile.origin.parent == find_shipped_profiles()
    ):
        return ()
    rows: dict[str, dict[str, float]] = {}
    for row in profile.measurements:
        if row.usable and row.target == target.name:
            rows.setdefault(row.precision, {})[row.model] = row.latency_ms
    others = [other for name, other in load_known_devices().items() if name != profile.name]
    # With the device itself in the fit, its own measurements would be what is expected of it.
    predictor = fit_predictor(Profiles(others))
    doubts = list(_doubt_release(predictor.table, profile, target))
    for form, latencies in rows.items():
        doubts += _doubt_form(predictor, profile, target, form, latencies)
    return tuple(doubts)


def _doubt_release(
    table: LatencyTable, profile: DeviceProfile, target: DeviceTarget
) -> Iterator[str]:
    """Yield that no release near a CPU target's was measured, if so."""
    steps = {}
    for column in table.columns:
        same = column.kind == "cpu" and runtime_family(column.runtime) == runtime_family(
            target.runtime
        )
        if same and column.version:
            steps[column.version] = count_releases(column.version, target.version)
    nearest_release = min(steps, key=lambda version: steps[version], default="")
    if target.accelerator != "cpu" or not target.version or steps.get(nearest_release, 0) < MAJOR:
        return
    yield (
        f"{profile.name}: no release near {target.version} of {target.runtime} was measured (the"
        f" nearest is {nearest_release}), so nothing tells how it differs"
    )


def _doubt_form(
    predictor: Predictor,
    profile: DeviceProfile,
    target: DeviceTarget,
    form: str,
    latencies: Mapping[str, float],
) -> Iterator[str]:
    """Yield the doubts about the latencies (ms by model) of one form."""
    contradicting = predictor.contradicting(profile, target, form)
    for model, expected_ms in contradicting.items():
        yield (
            f"{profile.name}: {model} {form} took {show_ms(latencies[model])} on {target.name},"
            f" and the other measurements there make about {show_ms(expected_ms)} likely, so it"
            " hardly counts: measure it again"
        )
    known = load_features().models
    models = []
    for model in latencies:
        if model in known and model not in contradicting:
            models.append(known[model])
    if not models:
        return
    unmeasured = replace(profile, measurements=())
    ratios = []
    chances = []
    for network, prediction in zip(
        models, predictor.predict(unmeasured, target, form, models), strict=True
    ):
        ratios.append(latencies[network.name] / prediction.latency.value)
        chances.append(prediction.probability(latencies[network.name]))
    ratio = median(ratios)
    chance = median(chances)
    if min(chance, 1 - chance) > _UNLIKELY or max(ratio, 1 / ratio) < _DOUBTED_FACTOR:
        return
    causes = "was the device busy or hot, or does another build run there?"
    if ratio < 1:
        causes = "does another build or another number of threads run there?"
    yield (
        f"{profile.name}: what was measured of {form} on {target.name} is {ratio:.2g} times what"
        f" its processor makes likely: {causes}"
    )


def similar_form(
    form: str, measured: Collection[str], known: Collection[str]
) -> tuple[str, float]:
    """Return the precision whose latencies to use for ``form`` on a target,
    and the deviation (log) that this adds.

    ``measured`` are the precisions that were measured on the target itself, ``known`` those on any
    target. UsageError if no latency of the form is known; it names the nearest form.
    """
    similar = None if form in measured else _SIMILAR.get(form)
    precision, log_sd = (similar.like, similar.log_sd) if similar else (form, 0.0)
    if precision not in known:
        forms = sorted(set(known) | set(_SIMILAR))
        raise UsageError(
            f"no latency is known of the form '{form}'{nearest(form, forms)}",
            f"forms: {', '.join(forms)}",
        )
    return precision, log_sd


def arena_of(file: FileFeatures, runtime: str) -> int:
    """Return the bytes of the arena that a runtime needs;
    TensorFlow Lite Micro keeps more in it than activations.
    """
    if runtime == MICRO_RUNTIME:
        return file.micro_arena_bytes or file.arena_bytes
    return file.arena_bytes


def predict_memory_on(
    profile: DeviceProfile, target: DeviceTarget, file: FileFeatures
) -> Quantity | None:
    """Return the peak memory in bytes of one file on a target of a device;
    None if its weights were not counted.
    """
    return predict_memory(file, column_of(profile, target, file.form).kind, target.runtime)


def predict_memory(file: FileFeatures, kind: str, runtime: str = "") -> Quantity | None:
    """Return the peak memory in bytes of one file on one target;
    None if its weights were not counted.

    ``kind`` is that of the target's column: ``cpu``, ``gpu``, ``npu`` or ``mcu``.
    """
    if not file.weight_bytes:
        return None
    # Weights stay in flash, so only the arena takes memory.
    if kind == "mcu":
        micro = runtime == MICRO_RUNTIME
        source = "tensor arena of TensorFlow Lite Micro" if micro else "arena of its activations"
        source += ", computed from their lifetimes; its weights stay in flash"
        return Quantity(
            float(arena_of(file, runtime)), "bytes", Provenance.PREDICTED, source=source
        )
    # What a driver of a GPU or an NPU holds besides is not known.
    if kind != "cpu":
        source = "activations and weights as stored, without the memory of the driver"
        return Quantity(
            float(file.arena_bytes + file.weight_bytes),
            "bytes",
            Provenance.PREDICTED,
            source=source,
        )
    value = RUNTIME_BYTES + file.arena_bytes + file.weight_bytes + file.held_bytes
    source = "activations, weights as stored, what the kernels hold besides, the runtime"
    return Quantity(
        value, "bytes", Provenance.PREDICTED, value / WIDEST, value * WIDEST, source=source
    )
