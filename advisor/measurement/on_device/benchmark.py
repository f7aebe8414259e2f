"""Run ``advisor benchmark --device``: measure over a connection, or predict from the file if there is none."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from advisor.core.errors import AdvisorError, StageError, UsageError
from advisor.core.quantity import Provenance, Quantity
from advisor.core.units import plural, show_bytes
from advisor.devices.connections.protocol import Connection, MeasurementJob, Timing, needs_export
from advisor.devices.profiles import MEASURABLE_RUNTIMES, runtime_remark
from advisor.devices.profiles.runtimes import local_runtimes
from advisor.isolation.agent import SeriesDocument
from advisor.measurement.accelerators.delegation import delegate
from advisor.measurement.accelerators.rules import serving
from advisor.measurement.latency.results import LEVEL, LatencyResult, Ratio
from advisor.measurement.latency.timing import judge, ratios
from advisor.measurement.microcontrollers import Interpreter, interpreter_of
from advisor.measurement.on_device.findings import DeviceBenchmark, DeviceRow
from advisor.measurement.processes.model_file import ModelFile, detector_notes, read_model

if TYPE_CHECKING:
    from advisor.devices.prediction import Predictor
    from advisor.devices.profiles import DeviceProfile, DeviceTarget

Tell = Callable[[str], None]
PREDICTION_LEVEL = 0.8
_MEASURED = "measure it on the device: name a connection in its profile"
SECONDS = {"quick": 6, "normal": 10, "full": 60, "search": 1, "load": 1}


def benchmark_on_device(
    models: Sequence[Path | str],
    profile: DeviceProfile,
    target: DeviceTarget,
    connection: Connection | None,
    predictor: Callable[[], Predictor],
    threads: Sequence[int] = (),
    effort: str = "quick",
    tell: Tell = lambda _text: None,
) -> DeviceBenchmark:
    """Measure files on a device over its connection; without one, predict their latencies.

    Args:
        models: one or more files.
        profile: the device.
        target: which of its targets.
        connection: the connection to the device, None to predict.
        predictor: returns the predictor; called only if it is needed.
        threads: thread counts; by default that of the target. A prediction is possible for that of the target only.
        effort: name of the effort.
        tell: called with a line for each step.

    Raises:
        UsageError: a file is missing or damaged, or the target does not run ``.tflite`` files.
    """
    files = [read_model(model) for model in dict.fromkeys(map(str, models))]
    interpreter = interpreter_of(target.runtime)
    if connection is None:
        tell(f"predicting for {profile.name}")
        rows = _predicted(files, profile, target, predictor(), threads)
        if interpreter:
            tell(f"running the files in {interpreter.NAME}")
            rows = [_with_arena(row, file, interpreter) for row, file in zip(rows, files, strict=True)]
        compared: tuple[Ratio, ...] = ()
    else:
        here = profile.name in local_runtimes()
        if not here and target.runtime not in MEASURABLE_RUNTIMES and not needs_export(target.runtime):
            raise UsageError(
                f"{profile.name}:{target.name} runs {target.runtime}, which cannot be measured over a connection",
                "name a target with TensorFlow Lite, or remove the connection for a prediction",
            )
        tell(f"measuring on {connection.label}")
        rows, compared = _measured(files, target, connection, threads, effort)
    delegations = tuple(
        (file.model, delegate(file.graph, each))
        for file in files
        for each in serving(target.runtime, target.accelerator)
        if target.accelerator != "cpu"
    )
    remark = "" if connection else runtime_remark(f"{profile.name}:{target.name}", target.runtime)
    included = detector_notes(file.path.name for file in files if file.detects)
    ran = _arena_notes(rows, target, interpreter) if interpreter else ()
    notes = tuple(filter(None, (remark, *included, *ran, *_downloads(rows), *_limits(rows, profile))))
    reached = connection.label if connection else ""
    return DeviceBenchmark(profile.name, target.name, reached, effort, tuple(rows), compared, delegations, notes)


def _row(file: ModelFile, threads: int) -> DeviceRow:
    return DeviceRow(file.model, threads, file.graph.size_bytes, file.arena_bytes)


def _downloads(rows: Sequence[DeviceRow]) -> tuple[str, ...]:
    """Return what a page downloads to run each file, the runtime and the file."""
    from advisor.core.units import show_bytes

    return tuple(
        f"{Path(row.model).name}, {plural(row.threads, 'thread')}: a page downloads {show_bytes(row.page_bytes)}"
        for row in rows
        if row.page_bytes is not None
    )


def _limits(rows: Sequence[DeviceRow], profile: DeviceProfile) -> tuple[str, ...]:
    """Return the hard limits of the device that files exceed."""
    from advisor.core.units import show_bytes

    found = []
    for row in rows:
        for label, needed, limit in (
            ("tensor arena takes" if row.micro else "activations need", row.arena_bytes, profile.limits.arena_bytes),
            ("file takes", row.size_bytes, profile.limits.flash_bytes),
        ):
            if limit is not None and needed > limit:
                name = Path(row.model).name
                found.append(f"{name}: its {label} {show_bytes(needed)}, {profile.name} has {show_bytes(limit)}")
    return tuple(dict.fromkeys(found))


def _predicted(
    files: Sequence[ModelFile],
    profile: DeviceProfile,
    target: DeviceTarget,
    predictor: Predictor,
    threads: Sequence[int],
) -> list[DeviceRow]:
    if any(count != target.threads for count in threads):
        raise UsageError(
            f"{profile.name}:{target.name} has {target.threads} threads: other counts cannot be predicted",
            "remove --threads, or name another target: " + ", ".join(t.name for t in profile.targets),
        )
    rows = []
    for file in files:
        try:
            rows.append(_prediction(file, profile, target, predictor))
        except UsageError as error:
            rows.append(_failed(file, target.threads, error))
    return rows


def _prediction(file: ModelFile, profile: DeviceProfile, target: DeviceTarget, predictor: Predictor) -> DeviceRow:
    """Return a row with the predicted latency, if the target runs the file's form and it can be predicted."""
    from advisor.devices.latency.features import features_of, load_features, model_features
    from advisor.tflite.macs import counted, works_of

    seen, table = features_of(file.graph), load_features()
    reason = target.incompatibility(seen.form)
    if reason:
        raise UsageError(f"{target.name} {reason}", f"advisor devices show {profile.name} lists its targets")
    name = max((known for known in table.models if known in file.path.stem), key=len, default=file.path.stem)
    features = model_features(seen, name, "", table)
    if features is None:
        raise UsageError("it has no image input or no known arithmetic, so its latency cannot be predicted", _MEASURED)
    features = replace(features, operators=counted(works_of(file.graph)))
    (found,) = predictor.predict(profile, target, seen.form, [features], PREDICTION_LEVEL)
    outside = "larger or smaller than the measured models: the interval is wider" if found.outside else ""
    return replace(_row(file, target.threads), latency=found.latency, form=seen.form, reason=outside)


