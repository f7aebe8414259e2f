"""Measure on a device with the user's OpenSSH client, with its configuration, keys and known hosts."""

import hashlib
import re
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from advisor.core.errors import StageError, UsageError
from advisor.devices.connections.host import AGENT, agent_arguments, read_document, timings_of_agent
from advisor.devices.connections.protocol import MeasurementJob, Timing, file_for, with_facts
from advisor.isolation import Scratch
from advisor.isolation.process import Finished, run_program
from advisor.store.files import sha256_file

_DESTINATION = re.compile(r"[A-Za-z0-9_.@%:\[\]+~-]{1,255}")
_LOST = 255
_QUICK_S = 60.0
_FOLDER = ".cache/advisor-agent"
_INSTALL = "install the OpenSSH client"

KEYS_ONLY = "write user@host and set up a key: advisor neither asks for passwords nor stores them"


def check_destination(destination: str) -> None:
    """Refuse what is no host, ``user@host`` or alias of the user's ssh configuration.

    Raises:
        UsageError: it contains a password, which the message does not repeat, or a character that no host has, or it
            begins as an option does.
    """
    if ":" in destination.rpartition("@")[0]:
        raise UsageError("the ssh address contains a password", KEYS_ONLY)
    if not _DESTINATION.fullmatch(destination) or destination.startswith("-"):
        raise UsageError(
            f"{destination!r} is not a valid host", "write host, user@host or a name from your ssh configuration"
        )


def check_interpreter(python: str) -> None:
    """Refuse what is not the path of an interpreter on the device.

    Raises:
        UsageError: it is empty, begins as an option does, or contains control characters.
    """
    if not python.strip() or python.startswith("-") or any(ord(letter) < 32 for letter in python):
        raise UsageError(f"{python!r} is not the path of a Python interpreter", "give a path such as python3")


@dataclass(frozen=True)
class SshConnection:
    """Measures with the agent on a device that runs an SSH server, Python and a TFLite runtime.

    Attributes:
        destination: host, ``user@host`` or an alias of the user's ssh configuration.
        python: the device's Python interpreter.
        port: port, None for that of the ssh configuration.
        retries: number of new attempts after a lost connection.
        program: the ssh client.
    """

    destination: str
    python: str = "python3"
    port: int | None = None
    retries: int = 2
    program: str = "ssh"

    def __post_init__(self) -> None:
        check_destination(self.destination)
        check_interpreter(self.python)

    @property
    def label(self) -> str:
        """The destination."""
        return self.destination

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """See :class:`advisor.devices.connections.protocol.Connection`.

        Files go into a new folder under ``~/.cache/advisor-agent``, which is deleted at the end. After a lost
        connection, the session reconnects, and complete files are not sent again.
        """
        job.check()
        with Scratch() as sockets:
            session = _Session(self, sockets)
            try:
                return session.measure(job)
            finally:
                session.close()


