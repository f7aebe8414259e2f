"""Measure files in several runtimes of this machine, and compare each runtime with the first.

``advisor benchmark --device host:litert,host:onnxruntime`` calls :func:`benchmark_in_runtimes`. A
runtime that cannot run a file has a row with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.core import (
    AdvisorError,
    plural,
)
from advisor.devices import (
    Connection,
    HostConnection,
    MeasurementJob,
    RuntimeFile,
    Timing,
)
from advisor.measurement._latency import Ratio
from advisor.measurement._latency.timing import (
    common_clock,
    compare_with_first,
    effort_named,
)
from advisor.measurement._on_device import DeviceBenchmark, DeviceRow
from advisor.measurement._on_device.benchmark import Tell, make_measured_row, make_row
from advisor.measurement._processes import ModelFile, read_model


@dataclass(frozen=True)
class RuntimeHere:
    """A runtime of this machine: its device, such as ``host:onnxruntime``, its name,
    and what measures with it.
    """

    name: str
    runtime: str
    connection: Connection


def benchmark_in_runtimes(
    models: Sequence[Path | str],
    runtimes: Sequence[RuntimeHere],
    threads: Sequence[int] = (1,),
    effort: str = "quick",
    tell: Tell = lambda _text: None,
) -> DeviceBenchmark:
    """Measure each file in each runtime; each further runtime is compared with the first.

    Runtimes that the agent runs take turns, block by block, in one process, so that a drift of the
    machine affects all equally. Others are measured after them. UsageError if a file is missing or
    damaged, or the effort is unknown.
    """
    limit_s = 120.0 + 3 * len(runtimes) * len(threads) * effort_named(effort).max_seconds
    counts = tuple(dict.fromkeys(threads)) or (1,)
    names = [runtime.name for runtime in runtimes]
    rows: list[DeviceRow] = []
    compared: list[Ratio] = []
    notes: list[str] = []
    for model in dict.fromkeys(map(str, models)):
        file = read_model(model)
        tell(f"{file.path.name} in {', '.join(names)}")
        rows_of_file = _measure_in_runtimes(
            file, runtimes, MeasurementJob((file.path,), counts, effort, limit_s)
        )
        rows += rows_of_file
        results = []
        for row in rows_of_file:
            if row.result:
                results.append((f"{row.model} in {row.device}", row.result))
        compared += compare_with_first(results)
        notes += _explain_not_compared(rows_of_file)
        notes += filter(None, (_describe_agreement(file, runtime) for runtime in runtimes))
    return DeviceBenchmark(
        ",".join(names), "", "this machine", effort, tuple(rows), tuple(compared), (), tuple(notes)
    )


def _explain_not_compared(rows: Sequence[DeviceRow]) -> Iterator[str]:
    """Yield why a runtime is not compared with the first."""
    first = {}
    for row in rows:
        if row.result and row.device == rows[0].device:
            first[row.threads] = row.result
    for row in rows:
        reference = first.get(row.threads)
        if reference and row.result and not common_clock(reference, row.result):
            yield (
                f"{Path(row.model).name} in {row.device}, {plural(row.threads, 'thread')}: no"
                f" ratio to {rows[0].device}, as the machine was busy and only one of the two has"
                " CPU time: measure again"
            )


def _describe_agreement(file: ModelFile, runtime: RuntimeHere) -> str:
    """Return how the export for a runtime agrees with the file;
    empty if the runtime runs the file, or cannot.
    """
    try:
        facts: Mapping[str, float] = RuntimeFile.make_file(runtime.runtime, file.path).facts
    except AdvisorError:
        return ""
    if not facts:
        return ""
    difference = facts["largest_difference"]
    return (
        f"{file.path.name} in {runtime.name}: the same answer on {facts['same_answers']:g} of"
        f" {facts['inputs']:g} inputs, largest difference {100 * difference:.2g} % of the output's"
        " range"
    )


def _measure_in_runtimes(
    file: ModelFile, runtimes: Sequence[RuntimeHere], job: MeasurementJob
) -> list[DeviceRow]:
    """Return a row for each runtime and thread count;
    that of a runtime that cannot run the file has a reason.
    """
    files = dict[str, Path]()
    failures = dict[str, str]()
    for runtime in runtimes:
        try:
            files[runtime.name] = RuntimeFile.make_file(runtime.runtime, file.path).path
        except AdvisorError as error:
            failures[runtime.name] = error.message
    # What the agent on this machine runs can take turns in one process;
    # other runtimes have programs of their own.
    runnable = [runtime for runtime in runtimes if runtime.name in files]
    together = [runtime for runtime in runnable if runtime.connection == HostConnection()]
    timings_by_name: dict[str, tuple[Timing, ...]] = {}
    try:
        paths = tuple(files[runtime.name] for runtime in together)
        timings = HostConnection().measure(replace(job, models=paths))
        for name in [runtime.name for runtime in together]:
            timings_by_name[name] = tuple(
                timing for timing in timings if timing.model == files[name]
            )
    except AdvisorError as error:
        failures |= {runtime.name: error.message for runtime in together}
    for runtime in runnable:
        if runtime not in together:
            try:
                alone = replace(job, runtime=runtime.runtime)
                timings_by_name[runtime.name] = runtime.connection.measure(alone)
            except AdvisorError as error:
                failures[runtime.name] = error.message
    rows = []
    for name in [runtime.name for runtime in runtimes]:
        if name in timings_by_name:
            for timing in timings_by_name[name]:
                rows.append(replace(make_measured_row(timing, file, name), device=name))
        else:
            failure = f"{file.path.name} in {name}: {failures[name]}"
            for count in job.threads:
                rows.append(replace(make_row(file, count, failure), device=name))
    return rows
