"""Calibrate an available device:
measure a few models and kernels, keep the figures in its profile, and judge them.
"""

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from advisor.catalog import Card, load_catalogue
from advisor.core import (
    CONFIDENCE,
    Provenance,
    StageError,
    UsageError,
    plural,
    show_ms,
    show_probability,
)
from advisor.devices._connections.agent import THROTTLED
from advisor.devices._connections.protocol import Connection, MeasurementJob, Timing
from advisor.devices._kernels import Tell, TimedKernels, as_int8, kernels_to_time, time_kernels
from advisor.devices._latency.features import Models, load_features
from advisor.devices._latency.model import NAMED, choose_decisive
from advisor.devices._latency.table import Floats
from advisor.devices._prediction import CALIBRATED, Predictor
from advisor.devices._profiles import (
    HOST,
    MEASURABLE_RUNTIMES,
    MEASURED_KERNELS,
    DeviceProfile,
    DeviceTarget,
)
from advisor.devices._profiles.listing import folder_of, write_profile
from advisor.devices._profiles.measurement import Measurement
from advisor.devices._profiles.measurements import FORMS, Kernel
from advisor.devices._profiles.runtimes import local_runtimes
from advisor.isolation import WAITED_LIMIT, CallLimits, ChildPool, Scratch
from advisor.tflite import select_output

SURPRISING = 0.9
"""Measurements outside the interval of this level that the others predict contradict each other:
of two, nothing tells which one is wrong. It names nine of ten pairs of which one is four times too
slow, and 1 % of right pairs (hidden silicons, TensorFlow Lite on CPUs).
"""

EFFORT = "quick"
QUIET_HINT = "close other programs on the device, or name a target with fewer threads"
_COOL = "let the device cool down and close other programs on it, then try again"


@dataclass(frozen=True)
class CalibrationReport:
    """The errors of predictions in one form."""

    form: str  #: ``float32`` or ``int8``
    models: tuple[str, ...]  #: names of the models measured on the target
    before: tuple[float, ...]  #: relative error of each, predicted without the new measurements
    #: relative error of each, predicted from all other models (leave-one-out);
    #: empty for a single model
    after: tuple[float, ...]
    #: expected median error of the models of the catalogue that were not measured, as the
    #: predictor itself knew before; NaN if there are none
    expected_before: float
    expected_after: float  #: the same with the new measurements
    #: measured models whose latencies contradict the others, each with what these expect (ms)
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
    models: Models,
    form: str,
) -> CalibrationReport:
    """Compare predictions of the measured models without the new measurements,
    and from each other.

    ``predictor`` is fitted without the new measurements; ``before`` and ``after`` are the profile
    without and with them; ``models`` are those that can be measured.
    """
    truth = {}
    for row in after.measurements:
        is_of_form = row.target == target.name and row.precision == form
        if is_of_form and row not in before.measurements:
            truth[row.model] = row.latency_ms
    measured_models = [model for model in models if model.name in truth]
    names = tuple(model.name for model in measured_models)
    # An earlier measurement of the same models would make the figure "before" too good.
    predictions = predictor.predict(_drop_models(before, truth), target, form, measured_models)
    errors = []
    for prediction, name in zip(predictions, names, strict=True):
        errors.append(prediction.latency.value / truth[name] - 1)
    left_out = list[float]()
    surprising = dict[str, float]()
    for model in measured_models if len(names) > 1 else []:
        # Left out one by one: with its own measurement, a model is not predicted but looked up.
        (prediction,) = predictor.predict(_drop_models(after, [model.name]), target, form, [model])
        left_out.append(prediction.latency.value / truth[model.name] - 1)
        # Twice as long contradicts as much as half as long.
        factor = max(
            prediction.latency.value / truth[model.name],
            truth[model.name] / prediction.latency.value,
        )
        if (
            factor > NAMED
            and abs(prediction.probability(truth[model.name]) - 0.5) > SURPRISING / 2
        ):
            surprising[model.name] = prediction.latency.value
    now, later = (
        estimate_error(predictor, profile, target, form, models) for profile in (before, after)
    )
    contradicting = predictor.contradicting(after, target, form) or (
        surprising if len(surprising) > 1 else {}
    )
    return CalibrationReport(
        form, names, tuple(errors), tuple(left_out), now, later, contradicting
    )


