"""``advisor benchmark``: everything that is measured of one file or of several, in one run."""

import contextlib
import os
import re
import sys
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Unpack

from advisor.core.errors import StageError, UsageError, nearest
from advisor.core.options import BenchmarkKeywords, completed
from advisor.measurement import host
from advisor.measurement.latency.end_to_end import Conditions, busy_processes, require_quiet, time_pipeline
from advisor.measurement.latency.findings import Benchmark, FileBenchmark, sustain
from advisor.measurement.latency.results import LatencyResult
from advisor.measurement.latency.timing import Setup, interleave, measure, ratios, thread_counts
from advisor.measurement.processes.model_file import detector_notes, read_model
from advisor.store.cache import cache_root, filled, install

# Packages that a runtime's wheels need but do not all declare.
COMPANIONS = {"ai-edge-litert": ("numpy",), "tflite-runtime": ("numpy<2",)}
# The last tflite-runtime is 2.14.0; its wheels are for CPython 3.8 to 3.11 (file list of the package index).
LAST_PYTHON = {"tflite-runtime": (3, 11)}

_REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9._-]+)\s*==\s*([0-9]+(?:\.[0-9]+)*(?:(?:a|b|rc|\.post|\.dev)[0-9]+)?)\s*$")


@dataclass(frozen=True)
class Runtime:
    """The package and version of a runtime."""

    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.package}=={self.version}"


def parse_runtime(text: str) -> Runtime:
    """Parse ``tflite-runtime==2.14.0``.

    Raises:
        UsageError: it is another package, or the version is not exact.
    """
    matched = _REQUIREMENT.match(text)
    if matched is None:
        raise UsageError(
            f"--runtime '{text}' is not a package with an exact version",
            "write for example --runtime tflite-runtime==2.14.0",
        )
    package = matched[1].lower().replace("_", "-").replace(".", "-")
    if package not in COMPANIONS:
        raise UsageError(
            f"--runtime: unknown runtime '{package}'{nearest(package, COMPANIONS)}",
            f"runtimes: {', '.join(COMPANIONS)}",
        )
    return Runtime(package, matched[2])


def interpreter(runtime: Runtime) -> Path | None:
    """Return the Python of an environment with this runtime, None for this environment; install it if needed.

    Raises:
        UsageError: there is no wheel for this Python, or pip cannot install the runtime.
    """
    with contextlib.suppress(metadata.PackageNotFoundError):
        if metadata.version(runtime.package) == runtime.version:
            return None
    refuse_newer_python(runtime, sys.version_info[:2])
    name = f"{runtime.package}-{runtime.version}-{sys.implementation.cache_tag}"
    return _python(filled(cache_root() / "runtimes" / name, partial(_make, runtime)))


def refuse_newer_python(runtime: Runtime, version: tuple[int, int]) -> None:
    """Refuse a runtime that has no wheel for this version of Python.

    Raises:
        UsageError: there is no wheel.
    """
    last = LAST_PYTHON.get(runtime.package)
    if last and version > last:
        shown, newest = (".".join(map(str, number)) for number in (version, last))
        raise UsageError(
            f"{runtime} has no wheel for Python {shown}; its last wheels are for Python {newest}",
            f"install advisor with Python {newest}, or use a version of ai-edge-litert",
        )


def _make(runtime: Runtime, folder: Path) -> None:
    """Make the environment in an empty folder."""
    venv.create(folder, symlinks=True, with_pip=False)
    _install(runtime, _python(folder))


def _install(runtime: Runtime, python: Path) -> None:
    """Install the runtime's wheels with this environment's pip and the user's pip settings."""
    hint = f"advisor uses your pip settings; list the versions with: pip index versions {runtime.package}"
    install(str(runtime), [str(runtime), *COMPANIONS[runtime.package]], hint, python)


def _python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


Tell = Callable[[str], None]
EFFORTS = ("quick", "normal", "full", "search")


@dataclass(frozen=True)
class BenchmarkPlan:
    """The checked arguments of :func:`benchmark`; ``setup`` says how to load a file."""

    threads: tuple[int, ...]
    effort: str
    setup: Setup
    contended: bool
    sustained_s: float | None
    pipeline: bool
    image: Path | None


def benchmark(*models: Path | str, tell: Tell | None = None, **given: Unpack[BenchmarkKeywords]) -> Benchmark:
    """Measure one ``.tflite`` file, or several in turn; :func:`advisor.api.benchmark` explains the arguments.

    Raises:
        UsageError: a file is missing, damaged or cannot be run, an option is not valid, or the machine is too busy. Of
            several files, those that cannot be run have a ``failure`` if at least one can be run.
    """
    say = tell or (lambda _text: None)
    options = completed(BenchmarkKeywords, given)
    effort, kernels, shape, image = options["effort"], options["kernels"], options["shape"], options["image"]
    if effort not in EFFORTS:
        raise UsageError(f"unknown effort '{effort}'{nearest(effort, EFFORTS)}", f"efforts: {', '.join(EFFORTS)}")
    counts = tuple(thread_counts([int(count) for count in options["threads"]]))
    files = [_checked(model) for model in _distinct(models)]
    python, cpus = _python_of(options["runtime"], say), _usable(options["cpus"])
    setup = Setup(kernels, tuple(shape) if shape else None, python, cpus)
    plan = BenchmarkPlan(
        counts, effort, setup, options["contended"], options["sustained_s"], options["pipeline"],
        Path(image) if image else None,
    )  # fmt: skip
    say("checking that the machine is quiet")
    conditions = require_quiet(counts, options["force"])
    try:
        timed = _together(files, plan, say) if len(files) > 1 else [_alone(files[0], plan, say, conditions)]
        complete = [_completed(file, plan, say) for file in timed]
    except StageError as error:  # the user gave a file that the runtime cannot run
        raise UsageError(error.message, error.hint) from error
    compared = ratios([(file.model, row) for file in complete if file.timing for row in file.timing.results])
    notes = _notes(conditions, plan, complete)
    return Benchmark(tuple(complete), compared, effort, kernels, conditions, host.describe(), notes)


