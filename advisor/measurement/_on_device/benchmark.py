"""Measure files on a device over its connection, or predict their latencies.

``choice.py`` calls :func:`benchmark_on_device` with the connection, or None for a prediction. One
file that fails has a reason in its row; the others are measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from advisor.core import (
    AdvisorError,
    Provenance,
    Quantity,
    StageError,
    UsageError,
    plural,
    show_bytes,
)
from advisor.devices import (
    Connection,
    MeasurementJob,
    Timing,
    local_runtimes,
    needs_export,
    runtime_remark,
)
from advisor.isolation import SeriesDocument
from advisor.measurement._accelerators import Accelerator
from advisor.measurement._delegation import Delegation
from advisor.measurement._latency import LatencyResult, Ratio
from advisor.measurement._latency.summary import LEVEL
from advisor.measurement._latency.timing import (
    compare_with_first,
    effort_named,
)
from advisor.measurement._microcontrollers import Interpreter, interpreter_of
from advisor.measurement._on_device import DeviceBenchmark, DeviceRow
from advisor.measurement._processes import ModelFile, detector_notes, read_model

if TYPE_CHECKING:
    from advisor.devices import DeviceProfile, DeviceTarget, Predictor

Tell = Callable[[str], None]
PREDICTION_LEVEL = 0.8
_MEASURED = "measure it on the device: name a connection in its profile"


@runtime_checkable
class _Waiting(Protocol):
    """A connection that says what it waits for."""

    tell: Tell


def benchmark_on_device(
    models: Sequence[Path | str],
    profile: DeviceProfile,
    target: DeviceTarget,
    connection: Connection | None,
    predictor: Callable[[], Predictor],
    threads: Sequence[int] = (),
    effort: str = "quick",
    tell: Tell = lambda _text: None,
    keeps_prediction: bool = False,
) -> DeviceBenchmark:
    """Measure files on a device over its connection; without one, predict their latencies.

    With ``keeps_prediction``, a file that could not be measured keeps its prediction,
    with the reason.

    Thread counts are those of the target by default; no others can be predicted. The predictor is
    made only if it is needed. ``tell`` is called with a line for each step. UsageError if a file
    is missing or damaged, or the target does not run ``.tflite`` files.
    """
    files = list(map(read_model, dict.fromkeys(map(str, models))))
    interpreter = interpreter_of(target.runtime)
    compared: tuple[Ratio, ...] = ()
    if connection is None:
        tell(f"predicting for {profile.name}")
        rows = _predict_files(files, profile, target, predictor(), threads)
        if interpreter:
            tell(f"running the files in {interpreter.NAME}")
            rows = [
                _with_arena(row, file, interpreter) for row, file in zip(rows, files, strict=True)
            ]
    else:
        _require_measurable(profile, target)
        tell(f"measuring on {connection.label}")
        measure = partial(
            _measure_files, files, target, connection, threads, effort, by_count=keeps_prediction
        )
        if keeps_prediction:
            # A cloud has a queue: a person wants to know what a job waits for.
            if isinstance(connection, _Waiting):
                connection.tell = tell
            rows, compared = _measure_or_predict(measure, files, profile, target, predictor)
        else:
            rows, compared = measure()
    measured = connection
    if keeps_prediction and not any(map(_is_measured, rows)):
        measured = None
    label = measured.label if measured else ""
    notes = _list_notes(files, rows, profile, target, predicted=measured is None)
    delegations = _delegate_files(files, profile, target)
    return DeviceBenchmark(
        profile.name, target.name, label, effort, tuple(rows), compared, delegations, notes
    )


def _require_measurable(profile: DeviceProfile, target: DeviceTarget) -> None:
    """Refuse a target whose runtime no connection measures (UsageError)."""
    if profile.name in local_runtimes() or target.measurable or needs_export(target.runtime):
        return
    raise UsageError(
        f"{profile.name}:{target.name} runs {target.runtime}, which cannot be measured over a"
        " connection",
        "name a target with TensorFlow Lite, or remove the connection for a prediction",
    )


def _delegate_files(
    files: Sequence[ModelFile], profile: DeviceProfile, target: DeviceTarget
) -> tuple[tuple[str, Delegation], ...]:
    """Return what the target's accelerators run of each file; the CPU runs every operator."""
    if target.accelerator == "cpu":
        return ()
    delegations = []
    for file, unit in product(files, Accelerator.list_serving(profile, target)):
        delegations.append((file.model, Delegation.of_operators(file.graph, unit)))
    return tuple(delegations)


def _list_notes(
    files: Sequence[ModelFile],
    rows: Sequence[DeviceRow],
    profile: DeviceProfile,
    target: DeviceTarget,
    *,
    predicted: bool,
) -> tuple[str, ...]:
    notes: list[str] = []
    if predicted:
        notes.append(runtime_remark(f"{profile.name}:{target.name}", target.runtime))
    notes += detector_notes(file.path.name for file in files if file.detects)
    interpreter = interpreter_of(target.runtime)
    if interpreter:
        notes += _arena_notes(rows, target, interpreter)
    notes += _list_downloads(rows)
    notes += _list_exceeded(rows, profile)
    return tuple(filter(None, notes))


