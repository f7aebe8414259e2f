"""Collect the events of a file's runs: from the profiler if its version is known, else by cutting the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.measurement.operators.runs import REJECT_BELOW, Event, Run, adds_up, coverage, undisturbed
from advisor.measurement.processes.child import Reported, call_json

TESTED_RUNTIME = "ai-edge-litert==2.3."
PROFILER = "advisor.measurement.operators.profiler_process"
CUTTER = "advisor.measurement.operators.cut_process"
BY_CUTS = (
    "timed by cutting the file after each operator, because the profiler of the installed library is not supported: "
    "the times are rough, and where an operator ran is computed, not measured"
)
ATTEMPTS = 3


TIMEOUT_S = 120.0


@dataclass(frozen=True)
class ProfileRequest:
    """What to run.

    Attributes:
        path: the file.
        threads: number of threads.
        runs: profiled runs.
        kernels: ``default`` or ``builtin``.
        shape: shape of the first input, if the file does not state it.
    """

    path: Path
    threads: int
    runs: int
    kernels: str
    shape: Sequence[int] | None

    def run(self, module: str, kernels: str, **options: int) -> Collected:
        """Run a profiling process and return its events."""
        name, path = self.path.name, str(self.path.absolute())
        shape = list(self.shape) if self.shape else None
        document = call_json(
            module, TIMEOUT_S, name, path=path, threads=self.threads, kernels=kernels, shape=shape, **options
        )
        runs = tuple(
            Run(whole_us, tuple(Event(*event) for event in events)) for whole_us, events in document.pop("runs")
        )
        return Collected(**document, runs=runs, kernels=kernels)


@dataclass(frozen=True)
class Collected:
    """All runs of a file.

    Attributes:
        runtime: package and version.
        plain_us: times of runs without the profiler.
        shapes: shapes of the tensors, None if the file states them.
        runs: the profiled runs.
        kernels: the kernels that ran: ``default`` or ``builtin``.
        notes: notes for the reader.
    """

    runtime: str
    plain_us: Sequence[float]
    shapes: Sequence[Sequence[int]] | None
    runs: tuple[Run, ...]
    kernels: str
    notes: tuple[str, ...] = ()

    @property
    def by_cuts(self) -> bool:
        """Whether the file was cut, without a profiler."""
        return BY_CUTS in self.notes


def collect(request: ProfileRequest, by_cuts: bool) -> Collected:
    """Return the profiler's runs, or the run of cuts if ``by_cuts`` is set or there is no profiler.

    Raises:
        StageError: the file cannot be run.
    """
    try:
        if not by_cuts:
            return profiled(request)
    except Reported as error:
        if error.kind != "runtime":
            raise
    return replace(request.run(CUTTER, request.kernels), notes=(BY_CUTS,))


def profiled(request: ProfileRequest) -> Collected:
    """Return the profiler's first runs that add up; the last attempt uses the builtin kernels.

    Raises:
        Reported: the library's profiler is not supported, or the file cannot be run.
    """
    name = request.path.name
    tried = [request.kernels] * ATTEMPTS + (["builtin"] if request.kernels != "builtin" else [])
    found = 0.0
    for kernels in tried:
        collected = request.run(PROFILER, kernels, runs=request.runs)
        if not collected.runs or not collected.runs[0].events:
            raise _unsupported(f"{name}: the profiler of {collected.runtime} reported no operators")
        good = undisturbed(collected.runs)
        found = coverage(good)
        if adds_up(good):
            return replace(collected, notes=_notes(collected.runtime, request.kernels, kernels, found))
    raise _unsupported(f"{name}: the operators add up to {found:.0%} of the whole in {len(tried)} attempts")


def _unsupported(message: str) -> Reported:
    """Return the error of a profiler whose events are not plausible."""
    return Reported(message, f"the profiler is tested with {TESTED_RUNTIME}x", "runtime")


def _notes(runtime: str, requested: str, used: str, found: float) -> tuple[str, ...]:
    notes = []
    if not runtime.startswith(TESTED_RUNTIME):
        notes.append(f"{runtime} is not the tested runtime ({TESTED_RUNTIME}x), but the operators add up to the whole")
    if used != requested:
        notes.append("XNNPACK's events did not add up to the whole: these are the builtin kernels, which are slower")
    if found < REJECT_BELOW:
        notes.append(f"the operators add up to {found:.0%} only, because the run is short for a clock of microseconds")
    return tuple(notes)
