"""Measure a file on one device, and put the figures into its evaluation.

A search and a re-evaluation call it: over a connection (``measure_over_connection``, on the
executor that reaches the device), in a runtime of this machine (``measure_here``), or in the
interpreter of a microcontroller (``check_arena``).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from advisor.core import (
    AdvisorError,
    Evaluation,
    Provenance,
    Quantity,
    StageError,
    Status,
    TimingFacts,
    show_latency,
)
from advisor.engine._pipeline.stage import Stage, StageAborted, StageName
from advisor.engine._pipeline.stages.other_runtimes import RuntimeFigures, memory_of, remote_facts
from advisor.engine._pipeline.walker import Walker
from advisor.engine._targets.compatibility import arena_too_large, explain_rejection
from advisor.engine._targets.device_rows import move_to_device, reject_evaluation
from advisor.engine._targets.target_devices import TargetDevice
from advisor.measurement import MicroCheck

if TYPE_CHECKING:
    from advisor.devices import Timing

Result = TypeVar("Result")

_NORMAL_P90 = 1.2816
"""The 90th percentile of the standard normal distribution."""


class Throttled(StageError):
    """The device slowed down steadily while a file ran."""


def before_measuring(evaluation: Evaluation, device: TargetDevice) -> Evaluation:
    """Return the evaluation for a runtime of this machine before measuring it;
    ``skipped`` if it cannot run there.
    """
    moved = move_to_device(evaluation, device)
    reason = explain_rejection(moved, device)
    return reject_evaluation(moved, reason) if reason else moved


def measure_over_connection(before: Evaluation, device: TargetDevice, model: Path) -> Evaluation:
    """Return the evaluation with latency and memory on a device that is connected, or ``failed``.

    A prediction never replaces a failed measurement. The reason names the predicted latency of the
    evaluation ``before``, and the search continues.
    """
    try:
        label, timing = time_over_connection(device, model)
    except AdvisorError as error:
        return mark_failed(before, error.message)
    return mark_measured(before, timing, label)


def time_over_connection(device: TargetDevice, model: Path) -> tuple[str, Timing]:
    """Return the timing of a file on a device that is connected, with the connection's label.

    Raises:
        Throttled: the device became too hot; its figure would be wrong.
        AdvisorError: the device is away, or the file did not run there.
    """
    from advisor.devices import MeasurementJob, lock_device

    target = device.target
    job = MeasurementJob((model,), (target.threads,), runtime=target.runtime)
    connection = device.connect()
    # A cloud has many devices of a name, and a queue for them: its jobs need not take turns here.
    with nullcontext() if device.in_cloud else lock_device(connection.label):
        (timing,) = connection.measure(job)
    # A hot device is slower than the app will find it, so its figure is not kept (decision 0105).
    if timing.throttled:
        raise Throttled(f"{connection.label}: {timing.throttled}; let the device cool down")
    return connection.label, timing


async def measure_here(
    walker: Walker, before: Evaluation, stage: Stage[RuntimeFigures]
) -> Evaluation:
    """Return the evaluation with the figures of another runtime of this machine,
    or ``failed`` with the reason.
    """
    return await _run_stage(walker, before, stage, lambda figures: figures.apply_to(before))


async def check_arena(
    walker: Walker, predicted: Evaluation, device: TargetDevice, stage: Stage[MicroCheck]
) -> Evaluation:
    """Return the evaluation with the measured arena,
    or ``skipped`` or ``failed`` with the reason.
    """
    return await _run_stage(
        walker, predicted, stage, lambda check: with_arena(predicted, device, check)
    )


async def _run_stage(
    walker: Walker,
    before: Evaluation,
    stage: Stage[Result],
    apply: Callable[[Result], Evaluation],
) -> Evaluation:
    """Return what ``apply`` makes of the result of a stage;
    ``before`` with the reason if it is aborted.
    """
    try:
        return apply(await walker.run(stage))
    except StageAborted as end:
        return replace(before, status=end.status, stage=end.stage, reason=end.reason)


def with_arena(predicted: Evaluation, device: TargetDevice, check: MicroCheck) -> Evaluation:
    """Return the evaluation with the measured arena;
    ``skipped`` if the file does not run, or it is too large.
    """
    reason = check.reason or arena_too_large(check.arena_bytes, device, "tensor arena takes")
    if reason:
        return replace(predicted, status=Status.SKIPPED, stage=StageName.PREDICT, reason=reason)
    return replace(predicted, memory=check.arena)


def mark_failed(before: Evaluation, reason: str) -> Evaluation:
    """Return the evaluation of a file that was not measured,
    with the reason and its predicted latency.
    """
    if before.latency:
        reason = f"{reason}; {show_latency(before.latency)}"
    return replace(before, status=Status.FAILED, stage=StageName.TIMING, reason=reason)


def mark_measured(
    before: Evaluation, timing: Timing, label: str, software: str = ""
) -> Evaluation:
    """Return the evaluation with what was measured over the connection ``label``
    on a device with this software.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    where = f"{timing.runtime} on {label}, measured on {now[:10]}"
    source = "; ".join(filter(None, (where, software, *timing.remarks, timing.placement)))
    return replace(
        before,
        latency=Quantity(
            timing.median_ms, "ms", Provenance.MEASURED, n=timing.runs, source=source
        ),
        latency_p90=Quantity(
            _find_p90(timing), "ms", Provenance.MEASURED, n=timing.runs, source=source
        ),
        memory=memory_of(timing, source) or before.memory,
        timing=TimingFacts(load_ms=timing.load_ms, first_ms=timing.first_ms, measured_at=now),
        remote=replace(remote_facts(timing, label), software=software),
        latency_distribution=None,
        budget_probability=None,
    )


def _find_p90(timing: Timing) -> float:
    """Return the 90th percentile of the runs in ms;
    from mean and deviation if the tool reports no single runs.
    """
    if "p90_ms" in timing.details:
        return float(max(timing.median_ms, timing.details["p90_ms"]))
    blocks = timing.details.get("blocks", ())
    walls = []
    for block in blocks:
        for wall in block["wall_ns"]:
            walls.append(float(wall) / 1e6)
    # Tools of other runtimes report mean and deviation alone.
    if len(walls) > 1:
        return statistics.quantiles(walls, n=10)[-1]
    spread = timing.details.get("std_ms", 0.0)
    most = timing.details.get("max_ms", timing.median_ms)
    # A 90th percentile lies between the median and the slowest run, however skewed the times are.
    return float(max(timing.median_ms, min(timing.median_ms + _NORMAL_P90 * spread, most)))