def make_row(file: ModelFile, threads: int, failure: str = "") -> DeviceRow:
    return DeviceRow(file.model, threads, file.graph.size_bytes, file.arena_bytes, failure=failure)


def _list_downloads(rows: Sequence[DeviceRow]) -> list[str]:
    """Return what a page downloads to run each file, where it was measured in a browser."""
    downloads = []
    for row in rows:
        if row.page_bytes is not None:
            name = Path(row.model).name
            downloads.append(
                f"{name}, {plural(row.threads, 'thread')}: a page downloads"
                f" {show_bytes(row.page_bytes)}"
            )
    return downloads


def _list_exceeded(rows: Sequence[DeviceRow], profile: DeviceProfile) -> tuple[str, ...]:
    """Return the hard limits of the device that files exceed."""
    problems = []
    for row in rows:
        memory = "tensor arena takes" if row.micro else "activations need"
        for label, needed_bytes, limit_bytes in (
            (memory, row.arena_bytes, profile.limits.arena_bytes),
            ("file takes", row.size_bytes, profile.limits.flash_bytes),
        ):
            if limit_bytes is not None and needed_bytes > limit_bytes:
                need = f"{Path(row.model).name}: its {label} {show_bytes(needed_bytes)}"
                problems.append(f"{need}, {profile.name} has {show_bytes(limit_bytes)}")
    # A file has a row for each number of threads, and needs as much with all of them.
    return tuple(dict.fromkeys(problems))


def _predict_files(
    files: Sequence[ModelFile],
    profile: DeviceProfile,
    target: DeviceTarget,
    predictor: Predictor,
    threads: Sequence[int],
) -> list[DeviceRow]:
    if any(count != target.threads for count in threads):
        names = ", ".join(other.name for other in profile.targets)
        raise UsageError(
            f"{profile.name}:{target.name} has {plural(target.threads, 'thread')}: other counts"
            " cannot be predicted",
            f"remove --threads, or name another target: {names}",
        )
    rows = []
    for file in files:
        try:
            rows.append(_predict_file(file, profile, target, predictor))
        except UsageError as error:
            rows.append(make_row(file, target.threads, f"{file.path.name}: {error.message}"))
    return rows


def _is_measured(row: DeviceRow) -> bool:
    return row.latency is not None and row.latency.provenance is Provenance.MEASURED


def _measure_or_predict(
    measure: Callable[[], tuple[list[DeviceRow], tuple[Ratio, ...]]],
    files: Sequence[ModelFile],
    profile: DeviceProfile,
    target: DeviceTarget,
    predictor: Callable[[], Predictor],
) -> tuple[list[DeviceRow], tuple[Ratio, ...]]:
    """Measure; return a prediction, and the reason,
    in place of each row that failed at the target's threads.
    """
    compared: tuple[Ratio, ...] = ()
    try:
        rows, compared = measure()
    except AdvisorError as error:
        reason = f"{error.message.rstrip('.')} ({error.hint})" if error.hint else error.message
        rows = [make_row(file, target.threads, reason) for file in files]
    by_model = {file.model: file for file in files}
    predicted_rows = []
    for row in rows:
        if row.failure and row.threads == target.threads:
            (predicted,) = _predict_files([by_model[row.model]], profile, target, predictor(), ())
            reason = "; ".join(filter(None, (f"not measured: {row.failure}", predicted.reason)))
            predicted_rows.append(replace(predicted, reason=reason))
        else:
            predicted_rows.append(row)
    return predicted_rows, compared


def _predict_file(
    file: ModelFile, profile: DeviceProfile, target: DeviceTarget, predictor: Predictor
) -> DeviceRow:
    """Return a row with the predicted latency,
    if the target runs the file's form and it can be predicted.
    """
    from advisor.devices import ModelFeatures, load_features, read_features
    from advisor.tflite import count_graph_works

    file_features = read_features(file.graph)
    table = load_features()
    reason = target.incompatibility(file_features.form)
    if reason:
        raise UsageError(
            f"{target.name} {reason}", f"advisor devices show {profile.name} lists its targets"
        )
    # A file is usually named after its network.
    # Of several names in it, the longest one is the most exact.
    stem = file.path.stem
    name = max((known for known in table.models if known in stem), key=len, default=stem)
    features = ModelFeatures.of_file(file_features, name, "", table)
    if features is None:
        raise UsageError(
            "it has no image input or no known arithmetic, so its latency cannot be predicted",
            _MEASURED,
        )
    features = replace(features, operators=count_graph_works(file.graph))
    (prediction,) = predictor.predict(
        profile, target, file_features.form, [features], PREDICTION_LEVEL
    )
    outside = ""
    if prediction.outside:
        outside = "larger or smaller than the measured models: the interval is wider"
    return replace(
        make_row(file, target.threads),
        latency=prediction.latency,
        form=file_features.form,
        reason=outside,
    )


