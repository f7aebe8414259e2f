"""Time kernels on a device: files of one operator, in short interleaved rounds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from advisor.core.errors import StageError
from advisor.devices.connections.protocol import Connection, MeasurementJob, Timing
from advisor.devices.kernels.design import copies_of, design
from advisor.devices.kernels.files import as_int8, kernel_file
from advisor.devices.profiles.kernels import Kernel
from advisor.tflite.work import Work

Tell = Callable[[str], None]

EFFORT = "survey"
"""Effort of the agent: eight rounds, in half a second for each file at most."""

BATCH = 48
"""Files of one job: their rounds take turns."""

SECONDS = 6.0
"""Longest time of one file. On slow boards a large kernel takes half a second, and eight rounds run it twice."""

START_S = 60.0
"""Longest time of a job in addition: starting the runtime, and loading."""

UNSTEADY = 3.0
"""A kernel is left out if its usual round takes this many times as long as its best ones."""

MOST_IN_A_ROW = 3
"""Files that may fail one after the other before the device itself counts as failed."""

MOST_LEFT_OUT = 0.25
"""Share of the kernels that may be left out; with more, the device cannot be trusted."""


@dataclass(frozen=True)
class TimedKernels:
    """Kernels that were timed on a device.

    Attributes:
        kernels: the kernels.
        runtime: runtime and version that the device reports.
        left_out: why a kernel was left out, one line for each.
    """

    kernels: tuple[Kernel, ...]
    runtime: str
    left_out: tuple[str, ...]


def time_kernels(
    connection: Connection,
    target: str,
    threads: int,
    forms: Sequence[str],
    folder: Path,
    tell: Tell,
    works: Sequence[Work] = (),
) -> TimedKernels:
    """Time the design's operators in every form.

    Args:
        connection: the connection to the device.
        target: name of the target that the kernels belong to.
        threads: number of threads.
        forms: forms of the files.
        folder: takes the files.
        tell: called with a line for each step.
        works: operators to time instead of the design's.

    Raises:
        UsageError: the connection cannot be made.
        StageError: the device failed, slowed down, or timed too few kernels.
    """
    files = _files(works or design(), forms, folder)
    names, kernels, left_out, runtime = list(files), list[Kernel](), list[str](), ""
    for start in range(0, len(names), BATCH):
        tell(f"timing kernels {start + 1} to {min(start + BATCH, len(names))} of {len(names)} on {connection.label}")
        timings, failures = _timed(connection, names[start : start + BATCH], threads)
        left_out += [f"{_described(*files[path])}: {reason}" for path, reason in failures.items()]
        for timing in timings:
            work, form = files[timing.model]
            microseconds, best = rounds_us(timing)
            if microseconds > UNSTEADY * best:
                ratio = microseconds / best
                left_out.append(f"{_described(work, form)}: the rounds differ by a factor of {ratio:.1f}")
            else:
                kernels.append(Kernel(target, form, work, microseconds / copies_of(work)))
            runtime = timing.runtime
    if len(left_out) > MOST_LEFT_OUT * len(names):
        raise StageError(
            f"{connection.label}: {len(left_out)} of {len(names)} kernels could not be timed; the last: {left_out[-1]}",
            "close other programs on the device, then try again",
        )
    return TimedKernels(tuple(kernels), runtime, tuple(left_out))


def rounds_us(timing: Timing) -> tuple[float, float]:
    """Return the microseconds of one run in the usual round, and in the second best one.

    The usual round is the median, as it is for networks. On a machine that others share, a core is faster while its
    neighbours rest, and the best rounds of a short kernel show that more often than those of a network. A tool that
    reports no rounds gives its median and its shortest run.
    """
    blocks = timing.details.get("blocks")
    if not blocks:
        return timing.median_ms * 1e3, float(timing.details.get("min_ms", timing.median_ms)) * 1e3
    medians = sorted(statistics.median(map(float, block["wall_ns"])) / 1e3 for block in blocks)
    return statistics.median(medians), medians[min(1, len(medians) - 1)]


def _files(works: Sequence[Work], forms: Sequence[str], folder: Path) -> Mapping[Path, tuple[Work, str]]:
    found = {}
    for place, work in enumerate(works):
        plain = kernel_file(work, copies_of(work))
        for form in forms:
            path = folder / f"kernel{place}-{form}.tflite"
            path.write_bytes(as_int8(plain) if form == "int8" else plain)
            found[path] = (work, form)
    return found


def _timed(
    connection: Connection, paths: Sequence[Path], threads: int
) -> tuple[tuple[Timing, ...], Mapping[Path, str]]:
    """Time files in one job; if it fails, time each alone and return why single files failed."""
    with suppress(StageError):
        return _job(connection, paths, threads), {}
    timings, failures = list[Timing](), dict[Path, str]()
    for path in paths:
        try:
            timings += _job(connection, [path], threads)
        except StageError as error:
            failures[path] = error.message
            if not timings and len(failures) == MOST_IN_A_ROW:
                raise
    return tuple(timings), failures


def _job(connection: Connection, paths: Sequence[Path], threads: int) -> tuple[Timing, ...]:
    timings = connection.measure(MeasurementJob(tuple(paths), (threads,), EFFORT, START_S + SECONDS * len(paths)))
    hot = [timing for timing in timings if timing.throttled]
    if len(hot) > len(timings) / 3:
        raise StageError(f"{connection.label}: {hot[0].throttled}", "let the device cool down, then try again")
    return timings


def _described(work: Work, form: str) -> str:
    sizes = f"{work.pixels} x {work.channels}" + (f" from {work.depth}" if work.depth > 1 else "")
    window = f", {work.taps} taps" if work.taps > 1 else ""
    return f"{work.kind} {sizes}{window}, {form}"
