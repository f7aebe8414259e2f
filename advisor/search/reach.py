"""A device of the question that can be reached: its latency measured over its connection."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.chance import KEY
from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Evaluation
from advisor.core.quantity import Provenance, Quantity
from advisor.search.fitting import Place

if TYPE_CHECKING:
    from advisor.devices.connections.protocol import Timing

_ONE_AT_A_TIME: dict[str, threading.Lock] = {}
_GUARD = threading.Lock()


def measured_over_connection(predicted: Evaluation, place: Place, model: Path) -> Evaluation:
    """Return the evaluation with its latency measured on the device; as predicted, with the reason, where that fails.

    Args:
        predicted: the evaluation as predicted for the device.
        place: the device, whose profile says how it is reached.
        model: the ``.tflite`` file.
    """
    from advisor.benchmark import agent
    from advisor.devices.connections.protocol import Job

    assert place.profile.connection is not None, "it can be reached"
    with _lock(place.label):
        try:
            connection = place.profile.connection.connect(Path(agent.__file__), place.target.accelerator)
            (timing,) = connection.measure(Job((model,), (place.target.threads,)))
        except AdvisorError as error:
            return _with(predicted, {"connection_failed": error.message})
    if timing.throttled:
        return _with(predicted, {"connection_failed": f"{connection.label}: {timing.throttled}"})
    return _measured(predicted, timing, connection.label)


def _measured(predicted: Evaluation, timing: Timing, label: str) -> Evaluation:
    walls = _walls_ms(timing.details)
    source = f"{timing.runtime} on {label}"
    p90 = statistics.quantiles(walls, n=10)[-1] if len(walls) > 1 else timing.median_ms
    return replace(
        _with(predicted, {"load_ms": timing.load_ms, "first_ms": timing.first_ms, "reached_over": label}),
        latency=Quantity(timing.median_ms, "ms", Provenance.MEASURED, n=timing.runs, source=source),
        latency_p90=Quantity(p90, "ms", Provenance.MEASURED, n=timing.runs, source=source),
    )


def _with(evaluation: Evaluation, more: Mapping[str, Any]) -> Evaluation:
    """What was measured needs no distribution; what could not be keeps it."""
    kept = {
        k: v for k, v in evaluation.details.items() if "load_ms" not in more or k not in (KEY, "budget_probability")
    }
    return replace(evaluation, details={**kept, **more})


def _walls_ms(details: Mapping[str, Any]) -> list[float]:
    return [float(wall) / 1e6 for block in details.get("blocks", ()) for wall in block["wall_ns"]]


def _lock(label: str) -> threading.Lock:
    with _GUARD:
        return _ONE_AT_A_TIME.setdefault(label, threading.Lock())
