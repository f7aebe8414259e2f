"""Calibrate an available device: choose a few models, measure them, store the result and evaluate it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from advisor.core.errors import StageError, UsageError
from advisor.devices.connections.protocol import Connection, Job
from advisor.devices.profiles import HOST, MEASURABLE_RUNTIMES, DeviceProfile, DeviceTarget

if TYPE_CHECKING:
    from advisor.catalog.cards import Card
    from advisor.devices.calibration.report import CalibrationReport
    from advisor.devices.latency.features import ModelFeatures
    from advisor.devices.prediction.predictor import Predictor

FORM = "float32"
"""Form of the measured models: the files as converted."""

Tell = Callable[[str], None]


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
    hint = (
        f"targets that can be calibrated: {', '.join(calibratable)}"
        if calibratable
        else "add your own profile with a CPU target of the runtime tflite or ai-edge-litert"
    )
    if target.name not in calibratable:
        raise UsageError(
            f"{profile.name}:{target.name} cannot be calibrated: no CPU target that runs float32 .tflite files",
            hint,
        )


def calibrate(
    profile: DeviceProfile,
    target: DeviceTarget,
    connection: Connection,
    predictor: Predictor,
    folder: Path,
    wanted: int = 5,
    tell: Tell = lambda _text: None,
) -> Calibrated:
    """Measure the most informative models of the catalogue on the device, and write the profile into ``folder``.

    Latency does not depend on the weights, so the models are made here with random weights and nothing is downloaded.
    Small files are preferred, because they are sent to the device.

    Args:
        profile: the device.
        target: its target (:func:`check_target`).
        connection: the connection to it.
        predictor: fitted to all known measurements.
        folder: where to write the profile with the new measurements.
        wanted: how many models to measure.
        tell: called with a line for each step.

    Raises:
        UsageError: the target cannot be calibrated, or the connection cannot be made.
        StageError: a model cannot be made, or the device failed.
    """
    check_target(profile, target)
    available = _available()
    models = [model for _, model in available]
    costs = {model.name: 4 * model.params / 1e6 / 100 for model in models}  # a file of 100 MB halves a model's value
    names = predictor.most_informative(profile, target, FORM, costs, wanted)
    with TemporaryDirectory(prefix="advisor-calibrate-") as work:
        files = _made([card for card, _ in available if card.name in names], Path(work), tell)
        tell(f"measuring {len(files)} models on {connection.label}")
        latency_ms, runtime = measured(connection, files, target.threads)
    return keep(profile, target, latency_ms, runtime, predictor, models, folder)


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
    from advisor.devices.calibration.report import calibration_report, with_measurements
    from advisor.devices.profiles.team import write_profile

    after = with_measurements(profile, target, FORM, latency_ms)
    report = calibration_report(predictor, profile, after, target, FORM, models)
    return Calibrated(after, target, latency_ms, runtime, report, write_profile(after, folder))


def _available() -> list[tuple[Card, ModelFeatures]]:
    """Return the shipped cards whose features the predictor knows."""
    from advisor.catalog.catalogue import load_catalogue
    from advisor.devices.latency.features import load_features
    from advisor.devices.profiles import shipped_profiles

    known = load_features(shipped_profiles()).models
    return [(card, known[card.name]) for card in load_catalogue().values() if card.name in known and not card.own_file]


def _made(cards: Sequence[Card], folder: Path, tell: Tell) -> dict[str, Path]:
    """Convert cards to float files, one after the other in a child process."""
    from advisor.isolation import ChildPool, Limits
    from advisor.tflite.surgery import select_output

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
