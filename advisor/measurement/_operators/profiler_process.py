"""Time every operator of one ``.tflite`` file and return the raw events. Runs as a child process.

The LiteRT wheel contains ``libLiteRt.so`` with the C interface of the profiler, which its Python
classes do not offer, so this module calls it with ctypes. The structures are those of ``litert/c``
in LiteRT 2.3. A library with another layout returns wrong values or crashes. Therefore this is a
separate process, and its caller checks that the operators add up to the whole.
"""

import ctypes
import importlib.util
import time
from ctypes import byref, c_bool, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from importlib import metadata
from pathlib import Path
from typing import Any

from advisor.isolation import agent
from advisor.measurement._operators.runs import (
    BUILTIN_EVENT,
    ProfiledRun,
    ProfilerEvent,
    resolve_shapes,
)

MAX_RANK = 8  # LITERT_TENSOR_MAX_RANK
CPU = 1  # kLiteRtHwAcceleratorCpu

LOCK_WRITE = 1  # kLiteRtTensorBufferLockModeWrite
# tflite::Profiler::EventType.
INVOKE = 1
DELEGATE_OPERATOR = 4
DELEGATE_PROFILED = 8
# TfLiteType.
ELEMENT_TYPES = {1: "f4", 2: "i4", 3: "u1", 4: "i8", 6: "?", 7: "i2", 9: "i1", 10: "f2", 11: "f8"}
TIME_LIMIT_S = 4.0


class MemoryUsage(ctypes.Structure):
    """tflite::profiling::memory::MemoryUsage."""

    _fields_ = (("footprint_kb", c_size_t), ("allocated", c_size_t), ("in_use", c_size_t))


class ProfiledEventData(ctypes.Structure):
    """ProfiledEventData."""

    _fields_ = (
        ("tag", c_char_p),
        ("type", c_int),
        ("start_us", c_uint64),
        ("elapsed_us", c_uint64),
        ("begin", MemoryUsage),
        ("end", MemoryUsage),
        ("index", c_uint64),
        ("extra", c_uint64),
        ("source", c_int),
    )


class Layout(ctypes.Structure):
    """LiteRtLayout; the rank is the low seven bits of the first word."""

    _fields_ = (
        ("bits", c_uint32),
        ("dimensions", c_int32 * MAX_RANK),
        ("strides", c_uint32 * MAX_RANK),
    )


class TensorType(ctypes.Structure):
    """LiteRtRankedTensorType."""

    _fields_ = (("element", c_int), ("layout", Layout))


class Library:
    """``libLiteRt.so``; every call checks the status."""

    def __init__(self) -> None:
        spec = importlib.util.find_spec("ai_edge_litert")
        folder = Path(spec.origin).parent if spec and spec.origin else Path()
        try:
            self._library = ctypes.CDLL(str(folder / "libLiteRt.so"))
        except OSError as error:
            raise agent.AgentError(
                "runtime", "the installed LiteRT has no C library (libLiteRt.so)"
            ) from error
        self._c = ctypes.CDLL(None)
        self._c.strdup.restype = c_void_p
        self._c.strdup.argtypes = [c_char_p]
        self._c.free.restype = None
        self._c.free.argtypes = [c_void_p]
        self._free = ctypes.CFUNCTYPE(None, c_void_p)(self._c.free)

    def __call__(self, name: str, *arguments: object) -> None:
        """Call ``LiteRt<name>``; raise AgentError if the library lacks it, or if it failed."""
        try:
            function = getattr(self._library, f"LiteRt{name}")
        except AttributeError as error:
            raise agent.AgentError(
                "runtime", f"the installed LiteRT lacks LiteRt{name}"
            ) from error
        status = function(*arguments)
        if status:
            raise agent.AgentError("load", f"LiteRt{name} failed with status {status}")

    def handle(self, name: str, *arguments: object) -> c_void_p:
        """Call ``LiteRt<name>`` with a handle as the last argument, and return the handle."""
        handle = c_void_p()
        self(name, *arguments, byref(handle))
        return handle

    def options(self, threads: int, kernels: str, profiling: bool) -> c_void_p:
        """Return compilation options for the CPU."""
        options = self.handle("CreateOptions")
        self("SetOptionsHardwareAccelerators", options, CPU)
        texts = {b"xnnpack": f"num_threads = {threads}\n"}
        if kernels == "builtin":
            texts[b"xnnpack"] += 'kernel_mode = "builtin"\n'
        if profiling:
            texts[b"runtime_options_string"] = "enable_profiling = true\n"
        for identifier, text in texts.items():
            owned = c_void_p(self._c.strdup(text.encode()))
            self(
                "AddOpaqueOptions",
                options,
                self.handle("CreateOpaqueOptions", identifier, owned, self._free),
            )
        return options


