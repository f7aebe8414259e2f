"""Measure an artefact: over ssh or adb, in another runtime of this machine, or in a microcontroller's interpreter."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Evaluation, Status
from advisor.core.evaluation_facts import TimingFacts
from advisor.core.figures import show_latency
from advisor.core.quantity import Provenance, Quantity
from advisor.engine.pipeline.events import StageAborted
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stage import Stage
from advisor.engine.pipeline.stages.other_runtimes_jobs import RuntimeFigures, memory_of, remote_facts
from advisor.engine.pipeline.walker import Walker
from advisor.engine.targets.target_devices import TargetDevice, arena_too_large
from advisor.measurement.micro.check import MicroCheck

if TYPE_CHECKING:
    from advisor.devices.connections.protocol import Timing

_NORMAL_P90 = 1.2816
"""The 90th percentile of the standard normal distribution."""


def measured_over_connection(before: Evaluation, device: TargetDevice, model: Path) -> Evaluation:
    """Return the evaluation with measured latency and memory, or ``failed`` with the reason.

    A prediction never replaces a failed measurement. The reason names the predicted latency, and the search continues.

    Args:
        before: the evaluation before the measurement, with the prediction.
        device: a device that is connected over ssh or adb.
        model: the ``.tflite`` file.
    """
    from advisor.devices.connections.protocol import MeasurementJob, exclusive

    target = device.target
    job = MeasurementJob((model,), (target.threads,), runtime=target.runtime)
    try:
        connection = device.connect()
        with exclusive(connection.label):
            (timing,) = connection.measure(job)
    except AdvisorError as error:
        return _failed(before, error.message)
    if timing.throttled:
        return _failed(before, f"{connection.label}: {timing.throttled}; let the device cool down")
    return _measured(before, timing, connection.label)


async def measured_here(walker: Walker, before: Evaluation, stage: Stage[RuntimeFigures]) -> Evaluation:
    """Return the evaluation with the figures of another runtime of this machine, or ``failed`` with the reason."""
    try:
        figures = await walker.run(stage)
    except StageAborted as end:
        return replace(before, status=end.status, stage=end.stage, reason=end.reason)
    return replace(before, **vars(figures))


async def checked(walker: Walker, predicted: Evaluation, device: TargetDevice, stage: Stage[MicroCheck]) -> Evaluation:
    """Return the evaluation with the measured arena, or ``skipped`` or ``failed`` with the reason.

    It is skipped if the interpreter does not run the file or the arena is larger than the device's memory for it.
    """
    try:
        found = await walker.run(stage)
    except StageAborted as end:
        return replace(predicted, status=end.status, stage=end.stage, reason=end.reason)
    return with_arena(predicted, device, found)


def with_arena(predicted: Evaluation, device: TargetDevice, found: MicroCheck) -> Evaluation:
    """Return the evaluation with the measured arena, or ``skipped`` with the reason."""
    reason = found.reason or arena_too_large(found.arena_bytes, device, "tensor arena takes")
    if reason:
        return replace(predicted, status=Status.SKIPPED, stage=StageName.PREDICT, reason=reason)
    return replace(predicted, memory=found.arena)


def _failed(before: Evaluation, reason: str) -> Evaluation:
    prediction = f"; {show_latency(before.latency)}" if before.latency else ""
    return replace(before, status=Status.FAILED, stage=StageName.TIMING, reason=f"{reason}{prediction}")


def _measured(before: Evaluation, timing: Timing, label: str) -> Evaluation:
    source = f"{timing.runtime} on {label}"
    return replace(
        before,
        latency=Quantity(timing.median_ms, "ms", Provenance.MEASURED, n=timing.runs, source=source),
        latency_p90=Quantity(_p90(timing), "ms", Provenance.MEASURED, n=timing.runs, source=source),
        memory=memory_of(timing, source) or before.memory,
        timing=TimingFacts(load_ms=timing.load_ms, first_ms=timing.first_ms),
        remote=remote_facts(timing, label),
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
