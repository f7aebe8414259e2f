"""Run ``.tflite`` files on this machine's GPU and on its CPU with LiteRT, and compare the outputs.

Each file runs in a child process. A run on the GPU returns before it is done, so the time includes
reading the first output. The library names the GPU only in its log on standard error, which is
therefore written to a file and read.
"""

import math
import re
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from advisor.core import Provenance, Quantity, StageError, UsageError
from advisor.isolation import agent, redirect_errors
from advisor.measurement import _host as host
from advisor.measurement._accelerators import Accelerator
from advisor.measurement._delegation import Delegation
from advisor.measurement._latency import LatencyResult
from advisor.measurement._latency.summary import LEVEL
from advisor.measurement._latency.timing import effort_named
from advisor.measurement._on_device import DeviceBenchmark, DeviceRow, OutputAgreement
from advisor.measurement._processes import call_json, read_model

NO_GPU = (
    "LiteRT needs a Vulkan driver for the GPU; --device predicts for a device that has a GPU, and "
    "advisor profile {file} --accelerator gpu computes what a GPU would run"
)
SOFTWARE = "a software renderer, which shows that the outputs are right but not how fast a GPU is"
ALIKE = 0.05
"""Share of the output's range: float16 arithmetic and expanded 8-bit values differ
by at most a few percent.
"""

_ADAPTER = re.compile(
    r"Selected adapter:"
    r" (?P<name>[^,\n]+)[^\n]*?backend=(?P<backend>\w+)[^\n]*?adapterType=(?P<kind>[^\n]+)"
)


def benchmark_on_gpu(
    models: Sequence[Path | str],
    effort: str = "quick",
    tell: Callable[[str], None] = lambda _text: None,
) -> DeviceBenchmark:
    """Run files on this machine's GPU, each in its own process;
    ``tell`` is called with a line for each step.

    A software renderer (SwiftShader, lavapipe) gives no latency; the result only says whether the
    outputs agree. UsageError if a file is missing or damaged, or there is no GPU that LiteRT can
    use.
    """
    rows = []
    delegations = []
    limit_s = 180 + 3 * effort_named(effort).max_seconds
    adapters = dict.fromkeys([""])
    for model in dict.fromkeys(map(str, models)):
        file = read_model(model)
        delegations.append((model, Delegation.of_operators(file.graph, Accelerator.find("gpu"))))
        row = DeviceRow(model, 0, file.graph.size_bytes, file.arena_bytes)
        file.require_memory()
        name = file.path.name
        path = str(file.path.absolute())
        tell(f"{name} on the GPU")
        try:
            document = call_json(f"{__name__}:run_on_gpu", limit_s, name, path=path, effort=effort)
        except StageError as error:
            rows.append(replace(row, failure=error.message))
            continue
        adapters[_name_adapter(document["adapter"])] = None
        rows.append(_fill_row(row, document))
    # One file that fails says something about the file;
    # all of them say that there is no GPU to use.
    if all(row.failure for row in rows):
        raise UsageError(rows[0].failure, NO_GPU.format(file=shlex.quote(rows[0].model)))
    named = ", ".join(name for name in adapters if name)
    notes = (f"{named} is {SOFTWARE}",) if any(row.checked_only for row in rows) else ()
    return DeviceBenchmark(
        host.describe().cpu, "gpu", named, effort, tuple(rows), (), tuple(delegations), notes
    )


def _name_adapter(adapter: dict[str, str]) -> str:
    if adapter:
        return f"{adapter['name']} over {adapter['backend']}"
    return ""


def _fill_row(row: DeviceRow, document: dict[str, Any]) -> DeviceRow:
    """Return the row with the process's figures;
    without a latency if the GPU is a software renderer.
    """
    series = document["series"]
    agreement = document["agreement"]
    adapter = document["adapter"]
    alike = agreement["largest_difference"] <= ALIKE * max(agreement["output_range"], 1e-9)
    row = replace(
        row, runtime=document["runtime"], agreement=OutputAgreement(**agreement, alike=alike)
    )
    # Its time is that of the CPU, so a figure would mislead.
    if "Software" in adapter.get("kind", ""):
        return row
    result = LatencyResult.of_series(series, document["load"])
    measured = Provenance.MEASURED
    runs = result.wall.runs
    latency = Quantity(
        result.rank_ms, "ms", measured, *result.interval_ms, LEVEL, runs, _name_adapter(adapter)
    )
    first_ms = series["first_ns"] / 1e6
    load_ms = series["load_ns"] / 1e6
    return replace(
        row,
        latency=latency,
        result=result,
        first_ms=first_ms,
        load_ms=load_ms,
        reason=result.reason,
    )