class CompiledModel:
    """One file compiled for the CPU, with filled inputs;
    ``shape`` is that of the first one if the file has none.
    """

    def __init__(
        self,
        library: Library,
        path: str,
        threads: int,
        kernels: str,
        shape: list[int] | None,
        profiling: bool,
    ) -> None:
        self._library = library
        self._shape = shape
        self._environment = library.handle("CreateEnvironment", 0, None)
        self._model = library.handle("CreateModelFromFile", self._environment, path.encode())
        options = library.options(threads, kernels, profiling)
        self._compiled = library.handle(
            "CreateCompiledModel", self._environment, self._model, options
        )
        signature = library.handle("GetModelSignature", self._model, c_size_t(0))
        if shape:
            sides = (c_int * len(shape))(*shape)
            position = (c_size_t(0), c_size_t(0))
            library(
                "CompiledModelResizeInputTensor",
                self._compiled,
                *position,
                sides,
                c_size_t(len(shape)),
            )
        self._inputs = self._make_buffers(signature, "Input")
        self._outputs = self._make_buffers(signature, "Output")
        self._profiler = (
            library.handle("CompiledModelGetProfiler", self._compiled) if profiling else None
        )

    def _make_buffers(self, signature: c_void_p, side: str) -> Any:
        """Return an array of buffers for the inputs or outputs, and fill the inputs."""
        count = c_size_t()
        self._library(f"GetNumSignature{side}s", signature, byref(count))
        buffers = []
        layouts = None
        # The shapes of the outputs follow from the one that the first input got.
        if side == "Output" and self._shape:
            layouts = (Layout * count.value)()
            which = (c_size_t(0), count)
            self._library(
                "GetCompiledModelOutputTensorLayouts",
                self._compiled,
                *which,
                layouts,
                c_bool(True),
            )
        for index in range(count.value):
            tensor = self._library.handle(
                f"GetSignature{side}TensorByIndex", signature, c_size_t(index)
            )
            kind = TensorType()
            self._library("GetRankedTensorType", tensor, byref(kind))
            if side == "Input" and index == 0 and self._shape:
                kind.layout.dimensions[: len(self._shape)] = self._shape
            if layouts is not None:
                kind.layout = layouts[index]
            shape = _fix_shape(kind, f"{side.lower()} {index}")
            position = (self._compiled, c_size_t(0), c_size_t(index))
            needs = self._library.handle(f"GetCompiledModel{side}BufferRequirements", *position)
            create = (
                "CreateManagedTensorBufferFromRequirements",
                self._environment,
                byref(kind),
                needs,
            )
            buffers.append(self._library.handle(*create))
            if side == "Input":
                self._fill(buffers[-1], shape, kind.element, index)
        return (c_void_p * len(buffers))(*buffers)

    def _fill(self, buffer: c_void_p, shape: tuple[int, ...], element: int, index: int) -> None:
        """Write the fixed input values into a buffer."""
        if element not in ELEMENT_TYPES:
            raise agent.AgentError(
                "input", f"input {index} has the element type {element}, which cannot be profiled"
            )
        data = agent.input_values(shape, ELEMENT_TYPES[element], str(index)).tobytes()
        size = c_size_t()
        address = c_void_p()
        self._library("GetTensorBufferSize", buffer, byref(size))
        if size.value < len(data):
            raise agent.AgentError(
                "input", f"input {index} has {size.value} bytes, {len(data)} expected"
            )
        self._library("LockTensorBuffer", buffer, byref(address), LOCK_WRITE)
        ctypes.memmove(address, data, len(data))
        self._library("UnlockTensorBuffer", buffer)

    def run(self) -> float:
        """Run once and return the wall time in microseconds."""
        start = time.perf_counter()
        inputs = self._inputs
        outputs = self._outputs
        sizes = c_size_t(len(inputs)), c_size_t(len(outputs))
        self._library(
            "RunCompiledModel", self._compiled, c_size_t(0), sizes[0], inputs, sizes[1], outputs
        )
        return (time.perf_counter() - start) * 1e6

    def run_with_profiler(self) -> ProfiledRun:
        """Run once with the profiler; return the time of the whole
        and the operators' events in order.
        """
        self._library("ResetProfiler", self._profiler)
        self._library("StartProfiler", self._profiler)
        self.run()
        self._library("StopProfiler", self._profiler)
        count = c_int()
        self._library("GetNumProfilerEvents", self._profiler, byref(count))
        events = (ProfiledEventData * count.value)()
        self._library("GetProfilerEvents", self._profiler, count.value, events)
        whole = []
        for event in events:
            if event.type == INVOKE and event.tag == b"Invoke":
                whole.append(event.elapsed_us)
        kinds = (BUILTIN_EVENT, DELEGATE_OPERATOR, DELEGATE_PROFILED)
        rows = []
        for event in events:
            if event.type in kinds and event.tag:
                tag = event.tag.decode("utf-8", "replace")
                rows.append(ProfilerEvent(tag, event.type, event.index, event.elapsed_us))
        return ProfiledRun(whole[0] if whole else 0, tuple(rows))


