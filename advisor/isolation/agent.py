"""Time model files and print one JSON document: a program that also runs alone on a remote device.

It is the longest module because a device gets this one file, and nothing else of ``advisor``: it
imports the standard library alone. There it needs Python >= 3.9, numpy and a runtime:
``ai_edge_litert``, else ``tflite_runtime``; for ``.onnx`` files ``onnxruntime``. Read its end
first: :func:`main` calls :func:`measure_series`, which loads and runs each :class:`Series`.

    python agent.py model.tflite --threads 1,2 --effort quick
    python agent.py a.tflite b.tflite --threads 1 --effort normal     # interleaved block by block

Each (file, thread count) is a series. All run the first block, then all the second, so that a slow
drift of the machine affects them equally; the processor rests between blocks. The document has the
wall time of each run and, at one thread, its CPU time; for each block, how long the threads waited
for a processor; for the whole, how many processors others kept busy. Times are in nanoseconds.
Memory is the private memory (``Private_Clean`` + ``Private_Dirty``) that loading and the first run
of the first series added to a fresh process: give one file only to measure it. Native libraries
print to standard error. The exit status is 0 with the measurements, or 3 with ``{"error": {"kind",
"message"}}``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from advisor.isolation import _agent_documents as documents

SCHEMA_VERSION = 1
EXIT_ERROR = 3
MAX_RUNS = 200_000
INPUT_SEED = 20_200

MODELS: dict[str, Any] = {}
"""Classes by suffix that load and run further files:
an agent of another runtime adds its own before it starts.
"""


@dataclass(frozen=True)
class Effort:
    """The duration of one series."""

    name: str  # ``load``, ``survey``, ``search``, ``quick``, ``normal`` or ``full``
    runs: int  # minimum number of timed runs in total, unless ``max_seconds`` passes first
    min_seconds: float  # minimum time
    max_seconds: float  # no new run of a block starts after its share of this time
    blocks: int  # number of blocks
    pause_seconds: float  # pause before each block
    load_content: bool = True  # True to time loading from bytes in memory, too

    def enough(self, runs: int, elapsed: float) -> bool:
        """Return True if a block of ``runs`` runs in ``elapsed`` seconds is long enough."""
        is_complete = runs >= self.runs / self.blocks and elapsed >= self.min_seconds / self.blocks
        return (
            is_complete
            or elapsed >= self.max_seconds / self.blocks
            or runs >= MAX_RUNS / self.blocks
        )


@cache
def map_efforts() -> Mapping[str, Effort]:
    """Return how long a series takes, by the name of the effort."""
    # quick, normal and full are MLPerf Mobile's rapid, quick and normal (mobile_app_open,
    # flutter/assets/tasks.pbtxt). `search` suits dozens of files, `survey` hundreds whose best
    # ones are timed again. `load` shows whether a file runs, its memory and its load time.
    efforts = (
        Effort("load", 1, 0.0, 0.1, 1, 0.0),
        Effort("survey", 32, 0.15, 0.5, 8, 0.005, load_content=False),
        Effort("search", 64, 0.4, 1.2, 8, 0.01, load_content=False),
        Effort("quick", 64, 6.0, 30.0, 8, 0.1),
        Effort("normal", 128, 10.0, 60.0, 10, 0.25),
        Effort("full", 1024, 60.0, 600.0, 20, 1.0),
    )
    return {effort.name: effort for effort in efforts}


class AgentError(Exception):
    """An error for the document's ``error``: a kind and one line."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Series:
    """One file loaded at one thread count, with its inputs set."""

    def __init__(self, path: str, threads: int, kernels: str, shape: list[int] | None) -> None:
        self.path = path
        self.threads = threads
        start = time.perf_counter_ns()
        self.model = model_of(path)(path, threads, kernels, shape)
        self.load_ns = time.perf_counter_ns() - start
        self.invoke = self.model.invoker()
        self.first_ns = self._time_run()[0]
        self.blocks: list[documents.Block] = []

    def _time_run(self) -> tuple[int, int]:
        """Return the wall time and the thread's CPU time of one run;
        the CPU clock is read outside the wall time.
        """
        invoke = self.invoke
        cpu = time.thread_time_ns()
        wall = time.perf_counter_ns()
        invoke()
        wall = time.perf_counter_ns() - wall
        return wall, time.thread_time_ns() - cpu

    def warm_up(self, effort: Effort) -> None:
        """Run until caches, packed weights and clocks are steady:
        at least 2 runs, a tenth of the effort's time.
        """
        limit = time.perf_counter() + min(1.0, max(effort.min_seconds, effort.max_seconds / 4) / 4)
        runs = 0
        while runs < 2 or (runs < 50 and time.perf_counter() < limit):
            self._time_run()
            runs += 1

    def run_block(self, effort: Effort) -> None:
        """Time one block and keep every run;
        the first run after the pause does not count if there are many runs.
        """
        time.sleep(effort.pause_seconds)
        if self.first_ns < effort.max_seconds / effort.blocks * 1e9 / 4:
            self._time_run()
        waited_before = read_waited_ns()
        walls, cpus, elapsed = self._repeat_until(effort.enough)
        waited_after = read_waited_ns()
        block: documents.Block = {
            "wall_ns": walls,
            "cpu_ns": cpus if self.threads == 1 else None,
            "waited_ns": None,
            "elapsed_ns": round(elapsed * 1e9),
        }
        if waited_before is not None and waited_after is not None:
            block["waited_ns"] = waited_after - waited_before
        self.blocks.append(block)

    def _repeat_until(
        self, enough: Callable[[int, float], bool]
    ) -> tuple[list[int], list[int], float]:
        """Run until ``enough(runs, seconds)``;
        return the wall and CPU time of each run, and the seconds in total.
        """
        walls: list[int] = []
        cpus: list[int] = []
        start = time.perf_counter()
        while True:
            wall, cpu = self._time_run()
            walls.append(wall)
            cpus.append(cpu)
            elapsed = time.perf_counter() - start
            if enough(len(walls), elapsed):
                return walls, cpus, elapsed

    def run_windows(self, seconds: float, windows: int) -> list[documents.WindowReading]:
        """Run for ``seconds`` without a pause and return a reading for each
        of ``windows`` equal parts of that time.
        """
        start = time.perf_counter()
        rows: list[documents.WindowReading] = []
        for index in range(windows):
            begin = time.perf_counter()
            # Computed from the start, so that errors do not add up.
            length = start + seconds * (index + 1) / windows - begin
            walls, cpus, _elapsed = self._repeat_until(stop_after(length))
            rows.append(
                {
                    "start_s": begin - start,
                    "runs": len(walls),
                    "wall_ns": statistics.median(walls),
                    "cpu_ns": statistics.median(cpus) if self.threads == 1 else None,
                }
            )
        return rows

    def result(self) -> documents.SeriesDocument:
        """Return the series as a part of the document."""
        return {
            "model": self.path,
            "runtime": "==".join(self.model.runtime),
            "threads": self.threads,
            "load_ns": self.load_ns,
            "first_ns": self.first_ns,
            "blocks": self.blocks,
        }


