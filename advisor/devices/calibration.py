"""Calibrate an available device: choose a few models, measure them, keep the figures in its profile and judge them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from advisor.catalog.cards import Card
from advisor.catalog.catalogue import load_catalogue
from advisor.core.errors import StageError, UsageError
from advisor.devices.connections.protocol import Connection, Job
from advisor.devices.latency.features import ModelFeatures, load_features
from advisor.devices.prediction.predictor import CALIBRATED, Predictor
from advisor.devices.profiles import HOST, MEASURABLE_RUNTIMES, DeviceProfile, DeviceTarget
from advisor.devices.profiles.measurements import Measurement
from advisor.devices.profiles.team import folder_of, write_profile
from advisor.isolation import ChildPool, Limits
from advisor.tflite.surgery import select_output

FORM = "float32"
"""Form of the measured models: the files as converted."""

Tell = Callable[[str], None]


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


@dataclass(frozen=True)
class Calibrated:
    """The result of a calibration.

    Attributes:
        profile: the profile with the new measurements.
        target: the measured target.
        latency_ms: median of each model, ms.
        runtime: runtime and version that the device reports.
        report: errors of the predictions before and after.
        path: the file that contains the profile.
    """

    profile: DeviceProfile
    target: DeviceTarget
    latency_ms: Mapping[str, float]
    runtime: str
    report: CalibrationReport
    path: Path


def check_target(profile: DeviceProfile, target: DeviceTarget) -> None:
    """Refuse a target that cannot be calibrated.

    Raises:
        UsageError: it is this machine, its runtime is not TensorFlow Lite, its processor is not the CPU, or it does not
            run float32 files.
    """
    if profile.name == HOST:
        raise UsageError("'host' needs no calibration, because every search measures it", "name another device")
    calibratable = [
        t.name
        for t in profile.targets
        if t.runtime in MEASURABLE_RUNTIMES and t.accelerator == "cpu" and FORM in t.precisions
    ]
    if target.name not in calibratable:
        raise UsageError(
            f"{profile.name}:{target.name} cannot be calibrated: no CPU target that runs float32 .tflite files",
            f"targets that can be calibrated: {', '.join(calibratable)}"
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
) -> Calibrated:
    """Measure the most informative models of the catalogue on the device, and write its profile.

    Latency does not depend on the weights, so the models are made here with random weights and nothing is downloaded.
    Small files are preferred, because they are sent to the device.

    Args:
        profile: the device.
        target: its target (:func:`check_target`).
        connection: the connection to it.
        predictor: fitted to all known measurements.
        wanted: number of models to measure.
        tell: called with a line for each step.

    Raises:
        UsageError: the connection cannot be made.
        StageError: a model cannot be made, or the device failed.
    """
    known = load_features().models
    cards = [card for card in load_catalogue().values() if card.name in known and not card.own_file]
    models = [known[card.name] for card in cards]
    costs = {model.name: 4 * model.params / 1e6 / 100 for model in models}  # a file of 100 MB halves a model's value
    names = predictor.most_informative(profile, target, FORM, costs, wanted)
    with TemporaryDirectory(prefix="advisor-calibrate-") as work:
        files = _made([card for card in cards if card.name in names], Path(work), tell)
        tell(f"measuring {len(files)} models on {connection.label}")
        latency_ms, runtime = measured(connection, files, target.threads)
    return keep(profile, target, latency_ms, runtime, predictor, models, folder_of(profile))


def _made(cards: Sequence[Card], folder: Path, tell: Tell) -> dict[str, Path]:
    """Convert cards to float files, one after the other in a child process."""
    files = {}
    with ChildPool(folder / "log") as pool:
        for card in cards:
            tell(f"making {card.name}")
            path = folder / f"{card.name}.tflite"
            limits = Limits(seconds=600, memory_bytes=3_000_000_000)
            pool.call("advisor.catalog.convert:convert", card, None, path, limits=limits)
            path.write_bytes(select_output(path.read_bytes(), "probabilities"))
            files[card.name] = path
    return files


def measured(connection: Connection, files: Mapping[str, Path], threads: int) -> tuple[dict[str, float], str]:
    """Return the median latency (ms) of each model by name, and the runtime that ran them.

    Raises:
        UsageError: see :class:`advisor.devices.connections.protocol.Connection`.
        StageError: the same, or the device slowed down during the measurement.
    """
    names = {path: name for name, path in files.items()}
    timings = connection.measure(Job(tuple(names), (threads,), timeout_s=120.0 * len(files) + 120))
    hot = next((timing for timing in timings if timing.throttled), None)
    if hot is not None:
        raise StageError(
            f"{connection.label}: {hot.throttled} ({names[hot.model]})", "let the device cool down, then try again"
        )
    return {names[timing.model]: timing.median_ms for timing in timings}, timings[0].runtime


def keep(
    profile: DeviceProfile,
    target: DeviceTarget,
    latency_ms: Mapping[str, float],
    runtime: str,
    predictor: Predictor,
    models: Sequence[ModelFeatures],
    folder: Path,
) -> Calibrated:
    """Write the profile with the new measurements into ``folder``, and evaluate the predictions before and after."""
    after = with_measurements(profile, target, latency_ms)
    report = calibration_report(predictor, profile, after, target, models)
    return Calibrated(after, target, latency_ms, runtime, report, write_profile(after, folder))


def with_measurements(profile: DeviceProfile, target: DeviceTarget, latency_ms: Mapping[str, float]) -> DeviceProfile:
    """Return the profile with the user's measurements, which replace earlier ones of the same models on the target."""
    others = [
        row
        for row in profile.measurements
        if not (row.target == target.name and row.precision == FORM and row.model in latency_ms)
    ]
    new = [
        Measurement(target.name, model, FORM, milliseconds, "median", source_repo=CALIBRATED, source_path=profile.name)
        for model, milliseconds in sorted(latency_ms.items())
    ]
    return replace(profile, measurements=(*others, *new))


def calibration_report(
    predictor: Predictor,
    before: DeviceProfile,
    after: DeviceProfile,
    target: DeviceTarget,
    models: Sequence[ModelFeatures],
) -> CalibrationReport:
    """Compare predictions of the measured models without the new measurements, and from each other.

    Args:
        predictor: fitted without the new measurements.
        before: the profile without them.
        after: the profile with the new measurements.
        target: the target.
        models: features of the models that can be measured.
    """
    truth = {
        row.model: row.latency_ms
        for row in after.measurements
        if row.target == target.name and row.precision == FORM and row.source_repo == CALIBRATED
    }
    measured_models = [model for model in models if model.name in truth]
    names = tuple(model.name for model in measured_models)
    predictions = predictor.predict(_without(before, truth), target, FORM, measured_models)
    errors = [p.latency.value / truth[name] - 1 for p, name in zip(predictions, names, strict=True)]
    left_out = []
    for model in measured_models if len(names) > 1 else []:
        (found,) = predictor.predict(_without(after, [model.name]), target, FORM, [model])
        left_out.append(found.latency.value / truth[model.name] - 1)
    return CalibrationReport(names, tuple(errors), tuple(left_out))


def _without(profile: DeviceProfile, models: Collection[str]) -> DeviceProfile:
    """Return the profile without the measurements of some models."""
    return replace(profile, measurements=tuple(row for row in profile.measurements if row.model not in models))
