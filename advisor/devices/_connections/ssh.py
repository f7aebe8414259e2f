"""Measure on a board over the user's OpenSSH client: send the agent and files, and run it there.

All commands of a measurement share one connection. What was sent lies in a folder that is named by
its content, so that a retry after a lost connection sends only what is missing. Every part of a
command for the board's shell is quoted.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import StageError, UsageError
from advisor.devices._connections.agent import (
    AGENT,
    read_document,
    require_cpu,
    timings_of_agent,
)
from advisor.devices._connections.protocol import MeasurementJob, Presence, Timing
from advisor.devices._connections.runtime_files import RuntimeFile
from advisor.isolation import Finished, Scratch, run_program
from advisor.store import sha256_file

if TYPE_CHECKING:
    from advisor.devices._connections.settings import ConnectionSettings

_DESTINATION = re.compile(r"[A-Za-z0-9_.@%:\[\]+~-]{1,255}")
_LOST = 255  # Exit status of ssh for its own failures
_QUICK_S = 60.0  # Longest time of a command that a board answers at once
_LEAST_BYTES_A_SECOND = 1e5
_NUMPY = "numpy"
_FOLDER = ".cache/advisor-agent"
_INSTALL = "install the OpenSSH client"
_KEYS_ONLY = "set up a key: advisor neither asks for passwords nor stores them"
_RUNTIMES = ("ai-edge-litert", "tflite-runtime", "onnxruntime")
"""Packages that run files on a board, the one first that the agent takes."""

_ASK_PACKAGES = """
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
for name in sys.argv[1:]:
    if find_spec(name.replace("-", "_")):
        try:
            print(name + "==" + version(name))
        except PackageNotFoundError:
            print(name)
