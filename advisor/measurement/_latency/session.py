"""``advisor benchmark``: everything that is measured of one file or of several, in one run.

:func:`benchmark` checks the options, waits for a quiet machine, times the files in turn, and adds
what was asked for besides. Its result is a JSON document whose keys are :attr:`Benchmark.entries`.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from advisor.core import BenchmarkKeywords, StageError, UsageError, Written, completed, nearest
from advisor.devices import parse_runtime
from advisor.measurement import _host as host
from advisor.measurement._host import Conditions, busy_processes, require_quiet
from advisor.measurement._latency import LatencyResult, ModelTiming, Ratio
from advisor.measurement._latency.interpreter_options import InterpreterOptions
from advisor.measurement._latency.pipeline import Pipeline, time_pipeline
from advisor.measurement._latency.sustained import Sustained, run_sustained
from advisor.measurement._latency.thread_advice import advise_threads
from advisor.measurement._latency.timing import (
    compare_with_first,
    interleave_files,
    measure,
    parse_threads,
    thread_counts,
)
from advisor.measurement._processes import detector_notes, read_model

EFFORTS = ("quick", "normal", "full", "search")


@dataclass(frozen=True)
class FileBenchmark(Written):
    """The results of one file."""

    entries = (
        "model",
        "size_bytes",
        "arena_bytes",
        "failure=failure?",
        "pipeline",
        "timing",
        "loaded",
        "sustained",
        "advice",
    )

    model: str  #: its path as given
    size_bytes: int  #: size of the file
    arena_bytes: int  #: memory that its activations need at once, computed from their lifetimes
    timing: ModelTiming | None = None  #: latency, load time and memory; None if it failed
    failure: str = ""  #: reason of the failure, empty if there is none
    #: latency during a load on the other processors for each thread count; empty if not measured
    loaded: tuple[LatencyResult, ...] = ()
    sustained: Sustained | None = None  #: latency in a run without a pause, None if not measured
    pipeline: Pipeline | None = None  #: times from an image to an answer, None if not measured
    #: the file decodes boxes and drops those that overlap, which its latency includes
    detects: bool = False

    @property
    def advice(self) -> tuple[str, ...]:
        """Advice based on the figures; each sentence contains its evidence."""
        sentences = advise_threads(self.timing, self.loaded) if self.timing else ()
        more = [part.sentence for part in (self.sustained, self.pipeline) if part]
        return (*sentences, *more)


FileTiming = tuple[FileBenchmark, LatencyResult | None]
"""A file at one thread count; None if it could not be measured."""


@dataclass(frozen=True)
class Benchmark(Written):
    """One run of ``advisor benchmark``."""

    entries = (
        "schema_version",
        "files",
        "ratios",
        "effort",
        "kernels",
        "runtime",
        "conditions",
        "host",
        "notes",
    )
    schema_version = 1

    files: tuple[FileBenchmark, ...]  #: one result for each file, in the given order
    #: each further file relative to the first that ran, for each thread count
    ratios: tuple[Ratio, ...]
    effort: str  #: name of the effort
    kernels: str  #: ``default`` (XNNPACK for the operators that it supports) or ``builtin``
    conditions: Conditions  #: the machine before the measurement
    host: host.Host  #: the machine
    notes: tuple[str, ...]  #: notes for the reader

    @property
    def failed(self) -> tuple[FileBenchmark, ...]:
        """The files that could not be measured."""
        return tuple(file for file in self.files if file.timing is None)

    @property
    def runtime(self) -> str:
        """Package and version of the runtime, empty if nothing ran."""
        for file in self.files:
            if file.timing:
                return file.timing.runtime
        return ""

    @property
    def timings(self) -> tuple[FileTiming, ...]:
        """Every file at every thread count."""
        timings = list[FileTiming]()
        for file in self.files:
            # A file that could not be measured has one row, which says so.
            results = file.timing.results if file.timing else (None,)
            timings += [(file, result) for result in results]
        return tuple(timings)

    def select_timings(self, timings: Sequence[FileTiming]) -> "Benchmark":
        """Return the benchmark with some of its timings: files in the order of their first one."""
        by_file: dict[str, list[LatencyResult]] = {}
        for file, result in timings:
            by_file.setdefault(file.model, []).extend([result] if result else [])
        # A file without a timing stays too: the reader wants to see that it failed.
        files_by_model = {file.model: file for file in self.files}
        files = []
        for model, results in by_file.items():
            file = files_by_model[model]
            timing = file.timing and replace(file.timing, results=tuple(results))
            files.append(replace(file, timing=timing))
        return replace(self, files=tuple(files))


Tell = Callable[[str], None]


@dataclass(frozen=True)
class BenchmarkPlan:
    """The checked arguments of :func:`benchmark`; ``setup`` says how to load a file."""

    threads: tuple[int, ...]
    effort: str
    setup: InterpreterOptions
    contended: bool
    sustained_s: float | None
    pipeline: bool
    image: Path | None


def benchmark(
    *models: Path | str, tell: Tell | None = None, **given: Unpack[BenchmarkKeywords]
) -> Benchmark:
    """Measure one ``.tflite`` file, or several in turn;
    :func:`advisor.api.benchmark` explains the arguments.

    Raises:
        UsageError: a file is missing, damaged or cannot be run, an option is not valid, or the
            machine is too busy. Of several files, those that cannot be run have a ``failure`` if
            at least one can be run.
    """
    say = tell or (lambda _text: None)
    options = completed(BenchmarkKeywords, given)
    plan, files = _check_arguments(list(map(str, models)), options, say)
    say("checking that the machine is quiet")
    conditions = require_quiet(plan.threads, options["force"])
    try:
        # Several files take turns in one process;
        # a single one gets a process of its own, where its memory shows.
        if len(files) > 1:
            timed = _time_together(files, plan, say)
        else:
            timed = [_time_alone(files[0], plan, conditions, say)]
        complete = [_complete_file(file, plan, say) for file in timed]
    # This is an error of the user's file, and no failed step of ours.
    except StageError as error:
        raise error.blame_file(Path(files[0].model).name) from error
    return Benchmark(
        files=tuple(complete),
        ratios=compare_with_first(_list_results(complete)),
        effort=plan.effort,
        kernels=plan.setup.kernels,
        conditions=conditions,
        host=host.describe(),
        notes=_list_notes(conditions, plan, complete),
    )


def _check_arguments(
    names: Sequence[str], options: BenchmarkKeywords, say: Tell
) -> tuple[BenchmarkPlan, list[FileBenchmark]]:
    """Return the plan of the options, and the files with their sizes;
    install another runtime if one is named.
    """
    counts = tuple(thread_counts(parse_threads(options["threads"])))
    effort = options["effort"]
    if effort not in EFFORTS:
        raise UsageError(
            f"unknown effort '{effort}'{nearest(effort, EFFORTS)}",
            f"efforts: {', '.join(EFFORTS)}",
        )
    if not names:
        raise UsageError("no model given", "give one or more .tflite files")
    repeated = [name for index, name in enumerate(names) if name in names[:index]]
    if repeated:
        raise UsageError(
            f"'{repeated[0]}' is given twice",
            "to compare a file with itself, copy it under another name",
        )
    files = list(map(_check_file, names))
    cpus = _require_usable(options["cpus"])
    python = None
    if options["runtime"] is not None:
        wanted = parse_runtime(options["runtime"])
        say(f"preparing {wanted}")
        python = wanted.find_python()
    shape = tuple(options["shape"]) if options["shape"] else None
    plan = BenchmarkPlan(
        threads=counts,
        effort=effort,
        setup=InterpreterOptions(options["kernels"], shape, python, cpus),
        contended=options["contended"],
        sustained_s=options["sustained_s"],
        pipeline=options["pipeline"],
        image=Path(options["image"]) if options["image"] else None,
    )
    return plan, files


def _time_alone(
    file: FileBenchmark, plan: BenchmarkPlan, conditions: Conditions, say: Tell
) -> FileBenchmark:
    """Time the only file in a process of its own."""
    say(f"measuring {Path(file.model).name}")
    # On a machine that was busy from the start (--force),
    # a second try would be disturbed as well.
    quiet = not conditions.objections(max(plan.threads))
    timing = measure(file.model, plan.threads, plan.effort, retry=quiet, setup=plan.setup)
    return replace(file, timing=timing)


def _list_results(files: Sequence[FileBenchmark]) -> list[tuple[str, LatencyResult]]:
    """Return the file name and the result of each file at each thread count,
    without files that did not run.
    """
    results = list[tuple[str, LatencyResult]]()
    for file in files:
        if file.timing:
            results += [(file.model, result) for result in file.timing.results]
    return results


def _check_file(model: str) -> FileBenchmark:
    """Return the size of a file and the memory of its activations;
    refuse one that is damaged or too large.
    """
    file = read_model(model)
    file.require_memory()
    return FileBenchmark(model, file.graph.size_bytes, file.arena_bytes, detects=file.detects)


def _require_usable(cpus: Sequence[int] | None) -> tuple[int, ...] | None:
    """Return the processors to pin the threads to, without repeats, if this process may use them;
    None for all.
    """
    if not cpus:
        return None
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    for cpu in cpus:
        if cpu not in usable:
            raise UsageError(
                f"--cpus: processor {cpu} cannot be used",
                f"processors: {', '.join(map(str, usable))}",
            )
    return tuple(dict.fromkeys(cpus))


def _time_together(
    files: Sequence[FileBenchmark], plan: BenchmarkPlan, say: Tell
) -> list[FileBenchmark]:
    """Load each file in a new process, then time all files that run in turn, block by block."""
    loaded = [_load_file(file, plan, say) for file in files]
    good = [file for file in loaded if file.timing]
    if not good:
        raise StageError(loaded[0].failure, "; ".join(file.failure for file in loaded[1:]))
    say(f"measuring {len(good)} files in turn")
    paths = [file.model for file in good]
    results_of_files = iter(interleave_files(paths, plan.threads, plan.effort, setup=plan.setup))
    timed = []
    for file in loaded:
        if not file.timing:
            timed.append(file)
            continue
        alone = file.timing.results[0]
        first, *others = next(results_of_files)
        # In the shared process, the files before it have loaded the runtime and filled the caches.
        first = replace(first, load_ms=alone.load_ms, first_ms=alone.first_ms)
        timing = replace(file.timing, results=(first, *others), effort=plan.effort)
        timed.append(replace(file, timing=timing))
    return timed


def _load_file(file: FileBenchmark, plan: BenchmarkPlan, say: Tell) -> FileBenchmark:
    """Return the file with its memory and load time, or with the reason why it does not run."""
    say(f"loading {Path(file.model).name}")
    try:
        timing = measure(file.model, plan.threads[:1], "load", retry=False, setup=plan.setup)
    except StageError as error:
        return replace(file, failure=error.message)
    return replace(file, timing=timing)


def _complete_file(file: FileBenchmark, plan: BenchmarkPlan, say: Tell) -> FileBenchmark:
    """Return the file with the additional measurements of the plan."""
    if file.timing is None:
        return file
    name = Path(file.model).name
    # The whole way is run in this environment's runtime, and with the shape that the file states.
    if plan.pipeline and plan.setup.python is None and plan.setup.shape is None:
        say(f"{name}: from an image to an answer")
        try:
            steps = time_pipeline(file.model, plan.threads[0], plan.image, plan.setup.kernels)
            file = replace(file, pipeline=steps)
        except StageError:
            # Without an image of the user's,
            # the input of the network may be something else than an image.
            if plan.image is not None:
                raise
    if plan.contended:
        say(f"{name}: during a load on the other processors")
        # A single processor is busy, too.
        with busy_processes(max(1, host.describe().cores - 1)):
            loaded = measure(
                file.model, plan.threads, plan.effort, retry=False, setup=plan.setup
            ).results
        file = replace(file, loaded=loaded)
    if plan.sustained_s:
        say(f"{name}: {plan.sustained_s:.0f} s without a pause")
        sustained = run_sustained(file.model, plan.threads[0], plan.sustained_s, plan.setup)
        file = replace(file, sustained=sustained)
    return file


def _list_notes(
    conditions: Conditions, plan: BenchmarkPlan, files: Sequence[FileBenchmark]
) -> tuple[str, ...]:
    notes = [f"measured although {clause}" for clause in conditions.objections(max(plan.threads))]
    if plan.pipeline and plan.setup.python is not None:
        notes.append(
            "the time from an image to an answer is measured with the installed runtime only"
        )
    timings = [file.timing for file in files if file.timing]
    contended = []
    for timing in timings:
        if any(result.contended for result in timing.results):
            contended.append(timing)
    if contended and not notes:
        notes.append(
            "the machine became busy: CPU time ranks at one thread, the shortest wall time at"
            " several"
        )
    return (*notes, *detector_notes(Path(file.model).name for file in files if file.detects))
