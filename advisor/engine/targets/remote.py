"""Measure the latency of an artefact on a device over its connection."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Evaluation, Status
from advisor.core.evaluation_facts import RemoteFacts, TimingFacts
from advisor.core.evaluation_json import facts_from_json
from advisor.core.figures import show_latency
from advisor.core.quantity import Provenance, Quantity
from advisor.engine.pipeline.names import StageName
from advisor.engine.targets.compatibility import TargetDevice

if TYPE_CHECKING:
    from advisor.devices.connections.protocol import Timing

_NORMAL_P90 = 1.2816


def measured_over_connection(predicted: Evaluation, device: TargetDevice, model: Path) -> Evaluation:
    """Return the evaluation with measured latency and memory, or ``failed`` with the reason.

    A prediction never replaces a failed measurement. The reason names the predicted latency, and the search continues.

    Args:
        predicted: the evaluation as predicted for the device.
        device: the device; its profile has a connection.
        model: the ``.tflite`` file.
    """
    from advisor.devices.connections.protocol import Job, exclusive

    assert device.profile.connection is not None, "the profile has a connection"
    try:
        connection = device.profile.connection.connect(device.target.accelerator)
        with exclusive(connection.label):
            (timing,) = connection.measure(Job((model,), (device.target.threads,)))
    except AdvisorError as error:
        return _failed(predicted, error.message)
    if timing.throttled:
        return _failed(predicted, f"{connection.label}: {timing.throttled}; let the device cool down")
    return _measured(predicted, timing, connection.label)


def _failed(predicted: Evaluation, reason: str) -> Evaluation:
    prediction = f"; {show_latency(predicted.latency)}" if predicted.latency else ""
    return replace(predicted, status=Status.FAILED, stage=StageName.TIMING, reason=f"{reason}{prediction}")


def _measured(predicted: Evaluation, timing: Timing, label: str) -> Evaluation:
    source = f"{timing.runtime} on {label}"
    memory = predicted.memory
    if timing.memory_bytes is not None:
        memory = Quantity(float(timing.memory_bytes), "bytes", Provenance.MEASURED, n=1, source=source)
    return replace(
        predicted,
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
    walls = _walls_ms(timing.details)
    if len(walls) > 1:
        return statistics.quantiles(walls, n=10)[-1]
    spread, most = timing.details.get("std_ms", 0.0), timing.details.get("max_ms", timing.median_ms)
    return float(max(timing.median_ms, min(timing.median_ms + _NORMAL_P90 * spread, most)))


def _walls_ms(details: Mapping[str, Any]) -> list[float]:
    """Return the wall time of each run in ms; empty if the tool reports no single runs."""
    return [float(wall) / 1e6 for block in details.get("blocks", ()) for wall in block["wall_ns"]]
