"""Try hostile cases: a folder, commands and calls that cannot hang or end the caller, and what is bad."""

import contextlib
import multiprocessing
import os
import resource
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext
from pathlib import Path

import psutil

from advisor.core import AdvisorError
from advisor.core._errors import SeveralErrors
from benchmarks.hostile_surfaces.attempts import HANG, faults
from tests.makers import forks

SOON_S = 30.0
CALL_BYTES = 4_000_000_000  # Address space of a call, beside what the process of the tests has
INTERNAL, ACCEPTED, DIED = "internal error", "accepted", "died"
WRONG, SECRET = "wrong result", "secret"
KINDS = (INTERNAL, "traceback", HANG, "control character", "no hint", ACCEPTED, DIED, WRONG, SECRET)
"""The ways in which a case can be bad.

``accepted``: input that must be refused was not; ``died``: a process ended by a signal; ``wrong result``: what was read
or written is not what was given; ``secret``: a secret was shown or kept.
"""

Case = tuple[str, Callable[[], Sequence[str]]]
"""A name, and what tries the case and returns what is bad, of :data:`KINDS`."""
Cases = Callable[["Ground"], Iterator[Case]]


@dataclass
class Ground:
    """A folder for cases, which are tried one after the other."""

    folder: Path
    soon_s: float = SOON_S  # after which a case counts as a hang; more on a busy machine
    server: ForkServerContext = field(default_factory=forks.context)
    held: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)  # servers that end with the cases

    def set_variables(self, values: Mapping[str, str | None]) -> None:
        """Set variables of the environment until the cases end; None removes one."""
        before = {name: os.environ.get(name) for name in values}
        self.held.callback(_set_variables, before)
        _set_variables(values)

    def fresh(self, files: Mapping[str, str | bytes] | None = None) -> Path:
        """Return an empty folder with these files."""
        place = self.folder / "case"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (self.folder / "cache").mkdir(exist_ok=True)
        for name, content in (files or {}).items():
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))
        return place

    def command(
        self, *arguments: str, files: Mapping[str, str | bytes] | None = None, refused: bool = False, **variables: str
    ) -> Sequence[str]:
        """Run ``advisor ARGUMENTS`` in a fresh folder with these files; with ``refused``, exit code 0 is bad."""
        return self.command_in(self.fresh(files), *arguments, refused=refused, **variables)

    def command_in(self, place: Path, *arguments: str, refused: bool = False, **variables: str) -> Sequence[str]:
        """Run ``advisor ARGUMENTS`` in a folder that is there."""
        try:
            code, out, err = self.said(place, *arguments, **variables)
        except TimeoutError:
            return (HANG,)
        return found(code, out, err, refused)

    def said(self, place: Path, *arguments: str, script: Path | None = None, **variables: str) -> tuple[int, str, str]:
        """Return exit code, output and errors of a command, or a script; TimeoutError if it does not end in time."""
        environment = {**os.environ, "ADVISOR_CACHE_DIR": str(self.folder / "cache"), "NO_COLOR": "1", **variables}
        return forks.run(self.server, arguments, place, environment, self.soon_s, script)

    def call_here(self, function: Callable[..., object], *arguments: object) -> Sequence[str]:
        """Call a function in this process, whose own children read what is hostile: it must not end."""

        def end(_number: int, _frame: object) -> None:
            raise TimeoutError

        before = signal.signal(signal.SIGALRM, end)
        signal.alarm(round(self.soon_s))
        try:
            return _faults_of(function, arguments, False)
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)

    def call(self, function: Callable[..., object], *arguments: object, refused: bool = False) -> Sequence[str]:
        """Call a function in a process of its own: an error of another kind than those for users is bad."""
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_called, args=(sender, function, arguments, refused))
        process.start()
        sender.close()
        faults: Sequence[str] = (HANG,)
        if receiver.poll(self.soon_s):
            with contextlib.suppress(EOFError):
                faults = receiver.recv()
            process.join(self.soon_s)
            faults = (DIED,) if process.exitcode and process.exitcode < 0 else faults
        process.kill()
        process.join()
        return faults


def _set_variables(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def found(code: int, out: str, err: str, refused: bool = False) -> Sequence[str]:
    """Return what is bad in the end of a command; with ``refused``, exit code 0 is."""
    if code < 0:
        return (DIED,)
    return (*faults(code, out, err), *((ACCEPTED,) if refused and code == 0 else ()))


def _called(sender: object, function: Callable[..., object], arguments: Sequence[object], refused: bool) -> None:
    most = CALL_BYTES + psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    sender.send(_faults_of(function, arguments, refused))  # type: ignore[attr-defined]


def _faults_of(function: Callable[..., object], arguments: Sequence[object], refused: bool) -> Sequence[str]:
    try:
        function(*arguments)
    except (AdvisorError, SeveralErrors) as error:
        return () if str(error).strip() else (INTERNAL,)  # the command line escapes what it shows
    except TimeoutError:
        return (HANG,)
    except AssertionError:
        traceback.print_exc()
        return (WRONG,)
    except BaseException:
        traceback.print_exc()
        return (INTERNAL,)
    return (ACCEPTED,) if refused else ()
