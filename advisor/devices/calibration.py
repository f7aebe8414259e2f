"""Calibrate an available device: measure a few models and kernels, keep the figures in its profile, and judge them."""

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from advisor.catalog.cards import Card
from advisor.catalog.catalogue import load_catalogue
from advisor.core.errors import StageError, UsageError
from advisor.core.quantity import Provenance
from advisor.devices.connections.protocol import Connection, MeasurementJob
from advisor.devices.kernels import Tell, TimedKernels, as_int8, time_kernels
from advisor.devices.latency.features import Models, load_features
from advisor.devices.prediction import CALIBRATED, Predictor
from advisor.devices.profiles import HOST, MEASURABLE_RUNTIMES, MEASURED_KERNELS, DeviceProfile, DeviceTarget
from advisor.devices.profiles.listing import folder_of, write_profile
from advisor.devices.profiles.measurements import FORMS, Measurement
from advisor.devices.profiles.runtimes import local_runtimes
from advisor.isolation import CallLimits, ChildPool, Scratch
from advisor.tflite.rewrite import select_output


@dataclass(frozen=True)
class CalibrationReport:
    """The errors of predictions in one form."""

    form: str  #: ``float32`` or ``int8``
    models: tuple[str, ...]  #: names of the models measured on the target
    before: tuple[float, ...]  #: relative error of each, predicted without the new measurements
    #: relative error of each, predicted from all other models (leave-one-out); empty for a single model
    after: tuple[float, ...]
    #: expected median error of the models of the catalogue that were not measured, as the predictor itself knew before;
    #: NaN if there are none
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
    predictor: Predictor, before: DeviceProfile, after: DeviceProfile, target: DeviceTarget, models: Models, form: str
) -> CalibrationReport:
    """Compare predictions of the measured models without the new measurements, and from each other.

    ``predictor`` is fitted without the new measurements; ``before`` and ``after`` are the profile without and with
    them; ``models`` are those that can be measured.
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
    return replace(profile, measurements=tuple(row for row in profile.measurements if row.model not in models))


def expected_error(
    predictor: Predictor, profile: DeviceProfile, target: DeviceTarget, form: str, models: Models
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


Latencies = Mapping[tuple[str, str], float]  # Milliseconds by name of the model and form


@dataclass(frozen=True)
class Calibrated:
    """The result of a calibration."""

    profile: DeviceProfile  #: the profile with the new measurements
    target: DeviceTarget  #: the measured target
    latency_ms: Latencies  #: median of each model by name and form, ms
    runtime: str  #: runtime and version that the device reports
    reports: tuple[CalibrationReport, ...]  #: errors of the predictions before and after, one for each form
    path: Path  #: the file that contains the profile
    left_out: tuple[str, ...] = ()  #: why kernels were left out, one line for each

    def to_json(self) -> dict[str, object]:
        """Return a JSON object; a relative error that is not known is NaN."""
        return {
            "device": self.profile.name,
            "target": self.target.name,
            "runtime": self.runtime,
            "latency_ms": {f"{model}/{form}": value for (model, form), value in self.latency_ms.items()},
            "reports": [asdict(report) for report in self.reports],
            "kernels_left_out": list(self.left_out),
            "path": str(self.path),
        }


def forms_of(target: DeviceTarget) -> tuple[str, ...]:
    """Return the forms that a calibration measures on a target."""
    return tuple(form for form in FORMS if form in target.precisions)


def check_target(profile: DeviceProfile, target: DeviceTarget) -> None:
    """Refuse a target that cannot be calibrated (UsageError).

    It is this machine, its runtime is not TensorFlow Lite, its processor is not the CPU, it runs neither float32 nor
    int8 files, or its build computes with other kernels than the build that a calibration measures.
    """
    if profile.name == HOST or profile.name in local_runtimes():
        raise UsageError(
            f"'{profile.name}' needs no calibration, because every search measures it", "name another device"
        )
    measurable = [
        t for t in profile.targets if t.runtime in MEASURABLE_RUNTIMES and t.accelerator == "cpu" and forms_of(t)
    ]
    calibratable = [t.name for t in measurable if t.kernels in ("", MEASURED_KERNELS)]
    if target.name not in calibratable:
        reason = "no CPU target that runs float32 or int8 .tflite files"
        if target in measurable:
            reason = f"its build computes with {target.kernels}, and a calibration measures one with {MEASURED_KERNELS}"
        raise UsageError(
            f"{profile.name}:{target.name} cannot be calibrated: {reason}",
            f"targets that can be calibrated: {', '.join(f'{profile.name}:{name}' for name in calibratable)}"
            if calibratable
            else "add your own profile with a CPU target of the runtime tflite or ai-edge-litert",
        )


def calibrate(
    profile: DeviceProfile,
    target: DeviceTarget,
    connection: Connection,
    predictor: Predictor,
    wanted: int,
    tell: Tell,
    kernels: bool = False,
) -> Calibrated:
    """Measure the ``wanted`` most informative models of the catalogue on the device, and write its profile.

    Latency does not depend on the weights, so the models are made here with random weights and nothing is downloaded.
    Small files are preferred, because they are sent to the device. Every model is measured in each form that the target
    runs. With ``kernels``, single operators are timed too, from which all networks are then predicted.
    """
    known, forms = load_features().models, forms_of(target)
    cards = [card for card in load_catalogue().values() if card.name in known and not card.own_file]
    models = [known[card.name] for card in cards]
    with Scratch() as work:
        timed = TimedKernels()
        if kernels:
            timed = time_kernels(connection, target.name, target.threads, forms, work, tell)
        costs = {model.name: 4 * model.params / 1e6 / 100 for model in models}  # 100 MB halve a model's value
        names = predictor.most_informative(profile, target, forms[0], costs, wanted)
        with_kernels = replace_kernels(profile, target, timed)
        _tell_gain(predictor, profile, with_kernels, target, models, names, tell)
        files = _made([card for card in cards if card.name in names], forms, work, tell)
        tell(f"measuring {len(files)} files on {connection.label}")
        latency_ms, runtime = measured(connection, files, target.threads)
    after = with_measurements(with_kernels, target, latency_ms)
    reports = tuple(calibration_report(predictor, profile, after, target, models, form) for form in forms)
    path = write_profile(after, folder_of(profile))
    return Calibrated(after, target, latency_ms, runtime, reports, path, timed.left_out)


def _tell_gain(
    predictor: Predictor,
    before: DeviceProfile,
    with_kernels: DeviceProfile,
    target: DeviceTarget,
    models: Models,
    names: Collection[str],
    tell: Tell,
) -> None:
    """Tell the expected median error now, and as it will be if the models turn out as they are predicted."""
    chosen = [model for model in models if model.name in names]
    forms = forms_of(target)
    predicted = {
        (model.name, form): found.latency.value
        for form in forms
        for model, found in zip(chosen, predictor.predict(with_kernels, target, form, chosen), strict=True)
    }
    after = with_measurements(with_kernels, target, predicted)
    for form in forms:
        now = expected_error(predictor, before, target, form, models)
        later = expected_error(predictor, after, target, form, models)
        if not math.isnan(now) and not math.isnan(later):
            tell(f"{form}: expected median error {now:.0%} now, {later:.0%} with {len(chosen)} models measured")


def _made(cards: Sequence[Card], forms: Sequence[str], folder: Path, tell: Tell) -> dict[tuple[str, str], Path]:
    """Convert cards to files in every form, one card after the other in a child process."""
    files = {}
    with ChildPool(folder / "log") as pool:
        for card in cards:
            tell(f"making {card.name}")
            path = folder / f"{card.name}.tflite"
            limits = CallLimits(seconds=600, memory_bytes=3_000_000_000)
            pool.call("advisor.catalog.convert:convert", card, None, path, limits=limits)
            data = select_output(path.read_bytes(), "probabilities")
            for form in forms:
                made = folder / f"{card.name}-{form}.tflite"
                made.write_bytes(as_int8(data) if form == "int8" else data)
                files[card.name, form] = made
    return files


def measured(
    connection: Connection, files: Mapping[tuple[str, str], Path], threads: int
) -> tuple[dict[tuple[str, str], float], str]:
    """Return the median latency (ms) of each model by name and form, and the runtime that ran them.

    StageError if the device failed, or slowed down during the measurement.
    """
    keys = {path: key for key, path in files.items()}
    timings = connection.measure(MeasurementJob(tuple(keys), (threads,), timeout_s=120.0 * len(files) + 120))
    hot = next((timing for timing in timings if timing.throttled), None)
    if hot is not None:
        raise StageError(
            f"{connection.label}: {hot.throttled} ({' '.join(keys[hot.model])})",
            "let the device cool down, then try again",
        )
    return {keys[timing.model]: timing.median_ms for timing in timings}, timings[0].runtime


def with_measurements(profile: DeviceProfile, target: DeviceTarget, latency_ms: Latencies) -> DeviceProfile:
    """Return the profile with the user's measurements, which replace earlier ones of the same models on the target."""
    replaced = {(target.name, model, form) for model, form in latency_ms}
    others = [row for row in profile.measurements if (row.target, row.model, row.precision) not in replaced]
    new = [
        Measurement(target.name, model, form, milliseconds, "median", source_repo=CALIBRATED, source_path=profile.name)
        for (model, form), milliseconds in sorted(latency_ms.items())
    ]
    return replace(profile, measurements=(*others, *new))


def replace_kernels(profile: DeviceProfile, target: DeviceTarget, timed: TimedKernels) -> DeviceProfile:
    """Return the profile with newly timed kernels, which replace all earlier ones of the target."""
    if not timed.kernels:
        return profile
    others = tuple(kernel for kernel in profile.kernels if kernel.target != target.name)
    return replace(profile, kernels=(*others, *timed.kernels))
