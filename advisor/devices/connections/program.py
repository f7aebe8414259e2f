"""Run a local program from an argument list, without a shell and with a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from advisor.core.errors import StageError, UsageError, last_line

ENDS_IN_S = 10.0
"""Seconds that killed processes may take to end."""


class TimedOut(StageError):
    """A program did not end in time."""


@dataclass(frozen=True)
class Finished:
    """The result of a program.

    Attributes:
        status: exit status; negative if a signal ended it.
        stdout: standard output.
        stderr: standard error.
    """

    status: int
    stdout: str
    stderr: str

    @property
    def complaint(self) -> str:
        """The last line of standard error, or of standard output, for an error message."""
        return last_line(self.stderr or self.stdout) or f"exit status {self.status} without a message"

    @property
    def death(self) -> str:
        """The signal that ended the program and what it usually means; empty if none did."""
        if self.status >= 0:
            return ""
        name = signal.Signals(-self.status).name
        causes = {
            "SIGKILL": ", most likely because memory ran out",
            "SIGABRT": ": the runtime failed on the model or ran out of memory",
            "SIGSEGV": ": the runtime crashed on the model",
        }
        return f"{'was killed' if name == 'SIGKILL' else 'died'} ({name}){causes.get(name, '')}"


def run_program(
    argv: Sequence[str],
    *,
    timeout_s: float,
    stdin: Path | None = None,
    environment: Mapping[str, str] | None = None,
    hint: str = "",
) -> Finished:
    """Run ``argv`` and wait until it ends.

    Args:
        argv: the program and its arguments.
        timeout_s: seconds after which the program and its children are killed.
        stdin: file for its standard input; empty by default.
        environment: its environment variables; those of this process by default.
        hint: advice on installing the program, for the error message.

    Raises:
        UsageError: the program is not installed.
        TimedOut: it did not end in time.
    """
    with stdin.open("rb") if stdin else nullcontext(subprocess.DEVNULL) as source:
        try:
            process = subprocess.Popen(
                argv,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env=environment,
            )
        except FileNotFoundError as error:
            raise UsageError(f"the program '{argv[0]}' is not installed", hint) from error
        except OSError as error:
            raise UsageError(f"the program '{argv[0]}' cannot be run: {error.strerror}", hint) from error
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise TimedOut(f"'{argv[0]}' did not end within {timeout_s:g} s") from error
    finally:
        if process.returncode is None:
            _kill(process)
    return Finished(process.returncode, stdout.decode(errors="replace"), stderr.decode(errors="replace"))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the program, every process in its session, and what it started outside, as a browser is."""
    family = _suspended(process.pid)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for each in family:
        with suppress(psutil.Error):
            each.kill()
    process.communicate()
    until = time.monotonic() + ENDS_IN_S
    while any(map(_alive, family)) and time.monotonic() < until:
        time.sleep(0.01)


def _suspended(pid: int) -> list[psutil.Process]:
    """Return a process and all that it started, each suspended before its children are listed: nothing new starts."""
    family: list[psutil.Process] = []
    with suppress(psutil.Error):
        family.append(psutil.Process(pid))
    for each in family:
        with suppress(psutil.Error):
            each.suspend()
            family.extend(each.children())
    return family


def _alive(process: psutil.Process) -> bool:
    """Return whether a process still does anything; an ended one may stay in the table of processes."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
