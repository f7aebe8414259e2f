"""Gets the events of a file's runs: from the profiler where it is understood, else by cutting the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.measurement.operators.runs import REJECT_BELOW, adds_up, coverage, undisturbed
from advisor.measurement.processes.child import Reported, run_json

TESTED_RUNTIME = "ai-edge-litert==2.3."
AGENT = "advisor.measurement.operators.profiler_process"
CUT_AGENT = "advisor.measurement.operators.cut_process"
BY_CUTS = (
    "timed by cutting the file after each operator, as the installed library has no profiler that is understood: "
    "differences of times, rough; where an operator ran is computed, not seen"
)
ATTEMPTS = 3


@dataclass(frozen=True)
class Question:
    """What to run.

    Attributes:
        path: the file.
        threads: number of threads.
        runs: profiled runs.
        kernels: ``default`` or ``builtin``.
        shape: of the first input where the file leaves it open.
        timeout_s: limit of one child.
    """

    path: Path
    threads: int
    runs: int
    kernels: str
    shape: Sequence[int] | None
    timeout_s: float

    def ask(self, agent: str, kernels: str) -> dict[str, Any]:
        """Run an agent in a child process and return its document."""
        options = ["--threads", str(self.threads), "--runs", str(self.runs), "--kernels", kernels]
        options += ["--shape", ",".join(map(str, self.shape))] if self.shape else []
        return run_json(agent, [str(self.path.absolute()), *options], self.timeout_s, self.path.name)


@dataclass(frozen=True)
class Collected:
    """An agent's document, the kernels it was made with and what to note."""

    document: dict[str, Any]
    kernels: str
    notes: tuple[str, ...]

    @property
    def by_cuts(self) -> bool:
        """True where no profiler was at work."""
        return BY_CUTS in self.notes


def collect(question: Question, by_cuts: bool) -> Collected:
    """Return the profiler's first document that adds up; that by cuts where there is no profiler or none is wanted.

    Raises:
        StageError: the file cannot be run.
    """
    try:
        if not by_cuts:
            return profiled(question)
    except Reported as error:
        if error.kind != "runtime":
            raise
    return Collected(question.ask(CUT_AGENT, question.kernels), question.kernels, (BY_CUTS,))


def profiled(question: Question) -> Collected:
    """Return the profiler's first document that adds up; the last attempt is with the builtin kernels.

    Raises:
        Reported: the library has no profiler that is understood, or the file cannot be run.
    """
    asked, name = question.kernels, question.path.name
    tried = [asked] * ATTEMPTS + (["builtin"] if asked != "builtin" else [])
    found = 0.0
    for used in tried:
        document = question.ask(AGENT, used)
        if not document["runs"] or not document["runs"][0]["events"]:
            raise _not_understood(f"{name}: the profiler of {document['runtime']} reported no operators")
        good = undisturbed(document["runs"])
        found = coverage(good)
        if adds_up(good):
            return Collected(document, used, _notes(document["runtime"], asked, used, found))
    raise _not_understood(f"{name}: the operators add up to {found:.0%} of the whole in {len(tried)} attempts")


def _not_understood(message: str) -> Reported:
    """Return the error of a profiler whose events cannot be believed."""
    error = Reported(message, f"the profiler is known to work with {TESTED_RUNTIME}x")
    error.kind = "runtime"
    return error


def _notes(runtime: str, asked: str, used: str, found: float) -> tuple[str, ...]:
    """Return what the reader of a profile must know."""
    notes = []
    if not runtime.startswith(TESTED_RUNTIME):
        notes.append(f"{runtime} is not the tested runtime ({TESTED_RUNTIME}x); the operators do add up to the whole")
    if used != asked:
        notes.append("XNNPACK's events did not add up: these are the builtin kernels, slower and differently balanced")
    if found < REJECT_BELOW:
        notes.append(
            f"the operators are {found:.0%} of a run so short that the clock's microseconds show: take it roughly"
        )
    return tuple(notes)
