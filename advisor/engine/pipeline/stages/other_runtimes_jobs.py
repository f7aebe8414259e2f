"""Jobs that run a file on this machine in another runtime than LiteRT."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from advisor.core.codec import to_json
from advisor.core.errors import StageError
from advisor.core.evaluation import facts_from_json
from advisor.core.evaluation_facts import RemoteFacts
from advisor.core.quantity import Provenance, Quantity
from advisor.engine.pipeline.stages.figures import ThreadTiming
from advisor.engine.pipeline.stages.jobs import timing_facts

if TYPE_CHECKING:
    from advisor.devices.connections.protocol import Timing
    from advisor.devices.profiles import DeviceTarget
    from advisor.isolation.agent import SeriesDocument
    from advisor.measurement.latency import LatencyResult

PAUSE_S = 0.25
"""Seconds before a disturbed timing is repeated."""

HANGS_AFTER_S = 240.0
"""Seconds after which a runtime is ended: a series of a search takes seconds, also of the largest card in a browser."""


@dataclass(frozen=True)
class RuntimeFigures(ThreadTiming):
    """Figures of a file that a runtime of this machine measured; the fields are those of an evaluation.

    Attributes:
        remote: how it ran there.
    """

    remote: RemoteFacts | None = None


def measure(device: str, target: DeviceTarget, model: Path, effort: str) -> dict[str, Any]:
    """Measure a file in a runtime of this machine; no other work may run on the machine at the same time.

    The statistics are those of ``host``. As there, a timing that other work disturbed is repeated once, and the less
    disturbed one counts.

    Args:
        device: name of the runtime's device, such as ``host:onnxruntime``.
        target: its target.
        model: the ``.tflite`` file.
        effort: name of the agent's effort.

    Returns:
        :class:`RuntimeFigures` as JSON, with the date.

    Raises:
        UsageError: the runtime is not installed.
        StageError: it does not run the file, it ended, or its timings are invalid.
    """
    from advisor.devices.connections.protocol import MeasurementJob, exclusive
    from advisor.devices.profiles.runtimes import local_runtimes
    from advisor.measurement.latency.timing import disturbance

    connection = local_runtimes()[device].connect(target)
    job = MeasurementJob((model,), (target.threads,), effort, HANGS_AFTER_S, target.runtime)
    with exclusive(connection.label):
        (timing,) = connection.measure(job)
        result = _judged(timing)
        if result.contended:
            time.sleep(PAUSE_S)
            (again,) = connection.measure(job)
            timing, result = min((timing, result), (again, _judged(again)), key=lambda each: disturbance(each[1]))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    source = f"{timing.runtime} on this machine, measured on {now[:10]}"
    quantities = result.to_quantities(source)
    found = RuntimeFigures(
        latency=quantities["latency"],
        latency_p90=quantities["latency_p90"],
        memory=memory_of(timing, source),
        contended=result.contended,
        timing=timing_facts(result, effort, now),
        remote=remote_facts(timing, "this machine"),
    )
    return to_json(found)


def check(runtime: str, model: Path) -> dict[str, Any]:
    """Return what the interpreter of a runtime does with a file, as JSON."""
    from advisor.measurement.microcontrollers import interpreter_of

    interpreter = interpreter_of(runtime)
    assert interpreter is not None, "a stage checks files only for a runtime that has one"
    return to_json(interpreter.check(model))


def memory_of(timing: Timing, source: str) -> Quantity | None:
    """Return the measured memory; None if it was not measured."""
    if timing.memory_bytes is None:
        return None
    return Quantity(float(timing.memory_bytes), "bytes", Provenance.MEASURED, n=1, source=source)


def remote_facts(timing: Timing, label: str) -> RemoteFacts:
    """Return how a file ran over a connection with this label."""
    return facts_from_json(RemoteFacts, {**timing.details, "connection": label})


def _judged(timing: Timing) -> LatencyResult:
    from advisor.measurement.latency.timing import judge

    try:
        return judge(cast("SeriesDocument", timing.details), timing.details["load"])
    except (LookupError, TypeError, ValueError, statistics.StatisticsError) as error:
        raise StageError(f"invalid timings of {timing.runtime}: {type(error).__name__} {error}") from error
