"""``advisor benchmark --device``: measured over a connection, or predicted from the file where there is none."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.errors import AdvisorError, StageError, UsageError
from advisor.core.quantity import Provenance, Quantity
from advisor.devices.connections.protocol import Connection, Job, Timing
from advisor.devices.profiles.compatibility import MEASURABLE_RUNTIMES, form_incompatibility
from advisor.measurement.accelerators.delegation import delegate
from advisor.measurement.accelerators.loading import serving
from advisor.measurement.latency.results import LatencyResult, Ratio
from advisor.measurement.latency.summary import LEVEL
from advisor.measurement.latency.timing import ratio
from advisor.measurement.latency.trust import judge
from advisor.measurement.on_device.findings import DeviceBenchmark, DeviceRow
from advisor.measurement.processes.child import existing_model

if TYPE_CHECKING:
    from advisor.devices.prediction.predictor import Predictor
    from advisor.devices.profiles import DeviceProfile, DeviceTarget
    from advisor.tflite.model import Model

Tell = Callable[[str], None]
PREDICTION_LEVEL = 0.8
SECONDS = {"quick": 6, "normal": 10, "full": 60, "search": 1, "load": 1}


@dataclass(frozen=True)
class Subject:
    """A file as read, before anything is spent on it."""

    model: str
    path: Path
    graph: Model
    arena_bytes: int


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
    """Measure files on a device over its connection; without one, predict their latencies and say so.

    Args:
        models: one or more files.
        profile: the device.
        target: which of its targets.
        connection: how it is reached, None to predict.
        predictor: gives the predictor, asked only where one is needed.
        threads: thread counts, the target's own where there is none; a prediction is for the target's own.
        effort: name of the effort.
        tell: is told what is being done.

    Raises:
        UsageError: a file is missing or damaged, the target runs no ``.tflite`` files, or not one file can be measured.
    """
    subjects = [_subject(model) for model in dict.fromkeys(map(str, models))]
    if connection is None:
        tell(f"predicting for {profile.name}")
        rows = _predicted(subjects, profile, target, predictor(), threads)
        ratios: tuple[Ratio, ...] = ()
    else:
        if target.runtime not in MEASURABLE_RUNTIMES:
            raise UsageError(
                f"{profile.name}:{target.name} runs {target.runtime}, which no connection measures",
                "name a target of TensorFlow Lite, or leave the connection out for a prediction",
            )
        tell(f"measuring on {connection.label}")
        rows, ratios = _measured(subjects, target, connection, threads, effort)
    delegations = tuple(
        (subject.model, delegate(subject.graph, each.rules))
        for subject in subjects
        for each in serving(target.runtime, target.accelerator)
        if target.accelerator != "cpu"
    )
    notes = _limits(subjects, profile)
    reached = connection.label if connection else ""
    return DeviceBenchmark(profile.name, target.name, reached, effort, tuple(rows), ratios, delegations, notes)


def _subject(model: str) -> Subject:
    from advisor.tflite.arena import activation_arena_bytes
    from advisor.tflite.model import read

    path = existing_model(model)
    graph = read(path)
    return Subject(model, path, graph, activation_arena_bytes(graph))


def _row(subject: Subject, threads: int) -> DeviceRow:
    """Return a row without a latency."""
    return DeviceRow(subject.model, threads, subject.graph.size_bytes, subject.arena_bytes)


def _limits(subjects: Sequence[Subject], profile: DeviceProfile) -> tuple[str, ...]:
    """Say which hard limits of the device a file breaks."""
    from advisor.core.units import show_bytes

    found = []
    for subject in subjects:
        name = subject.path.name
        for label, needed, limit in (
            ("activations", subject.arena_bytes, profile.limits.arena_bytes),
            ("file", subject.graph.size_bytes, profile.limits.flash_bytes),
        ):
            if limit is not None and needed > limit:
                found.append(f"{name}: its {label} need {show_bytes(needed)}, {profile.name} has {show_bytes(limit)}")
    return tuple(found)


def _predicted(
    subjects: Sequence[Subject],
    profile: DeviceProfile,
    target: DeviceTarget,
    predictor: Predictor,
    threads: Sequence[int],
) -> list[DeviceRow]:
    if any(count != target.threads for count in threads):
        raise UsageError(
            f"{profile.name}:{target.name} has {target.threads} threads: other counts cannot be predicted",
            "leave --threads out, or name another target: " + ", ".join(t.name for t in profile.targets),
        )
    rows = []
    for subject in subjects:
        row = _row(subject, target.threads)
        try:
            rows.append(_prediction(row, subject, profile, target, predictor))
        except UsageError as error:
            rows.append(replace(row, failure=f"{subject.path.name}: {error.message}"))
    return rows


def _prediction(
    row: DeviceRow, subject: Subject, profile: DeviceProfile, target: DeviceTarget, predictor: Predictor
) -> DeviceRow:
    """Return the row with its predicted latency.

    Raises:
        UsageError: the target does not take the file's form, or nothing is known to predict from.
    """
    from advisor.devices.latency.features import load_features
    from advisor.devices.latency.from_file import features_of, model_features
    from advisor.devices.profiles.paths import shipped_profiles

    seen, table = features_of(subject.graph), load_features(shipped_profiles())
    reason = form_incompatibility(seen.form, target)
    if reason:
        raise UsageError(f"{target.name} {reason}")
    name = max((known for known in table.models if known in subject.path.stem), key=len, default=subject.path.stem)
    features = model_features(seen, name, "", table)
    if features is None:
        raise UsageError("it has no picture or no arithmetic that is counted: nothing to predict from")
    (found,) = predictor.predict(profile, target, seen.form, [features], PREDICTION_LEVEL)
    outside = "beyond the sizes that were measured: wider" if found.outside else ""
    return replace(row, latency=found.latency, form=seen.form, reason=outside)


def _measured(
    subjects: Sequence[Subject], target: DeviceTarget, connection: Connection, threads: Sequence[int], effort: str
) -> tuple[list[DeviceRow], tuple[Ratio, ...]]:
    """Measure all files in one job, so that they take turns; where that fails, each alone."""
    counts = tuple(dict.fromkeys(threads)) or (target.threads,)
    try:
        return _job(subjects, connection, counts, effort)
    except StageError as error:
        if len(subjects) == 1:
            return [_failed(subjects[0], count, error) for count in counts], ()
    rows = []
    for subject in subjects:
        try:
            rows += _job([subject], connection, counts, effort)[0]
        except StageError as error:
            rows += [_failed(subject, count, error) for count in counts]
    return rows, ()


def _failed(subject: Subject, threads: int, error: AdvisorError) -> DeviceRow:
    return replace(_row(subject, threads), failure=f"{subject.path.name}: {error.message}")


def _job(
    subjects: Sequence[Subject], connection: Connection, counts: tuple[int, ...], effort: str
) -> tuple[list[DeviceRow], tuple[Ratio, ...]]:
    limit = 120.0 + len(subjects) * len(counts) * (60 + 3 * SECONDS[effort])
    by_path = {subject.path: subject for subject in subjects}
    timings = connection.measure(Job(tuple(by_path), counts, effort, timeout_s=limit))
    judged = [(timing, by_path[timing.model], _judged(timing)) for timing in timings]
    rows = [_measured_row(timing, subject, result, connection.label) for timing, subject, result in judged]
    return rows, _ratios([(subject.model, result) for _, subject, result in judged if result])


def _judged(timing: Timing) -> LatencyResult | None:
    """Judge the agent's lane as one of this machine; None for another tool's output."""
    if "blocks" not in timing.details:
        return None
    try:
        return judge(dict(timing.details), dict(timing.details["load"]))
    except (LookupError, TypeError, ValueError, statistics.StatisticsError) as error:
        raise StageError(f"invalid response from the device: {type(error).__name__} {error}") from error


def _measured_row(timing: Timing, subject: Subject, result: LatencyResult | None, label: str) -> DeviceRow:
    source = f"{label}, {timing.runtime}, {timing.threads} thread{'s' if timing.threads > 1 else ''}"
    low, high = result.interval_ms if result else (None, None)
    value = result.rank_ms if result else timing.median_ms
    level = LEVEL if result else None
    return replace(
        _row(subject, timing.threads),
        latency=Quantity(value, "ms", Provenance.MEASURED, low, high, level, timing.runs, source),
        runtime=timing.runtime,
        result=result,
        first_ms=timing.first_ms,
        load_ms=timing.load_ms,
        memory_bytes=timing.memory_bytes,
        throttled=timing.throttled,
        reason=timing.throttled or (result.reason if result else ""),
    )


def _ratios(results: Sequence[tuple[str, LatencyResult]]) -> tuple[Ratio, ...]:
    """Hold each further file against the first at every thread count."""
    if not results:
        return ()
    name = results[0][0]
    first = {result.threads: result for model, result in results if model == name}
    return tuple(
        ratio(name, first[result.threads], model, result)
        for model, result in results
        if model != name and result.threads in first
    )
