"""Start, watch and end a child process:
an argument list, no shell, a session of its own, and a time limit.

This is the only module of the package that starts programs (``pyproject.toml`` holds that).
:func:`run_program` waits for a program; a :class:`ChildProcess` runs on beside this process.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from advisor.core import StageError, UsageError, last_line

# Seconds that killed processes may take to end.
ENDS_IN_S = 10.0

IN_CHILD = "ADVISOR_CHILD"
"""The environment variable that is set in every child."""

MEMORY = "ADVISOR_CHILD_MEMORY"
"""The environment variable with the bytes of memory that a child can ask for at most;
it is empty for no such limit.
"""

UNWANTED: ContextVar[threading.Event | None] = ContextVar("UNWANTED", default=None)
"""An event that ends the programs of :func:`run_program` in this context,
because nobody needs their results.
"""

_LIMITS = "check that it may be run, and the limits of memory, files and processes (ulimit -a)"

# Seconds between two looks at UNWANTED.
_LOOK_S = 0.2

# Most that a program may print on each of its two outputs; tools of devices print kilobytes.
OUTPUT_BYTES = 64_000_000
_CHUNK_BYTES = 1 << 16

ENDS_WITH_PARENT = {"ADVISOR_CHILD_ENDS_WITH_PARENT": "1"}
"""Environment of children that may be paused:
the kernel (Linux) kills them when the thread that started them ends.
"""


class TimedOut(StageError):
    """A program did not end in time."""


@dataclass(frozen=True)
class Finished:
    """The result of a program."""

    status: int  # exit status; negative if a signal ended it
    stdout: str  # standard output
    stderr: str  # standard error

    @property
    def complaint(self) -> str:
        """The last line of standard error, or of standard output, for an error message."""
        return (
            last_line(self.stderr or self.stdout) or f"exit status {self.status} without a message"
        )

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
        end = "was killed" if name == "SIGKILL" else "died"
        return f"{end} ({name}){causes.get(name, '')}"


class ChildProcess:
    """A program in a session of its own.
    Ctrl-C goes to this process, which ends its children in order.

    ``output`` takes standard output and standard error; None makes a pipe for each. The program
    inherits ``descriptors``. ``hint`` is advice on installing it, for the UsageError if it cannot
    be run. ``popen`` is the process, to read from its pipes and to wait for it.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        output: IO[bytes] | int | None = None,
        descriptors: Sequence[int] = (),
        hint: str = "",
    ) -> None:
        target = subprocess.PIPE if output is None else output
        try:
            self.popen: subprocess.Popen[bytes] = subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=target,
                stderr=target,
                env=environment,
                pass_fds=descriptors,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise UsageError(f"the program '{argv[0]}' is not installed", hint) from error
        except OSError as error:
            raise UsageError(
                f"the program '{argv[0]}' cannot be run: {error.strerror}", hint or _LIMITS
            ) from error

    @property
    def pid(self) -> int:
        """The id of the process and of its session."""
        return self.popen.pid

    @property
    def status(self) -> int | None:
        """Exit status, negative if a signal ended it; None while it runs."""
        return self.popen.poll()

    def send(self, number: int) -> None:
        """Send a signal to all processes of its session; it may have ended."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """Kill the program, every process in its session, and what it started outside,
        as a browser is.
        """
        # Listed before the first signal:
        # afterwards nothing says any more which processes it had started.
        family = _suspend_family(self.pid)
        self.send(signal.SIGKILL)
        for process in family:
            with suppress(psutil.Error):
                process.kill()
        # An ended program stays in the table of processes until somebody has waited for it.
        self.popen.communicate()
        # A killed process holds its memory and files until the kernel is done with it,
        # and the next job needs them.
        until = time.monotonic() + ENDS_IN_S
        while any(map(_is_alive, family)) and time.monotonic() < until:
            time.sleep(0.01)


def run_program(
    argv: Sequence[str],
    *,
    timeout_s: float,
    stdin: Path | None = None,
    environment: Mapping[str, str] | None = None,
    hint: str = "",
) -> Finished:
    """Run ``argv`` and wait until it ends, or kill it and its children after ``timeout_s`` seconds
    (TimedOut), at :data:`UNWANTED`, or where it prints more than :data:`OUTPUT_BYTES`
    (StageError).

    See :class:`ChildProcess` for the other arguments.
    """
    unwanted = UNWANTED.get()
    until = time.monotonic() + timeout_s
    with stdin.open("rb") if stdin else nullcontext(subprocess.DEVNULL) as source:
        child = ChildProcess(argv, environment=environment, stdin=source, hint=hint)
    stdout = _OutputReader(child.popen.stdout)
    stderr = _OutputReader(child.popen.stderr)
    # The readers close the pipes. Who ends the program waits for it without them.
    child.popen.stdout = None
    child.popen.stderr = None
    try:
        while not (stdout.wait_until(until) and stderr.wait_until(until)):
            if unwanted is not None and unwanted.is_set():
                raise StageError(f"'{argv[0]}' was ended: its result is not needed any more")
            if stdout.is_full or stderr.is_full:
                raise StageError(
                    f"'{argv[0]}' was ended: it printed more than {OUTPUT_BYTES / 1e6:.0f} MB"
                )
            if time.monotonic() >= until:
                raise TimedOut(f"'{argv[0]}' did not end within {timeout_s:g} s")
        # A program may close its output and go on.
        try:
            status = child.popen.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise TimedOut(f"'{argv[0]}' did not end within {timeout_s:g} s") from error
        return Finished(status, stdout.text, stderr.text)
    finally:
        if child.popen.returncode is None:
            child.kill()


class _OutputReader:
    """Reads what a program prints, in a thread, up to :data:`OUTPUT_BYTES`:
    an endless output would fill the memory.
    """

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self.is_full = False
        self._content = bytearray()
        self._thread = threading.Thread(
            target=self._read, args=(pipe,), name="advisor-output", daemon=True
        )
        self._thread.start()

    @property
    def text(self) -> str:
        """The output so far, as text."""
        return self._content.decode(errors="replace")

    def wait_until(self, until: float) -> bool:
        """Wait a moment, at most until a time of the monotonic clock;
        return whether the output has ended.
        """
        self._thread.join(min(_LOOK_S, max(0.0, until - time.monotonic())))
        return not self._thread.is_alive() and not self.is_full

    def _read(self, pipe: IO[bytes] | None) -> None:
        if pipe is None:
            return
        with pipe:
            while chunk := os.read(pipe.fileno(), _CHUNK_BYTES):
                self._content += chunk
                if len(self._content) > OUTPUT_BYTES:
                    self.is_full = True
                    return


def _suspend_family(pid: int) -> list[psutil.Process]:
    """Return a process and all that it started, each suspended before its children are listed:
    nothing new starts.
    """
    family: list[psutil.Process] = []
    with suppress(psutil.Error):
        family.append(psutil.Process(pid))
    # The list grows while it is walked: children of children are met later.
    for process in family:
        with suppress(psutil.Error):
            process.suspend()
            family.extend(process.children())
    return family


def _is_alive(process: psutil.Process) -> bool:
    """Return whether a process still does anything;
    an ended one may stay in the table of processes.
    """
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