class _Session:
    """Runs commands over one shared connection."""

    def __init__(self, connection: SshConnection, sockets: Path) -> None:
        self._connection = connection
        self._sockets = sockets

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """Copy, run, read and clean up; files stay on the device only after a lost connection, for the next attempt."""
        exports = {model: file_for(job.runtime, model) for model in job.models}
        files = _named([exports[model].path for model in job.models])
        folder, lost = f"{_FOLDER}/{_key(files, job)}", False
        try:
            finished = self._attempted(folder, files, job)
            return with_facts(timings_of_agent(read_document(finished), job.models, list(files)[1:]), exports)
        except _LostConnection as error:
            lost = True
            raise StageError(f"lost the connection to {self._connection.label}: {error}") from error
        finally:
            if not lost:
                with suppress(StageError):
                    self._remote(f"rm -rf -- {shlex.quote(folder)}", _QUICK_S)

    def _attempted(self, folder: str, files: dict[str, tuple[Path, str]], job: MeasurementJob) -> Finished:
        """Send the files and run the agent; retry if the connection was lost.

        Raises:
            _LostConnection: the connection was lost in every attempt.
        """
        arguments = [self._connection.python, "agent.py", *agent_arguments(job, list(files)[1:])]
        command = f"cd -- {shlex.quote(folder)} && exec {shlex.join(arguments)}"
        attempt = 0
        while True:
            try:
                self._send(folder, files)
                return self._remote(command, job.timeout_s)
            except _LostConnection:
                attempt += 1
                if attempt > self._connection.retries:
                    raise
                time.sleep(0.5 * attempt)

    def close(self) -> None:
        """End the shared connection."""
        with suppress(StageError, UsageError):
            run_program([*self._argv(), "-O", "exit", "--", self._connection.destination], timeout_s=10)

    def _send(self, folder: str, files: dict[str, tuple[Path, str]]) -> None:
        """Copy every file into ``folder``, except files that are already there with the right hash."""
        quoted = shlex.quote(folder)
        listing = self._remote(
            f"umask 077 && mkdir -p -- {quoted} && cd -- {quoted} && (sha256sum -- * 2>/dev/null || true)", _QUICK_S
        )
        if listing.status:
            raise StageError(f"{self._connection.label}: cannot create a folder: {listing.complaint}")
        present = {tuple(line.split(None, 1)[::-1]) for line in listing.stdout.splitlines() if " " in line}
        for name, (path, digest) in files.items():
            if (name, digest) not in present:
                part = shlex.quote(f"{folder}/{name}.part")
                target = shlex.quote(f"{folder}/{name}")
                limit = _QUICK_S + path.stat().st_size / 1e5  # at least 100 kB/s
                done = self._remote(f"cat > {part} && mv -f -- {part} {target}", limit, path)
                if done.status:
                    raise StageError(f"{self._connection.label}: cannot store {path.name}: {done.complaint}")

    def _remote(self, command: str, timeout_s: float, stdin: Path | None = None) -> Finished:
        """Run ``command`` in the device's shell; every part of it is quoted."""
        argv = [*self._argv(), "--", self._connection.destination, command]
        finished = run_program(argv, timeout_s=timeout_s, stdin=stdin, hint=_INSTALL)
        if finished.status == _LOST:
            self._explain(finished)
        return finished

    def _explain(self, finished: Finished) -> None:
        """Raise the error behind exit status 255, with which ssh reports its own failures."""
        label, output = self._connection.label, finished.stderr
        if "REMOTE HOST IDENTIFICATION HAS CHANGED" in output:
            raise UsageError(
                f"{label}: the host key has changed; the device was set up again, or somebody intercepts it",
                "if you know the reason, remove the old key with ssh-keygen -R and connect once by hand",
            )
        if "Host key verification failed" in output:
            raise UsageError(f"{label}: the host key is not known", f"connect once by hand: ssh {label}")
        if "Permission denied" in output:
            raise UsageError(
                f"{label}: permission denied", "set up a key: advisor neither asks for passwords nor stores them"
            )
        if "Could not resolve hostname" in output or "Bad configuration option" in output:
            raise UsageError(f"{label}: {finished.complaint}", "check the name and your ssh configuration")
        raise _LostConnection(finished.complaint)

    def _argv(self) -> list[str]:
        connection = self._connection
        options = [
            "BatchMode=yes",
            "ConnectTimeout=15",
            "ServerAliveInterval=5",
            "ServerAliveCountMax=3",
            "ControlMaster=auto",
            f"ControlPath={self._sockets}/c",
            "ControlPersist=60",
            "RequestTTY=no",
            "ForwardAgent=no",
            "ForwardX11=no",
        ]
        argv = [connection.program]
        if connection.port is not None:
            argv += ["-p", str(connection.port)]
        return [*argv, *(part for option in options for part in ("-o", option))]


class _LostConnection(StageError):
    """The connection broke or could not be made; a retry may succeed."""


def _named(models: Sequence[Path]) -> dict[str, tuple[Path, str]]:
    """Return for each name on the device, the agent first, the file and its hash."""
    files = {"agent.py": AGENT, **{f"model{i}{model.suffix}": model for i, model in enumerate(models)}}
    return {name: (path, sha256_file(path)) for name, path in files.items()}


def _key(files: dict[str, tuple[Path, str]], job: MeasurementJob) -> str:
    text = repr(([digest for _, digest in files.values()], job.threads, job.effort))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