def _drop_models(profile: DeviceProfile, models: Collection[str]) -> DeviceProfile:
    return replace(
        profile, measurements=tuple(row for row in profile.measurements if row.model not in models)
    )


def estimate_error(
    predictor: Predictor, profile: DeviceProfile, target: DeviceTarget, form: str, models: Models
) -> float:
    """Return the median relative error to expect of models that are predicted,
    from their own distributions.

    It is NaN if every model is known.
    """
    predictions = predictor.predict(profile, target, form, models)
    spreads = []
    for prediction in predictions:
        if prediction.latency.provenance is Provenance.PREDICTED:
            # Half of the errors lie between the quartiles,
            # so half of their distance (log) is the median error.
            spreads.append(math.sqrt(prediction.quantile(0.75) / prediction.quantile(0.25)) - 1)
    return statistics.median(spreads) if spreads else math.nan


Key = tuple[str, str]  # Name of the model, and form
Latencies = Mapping[Key, float]  # Milliseconds
Timings = Mapping[Key, Timing]
# Is called with the timings of one network, and with all before it.
Measured = Callable[[Timings, Timings], None]


@dataclass(frozen=True)
class MeasuredNetworks:
    """Networks that were measured on a device."""

    kept: Timings  #: timings that can be trusted
    left_out: tuple[str, ...]  #: why others were left out, one line for each

    @property
    def clock(self) -> str:
        """What the latencies are if they are CPU times, and what other programs took;
        empty for the usual wall time.
        """
        factors = {}
        for key, timing in self.kept.items():
            if timing.cpu_ms:
                factors[key] = timing.median_ms / timing.cpu_ms
        if not factors:
            return ""
        # Wall over CPU time is 1 / (1 - w) for a thread that waited the share w.
        undisturbed = 1 / (1 - WAITED_LIMIT)
        disturbed = [key for key, factor in factors.items() if factor > undisturbed]
        if not disturbed:
            return "latencies are CPU times of one thread"
        worst = max(disturbed, key=factors.__getitem__)
        wall = show_ms(self.kept[worst].median_ms)
        own_time = show_ms(self.kept[worst].own_ms)
        return (
            f"latencies are CPU times of one thread; other programs disturbed {len(disturbed)} of"
            f" {plural(len(factors), 'timing')}: {' '.join(worst)} took {wall}, and {own_time} of"
            " it were its own"
        )

    @property
    def governor(self) -> str:
        """The device's frequency governor; empty if it does not tell."""
        loads = (timing.details.get("load") for timing in self.kept.values())
        return next(
            (str(load.get("governor") or "") for load in loads if isinstance(load, Mapping)), ""
        )


@dataclass(frozen=True)
class Calibrated:
    """The result of a calibration."""

    profile: DeviceProfile  #: the profile with the new measurements
    target: DeviceTarget  #: the measured target
    networks: MeasuredNetworks  #: timings of the models, and which ones were left out
    #: errors of the predictions before and after, one for each form
    reports: tuple[CalibrationReport, ...]
    path: Path  #: the file that contains the profile
    left_out: tuple[str, ...] = ()  #: why kernels were left out, one line for each
    pick: str = ""  #: with a budget, which network is the most accurate that meets it, in words

    @property
    def latency_ms(self) -> Latencies:
        """Latency of each model by name and form, ms."""
        return {key: timing.own_ms for key, timing in self.networks.kept.items()}

    @property
    def runtime(self) -> str:
        """Runtime and version that the device reports."""
        return next(timing.runtime for timing in self.networks.kept.values())

    def to_json(self) -> dict[str, object]:
        """Return a JSON object; a relative error that is not known is NaN."""
        return {
            "device": self.profile.name,
            "target": self.target.name,
            "runtime": self.runtime,
            "latency_ms": {
                f"{model}/{form}": value for (model, form), value in self.latency_ms.items()
            },
            "reports": list(map(asdict, self.reports)),
            "kernels_left_out": list(self.left_out),
            "networks_left_out": list(self.networks.left_out),
            "clock": self.networks.clock,
            "governor": self.networks.governor,
            "pick": self.pick,
            "path": str(self.path),
        }


def forms_of(target: DeviceTarget) -> tuple[str, ...]:
    """Return the forms that a calibration measures on a target."""
    return tuple(form for form in FORMS if form in target.precisions)