def _distinct(models: Sequence[Path | str]) -> list[str]:
    """Return the paths as text; refuse none, and one that is given twice."""
    names = [str(model) for model in models]
    if not names:
        raise UsageError("no model given", "give one or more .tflite files")
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise UsageError(f"'{twice}' is given twice", "to compare a file with itself, copy it under another name")
    return names


def _checked(model: str) -> FileBenchmark:
    """Return the size of a file and the memory of its activations; refuse one that is damaged or too large."""
    file = read_model(model)
    file.require_memory()
    return FileBenchmark(model, file.graph.size_bytes, file.arena_bytes, detects=file.detects)


def _python_of(runtime: str | None, say: Tell) -> Path | None:
    """Return the Python interpreter of another runtime's environment, None for this environment."""
    if runtime is None:
        return None
    wanted = parse_runtime(runtime)
    say(f"preparing {wanted}")
    return interpreter(wanted)


def _usable(cpus: Sequence[int] | None) -> tuple[int, ...] | None:
    """Return the processors to pin the threads to, without repeats, if this process may use them; None for all."""
    if not cpus:
        return None
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    wrong = next((cpu for cpu in cpus if cpu not in usable), None)
    if wrong is not None:
        raise UsageError(f"--cpus: processor {wrong} cannot be used", f"processors: {', '.join(map(str, usable))}")
    return tuple(dict.fromkeys(cpus))


def _alone(file: FileBenchmark, plan: BenchmarkPlan, say: Tell, conditions: Conditions) -> FileBenchmark:
    say(f"measuring {Path(file.model).name}")
    quiet = not conditions.objections(max(plan.threads))
    return replace(file, timing=measure(file.model, plan.threads, plan.effort, retry=quiet, setup=plan.setup))


def _together(files: Sequence[FileBenchmark], plan: BenchmarkPlan, say: Tell) -> list[FileBenchmark]:
    """Load each file in a new process, then time all files that run in turn, block by block."""
    loaded = [_loaded(file, plan, say) for file in files]
    good = [file for file in loaded if file.timing]
    if not good:
        raise StageError(loaded[0].failure, "; ".join(file.failure for file in loaded[1:]))
    say(f"measuring {len(good)} files in turn")
    rows = interleave([file.model for file in good], plan.threads, plan.effort, setup=plan.setup)
    timed = {file.model: _with_results(file, row, plan.effort) for file, row in zip(good, rows, strict=True)}
    return [timed.get(file.model, file) for file in loaded]


def _loaded(file: FileBenchmark, plan: BenchmarkPlan, say: Tell) -> FileBenchmark:
    """Return the file with its memory and load time, or with the reason why it does not run."""
    say(f"loading {Path(file.model).name}")
    try:
        timing = measure(file.model, plan.threads[:1], "load", retry=False, setup=plan.setup)
    except StageError as error:
        return replace(file, failure=error.message)
    return replace(file, timing=timing)


def _with_results(file: FileBenchmark, rows: Sequence[LatencyResult], effort: str) -> FileBenchmark:
    """Combine the latencies of the common run with the load time of the file's own process."""
    fresh = file.timing
    if fresh is None:
        return file
    first = replace(rows[0], load_ms=fresh.results[0].load_ms, first_ms=fresh.results[0].first_ms)
    timing = replace(fresh, results=(first, *rows[1:]), effort=effort)
    return replace(file, timing=timing)


def _completed(file: FileBenchmark, plan: BenchmarkPlan, say: Tell) -> FileBenchmark:
    """Return the file with the additional measurements of the plan."""
    if file.timing is None:
        return file
    name = Path(file.model).name
    if plan.pipeline and plan.setup.python is None and plan.setup.shape is None:
        say(f"{name}: from an image to an answer")
        file = _with_pipeline(file, plan)
    if plan.contended:
        say(f"{name}: during a load on the other processors")
        with busy_processes(max(1, host.describe().cores - 1)):  # a single processor is busy, too
            loaded = measure(file.model, plan.threads, plan.effort, retry=False, setup=plan.setup).results
        file = replace(file, loaded=loaded)
    if plan.sustained_s:
        say(f"{name}: {plan.sustained_s:.0f} s without a pause")
        file = replace(file, sustained=sustain(file.model, plan.threads[0], plan.sustained_s, plan.setup))
    return file


def _with_pipeline(file: FileBenchmark, plan: BenchmarkPlan) -> FileBenchmark:
    """Add the times from an image to an answer if the input is an image; an error counts only if an image was given."""
    try:
        return replace(file, pipeline=time_pipeline(file.model, plan.threads[0], plan.image, plan.setup.kernels))
    except StageError:
        if plan.image is None:
            return file
        raise


def _notes(conditions: Conditions, plan: BenchmarkPlan, files: Sequence[FileBenchmark]) -> tuple[str, ...]:
    notes = [f"measured although {clause}" for clause in conditions.objections(max(plan.threads))]
    if plan.pipeline and plan.setup.python is not None:
        notes.append("the time from an image to an answer is measured with the installed runtime only")
    contended = [file for file in files if file.timing and any(row.contended for row in file.timing.results)]
    if contended and not notes:
        notes.append("the machine became busy: CPU time ranks at one thread, the shortest wall time at several")
    return (*notes, *detector_notes(Path(file.model).name for file in files if file.detects))