def _measure_files(
    files: Sequence[ModelFile],
    target: DeviceTarget,
    connection: Connection,
    threads: Sequence[int],
    effort: str,
    *,
    by_count: bool = False,
) -> tuple[list[DeviceRow], tuple[Ratio, ...]]:
    """Measure all files in one job, so that they take turns;
    if that fails, measure each file alone.

    In a cloud, each number of threads is a job of its own as well: with ``by_count``, one that is
    not done in time does not take those that are done with it.
    """
    counts = tuple(dict.fromkeys(threads)) or (target.threads,)
    limit = 120.0 + len(files) * len(counts) * (60 + 3 * effort_named(effort).min_seconds)
    by_path = {file.path: file for file in files}
    try:
        timings = connection.measure(
            MeasurementJob(tuple(by_path), counts, effort, limit, target.runtime)
        )
        rows = []
        for timing in timings:
            rows.append(make_measured_row(timing, by_path[timing.model], connection.label))
    except StageError as error:
        parts = [(count,) for count in counts] if by_count else [counts]
        if len(files) == len(parts) == 1:
            reason = f"{files[0].path.name}: {error.message}"
            return [make_row(files[0], count, reason) for count in counts], ()
        rows = []
        # One file that does not run ends the whole job. Alone, only its own row fails.
        for file, some_counts in product(files, parts):
            rows_of_part, _ = _measure_files(
                [file], target, connection, some_counts, effort, by_count=by_count
            )
            rows += rows_of_part
        # Runs that took no turns with each other are not compared.
        return rows, ()
    return rows, compare_with_first([(row.model, row.result) for row in rows if row.result])


def make_measured_row(timing: Timing, file: ModelFile, label: str) -> DeviceRow:
    """Return the row of one timing of a file;
    raise StageError if the runs in the timing are not valid.
    """
    result: LatencyResult | None = None
    # The agent gives blocks of runs; other tools give none.
    if "blocks" in timing.details:
        try:
            result = LatencyResult.of_series(
                cast("SeriesDocument", timing.details), timing.details["load"]
            )
        except (LookupError, TypeError, ValueError, statistics.StatisticsError) as error:
            raise StageError(
                f"invalid response from the device: {type(error).__name__} {error}"
            ) from error
    source = f"{label}, {timing.runtime}, {plural(timing.threads, 'thread')}"
    low, high = result.interval_ms if result else (None, None)
    value = result.rank_ms if result else timing.median_ms
    level = LEVEL if result else None
    disturbance = timing.throttled or (result.reason if result else "")
    reasons = filter(None, (disturbance, timing.placement, *timing.remarks))
    return replace(
        make_row(file, timing.threads),
        latency=Quantity(value, "ms", Provenance.MEASURED, low, high, level, timing.runs, source),
        runtime=timing.runtime,
        result=result,
        first_ms=timing.first_ms,
        load_ms=timing.load_ms,
        memory_bytes=timing.memory_bytes,
        page_bytes=timing.details.get("page_bytes"),
        throttled=timing.throttled,
        reason="; ".join(reasons),
    )


def _with_arena(row: DeviceRow, file: ModelFile, interpreter: Interpreter) -> DeviceRow:
    """Return the row with the tensor arena:
    found with the interpreter where it is installed, else computed.
    """
    from advisor.tflite import micro_arena

    row = replace(row, arena_bytes=micro_arena(file.graph).total)
    if row.failure or not interpreter.available():
        return row
    try:
        micro_check = interpreter.check(file.path)
    except StageError as error:
        return replace(row, latency=None, failure=error.message)
    if micro_check.reason:
        return replace(
            row, latency=None, failure=f"{file.path.name}: {micro_check.reason}", micro=micro_check
        )
    return replace(row, arena_bytes=micro_check.arena_bytes, micro=micro_check)


def _arena_notes(
    rows: Sequence[DeviceRow], target: DeviceTarget, interpreter: Interpreter
) -> tuple[str, ...]:
    """Return where the arenas come from, and whether outputs equal LiteRT's."""
    if not interpreter.available():
        return (
            (
                f"{target.name}: {interpreter.NAME} is not installed, arenas are computed;"
                f" {interpreter.INSTALL}"
            ),
        )
    notes = []
    for row in rows:
        if row.micro and not row.failure:
            arena = f"{row.micro.runtime} runs it in an arena of {row.micro.arena_bytes:,} bytes"
            activations = f"({show_bytes(row.micro.activation_bytes)} for activations)"
            notes.append(f"{Path(row.model).name}: {arena} {activations}; {row.micro.agreement}")
    return tuple(notes)