def _measured(
    files: Sequence[ModelFile], target: DeviceTarget, connection: Connection, threads: Sequence[int], effort: str
) -> tuple[list[DeviceRow], tuple[Ratio, ...]]:
    """Measure all files in one job, so that they take turns; if that fails, measure each file alone."""
    counts = tuple(dict.fromkeys(threads)) or (target.threads,)
    try:
        return _job(files, target, connection, counts, effort)
    except StageError as error:
        if len(files) == 1:
            return [_failed(files[0], count, error) for count in counts], ()
    alone = [_measured([file], target, connection, counts, effort)[0] for file in files]
    return [row for rows in alone for row in rows], ()


def _failed(file: ModelFile, threads: int, error: AdvisorError) -> DeviceRow:
    return replace(_row(file, threads), failure=f"{file.path.name}: {error.message}")


def _job(
    files: Sequence[ModelFile], target: DeviceTarget, connection: Connection, counts: tuple[int, ...], effort: str
) -> tuple[list[DeviceRow], tuple[Ratio, ...]]:
    limit = 120.0 + len(files) * len(counts) * (60 + 3 * SECONDS[effort])
    by_path = {file.path: file for file in files}
    timings = connection.measure(MeasurementJob(tuple(by_path), counts, effort, limit, target.runtime))
    rows = [measured_row(timing, by_path[timing.model], connection.label) for timing in timings]
    return rows, ratios([(row.model, row.result) for row in rows if row.result])


def _judged(timing: Timing) -> LatencyResult | None:
    """Evaluate the agent's runs like those of this machine; None for the output of another tool."""
    if "blocks" not in timing.details:
        return None
    try:
        return judge(cast("SeriesDocument", timing.details), timing.details["load"])
    except (LookupError, TypeError, ValueError, statistics.StatisticsError) as error:
        raise StageError(f"invalid response from the device: {type(error).__name__} {error}") from error


def measured_row(timing: Timing, file: ModelFile, label: str) -> DeviceRow:
    """Return the row of one timing of a file.

    Raises:
        StageError: the runs in the timing are not valid.
    """
    result = _judged(timing)
    source = f"{label}, {timing.runtime}, {plural(timing.threads, 'thread')}"
    low, high = result.interval_ms if result else (None, None)
    value = result.rank_ms if result else timing.median_ms
    level = LEVEL if result else None
    return replace(
        _row(file, timing.threads),
        latency=Quantity(value, "ms", Provenance.MEASURED, low, high, level, timing.runs, source),
        runtime=timing.runtime,
        result=result,
        first_ms=timing.first_ms,
        load_ms=timing.load_ms,
        memory_bytes=timing.memory_bytes,
        page_bytes=timing.details.get("page_bytes"),
        throttled=timing.throttled,
        reason=timing.throttled or (result.reason if result else ""),
    )


def _with_arena(row: DeviceRow, file: ModelFile, interpreter: Interpreter) -> DeviceRow:
    """Return the row with the tensor arena: found with the interpreter where it is installed, else computed."""
    from advisor.tflite.arena import micro_arena

    row = replace(row, arena_bytes=micro_arena(file.graph).total)
    if row.failure or not interpreter.available():
        return row
    try:
        found = interpreter.check(file.path)
    except StageError as error:
        return replace(row, latency=None, failure=error.message)
    if found.reason:
        return replace(row, latency=None, failure=f"{file.path.name}: {found.reason}", micro=found)
    return replace(row, arena_bytes=found.arena_bytes, micro=found)


def _arena_notes(rows: Sequence[DeviceRow], target: DeviceTarget, interpreter: Interpreter) -> tuple[str, ...]:
    """Return where the arenas come from, and whether outputs equal LiteRT's."""
    if not interpreter.available():
        return (f"{target.name}: {interpreter.NAME} is not installed, arenas are computed; {interpreter.INSTALL}",)
    return tuple(
        f"{Path(row.model).name}: {row.micro.runtime} runs it in an arena of {row.micro.arena_bytes:,} bytes "
        f"({show_bytes(row.micro.activation_bytes)} for activations); {row.micro.agreement}"
        for row in rows
        if row.micro and not row.failure
    )
