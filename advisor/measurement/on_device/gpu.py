"""Run ``advisor benchmark --accelerator gpu``: measure on this machine's GPU and compare its outputs with the CPU's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.core.errors import StageError, UsageError
from advisor.core.quantity import Provenance, Quantity
from advisor.measurement import host
from advisor.measurement.accelerators.delegation import delegate
from advisor.measurement.accelerators.rules import accelerator
from advisor.measurement.latency.summary import LEVEL
from advisor.measurement.latency.timing import effort_named
from advisor.measurement.latency.trust import judge
from advisor.measurement.on_device.findings import DeviceBenchmark, DeviceRow, OutputAgreement
from advisor.measurement.processes.child import call_json
from advisor.measurement.processes.model_file import read_model

PROCESS = "advisor.measurement.on_device.gpu_process"
NO_GPU = (
    "LiteRT needs a Vulkan driver for the GPU; --device predicts for a device that has a GPU, and "
    "advisor profile FILE --accelerator gpu computes what a GPU would run"
)
SOFTWARE = "a software renderer, which shows that the outputs are right but not how fast a GPU is"
ALIKE = (
    0.05  # share of the output's range: float16 arithmetic and expanded 8-bit values differ by at most a few percent
)


def benchmark_on_gpu(
    models: Sequence[Path | str], effort: str = "quick", tell: Callable[[str], None] = lambda _text: None
) -> DeviceBenchmark:
    """Run files on this machine's GPU, each in its own process.

    A software renderer (SwiftShader, lavapipe) gives no latency; the result only says whether the outputs agree.

    Args:
        models: one or more files.
        effort: name of the effort.
        tell: called with a line for each step.

    Raises:
        UsageError: a file is missing or damaged, or there is no GPU that LiteRT can use.
    """
    rows, delegations, limit_s = [], [], 180 + 3 * effort_named(effort).max_seconds
    adapters = dict.fromkeys([""])
    for model in dict.fromkeys(map(str, models)):
        file = read_model(model)
        delegations.append((model, delegate(file.graph, accelerator("gpu"))))
        row = DeviceRow(model, 0, file.graph.size_bytes, file.arena_bytes)
        file.require_memory()
        name = file.path.name
        tell(f"{name} on the GPU")
        try:
            document = call_json(PROCESS, limit_s, name, path=str(file.path.absolute()), effort=effort)
        except StageError as error:
            rows.append(replace(row, failure=error.message))
            continue
        adapters[_adapter(document)] = None
        rows.append(_row(row, document))
    if all(row.failure for row in rows):
        raise UsageError(rows[0].failure, NO_GPU)
    named = ", ".join(name for name in adapters if name)
    notes = (f"{named} is {SOFTWARE}",) if any(row.checked_only for row in rows) else ()
    return DeviceBenchmark(host.describe().cpu, "gpu", named, effort, tuple(rows), (), tuple(delegations), notes)


def _adapter(document: dict[str, Any]) -> str:
    found = document["adapter"]
    return f"{found['name']} over {found['backend']}" if found else ""


def _row(row: DeviceRow, document: dict[str, Any]) -> DeviceRow:
    """Return the row with the process's figures; without a latency if the GPU is a software renderer."""
    series, found = document["series"], document["agreement"]
    result = judge(series, document["load"])
    alike = found["largest_difference"] <= ALIKE * max(found["output_range"], 1e-9)
    row = replace(row, runtime=document["runtime"], agreement=OutputAgreement(**found, alike=alike))
    if "Software" in document["adapter"].get("kind", ""):
        return row
    low, high = result.interval_ms
    latency = Quantity(
        result.rank_ms, "ms", Provenance.MEASURED, low, high, LEVEL, result.wall.runs, _adapter(document)
    )
    return replace(
        row,
        latency=latency,
        result=result,
        first_ms=series["first_ns"] / 1e6,
        load_ms=series["load_ns"] / 1e6,
        reason=result.reason,
    )