def check_target(profile: DeviceProfile, target: DeviceTarget) -> None:
    """Refuse a target that cannot be calibrated (UsageError).

    Refused are this machine, and targets whose runtime is not TensorFlow Lite, whose processor is
    not the CPU, which run neither float32 nor int8 files, or whose build computes with other
    kernels than the one that is measured.
    """
    if profile.name == HOST or profile.name in local_runtimes():
        raise UsageError(
            f"'{profile.name}' needs no calibration, because every search measures it",
            "name another device",
        )
    measurable = []
    for processor in profile.targets:
        if (
            processor.accelerator == "cpu"
            and processor.runtime in MEASURABLE_RUNTIMES
            and forms_of(processor)
        ):
            measurable.append(processor)
    calibratable = [t.name for t in measurable if t.kernels in ("", MEASURED_KERNELS)]
    if target.name not in calibratable:
        reason = "no CPU target that runs float32 or int8 .tflite files"
        if target in measurable:
            reason = (
                f"its build computes with {target.kernels}, and a calibration measures one with"
                f" {MEASURED_KERNELS}"
            )
        advice = "add your own profile with a CPU target of the runtime tflite or ai-edge-litert"
        if calibratable:
            names = ", ".join(f"{profile.name}:{name}" for name in calibratable)
            advice = f"targets that can be calibrated: {names}"
        raise UsageError(f"{profile.name}:{target.name} cannot be calibrated: {reason}", advice)


@dataclass(frozen=True)
class PickForBudget:
    """Which network to ship on a target:
    the most accurate that meets a budget, as far as latencies are known.
    """

    predictor: Predictor
    target: DeviceTarget
    models: Models
    rated: Mapping[str, float]  # published top-1 by model, percent; 0 if none is published
    budget_ms: float

    def names(self, now: Sequence[DeviceProfile], wanted: int) -> Iterator[str]:
        """Yield ``wanted`` models to measure, each by the profile ``now[0]``,
        which has the measurements before it.
        """
        measured = np.zeros(len(self.models), dtype=bool)
        for _ in range(min(wanted, len(self.models))):
            chances, distance = self._judge_models(now[0])
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


def calibrate(
    profile: DeviceProfile,
    target: DeviceTarget,
    connection: Connection,
    predictor: Predictor,
    wanted: int,
    tell: Tell,
    candidates: Collection[str],
    kernels: bool = False,
    budget_ms: float | None = None,
) -> Calibrated:
    """Measure the ``wanted`` most informative networks of the ``candidates`` on the device,
    and write its profile.

    Latency does not depend on the weights, so the models are made here with random weights and
    nothing is downloaded. Small files are preferred, because they are sent to the device. Every
    model is measured in each form that the target runs. With ``kernels``, the operators of the
    candidates are timed first; networks are then predicted as their sum. They are written into the
    profile after each job, so that an interrupted calibration can be continued. With a budget,
    each network is chosen after the one before it was measured: the one that raises the published
    accuracy of the pick most, by expectation. StageError if no network was measured, or if the
    device slowed down: then only kernels are kept.
    """
    known = load_features().models
    forms = forms_of(target)
    cards = _map_predictable(known)
    models = [known[name] for name in cards]
    with Scratch() as work:
        operators = kernels_to_time(profile, target, forms, candidates) if kernels else ()
        with_kernels, left_out = _write_kernels(
            profile, time_kernels(connection, target, operators, work, tell)
        )
        costs = _sending_costs(models, candidates)
        # The profile with what was measured so far: `names` reads it before each measurement.
        now = [with_kernels]
        decision: PickForBudget | None = None
        names: Iterable[str]
        if budget_ms:
            rated = {name: cards[name].top1() or 0.0 for name in costs}
            decision = PickForBudget(
                predictor, target, tuple(known[name] for name in rated), rated, budget_ms
            )
            names = decision.names(now, wanted)
        else:
            names = predictor.most_informative(profile, target, forms[0], costs, wanted)
            _tell_gain(predictor, profile, with_kernels, target, models, names, tell)
        # What the last network changed: a line of its own would be replaced at once.
        last = list[str]()

        def tell_step(text: str) -> None:
            tell("; ".join((*last, text)))

        def change(new_timings: Timings, so_far: Timings) -> None:
            before = with_timings(with_kernels, target, so_far)
            now[0] = with_timings(with_kernels, target, {**so_far, **new_timings})
            last[:] = list_changes(predictor, before, now[0], target, models, new_timings)
            if decision:
                last.append(decision.pick(now[0]))

        with ChildPool(work / "log") as pool:
            made = (convert_card(pool, cards[name], forms, work, tell_step) for name in names)
            networks = measure_networks(connection, made, target.threads, tell_step, change)
    after = with_timings(with_kernels, target, networks.kept)
    measured_forms = {form for _, form in networks.kept}
    report = partial(calibration_report, predictor, profile, after, target, models)
    reports = tuple(report(form) for form in forms if form in measured_forms)
    path = write_profile(after, folder_of(profile))
    return Calibrated(
        after,
        target,
        networks,
        reports,
        path,
        tuple(left_out),
        decision.pick(after) if decision else "",
    )


