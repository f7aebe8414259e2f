"""Time single operators (kernels) on a device, in short interleaved rounds.

A calibration with ``--kernels`` calls :func:`time_kernels`, and keeps the result in the profile.
Networks are then predicted as the sum of their operators (``_latency/operator_times.py``).

Timed kernels are kept for good, beside the profile. So the files (``_kernel_files.py``), the
effort and the figure that :func:`rounds_us` takes of the rounds must stay: with others, kernels
of one profile could not be compared.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import NamedTuple

from advisor.core import StageError, show_seconds
from advisor.devices._connections.protocol import Connection, MeasurementJob, Timing
from advisor.devices._kernel_files import FILE_KINDS, as_int8, copies_of, kernel_file
from advisor.devices._latency.operator_times import model_operators
from advisor.devices._profiles import DeviceProfile, DeviceTarget
from advisor.devices._profiles.measurements import Kernel
from advisor.isolation import agent
from advisor.tflite import Work

# Effort of the agent (``isolation/agent.py``): eight rounds, which take half a second at most.
EFFORT = "survey"
BATCH = 48  # Files of one job: their rounds take turns

SECONDS = 6.0
"""Seconds that the time limit of a job has for each file. A file usually takes half a second. On
slow boards one run of a large kernel takes as much, and eight rounds run it twice.
"""

START_S = 60.0  # Seconds that the limit of a job has besides: to start the runtime, and to load
# A kernel is left out if its usual round takes this many times as long as its best ones.
UNSTEADY = 3.0
# Files that may fail one after the other before the device itself counts as failed.
MOST_IN_A_ROW = 3
# Share of the kernels that may be left out; with more, the device cannot be trusted.
MOST_LEFT_OUT = 0.25


Tell = Callable[[str], None]
Wanted = Sequence[tuple[Work, str]]  # Operators, each in a form


class TimedKernels(NamedTuple):
    """Kernels that were timed on a device, and why each other one was left out."""

    kernels: tuple[Kernel, ...] = ()
    left_out: tuple[str, ...] = ()


def kernels_to_time(
    profile: DeviceProfile, target: DeviceTarget, forms: Sequence[str], networks: Iterable[str]
) -> Wanted:
    """Return the different operators of networks in every form,
    without those that were timed on the target.

    Their order is mixed, by hash: the first ones show how long the others take, and are of every
    kind and size if the timing is interrupted.
    """
    known = set()
    for kernel in profile.kernels:
        if kernel.target == target.name:
            known.add((kernel.work, kernel.form))
    works = set()
    for name in networks:
        for work, _ in model_operators().get(name, ()):
            if work.kind in FILE_KINDS:
                works.add(work)
    mixed = sorted(works, key=lambda work: sha256(repr(work).encode()).digest())
    return [pair for pair in product(mixed, forms) if pair not in known]


def time_kernels(
    connection: Connection,
    target: DeviceTarget,
    wanted: Wanted,
    folder: Path,
    tell: Tell,
) -> Iterator[TimedKernels]:
    """Time operators, and yield those of each job as they come; the files are made in ``folder``.

    A caller that is interrupted has lost one job at most. StageError if the device failed or
    slowed down, or too few kernels were timed.
    """
    if not wanted:
        return
    effort = agent.map_efforts()[EFFORT]
    least = effort.min_seconds + effort.blocks * effort.pause_seconds
    tell(
        f"timing {len(wanted)} kernels on {connection.label}, in at least"
        f" {show_seconds(least * len(wanted))}"
    )
    start = time.monotonic()
    left_out = 0
    for place in range(0, len(wanted), BATCH):
        part = wanted[place : place + BATCH]
        timed = _time_batch(connection, target, part, folder)
        left_out = left_out + len(timed.left_out)
        passed = place + len(part)
        if left_out > MOST_LEFT_OUT * passed:
            last = timed.left_out[-1]
            raise StageError(
                f"{connection.label}: {left_out} of {passed} kernels could not be timed; the last:"
                f" {last}",
                "close other programs on the device, then try again",
            )
        yield timed
        left_s = (time.monotonic() - start) / passed * (len(wanted) - passed)
        tell(
            f"timed {passed} of {len(wanted)} kernels on {connection.label}, about"
            f" {show_seconds(left_s)} left"
        )


def _time_batch(
    connection: Connection, target: DeviceTarget, part: Wanted, folder: Path
) -> TimedKernels:
    files = {}
    for place, (work, form) in enumerate(part):
        data = kernel_file(work, copies_of(work))
        path = folder / f"kernel{place}.tflite"
        content = as_int8(data) if form == "int8" else data
        path.write_bytes(content)
        files[path] = (work, form)
    timings, failures = _time_files(connection, list(files), target.threads)
    kernels = list[Kernel]()
    left_out = [f"{_describe_work(*files[path])}: {why}" for path, why in failures.items()]
    for timing in timings:
        work, form = files[timing.model]
        microseconds, best = rounds_us(timing)
        reason = timing.contention
        if not reason and microseconds > UNSTEADY * best:
            reason = f"the rounds differ by a factor of {microseconds / best:.1f}"
        if reason:
            left_out.append(f"{_describe_work(work, form)}: {reason}")
        else:
            kernels.append(Kernel(target.name, form, work, microseconds / copies_of(work)))
    return TimedKernels(tuple(kernels), tuple(left_out))


def rounds_us(timing: Timing) -> tuple[float, float]:
    """Return the microseconds of a run in the usual round, the median as for networks,
    and in the second best one.

    A run takes the shorter of its wall time, which contains the work of other programs, and its
    CPU time, which contains the reading of the clocks; of several threads, the agent reports the
    wall time only. On a shared machine, a core is faster while its neighbours rest, and the best
    rounds of a short kernel show that more often than those of a network. A tool that reports no
    rounds gives its median and its shortest run.
    """
    blocks = timing.details.get("blocks")
    if not blocks:
        return timing.median_ms * 1e3, float(timing.details.get("min_ms", timing.median_ms)) * 1e3
    medians = []
    for block in blocks:
        runs_ns = map(min, block["wall_ns"], block["cpu_ns"] or block["wall_ns"])
        medians.append(statistics.median(map(float, runs_ns)) / 1e3)
    medians.sort()
    second_best = medians[min(1, len(medians) - 1)]
    return statistics.median(medians), second_best


def _time_files(
    connection: Connection, paths: Sequence[Path], threads: int
) -> tuple[tuple[Timing, ...], Mapping[Path, str]]:
    """Time files in one job; if it fails, time each alone and return why single files failed."""
    with suppress(StageError):
        return _run_job(connection, paths, threads), {}
    timings = list[Timing]()
    failures = dict[Path, str]()
    for path in paths:
        try:
            timings += _run_job(connection, [path], threads)
        except StageError as error:
            failures[path] = error.message
            # The first files all fail: it is the device and not a file.
            if not timings and len(failures) == MOST_IN_A_ROW:
                raise
    return tuple(timings), failures


def _run_job(connection: Connection, paths: Sequence[Path], threads: int) -> tuple[Timing, ...]:
    timings = connection.measure(
        MeasurementJob(tuple(paths), (threads,), EFFORT, START_S + SECONDS * len(paths))
    )
    hot = [timing for timing in timings if timing.throttled]
    # Files of microseconds are disturbed one by one.
    # Only many hot ones together show a hot device.
    if len(hot) > len(timings) / 3:
        raise StageError(
            f"{connection.label}: {hot[0].throttled}", "let the device cool down, then try again"
        )
    return timings


def _describe_work(work: Work, form: str) -> str:
    sizes = f"{work.pixels} x {work.channels}"
    if work.depth > 1:
        sizes += f" from {work.depth}"
    window = f", {work.taps} taps" if work.taps > 1 else ""
    return f"{work.kind} {sizes}{window}, {form}"