def stop_after(seconds: float) -> Callable[[int, float], bool]:
    """Return a condition for :meth:`Series._repeat_until`: this many seconds have passed."""
    return lambda _runs, elapsed: elapsed >= seconds


class TfliteModel:
    """A ``.tflite`` file in the interpreter of TensorFlow Lite."""

    #: imports the runtime and returns its package and version; AgentError if it is not installed.
    import_runtime = staticmethod(lambda: import_interpreter()[1:])

    def __init__(
        self,
        path: str,
        threads: int,
        kernels: str,
        shape: list[int] | None,
        content: bytes | None = None,
    ) -> None:
        self.runtime = self.import_runtime()
        self.interpreter = new_interpreter(path, threads, kernels, content)
        resize_input(self.interpreter, shape)
        self.interpreter.allocate_tensors()

    def invoker(self) -> Callable[[], object]:
        """Set the inputs and return the function that runs the file once."""
        set_inputs(self.interpreter)
        return self.interpreter.invoke  # type: ignore[no-any-return]


class OnnxModel:
    """An ``.onnx`` file in ONNX Runtime on the CPU.
    Inputs and outputs stay bound, as an interpreter's do.
    """

    @staticmethod
    def import_runtime() -> tuple[str, str]:
        """See :meth:`TfliteModel.import_runtime`."""
        try:
            import onnxruntime
        except ImportError as error:
            raise AgentError(
                "runtime", f"onnxruntime cannot be imported: {one_line(error)}"
            ) from error
        return "onnxruntime", onnxruntime.__version__

    def __init__(
        self,
        path: str,
        threads: int,
        kernels: str,
        shape: list[int] | None,
        content: bytes | None = None,
    ) -> None:
        self.runtime = self.import_runtime()
        self.shape = shape
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if kernels != "default":
            raise AgentError("load", "ONNX Runtime has no choice of kernels")
        try:
            self.session = onnxruntime.InferenceSession(
                content or path, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its errors have no common class
            raise AgentError(
                "load", f"{' '.join(self.runtime)} cannot load the file: {one_line(error)}"
            ) from error

    def invoker(self) -> Callable[[], object]:
        """Bind the inputs and outputs and return the function that runs the file once."""
        binding = self.session.io_binding()
        for index, value in enumerate(self.session.get_inputs()):
            sizes = self.shape if self.shape and index == 0 else list(value.shape)
            # An open batch is taken as 1, as the interpreter takes it.
            if sizes and not isinstance(sizes[0], int):
                sizes[0] = 1
            if not all(isinstance(size, int) for size in sizes):
                raise AgentError(
                    "shape",
                    f"input '{value.name}' has unknown dimensions {value.shape}: give --shape",
                )
            kind = value.type.partition("(")[2].rstrip(")")  # of "tensor(float)"
            kind = "float32" if kind == "float" else kind
            binding.bind_cpu_input(value.name, input_values(tuple(sizes), kind, value.name))
        for value in self.session.get_outputs():
            binding.bind_output(value.name)
        run = self.session.run_with_iobinding
        return lambda: run(binding)


def model_of(path: str) -> Any:
    """Return the class that loads and runs a file, by its suffix:
    a remote device has no entry points.
    """
    suffix = Path(path).suffix
    return OnnxModel if suffix == ".onnx" else MODELS.get(suffix, TfliteModel)


def import_interpreter() -> tuple[Any, str, str]:
    """Return the interpreter module, its package name and version;
    AgentError if no runtime is installed.
    """
    from importlib import import_module, metadata

    for package, module in (
        ("ai-edge-litert", "ai_edge_litert"),
        ("tflite-runtime", "tflite_runtime"),
    ):
        try:
            interpreter = import_module(module + ".interpreter")
        except ImportError:
            continue
        try:
            return interpreter, package, metadata.version(package)
        except metadata.PackageNotFoundError:
            return interpreter, package, "unknown"
    raise AgentError("runtime", "neither ai-edge-litert nor tflite-runtime can be imported")


def new_interpreter(path: str, threads: int, kernels: str, content: bytes | None = None) -> Any:
    """Return an interpreter of the memory-mapped file, or of ``content``;
    AgentError if it cannot be loaded.
    """
    module, package, version = import_interpreter()
    options: dict[str, Any] = {"num_threads": threads}
    if kernels == "builtin":
        options["experimental_op_resolver_type"] = (
            module.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        )
    options.update({"model_path": path} if content is None else {"model_content": content})
    try:
        return module.Interpreter(**options)
    except (ValueError, RuntimeError, MemoryError) as error:
        raise AgentError(
            "load", f"{package} {version} cannot load the file: {one_line(error)}"
        ) from error


def resize_input(interpreter: Any, shape: list[int] | None) -> None:
    """Set the shape of the first input;
    without ``shape``, refuse unknown dimensions except the batch (taken as 1).
    """
    details = interpreter.get_input_details()
    if shape:
        interpreter.resize_tensor_input(details[0]["index"], shape)
        return
    for detail in details:
        signature = list(map(int, detail.get("shape_signature", detail["shape"])))
        if -1 in signature[1:]:
            raise AgentError(
                "shape",
                f"input '{detail['name']}' has unknown dimensions {signature}: give --shape",
            )


def set_inputs(interpreter: Any) -> None:
    """Fill every input with fixed pseudo-random values in the range of images:
    zeros can be faster than real data.
    """
    for detail in interpreter.get_input_details():
        shape = tuple(map(int, detail["shape"]))
        interpreter.set_tensor(
            detail["index"], input_values(shape, detail["dtype"], detail["name"])
        )


def input_values(shape: tuple[int, ...], dtype: Any, name: str) -> Any:
    """Return fixed pseudo-random values:
    floats in [-1, 1), the full range of 8 and 16 bits, 0 or 1 for indices.
    """
    import numpy

    generator = numpy.random.default_rng(INPUT_SEED)
    kind = numpy.dtype(dtype)
    if kind.kind == "f":
        return generator.uniform(-1.0, 1.0, shape).astype(kind)
    if kind.kind in "iu" and kind.itemsize <= 2:
        span = numpy.iinfo(kind)
        return generator.integers(span.min, span.max + 1, shape).astype(kind)
    if kind.kind in "iub":
        return generator.integers(0, 2, shape).astype(kind)
    raise AgentError("input", f"input '{name}' has type {kind}, which cannot be timed")


def read_waited_ns() -> int | None:
    """Return how long the threads of this process have waited for a processor so far;
    None if unknown.
    """
    try:
        files = list(Path("/proc/self/task").glob("*/schedstat"))
        return sum(int(file.read_text().split()[1]) for file in files) if files else None
    except (OSError, IndexError, ValueError):
        return None


def busy_seconds() -> float | None:
    """Return the busy seconds since boot of the processors that this process may use,
    including other guests.
    """
    busy_ticks = 0
    try:
        rows = map(str.split, filter(None, Path("/proc/stat").read_text().splitlines()))
        counters = {name: texts for name, *texts in rows}
        for number in os.sched_getaffinity(0):
            ticks = list(map(int, counters[f"cpu{number}"][:8]))
            # Without idle time and the wait for input and output.
            busy_ticks += sum(ticks[:3]) + sum(ticks[5:])
    except (AttributeError, OSError, LookupError, ValueError):
        return None
    return busy_ticks / os.sysconf("SC_CLK_TCK")


class Load:
    """Observes the rest of the machine until :meth:`result`."""

    def __init__(self) -> None:
        self.own_before_s = time.process_time()
        self.start = time.perf_counter()
        self.busy_before_s = busy_seconds()

    def result(self) -> documents.LoadReading:
        """Return the number of processors that others kept busy."""
        elapsed = time.perf_counter() - self.start
        busy_s = busy_seconds()
        others_cores = None
        if busy_s is not None and self.busy_before_s is not None:
            others_s = (busy_s - self.busy_before_s) - (time.process_time() - self.own_before_s)
            others_cores = max(0.0, others_s / elapsed)
        return {
            "elapsed_ns": round(elapsed * 1e9),
            "others_cores": others_cores,
            "cores": count_cores(),
            "governor": read_governor(),
        }


def read_governor() -> str:
    """Return the frequency governor of the first processor; empty if the system does not tell."""
    try:
        return (
            Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
            .read_text(encoding="utf-8")
            .strip()
        )
    except (OSError, ValueError):
        return ""


def count_cores() -> int:
    """Return how many processors this process may use.
    This file travels alone, so it cannot import the function.
    """
    return (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )


def private_bytes() -> dict[str, int] | None:
    """Return the private clean and dirty bytes of this process; None if unknown."""
    wanted = {"Private_Clean:": "clean", "Private_Dirty:": "dirty"}
    try:
        rows = [line.split() for line in Path("/proc/self/smaps_rollup").read_text().splitlines()]
    except OSError:
        return None
    return {wanted[row[0]]: int(row[1]) * 1024 for row in rows if row[0] in wanted}


def compare_memory(
    before: dict[str, int] | None, after: dict[str, int] | None
) -> dict[str, int] | None:
    """Return the bytes added between two readings of :func:`private_bytes`,
    and the total of the process.
    """
    if before is None or after is None:
        return None
    added = {name: max(0, after[name] - before[name]) for name in after}
    return {
        "private_bytes": sum(added.values()),
        "dirty_bytes": added["dirty"],
        "process_bytes": sum(after.values()),
    }


def measure_series(
    models: list[str], threads: list[int], effort: Effort, kernels: str, shape: list[int] | None
) -> documents.AgentJson:
    """Load every series, run the blocks interleaved and return the document."""
    all_series, added = load_series(models, threads, kernels, shape)
    package, version = all_series[0].model.runtime
    for series in all_series:
        series.warm_up(effort)
    load = Load()
    for index in range(effort.blocks):
        for series in all_series if index % 2 == 0 else reversed(all_series):
            series.run_block(effort)
    load_of_others = load.result()
    content_ns = None
    if effort.load_content:
        start = time.perf_counter_ns()
        model_of(models[0])(models[0], threads[0], kernels, shape, Path(models[0]).read_bytes())
        content_ns = time.perf_counter_ns() - start
    return {
        "runtime": package,
        "runtime_version": version,
        "kernels": kernels,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "effort": asdict(effort),
        "memory": added,
        "load": load_of_others,
        "load_content_ns": content_ns,
        "series": [series.result() for series in all_series],
    }


def load_series(
    models: list[str], threads: list[int], kernels: str, shape: list[int] | None
) -> tuple[list[Series], dict[str, int] | None]:
    """Load every file at every thread count;
    also return the memory that the first one added to the fresh process.
    """
    import numpy

    # numpy's import and first call do not count as memory of the model.
    numpy.random.default_rng(INPUT_SEED).uniform(size=8)
    # Nor does the import of a runtime, which is no part of the load time either.
    for model in models:
        model_of(model).import_runtime()
    before = private_bytes()
    all_series = [Series(models[0], threads[0], kernels, shape)]
    added = compare_memory(before, private_bytes())
    for model, count in list(product(models, threads))[1:]:
        all_series.append(Series(model, count, kernels, shape))
    return all_series, added


def measure_sustained(
    model: str, threads: int, seconds: float, windows: int, kernels: str, shape: list[int] | None
) -> documents.SustainedDocument:
    """Run one file without a pause and return the document
    with a reading for each part of the time.
    """
    series = Series(model, threads, kernels, shape)
    package, version = series.model.runtime
    load = Load()
    return {
        "runtime": package,
        "runtime_version": version,
        "threads": threads,
        "windows": series.run_windows(seconds, windows),
        "load": load.result(),
    }


def one_line(error: BaseException) -> str:
    """Return an exception's text as one line of at most 300 characters."""
    return " ".join(str(error).split())[:300] or f"no message ({type(error).__name__})"


def parse_numbers(text: str) -> list[int]:
    """Parse ``1,2,4`` into positive integers."""
    values = list(map(int, text.split(",")))
    if min(values) < 1:
        raise argparse.ArgumentTypeError(f"'{text}': every number must be at least 1")
    return values


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description="Time .tflite files and print one JSON document.")
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument(
        "--threads", type=parse_numbers, default=[1], help="thread counts, such as 1,2"
    )
    parser.add_argument("--effort", choices=sorted(map_efforts()), default="quick")
    parser.add_argument(
        "--kernels", choices=("default", "builtin"), default="default", help="builtin: no XNNPACK"
    )
    parser.add_argument(
        "--shape", type=parse_numbers, help="shape of the first input, such as 1,224,224,3"
    )
    parser.add_argument(
        "--sustained", type=float, help="run the first file without a pause for this many seconds"
    )
    parser.add_argument(
        "--windows", type=int, default=30, help="number of parts of that time to report"
    )
    parser.add_argument(
        "--cpus", type=str, help="pin the process to these processors, such as 0,1"
    )
    parser.add_argument(
        "--memory-limit", type=int, help="bytes of private memory that the process may take"
    )
    return parser.parse_args()