def _map_predictable(known: Collection[str]) -> dict[str, Card]:
    """Return the cards with features, which are ``known``,
    whose networks can be made with random weights.
    """
    cards = {}
    for card in load_catalogue().values():
        if card.name in known and not card.own_file:
            cards[card.name] = card
    return cards


def _write_kernels(
    profile: DeviceProfile, parts: Iterable[TimedKernels]
) -> tuple[DeviceProfile, list[str]]:
    """Write a profile after each part of the timed kernels;
    return it, and what could not be timed.
    """
    left_out = list[str]()
    for part in parts:
        profile = add_kernels(profile, part.kernels)
        left_out += part.left_out
        write_profile(profile, folder_of(profile))
    return profile, left_out


def _sending_costs(models: Models, candidates: Collection[str]) -> dict[str, float]:
    """Return by how much the sending of each candidate lowers its value: 100 MB halve it."""
    return {
        model.name: 4 * model.params / 1e6 / 100 for model in models if model.name in candidates
    }


def _tell_gain(
    predictor: Predictor,
    before: DeviceProfile,
    with_kernels: DeviceProfile,
    target: DeviceTarget,
    models: Models,
    names: Collection[str],
    tell: Tell,
) -> None:
    """Tell the expected median error now,
    and as it will be if the models turn out as they are predicted.
    """
    chosen = [model for model in models if model.name in names]
    forms = forms_of(target)
    predicted = {}
    for form in forms:
        for model, prediction in zip(
            chosen, predictor.predict(with_kernels, target, form, chosen), strict=True
        ):
            predicted[(model.name, form)] = prediction.latency.value
    after = with_measurements(with_kernels, target, predicted)
    for form in forms:
        now = estimate_error(predictor, before, target, form, models)
        later = estimate_error(predictor, after, target, form, models)
        if not math.isnan(now) and not math.isnan(later):
            tell(
                f"{form}: expected median error {now:.0%} now, {later:.0%} with {len(chosen)}"
                " models measured"
            )


def convert_card(
    pool: ChildPool, card: Card, forms: Sequence[str], folder: Path, tell: Tell
) -> dict[Key, Path]:
    """Convert a card with random weights to a file in every form, in a child process."""
    tell(f"making {card.name}")
    path = folder / f"{card.name}.tflite"
    limits = CallLimits(seconds=600, memory_bytes=3_000_000_000)
    pool.call("advisor.catalog._convert:convert", card, None, path, limits=limits)
    data = select_output(path.read_bytes(), "probabilities")
    files = {}
    for form in forms:
        made = folder / f"{card.name}-{form}.tflite"
        content = as_int8(data) if form == "int8" else data
        made.write_bytes(content)
        files[card.name, form] = made
    return files


def measure_networks(
    connection: Connection,
    made: Iterable[Mapping[Key, Path]],
    threads: int,
    tell: Tell,
    measured: Measured,
) -> MeasuredNetworks:
    """Measure networks one after the other, each in all its forms,
    and the first one again at the end.

    A timing that other programs disturbed is left out, unless its CPU time is known. StageError if
    the device failed or slowed down, or every timing was left out.
    """
    trusted = dict[Key, Timing]()
    left_out = list[str]()
    for files in made:
        tell(f"measuring {next(iter(files))[0]} on {connection.label}")
        timings = _measure(connection, files, threads)
        left_out += [
            f"{' '.join(key)}: {timing.contention}"
            for key, timing in timings.items()
            if timing.contention
        ]
        timings = {key: timing for key, timing in timings.items() if not timing.contention}
        measured(timings, trusted)
        trusted |= timings
    if not trusted:
        raise StageError(
            f"{connection.label}: no network could be measured: {left_out[0]}",
            f"{QUIET_HINT}, then try again",
        )
    if len({model for model, _ in trusted}) > 1:
        # One network alone has no time in which the device could get hot between two.
        tell(f"measuring the first network again on {connection.label}")
        left_out += _check_drift(connection, *next(iter(trusted.items())))
    return MeasuredNetworks(trusted, tuple(left_out))