"""
"""A program that prints which of its arguments a board has as packages,
with the release if it is known.
"""

_OPTIONS = (
    "BatchMode=yes",
    "ConnectTimeout=15",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ControlMaster=auto",
    "ControlPersist=60",
    "RequestTTY=no",
    "ForwardAgent=no",
    "ForwardX11=no",
)


def check_destination(destination: str) -> None:
    """Refuse what is no host, ``user@host`` or alias of the user's ssh configuration,
    or begins as an option does.

    A message never repeats a password.
    """
    user, _, host = destination.rpartition("@")
    # ssh takes no password in an address. Shown in a message, it would end up in logs.
    if ":" in user:
        raise UsageError(
            "the ssh address contains a password", f"write user@host and {_KEYS_ONLY}"
        )
    # A leading dash would be an option for ssh: `-oProxyCommand=...` runs a program.
    if not _DESTINATION.fullmatch(destination) or not host or "-" in (destination[0], host[0]):
        raise UsageError(
            f"{destination!r} is not a valid host",
            "write host, user@host or a name from your ssh configuration",
        )


def check_interpreter(python: str) -> None:
    """Refuse the path of an interpreter that is empty, begins as an option does,
    or has control characters.
    """
    if not python.strip() or python.startswith("-") or not python.isprintable():
        raise UsageError(
            f"{python!r} is not the path of a Python interpreter", "give a path such as python3"
        )


class _LostConnection(StageError):
    """The connection broke or could not be made; a retry may succeed."""


@dataclass(frozen=True)
class SshConnection:
    """Measures with the agent on a device that runs an SSH server, Python and a TFLite runtime."""

    destination: str  # host, ``user@host`` or an alias of the user's ssh configuration
    python: str = "python3"  # the device's Python interpreter
    port: int | None = None  # port, None for that of the ssh configuration
    retries: int = 2  # number of new attempts after a lost connection
    program: str = "ssh"  # the ssh client

    def __post_init__(self) -> None:
        check_destination(self.destination)
        check_interpreter(self.python)

    @property
    def label(self) -> str:
        """The destination."""
        return self.destination

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """See :class:`advisor.devices.Connection`.

        Files go into a new folder under ``~/.cache/advisor-agent``, which is deleted at the end,
        except after a lost connection. Then the session reconnects, and complete files are not
        sent again.
        """
        job.check()
        exports = {model: RuntimeFile.make_file(job.runtime, model) for model in job.models}
        files = _name_files([exports[model].path for model in job.models])
        names = list(files)[1:]
        finished = self.run(files, ["agent.py", *job.agent_arguments(names)], job.timeout_s)
        timings = timings_of_agent(read_document(finished), job.models, names)
        return tuple(exports[timing.model].add_comparison(timing) for timing in timings)

    def run(
        self, files: Mapping[str, Path], arguments: Sequence[str], timeout_s: float
    ) -> Finished:
        """Copy files into a new folder on the device by their names there,
        and run its Python interpreter in it.

        The folder is deleted at the end, except after a lost connection.
        :meth:`measure` has the errors.
        """
        # The folder's name follows from the content, so that a retry finds what has arrived.
        hashed = {name: (path, sha256_file(path)) for name, path in files.items()}
        folder = f"{_FOLDER}/{_hash_content(hashed, arguments)}"
        remove = f"rm -rf -- {shlex.quote(folder)}"
        with Scratch() as sockets:
            session = _Session(self, sockets)
            try:
                return session.run_with_retries(folder, hashed, arguments, timeout_s)
            except _LostConnection as error:
                # What has arrived stays for the next attempt.
                remove = ""
                raise StageError(f"lost the connection to {self.label}: {error}") from error
            finally:
                session.close(remove)


@dataclass(frozen=True)
class _Session:
    """Runs commands over one shared connection, whose socket lies in a folder."""

    connection: SshConnection
    sockets: Path

    def run_with_retries(
        self,
        folder: str,
        files: dict[str, tuple[Path, str]],
        arguments: Sequence[str],
        timeout_s: float,
    ) -> Finished:
        """Send the files and run the interpreter;
        retry, and at last raise, if the connection was lost.
        """
        program = shlex.join([self.connection.python, *arguments])
        command = f"cd -- {shlex.quote(folder)} && exec {program}"
        attempt = 0
        while True:
            try:
                self._send(folder, files)
                return self._run_remotely(command, timeout_s)
            except _LostConnection:
                attempt += 1
                if attempt > self.connection.retries:
                    raise
                # A board that restarts its network needs longer from attempt to attempt.
                time.sleep(0.5 * attempt)

    def close(self, last: str) -> None:
        """Run a last command if there is one, and end the shared connection."""
        with suppress(StageError, UsageError):
            if last:
                self._run_remotely(last, _QUICK_S)
        end = [*self._argv(), "-O", "exit", "--", self.connection.destination]
        with suppress(StageError, UsageError):
            run_program(end, timeout_s=10)

    def _send(self, folder: str, files: dict[str, tuple[Path, str]]) -> None:
        """Copy every file into ``folder``,
        except files that are already there with the right hash.
        """
        quoted = shlex.quote(folder)
        listing = self._run_remotely(
            f"umask 077 && mkdir -p -- {quoted} && cd -- {quoted} && (sha256sum -- * 2>/dev/null"
            " || true)",
            _QUICK_S,
        )
        if listing.status:
            raise StageError(
                f"{self.connection.label}: cannot create a folder: {listing.complaint}"
            )
        # `sha256sum` prints hash and name.
        present = {
            tuple(line.split(None, 1)) for line in listing.stdout.splitlines() if " " in line
        }
        for name, (path, digest) in files.items():
            if (digest, name) not in present:
                self._send_file(path, f"{folder}/{name}")

    def _send_file(self, path: Path, name: str) -> None:
        part = shlex.quote(f"{name}.part")
        target = shlex.quote(name)
        limit_s = _QUICK_S + path.stat().st_size / _LEAST_BYTES_A_SECOND
        # Written beside and renamed: a file that is there is whole.
        command = f"cat > {part} && mv -f -- {part} {target}"
        finished = self._run_remotely(command, limit_s, path)
        if finished.status:
            raise StageError(
                f"{self.connection.label}: cannot store {path.name}: {finished.complaint}"
            )

    def _run_remotely(self, command: str, timeout_s: float, stdin: Path | None = None) -> Finished:
        """Run ``command`` in the device's shell; every part of it is quoted.
        Exit status 255 is a failure of ssh.
        """
        argv = [*self._argv(), "--", self.connection.destination, command]
        finished = run_program(argv, timeout_s=timeout_s, stdin=stdin, hint=_INSTALL)
        # ssh reports its own failures with 255,
        # and any other status is that of the remote command.
        if finished.status != _LOST:
            return finished
        label = self.connection.label
        output = finished.stderr
        # A retry cannot mend any of these, so they are UsageErrors;
        # what is left may be a lost connection.
        if "REMOTE HOST IDENTIFICATION HAS CHANGED" in output:
            raise UsageError(
                f"{label}: the host key has changed; the device was set up again, or somebody"
                " intercepts it",
                "if you know the reason, remove the old key with ssh-keygen -R and connect once by"
                " hand",
            )
        if "Host key verification failed" in output:
            raise UsageError(
                f"{label}: the host key is not known", f"connect once by hand: ssh {label}"
            )
        if "Permission denied" in output:
            raise UsageError(f"{label}: permission denied", _KEYS_ONLY)
        if "Could not resolve hostname" in output or "Bad configuration option" in output:
            raise UsageError(
                f"{label}: {finished.complaint}", "check the name and your ssh configuration"
            )
        raise _LostConnection(finished.complaint)

    def _argv(self) -> list[str]:
        argv = [self.connection.program]
        if self.connection.port is not None:
            argv += ["-p", str(self.connection.port)]
        for option in (*_OPTIONS, f"ControlPath={self.sockets}/c"):
            argv += ["-o", option]
        return argv


def _name_files(models: Sequence[Path]) -> dict[str, Path]:
    """Return the file for each name on the device, the agent first."""
    files = {"agent.py": AGENT}
    for index, model in enumerate(models):
        files[f"model{index}{model.suffix}"] = model
    return files


def _hash_content(files: Mapping[str, tuple[Path, str]], arguments: Sequence[str]) -> str:
    text = repr(([digest for _, digest in files.values()], list(arguments)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def connect_board(settings: ConnectionSettings, accelerator: str) -> SshConnection:
    """Return the connection to a board with an SSH server; UsageError for an accelerator."""
    require_cpu(accelerator, "ssh")
    return SshConnection(settings.address, settings.python, settings.port)


def ask_board(settings: ConnectionSettings) -> Presence:
    """Return that a board can measure, with the release of its runtime;
    the errors are those of a measurement.
    """
    # A board that is off costs the time limit of one attempt only.
    connection = replace(connect_board(settings, "cpu"), retries=0)
    finished = connection.run({}, ["-c", _ASK_PACKAGES, _NUMPY, *_RUNTIMES], _QUICK_S)
    if finished.status:
        raise StageError(
            f"{connection.label}: {settings.python} does not run: {finished.complaint}"
        )
    packages = finished.stdout.split()
    runtimes = [package for package in packages if package.partition("==")[0] != _NUMPY]
    # Without them every file would fail, as if the board did not run it.
    if not runtimes or len(runtimes) == len(packages):
        absent = "runtime for .tflite files" if not runtimes else _NUMPY
        raise StageError(
            f"{connection.label}: {settings.python} has no {absent}; type there: {settings.python}"
            f" -m pip install {_RUNTIMES[0]} {_NUMPY}, or name another interpreter (--python)"
        )
    return Presence(settings, runtimes[0] if "==" in runtimes[0] else "")