def run_on_gpu(path: str, effort: str) -> dict[str, object]:
    """Run the file on the GPU and the CPU;
    return the GPU, its runs as a series of the agent, and the comparison.

    This is the work of the child process.
    """
    from importlib import metadata

    with redirect_errors() as log:
        gpu = _open_on_gpu(path, log)
        adapter = _read_adapter(log)
        first = gpu.run()
        agreement = _compare_outputs(gpu, path)
        load = agent.Load()
        rows = _time_blocks(gpu, agent.map_efforts()[effort])
    return {
        "runtime": f"ai-edge-litert=={metadata.version('ai-edge-litert')}",
        "adapter": adapter,
        "agreement": {**agreement, "whole": bool(gpu.model.is_fully_accelerated())},
        "load": load.result(),
        "series": {"threads": 0, "load_ns": gpu.load_ns, "first_ns": first, "blocks": rows},
    }


class _OnGpu:
    """One file compiled for the GPU, with filled inputs."""

    def __init__(self, path: str) -> None:
        from ai_edge_litert.compiled_model import CompiledModel
        from ai_edge_litert.hardware_accelerator import HardwareAccelerator

        start = time.perf_counter_ns()
        try:
            self.model = CompiledModel.from_file(path, hardware_accel=HardwareAccelerator.GPU)
        except RuntimeError as error:
            raise agent.AgentError(
                "gpu", f"LiteRT cannot compile the file for a GPU: {agent.one_line(error)}"
            ) from error
        self.inputs = self.model.create_input_buffers(0)
        self.outputs = self.model.create_output_buffers(0)
        self.load_ns = time.perf_counter_ns() - start
        (key, names), *_ = self.model.get_signature_list().items()
        self.shapes = self.model.get_output_tensor_details(key)
        self.names = list(names["outputs"])
        details = self.model.get_input_tensor_details(key)
        for buffer, name in zip(self.inputs, names["inputs"], strict=True):
            buffer.write(
                agent.input_values(_shape_of(details[name]), details[name]["dtype"], name)
            )

    def run(self) -> int:
        """Run once, read the first output, and return the wall time in nanoseconds."""
        start = time.perf_counter_ns()
        self.model.run_by_index(0, self.inputs, self.outputs)
        # A run is only queued: reading the output waits for it.
        self.read(0)
        return time.perf_counter_ns() - start

    def read(self, position: int) -> Any:
        """Return an output as a flat array."""
        detail = self.shapes[self.names[position]]
        return self.outputs[position].read(
            math.prod(_shape_of(detail)), np.dtype(detail["dtype"]).type
        )


def _shape_of(detail: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape of a tensor; an unknown side is 1."""
    return tuple(max(1, int(side)) for side in detail["shape"])


def _open_on_gpu(path: str, log: IO[bytes]) -> _OnGpu:
    """Return the file compiled for the GPU; the library's log may say why that is not possible."""
    try:
        return _OnGpu(path)
    except agent.AgentError as error:
        log.seek(0)
        if b"No adapters found" in log.read():
            raise agent.AgentError("gpu", "LiteRT finds no GPU on this machine") from error
        raise


def _time_blocks(gpu: _OnGpu, effort: agent.Effort) -> list[dict[str, object]]:
    """Time runs in blocks, like the agent for the CPU;
    no clock measures CPU time and waiting of a GPU.
    """
    blocks: list[dict[str, object]] = []
    for _ in range(effort.blocks):
        time.sleep(effort.pause_seconds)
        walls = list[int]()
        start = time.perf_counter()
        elapsed = 0.0
        while not walls or not effort.enough(len(walls), elapsed):
            walls.append(gpu.run())
            elapsed = time.perf_counter() - start
        elapsed_ns = round(elapsed * 1e9)
        blocks.append(
            {"wall_ns": walls, "cpu_ns": None, "waited_ns": None, "elapsed_ns": elapsed_ns}
        )
    return blocks


def _compare_outputs(gpu: _OnGpu, path: str) -> dict[str, float | bool]:
    """Return the largest difference between the outputs of GPU and CPU,
    and whether both give the same answer.

    The CPU runs with the same fixed inputs. Outputs are found by the names of a signature;
    a file may have none.
    """
    cpu = agent.new_interpreter(path, 1, "default")
    cpu.allocate_tensors()
    agent.set_inputs(cpu)
    cpu.invoke()
    details = cpu.get_output_details()
    named = {}
    if cpu.get_signature_list():
        named = dict(cpu.get_signature_runner().get_output_details())
    largest = 0.0
    spread = 0.0
    alike = True
    for position, name in enumerate(gpu.names):
        detail = named.get(name) or details[position]
        theirs = cpu.get_tensor(int(detail["index"])).astype(np.float64).ravel()
        ours = gpu.read(position).astype(np.float64).ravel()
        largest = max(largest, float(np.abs(ours - theirs).max(initial=0.0)))
        spread = max(spread, float(theirs.max(initial=0.0) - theirs.min(initial=0.0)))
        alike = alike and int(ours.argmax()) == int(theirs.argmax())
    return {"largest_difference": largest, "output_range": spread, "same_answer": alike}


def _read_adapter(log: IO[bytes]) -> dict[str, str]:
    """Return name, backend and kind of the GPU from the library's log; empty if it names none."""
    log.seek(0)
    adapter_line = _ADAPTER.search(log.read().decode("utf-8", "replace"))
    if adapter_line:
        return {key: text.strip() for key, text in adapter_line.groupdict().items()}
    return {}