def _measure(connection: Connection, files: Mapping[Key, Path], threads: int) -> Timings:
    keys = {path: key for key, path in files.items()}
    timings = connection.measure(
        MeasurementJob(tuple(keys), (threads,), EFFORT, 120.0 * len(files) + 120)
    )
    # One hot timing ends the calibration: those after it are slow as well (decision 0105).
    hot = next((timing for timing in timings if timing.throttled), None)
    if hot is not None:
        raise StageError(
            f"{connection.label}: {hot.throttled} ({' '.join(keys[hot.model])})", _COOL
        )
    return {keys[timing.model]: timing for timing in timings}


def _check_drift(connection: Connection, key: Key, first: Timing) -> list[str]:
    """Measure a file again; StageError if it takes :data:`THROTTLED` times as long.
    Return why this cannot be told.

    A device that gets hot between two networks makes the later ones look slow,
    and no single timing shows it.
    """
    again = _measure(connection, {key: first.model}, first.threads)[key]
    name = " ".join(key)
    if again.contention:
        return [f"{name} at the end, which shows if the device slowed down: {again.contention}"]
    if again.own_ms < THROTTLED * first.own_ms:
        return []
    raise StageError(
        f"{connection.label}: the device slowed down between the networks: {name} took"
        f" {show_ms(first.own_ms)} at first and {show_ms(again.own_ms)} at the end",
        _COOL,
    )


def list_changes(
    predictor: Predictor,
    before: DeviceProfile,
    after: DeviceProfile,
    target: DeviceTarget,
    models: Models,
    timings: Timings,
) -> Iterator[str]:
    """Yield the latency of each timing,
    and how it changed the expected error of the networks not measured.
    """
    for (name, form), timing in timings.items():
        was, now = (
            estimate_error(predictor, profile, target, form, models) for profile in (before, after)
        )
        change = f"{'falls' if now < was else 'rises'} from {was:.0%} to {now:.0%}"
        # Rounded to percent, many changes are none,
        # and "falls from 12% to 12%" would read like a fault.
        change = (
            "; the expected error of the others"
            f" {change if f'{was:.0%}' != f'{now:.0%}' else f'stays {now:.0%}'}"
        )
        yield f"{name} {form} takes {show_ms(timing.own_ms)}" + (
            "" if math.isnan(was + now) else change
        )


def with_timings(profile: DeviceProfile, target: DeviceTarget, timings: Timings) -> DeviceProfile:
    """Return the profile with these timings as the user's measurements."""
    statistic = "cpu_median" if any(timing.cpu_ms for timing in timings.values()) else "median"
    return with_measurements(
        profile, target, {key: timing.own_ms for key, timing in timings.items()}, statistic
    )


def with_measurements(
    profile: DeviceProfile, target: DeviceTarget, latency_ms: Latencies, statistic: str = "median"
) -> DeviceProfile:
    """Return the profile with the user's measurements,
    which replace earlier ones of the same models on the target.
    """
    # Only the user's latest measurement of a model counts,
    # also against a shipped one on the same target.
    replaced = {(target.name, model, form) for model, form in latency_ms}
    others = [
        row
        for row in profile.measurements
        if (row.target, row.model, row.precision) not in replaced
    ]
    calibrated = partial(
        Measurement, target.name, source_repo=CALIBRATED, source_path=profile.name
    )
    new = [
        calibrated(model, form, value, statistic)
        for (model, form), value in sorted(latency_ms.items())
    ]
    return replace(profile, measurements=(*others, *new))


def add_kernels(profile: DeviceProfile, kernels: Sequence[Kernel]) -> DeviceProfile:
    """Return the profile with newly timed kernels."""
    return replace(profile, kernels=(*profile.kernels, *kernels))
