"""Measure on this machine with the agent in a new process; read what the agent prints on any device."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from advisor.core.errors import StageError, UsageError
from advisor.devices.connections.protocol import MeasurementJob, Timing, file_for, with_facts
from advisor.isolation import Scratch, agent
from advisor.isolation.agent import Block, SeriesDocument
from advisor.isolation.process import Finished, run_program
from advisor.store.files import sha256_file

AGENT = Path(agent.__file__)

THROTTLED = 1.1
"""A device is throttled from this ratio of the last third to the first. Block medians of a cool, idle device vary by at
most 5 %."""

RISING = 0.6
"""Share of pairs of blocks in rising order minus the share in falling order (Kendall's tau); noise has about 0."""

LEAST_BLOCKS = 4

WAITED = 0.1
"""Share of time that threads may wait for a processor. A block with more shows other programs, not heat; on an idle
machine the share is below 0.01."""


@dataclass(frozen=True)
class HostConnection:
    """Measures on this machine."""

    agent: Path = AGENT  # the agent's file
    python: Path = Path(sys.executable)  # the Python interpreter that has the runtime

    @property
    def label(self) -> str:
        """``host``."""
        return "host"

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """See :class:`advisor.devices.connections.protocol.Connection`."""
        job.check()
        exports = {model: file_for(job.runtime, model) for model in job.models}
        names = [str(exports[model].path.resolve()) for model in job.models]
        argv = [str(self.python), str(self.agent), *agent_arguments(job, names)]
        document = read_document(run_program(argv, timeout_s=job.timeout_s))
        return with_facts(timings_of_agent(document, job.models, names), exports)


def agent_arguments(job: MeasurementJob, names: Sequence[str]) -> list[str]:
    """Return the agent's command line for files called ``names`` on the device."""
    return [*names, "--threads", ",".join(map(str, job.threads)), "--effort", job.effort]


def read_document(finished: Finished) -> dict[str, Any]:
    """Return the JSON document in the last line of the agent's output.

    Raises:
        StageError: there is none: the agent crashed, or the device sent an invalid response.
    """
    lines = finished.stdout.strip().splitlines()
    try:
        document = json.loads(lines[-1]) if lines else None
    except ValueError:
        document = None
    if not isinstance(document, dict):
        ended = (
            f": it {finished.death}" if finished.death else f" (exit status {finished.status}): {finished.complaint}"
        )
        raise StageError(f"the agent returned no measurements{ended}")
    return document


def timings_of_agent(document: Mapping[str, Any], models: Sequence[Path], names: Sequence[str]) -> tuple[Timing, ...]:
    """Return the timings in the agent's document.

    Args:
        document: the agent's output.
        models: the files on this machine.
        names: their names on the device, in the same order.

    Raises:
        StageError: the agent reports an error, or the document is not complete.
    """
    error = document.get("error")
    if isinstance(error, Mapping):
        raise StageError(f"the device cannot run the model ({error.get('kind')}): {error.get('message')}")
    by_name = dict(zip(names, models, strict=True))
    common = f"{document.get('runtime')}=={document.get('runtime_version')}"
    try:
        memory = int(document["memory"]["private_bytes"]) if document.get("memory") else None
        return tuple(
            _timing(
                by_name[series["model"]],
                series,
                series.get("runtime", common),
                memory if index == 0 else None,
                document["load"],
            )
            for index, series in enumerate(document["series"])
        )
    except (KeyError, TypeError, ValueError, AttributeError, statistics.StatisticsError) as problem:
        raise StageError(f"invalid response from the device: {type(problem).__name__} {problem}") from problem


def _timing(model: Path, series: SeriesDocument, runtime: str, memory: int | None, load: object) -> Timing:
    walls = [float(wall) for block in series["blocks"] for wall in block["wall_ns"]]
    if min(walls) <= 0:
        raise ValueError("a run took no time")
    medians = [statistics.median(map(float, block["wall_ns"])) for block in series["blocks"]]
    return Timing(
        model=model,
        threads=int(series["threads"]),
        median_ms=statistics.median(medians) / 1e6,
        runs=len(walls),
        first_ms=float(series["first_ns"]) / 1e6,
        load_ms=float(series["load_ns"]) / 1e6,
        runtime=runtime,
        memory_bytes=memory,
        details={**series, "load": load},
        throttled=throttling(_block_medians(series)),
    )


def _block_medians(series: SeriesDocument) -> list[float]:
    """Return the median CPU time of each block, which other programs hardly affect.

    Without CPU times, return the median wall time of the blocks whose threads did not wait for a processor: time that
    other programs took is not heat.
    """
    cpu_times = [block["cpu_ns"] for block in series["blocks"] if block.get("cpu_ns")]
    if len(cpu_times) == len(series["blocks"]):
        return [statistics.median(map(float, times or ())) for times in cpu_times]
    undisturbed = [block for block in series["blocks"] if _waited_share(block, int(series["threads"])) <= WAITED]
    return [statistics.median(map(float, block["wall_ns"])) for block in undisturbed]


def _waited_share(block: Block, threads: int) -> float:
    """Return the share of time that a thread waited for a processor; 0 if the device does not tell."""
    waited = block.get("waited_ns")
    return 0.0 if waited is None else float(waited) / (threads * float(block["elapsed_ns"]))


def throttling(medians: Sequence[float]) -> str:
    """Return by how much a device slowed down steadily, in words; empty if it did not.

    Args:
        medians: median of each block in the order measured, in any unit.
    """
    found = slowdown(medians)
    if found < THROTTLED or rising(medians) < RISING:
        return ""
    return f"throttled: the last runs took {found:.2f} times as long as the first"


def slowdown(medians: Sequence[float]) -> float:
    """Return the median of the last third of the blocks divided by that of the first third; 1.0 for too few blocks."""
    if len(medians) < LEAST_BLOCKS:
        return 1.0
    part = len(medians) // 3
    return statistics.median(medians[-part:]) / statistics.median(medians[:part])


def rising(values: Sequence[float]) -> float:
    """Return Kendall's tau of at least two values and their order: -1 is falling, 1 is rising."""
    pairs = list(combinations(values, 2))
    return sum((after > before) - (after < before) for before, after in pairs) / len(pairs)


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
