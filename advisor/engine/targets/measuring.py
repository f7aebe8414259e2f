"""Measure an artefact on a device that is connected: over ssh or adb, or with another runtime of this machine."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

from advisor.core.errors import AdvisorError, StageError
from advisor.core.evaluation import Evaluation, Status
from advisor.core.evaluation_facts import RemoteFacts, TimingFacts
from advisor.core.evaluation_json import facts_from_json
from advisor.core.figures import show_latency
from advisor.core.quantity import Provenance, Quantity
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stages.jobs import timing_facts
from advisor.engine.targets.target_devices import TargetDevice

if TYPE_CHECKING:
    from advisor.devices.connections.agent import SeriesDocument
    from advisor.devices.connections.protocol import Connection, Job, Timing
    from advisor.measurement.latency.results import LatencyResult

PAUSE_S = 0.25
"""Seconds before a disturbed timing is repeated."""

_NORMAL_P90 = 1.2816
"""The 90th percentile of the standard normal distribution."""


def measured_over_connection(
    before: Evaluation, device: TargetDevice, model: Path, effort: str = "quick"
) -> Evaluation:
    """Return the evaluation with measured latency and memory, or ``failed`` with the reason.

    A prediction never replaces a failed measurement. The reason names the predicted latency, and the search continues.

    Args:
        before: the evaluation before the measurement, with the prediction if there is one.
        device: a connected device.
        model: the ``.tflite`` file.
        effort: name of the agent's effort.
    """
    from advisor.devices.connections.protocol import Job, exclusive

    target = device.target
    job = Job((model,), (target.threads,), effort, runtime=target.runtime)
    try:
        connection = device.connect()
        with exclusive(connection.label):
            (timing,) = connection.measure(job)
            if device.runtime is not None and "blocks" in timing.details:
                return _less_disturbed(before, timing, connection, job)
    except AdvisorError as error:
        return _failed(before, error.message)
    if timing.throttled:
        return _failed(before, f"{connection.label}: {timing.throttled}; let the device cool down")
    return _measured(before, timing, connection.label)


def prepared_for(before: Evaluation, device: TargetDevice, model: Path) -> Evaluation:
    """Do the work before a measurement that needs no quiet machine; return ``failed`` with the reason if it fails."""
    from advisor.devices.connections.twins import file_for

    try:
        file_for(device.target.runtime, model)
    except AdvisorError as error:
        return _failed(before, error.message)
    return before


def _failed(before: Evaluation, reason: str) -> Evaluation:
    prediction = f"; {show_latency(before.latency)}" if before.latency else ""
    return replace(before, status=Status.FAILED, stage=StageName.TIMING, reason=f"{reason}{prediction}")


def _less_disturbed(before: Evaluation, timing: Timing, connection: Connection, job: Job) -> Evaluation:
    """Return the evaluation with figures by the statistics of ``host``: with intervals and a verdict.

    As there, a timing that other work disturbed is repeated once, and the less disturbed one counts.
    """
    from advisor.measurement.latency.trust import disturbance

    result = _judged(timing)
    if result.contended:
        time.sleep(PAUSE_S)
        (again,) = connection.measure(job)
        timing, result = min((timing, result), (again, _judged(again)), key=lambda each: disturbance(each[1]))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    quantities = result.to_quantities(f"{timing.runtime} on this machine")
    return replace(
        _measured(before, timing, "this machine"),
        latency=quantities["latency"],
        latency_p90=quantities["latency_p90"],
        contended=result.contended,
        timing=timing_facts(result, job.effort, now),
    )


def _judged(timing: Timing) -> LatencyResult:
    from advisor.measurement.latency.trust import judge

    try:
        return judge(cast("SeriesDocument", timing.details), timing.details["load"])
    except (LookupError, TypeError, ValueError, statistics.StatisticsError) as error:
        raise StageError(f"invalid timings: {type(error).__name__} {error}") from error


def _measured(before: Evaluation, timing: Timing, label: str) -> Evaluation:
    source = f"{timing.runtime} on {label}"
    memory = before.memory
    if timing.memory_bytes is not None:
        memory = Quantity(float(timing.memory_bytes), "bytes", Provenance.MEASURED, n=1, source=source)
    return replace(
        before,
        latency=Quantity(timing.median_ms, "ms", Provenance.MEASURED, n=timing.runs, source=source),
        latency_p90=Quantity(_p90(timing), "ms", Provenance.MEASURED, n=timing.runs, source=source),
        memory=memory,
        timing=TimingFacts(load_ms=timing.load_ms, first_ms=timing.first_ms),
        remote=facts_from_json(RemoteFacts, {**timing.details, "reached_over": label}),
        latency_distribution=None,
        budget_probability=None,
    )


def _p90(timing: Timing) -> float:
    """Return the 90th percentile of the runs in ms; from mean and deviation if the tool reports no single runs."""
    blocks = timing.details.get("blocks", ())
    walls = [float(wall) / 1e6 for block in blocks for wall in block["wall_ns"]]
    if len(walls) > 1:
        return statistics.quantiles(walls, n=10)[-1]
    spread, most = timing.details.get("std_ms", 0.0), timing.details.get("max_ms", timing.median_ms)
    return float(max(timing.median_ms, min(timing.median_ms + _NORMAL_P90 * spread, most)))