def _fix_shape(kind: TensorType, name: str) -> tuple[int, ...]:
    """Set an unknown batch size to 1 and return the shape; refuse other unknown dimensions."""
    rank = kind.layout.bits & 127
    if rank > MAX_RANK:
        raise agent.AgentError(
            "runtime", f"{name} has rank {rank}: the library's structures have another layout"
        )
    for axis in range(rank):
        if kind.layout.dimensions[axis] < 0:
            if axis > 0:
                raise agent.AgentError("shape", f"{name} has unknown dimensions: give --shape")
            kind.layout.dimensions[axis] = 1
    return tuple(kind.layout.dimensions[:rank])


def _explain_error(
    path: str, shape: list[int] | None, error: agent.AgentError
) -> agent.AgentError:
    """Return the error of the runtime's Python classes;
    if they run the file, only the profiler cannot.
    """
    try:
        interpreter = agent.new_interpreter(path, 1, "default")
        agent.resize_input(interpreter, shape)
        interpreter.allocate_tensors()
        agent.set_inputs(interpreter)
        interpreter.invoke()
    except agent.AgentError as reason:
        return reason
    except (ValueError, RuntimeError) as reason:
        return agent.AgentError("run", agent.one_line(reason))
    return agent.AgentError("runtime", str(error))


def collect_profiled(
    path: str,
    threads: int,
    kernels: str,
    shape: list[int] | None,
    runs: int,
) -> dict[str, object]:
    """Run the model in turn with and without the profiler,
    and return what :class:`.Collected` needs, as JSON.
    """
    shapes = resolve_shapes(path, shape) if shape else None
    try:
        plain_us, seen = _run_in_turn(path, threads, kernels, shape, runs)
    except agent.AgentError as error:
        raise _explain_error(path, shape, error) if error.kind == "load" else error from error
    return {
        "runtime": f"ai-edge-litert=={metadata.version('ai-edge-litert')}",
        "plain_us": plain_us,
        "runs": [(run.whole_us, run.events) for run in seen],
        "shapes": shapes,
    }


def _run_in_turn(
    path: str,
    threads: int,
    kernels: str,
    shape: list[int] | None,
    runs: int,
) -> tuple[list[float], list[ProfiledRun]]:
    """Run without and with the profiler in turn ``runs`` times;
    stop at the time limit, but not before 5 times.
    """
    library = Library()
    plain = CompiledModel(library, path, threads, kernels, shape, profiling=False)
    profiled = CompiledModel(library, path, threads, kernels, shape, profiling=True)
    for _ in range(3):
        plain.run()
        profiled.run_with_profiler()
    limit = time.perf_counter() + TIME_LIMIT_S
    plain_us: list[float] = []
    seen: list[ProfiledRun] = []
    while len(seen) < runs and (len(seen) < 5 or time.perf_counter() < limit):
        plain_us.append(plain.run())
        seen.append(profiled.run_with_profiler())
    return plain_us, seen