def main() -> int:
    """Run the agent and return the exit status: 0, or 3 with an ``error`` in the document."""
    options = parse_arguments()
    if options.cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(map(int, options.cpus.split(","))))
    if options.memory_limit:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (options.memory_limit, options.memory_limit))
    effort = map_efforts()[options.effort]
    loading = (options.kernels, options.shape)
    if options.sustained:
        first = (options.models[0], options.threads[0], options.sustained, options.windows)
        return print_document(lambda: measure_sustained(*first, *loading))
    return print_document(
        lambda: measure_series(options.models, options.threads, effort, *loading)
    )


def print_document(work: Callable[[], Mapping[str, Any]]) -> int:
    """Call ``work``, print its document or its error, and return the exit status."""
    # numpy's idle threads would count as memory.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Native libraries may write to standard output, which is for the document only.
    sys.stdout.flush()
    document_fd = os.dup(1)
    os.dup2(2, 1)
    status = EXIT_ERROR
    try:
        document = dict(work())
        status = 0
    except AgentError as error:
        document = {"error": {"kind": error.kind, "message": str(error)}}
    except Exception as error:  # each runtime has error classes of its own
        document = {"error": {"kind": "run", "message": one_line(error)}}
    document.setdefault("schema_version", SCHEMA_VERSION)
    with os.fdopen(document_fd, "w", encoding="utf-8") as stream:
        json.dump(document, stream)
        stream.write("\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
