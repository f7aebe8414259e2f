"""Time files in several runtimes of this machine, and on its GPU."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from advisor.core.errors import AdvisorError, StageError, UsageError
from advisor.core.quantity import Provenance, Quantity
from advisor.devices.connections.agent import HostConnection
from advisor.devices.connections.protocol import Connection, MeasurementJob, Timing, file_for
from advisor.measurement import host
from advisor.measurement.accelerators.delegation import delegate
from advisor.measurement.accelerators.rules import accelerator
from advisor.measurement.latency.results import LEVEL, Ratio
from advisor.measurement.latency.timing import effort_named, judge, ratios
from advisor.measurement.on_device.benchmark import measured_row
from advisor.measurement.on_device.findings import DeviceBenchmark, DeviceRow, OutputAgreement
from advisor.measurement.processes.child import call_json
from advisor.measurement.processes.model_file import ModelFile, read_model


@dataclass(frozen=True)
class RuntimeHere:
    """A runtime of this machine.

    Attributes:
        name: name of its device, such as ``host:onnxruntime``.
        runtime: the runtime, such as ``onnxruntime``.
        connection: what measures files with it.
    """

    name: str
    runtime: str
    connection: Connection


def benchmark_in_runtimes(
    models: Sequence[Path | str],
    runtimes: Sequence[RuntimeHere],
    threads: Sequence[int] = (1,),
    effort: str = "quick",
    tell: Callable[[str], None] = lambda _text: None,
) -> DeviceBenchmark:
    """Measure each file in each runtime.

    Runtimes that the agent runs take turns, block by block, in one process, so that a drift of the machine affects all
    equally. Others are measured after them.

    Args:
        models: one or more ``.tflite`` files.
        runtimes: the runtimes; each further one is compared with the first.
        threads: thread counts.
        effort: name of the effort.
        tell: called with a line for each step.

    Raises:
        UsageError: a file is missing or damaged, or the effort is unknown.
    """
    limit_s = 120.0 + 3 * len(runtimes) * len(threads) * effort_named(effort).max_seconds
    counts = tuple(dict.fromkeys(threads)) or (1,)
    rows: list[DeviceRow] = []
    compared: list[Ratio] = []
    notes: list[str] = []
    for model in dict.fromkeys(map(str, models)):
        file = read_model(model)
        tell(f"{file.path.name} in {', '.join(each.name for each in runtimes)}")
        found = _rows(file, runtimes, MeasurementJob((file.path,), counts, effort, limit_s))
        rows += found
        compared += ratios([(_label(row), row.result) for row in found if row.result])
        notes += filter(None, (_agreement(file, each) for each in runtimes))
    names = ",".join(each.name for each in runtimes)
    return DeviceBenchmark(names, "", "this machine", effort, tuple(rows), tuple(compared), (), tuple(notes))


def _agreement(file: ModelFile, each: RuntimeHere) -> str:
    """Return how the export for a runtime agrees with the file; empty if the runtime runs the file, or cannot."""
    try:
        facts = file_for(each.runtime, file.path).facts
    except AdvisorError:
        return ""
    if not facts:
        return ""
    same, inputs, difference = (facts[key] for key in ("same_answers", "inputs", "largest_difference"))
    return (
        f"{file.path.name} in {each.name}: the same answer on {same:g} of {inputs:g} inputs, largest difference "
        f"{100 * difference:.2g} % of the output's range"
    )


def _label(row: DeviceRow) -> str:
    return f"{row.model} in {row.device}"


def _rows(file: ModelFile, runtimes: Sequence[RuntimeHere], job: MeasurementJob) -> list[DeviceRow]:
    """Return a row for each runtime and thread count; that of a runtime that cannot run the file has a reason."""
    files, failures = dict[str, Path](), dict[str, str]()
    for each in runtimes:
        try:
            files[each.name] = file_for(each.runtime, file.path).path
        except AdvisorError as error:
            failures[each.name] = error.message
    together = [each for each in runtimes if each.name in files and isinstance(each.connection, HostConnection)]
    found: dict[str, tuple[Timing, ...]] = {}
    try:
        timings = HostConnection().measure(replace(job, models=tuple(files[each.name] for each in together)))
        for each in together:
            found[each.name] = tuple(timing for timing in timings if timing.model == files[each.name])
    except AdvisorError as error:
        failures |= {each.name: error.message for each in together}
    for each in runtimes:
        if each.name in files and each not in together:
            try:
                found[each.name] = each.connection.measure(replace(job, runtime=each.runtime))
            except AdvisorError as error:
                failures[each.name] = error.message
    return [row for each in runtimes for row in _of_runtime(file, each.name, found, failures, job.threads)]


def _of_runtime(
    file: ModelFile,
    name: str,
    found: dict[str, tuple[Timing, ...]],
    failures: dict[str, str],
    threads: Sequence[int],
) -> list[DeviceRow]:
    if name in found:
        return [replace(measured_row(timing, file, name), device=name) for timing in found[name]]
    empty = DeviceRow(file.model, 0, file.graph.size_bytes, file.arena_bytes, device=name)
    failure = f"{file.path.name} in {name}: {failures[name]}"
    return [replace(empty, threads=count, failure=failure) for count in threads]


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
