"""Run one ``.tflite`` file on the GPU and on the CPU with LiteRT and compare the outputs. Runs as a child process.

A run on the GPU returns before it is done, so the time includes reading the first output. The CPU runs with the same
fixed inputs, so that the outputs can be compared. The library names the GPU only in its log on standard error, which is
therefore written to a file and read.
"""

import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from advisor.isolation.agent import (
    EFFORTS,
    AgentError,
    Effort,
    Load,
    input_values,
    new_interpreter,
    one_line,
    set_inputs,
)

_ADAPTER = re.compile(
    r"Selected adapter: (?P<name>[^,\n]+)[^\n]*?backend=(?P<backend>\w+)[^\n]*?adapterType=(?P<kind>[^\n]+)"
)


class OnGpu:
    """One file compiled for the GPU, with filled inputs.

    Raises:
        AgentError: there is no GPU, or LiteRT cannot compile the file for it.
    """

    def __init__(self, path: str) -> None:
        from ai_edge_litert.compiled_model import CompiledModel
        from ai_edge_litert.hardware_accelerator import HardwareAccelerator

        start = time.perf_counter_ns()
        try:
            self.model = CompiledModel.from_file(path, hardware_accel=HardwareAccelerator.GPU)
        except RuntimeError as error:
            raise AgentError("gpu", f"LiteRT cannot compile the file for a GPU: {one_line(error)}") from error
        self.inputs, self.outputs = self.model.create_input_buffers(0), self.model.create_output_buffers(0)
        self.load_ns = time.perf_counter_ns() - start
        (key, names), *_ = self.model.get_signature_list().items()
        self.shapes = self.model.get_output_tensor_details(key)
        self.names = list(names["outputs"])
        details = self.model.get_input_tensor_details(key)
        for buffer, name in zip(self.inputs, names["inputs"], strict=True):
            buffer.write(input_values(_shape(details[name]), details[name]["dtype"], name))

    def run(self) -> int:
        """Run once, read the first output, and return the wall time in nanoseconds."""
        start = time.perf_counter_ns()
        self.model.run_by_index(0, self.inputs, self.outputs)
        self.read(0)
        return time.perf_counter_ns() - start

    def read(self, position: int) -> Any:
        """Return an output as a flat array."""
        import numpy

        detail = self.shapes[self.names[position]]
        return self.outputs[position].read(math.prod(_shape(detail)), numpy.dtype(detail["dtype"]).type)


def _shape(detail: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape of a tensor; an unknown side is 1."""
    return tuple(max(1, int(side)) for side in detail["shape"])


def opened(path: str, log: IO[bytes]) -> OnGpu:
    """Return the file compiled for the GPU.

    Raises:
        AgentError: the library's log says that there is no GPU, or LiteRT cannot compile the file for it.
    """
    try:
        return OnGpu(path)
    except AgentError as error:
        log.seek(0)
        if b"No adapters found" in log.read():
            raise AgentError("gpu", "LiteRT finds no GPU on this machine") from error
        raise


def blocks(gpu: OnGpu, effort: Effort) -> list[dict[str, object]]:
    """Time runs in blocks, like the agent for the CPU; no clock measures CPU time and waiting of a GPU."""
    rows: list[dict[str, object]] = []
    for _ in range(effort.blocks):
        time.sleep(effort.pause_seconds)
        walls, start, elapsed = list[int](), time.perf_counter(), 0.0
        while not walls or not effort.enough(len(walls), elapsed):
            walls.append(gpu.run())
            elapsed = time.perf_counter() - start
        rows.append({"wall_ns": walls, "cpu_ns": None, "waited_ns": None, "elapsed_ns": round(elapsed * 1e9)})
    return rows


def compare(gpu: OnGpu, path: str) -> dict[str, float | bool]:
    """Return the largest difference between the outputs of GPU and CPU, and whether both give the same answer."""
    import numpy

    cpu = new_interpreter(path, 1, "default")
    cpu.allocate_tensors()
    set_inputs(cpu)
    cpu.invoke()
    positions = output_tensors(cpu, gpu.names)
    largest, spread, alike = 0.0, 0.0, True
    for position, index in enumerate(positions):
        theirs = cpu.get_tensor(index).astype(numpy.float64).ravel()
        ours = gpu.read(position).astype(numpy.float64).ravel()
        largest = max(largest, float(numpy.abs(ours - theirs).max(initial=0.0)))
        spread = max(spread, float(theirs.max(initial=0.0) - theirs.min(initial=0.0)))
        alike = alike and int(ours.argmax()) == int(theirs.argmax())
    return {"largest_difference": largest, "output_range": spread, "same_answer": alike}


def output_tensors(interpreter: Any, names: list[str]) -> list[int]:
    """Return the tensors of a signature's outputs in the order of ``names``; a file may have no signature."""
    details = interpreter.get_output_details()
    named: dict[str, Any] = {}
    if interpreter.get_signature_list():
        named = dict(interpreter.get_signature_runner().get_output_details())
    return [int((named.get(name) or details[position])["index"]) for position, name in enumerate(names)]


@contextmanager
def redirected_errors() -> Iterator[IO[bytes]]:
    """Redirect standard error to a file while the context lasts; the context is the file."""
    sys.stderr.flush()
    standard_error = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield log
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)


def adapter(log: IO[bytes]) -> dict[str, str]:
    """Return name, backend and kind of the GPU from the library's log; empty if it names none."""
    log.seek(0)
    found = _ADAPTER.search(log.read().decode("utf-8", "replace"))
    return {key: text.strip() for key, text in found.groupdict().items()} if found else {}


def collect(path: str, effort: str) -> dict[str, object]:
    """Run the file on the GPU and the CPU; return the GPU, its runs as a series of the agent, and the comparison.

    Raises:
        AgentError: GPU or CPU cannot run it.
    """
    from importlib import metadata

    with redirected_errors() as log:
        gpu = opened(path, log)
        named = adapter(log)
        first = gpu.run()
        agreement = compare(gpu, path)
        load = Load()
        rows = blocks(gpu, EFFORTS[effort])
    return {
        "runtime": f"ai-edge-litert=={metadata.version('ai-edge-litert')}",
        "adapter": named,
        "agreement": {**agreement, "whole": bool(gpu.model.is_fully_accelerated())},
        "load": load.result(),
        "series": {"threads": 0, "load_ns": gpu.load_ns, "first_ns": first, "blocks": rows},
    }
