"""Collect the events of a file's runs: from the profiler if its version is known, else by cutting the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from advisor.measurement.operators.events import Document
from advisor.measurement.operators.runs import REJECT_BELOW, adds_up, coverage, undisturbed
from advisor.measurement.processes.child import Reported, run_json

TESTED_RUNTIME = "ai-edge-litert==2.3."
PROFILER = "advisor.measurement.operators.profiler_process"
CUTTER = "advisor.measurement.operators.cut_process"
BY_CUTS = (
    "timed by cutting the file after each operator, because the profiler of the installed library is not supported: "
    "the times are rough, and where an operator ran is computed, not measured"
)
ATTEMPTS = 3


@dataclass(frozen=True)
class ProfileRequest:
    """What to run.

    Attributes:
        path: the file.
        threads: number of threads.
        runs: profiled runs.
        kernels: ``default`` or ``builtin``.
        shape: shape of the first input, if the file does not state it.
        timeout_s: time limit of one child process.
    """

    path: Path
    threads: int
    runs: int
    kernels: str
    shape: Sequence[int] | None
    timeout_s: float

    def run(self, process: str, kernels: str) -> Document:
        """Run a profiling process and return its document."""
        options = ["--threads", str(self.threads), "--runs", str(self.runs), "--kernels", kernels]
        options += ["--shape", ",".join(map(str, self.shape))] if self.shape else []
        return cast(
            "Document", run_json(process, [str(self.path.absolute()), *options], self.timeout_s, self.path.name)
        )


@dataclass(frozen=True)
class Collected:
    """A document, the kernels that it was made with, and notes about it."""

    document: Document
    kernels: str
    notes: tuple[str, ...]

    @property
    def by_cuts(self) -> bool:
        """Whether the file was cut, without a profiler."""
        return BY_CUTS in self.notes


def collect(question: ProfileRequest, by_cuts: bool) -> Collected:
    """Return the profiler's document, or the document of cuts if ``by_cuts`` is set or there is no profiler.

    Raises:
        StageError: the file cannot be run.
    """
    try:
        if not by_cuts:
            return profiled(question)
    except Reported as error:
        if error.kind != "runtime":
            raise
    return Collected(question.run(CUTTER, question.kernels), question.kernels, (BY_CUTS,))


def profiled(question: ProfileRequest) -> Collected:
    """Return the profiler's first document that adds up; the last attempt uses the builtin kernels.

    Raises:
        Reported: the library's profiler is not supported, or the file cannot be run.
    """
    asked, name = question.kernels, question.path.name
    tried = [asked] * ATTEMPTS + (["builtin"] if asked != "builtin" else [])
    found = 0.0
    for used in tried:
        document = question.run(PROFILER, used)
        if not document["runs"] or not document["runs"][0]["events"]:
            raise _unsupported(f"{name}: the profiler of {document['runtime']} reported no operators")
        good = undisturbed(document["runs"])
        found = coverage(good)
        if adds_up(good):
            return Collected(document, used, _notes(document["runtime"], asked, used, found))
    raise _unsupported(f"{name}: the operators add up to {found:.0%} of the whole in {len(tried)} attempts")


def _unsupported(message: str) -> Reported:
    """Return the error of a profiler whose events are not plausible."""
    error = Reported(message, f"the profiler is tested with {TESTED_RUNTIME}x")
    error.kind = "runtime"
    return error


def _notes(runtime: str, asked: str, used: str, found: float) -> tuple[str, ...]:
    """Return the notes for the reader of a profile."""
    notes = []
    if not runtime.startswith(TESTED_RUNTIME):
        notes.append(f"{runtime} is not the tested runtime ({TESTED_RUNTIME}x), but the operators add up to the whole")
    if used != asked:
        notes.append("XNNPACK's events did not add up to the whole: these are the builtin kernels, which are slower")
    if found < REJECT_BELOW:
        notes.append(f"the operators add up to {found:.0%} only, because the run is short for a clock of microseconds")
    return tuple(notes)
