"""Measure with the agent: in a new process on this machine,
or on a device over the user's OpenSSH client.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core import StageError, UsageError
from advisor.devices._connections.protocol import (
    MeasurementJob,
    Presence,
    Timing,
    file_for,
    with_facts,
)
from advisor.isolation import (
    WAITED_LIMIT,
    Block,
    Finished,
    Scratch,
    SeriesDocument,
    agent,
    compute_waited_share,
    run_program,
)
from advisor.store import parse_json, sha256_file

if TYPE_CHECKING:
    from advisor.devices._connections.settings import ConnectionSettings

AGENT = Path(agent.__file__)

THROTTLED = 1.1
"""A device is throttled from this ratio of the last third to the first.
Block medians of a cool, idle device vary by at most 5 %.
"""

RISING = 0.6
"""Share of pairs of blocks in rising order minus the share in falling order (Kendall's tau);
noise has about 0.
"""

LEAST_BLOCKS = 4

_DESTINATION = re.compile(r"[A-Za-z0-9_.@%:\[\]+~-]{1,255}")
_LOST = 255
_QUICK_S = 60.0
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


@dataclass(frozen=True)
class HostConnection:
    """Measures on this machine with the agent's file and the Python interpreter of this
    process.
    """

    agent: Path = AGENT

    @property
    def label(self) -> str:
        """``host``."""
        return "host"

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """See :class:`advisor.devices.Connection`."""
        job.check()
        exports = {model: file_for(job.runtime, model) for model in job.models}
        names = [str(exports[model].path.resolve()) for model in job.models]
        argv = [sys.executable, str(self.agent), *agent_arguments(job, names)]
        document = read_document(run_program(argv, timeout_s=job.timeout_s))
        return with_facts(timings_of_agent(document, job.models, names), exports)


def agent_arguments(job: MeasurementJob, names: Sequence[str]) -> list[str]:
    """Return the agent's command line for files called ``names`` on the device."""
    return [*names, "--threads", ",".join(map(str, job.threads)), "--effort", job.effort]


def read_document(finished: Finished) -> dict[str, Any]:
    """Return the JSON document in the last line of the agent's output;
    StageError if there is none.
    """
    document = None
    with suppress(ValueError, IndexError):
        # Libraries may write to the output before it.
        document = parse_json(finished.stdout.strip().splitlines()[-1])
    if not isinstance(document, dict):
        ended = (
            f": it {finished.death}"
            if finished.death
            else f" (exit status {finished.status}): {finished.complaint}"
        )
        raise StageError(f"the agent returned no measurements{ended}")
    return document


def timings_of_agent(
    document: Mapping[str, Any], models: Sequence[Path], names: Sequence[str]
) -> tuple[Timing, ...]:
    """Return the timings in the agent's document of files that are called ``names`` on the device.

    StageError if the agent reports an error, or the document is not complete.
    """
    error = document.get("error")
    if isinstance(error, Mapping):
        raise StageError(
            f"the device cannot run the model ({error.get('kind')}): {error.get('message')}"
        )
    by_name = dict(zip(names, models, strict=True))
    common = f"{document.get('runtime')}=={document.get('runtime_version')}"
    try:
        memory = int(document["memory"]["private_bytes"]) if document.get("memory") else None
        timings = []
        for series in document["series"]:
            timings.append(
                _make_timing(by_name[series["model"]], series, common, memory, document["load"])
            )
            # Memory is that of the process with the first model, so no later series may claim it.
            memory = None
        return tuple(timings)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as problem:
        raise StageError(
            f"invalid response from the device: {type(problem).__name__} {problem}"
        ) from problem


def _make_timing(
    model: Path, series: SeriesDocument, common: str, memory: int | None, load: object
) -> Timing:
    walls = []
    for block in series["blocks"]:
        for wall in block["wall_ns"]:
            walls.append(float(wall))
    if min(walls) <= 0:
        raise ValueError("a run took no time")
    medians = [statistics.median(map(float, block["wall_ns"])) for block in series["blocks"]]
    cpu_medians = cpu_medians_ns(series["blocks"])
    threads = int(series["threads"])
    return Timing(
        model=model,
        threads=threads,
        median_ms=statistics.median(medians) / 1e6,
        runs=len(walls),
        first_ms=float(series["first_ns"]) / 1e6,
        load_ms=float(series["load_ns"]) / 1e6,
        runtime=series.get("runtime", common),
        memory_bytes=memory,
        details={**series, "load": load},
        # Time that other programs took is not heat.
        throttled=describe_throttling(
            cpu_medians
            or [
                median
                for median, block in zip(medians, series["blocks"], strict=True)
                if (compute_waited_share(threads, [block]) or 0.0) <= WAITED_LIMIT
            ]
        ),
        cpu_ms=statistics.median(cpu_medians) / 1e6 if cpu_medians else None,
        waited_share=compute_waited_share(threads, series["blocks"]),
    )


def cpu_medians_ns(blocks: Sequence[Block]) -> list[float]:
    """Return the median CPU time of each block, which other programs hardly affect;
    empty if it is not known.
    """
    times = [block.get("cpu_ns") or [0] for block in blocks]
    medians = [statistics.median(map(float, block_ns)) for block_ns in times]
    # A block without CPU time would have a median of 0, which is no figure of the device.
    return medians if all(medians) else []


def describe_throttling(medians: Sequence[float]) -> str:
    """Return by how much a device slowed down steadily, in words; empty if it did not.

    ``medians`` are those of the blocks in the order measured, in any unit.
    """
    factor = measure_slowdown(medians)
    if factor < THROTTLED or measure_trend(medians) < RISING:
        return ""
    return f"throttled: the last runs took {factor:.2f} times as long as the first"


def measure_slowdown(medians: Sequence[float]) -> float:
    """Return the median of the last third of the blocks divided by that of the first third;
    1.0 for too few blocks.
    """
    if len(medians) < LEAST_BLOCKS:
        return 1.0
    # Thirds and not single blocks: one slow block at an end is no slowdown.
    part = len(medians) // 3
    return statistics.median(medians[-part:]) / statistics.median(medians[:part])


def measure_trend(values: Sequence[float]) -> float:
    """Return Kendall's tau of at least two values and their order: -1 is falling, 1 is rising."""
    pairs = list(combinations(values, 2))
    return sum((after > before) - (after < before) for before, after in pairs) / len(pairs)


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
        exports = {model: file_for(job.runtime, model) for model in job.models}
        files = _name_files([exports[model].path for model in job.models])
        names = list(files)[1:]
        finished = self.run(files, ["agent.py", *agent_arguments(job, names)], job.timeout_s)
        return with_facts(timings_of_agent(read_document(finished), job.models, names), exports)

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
        folder = f"{_FOLDER}/{_key(hashed, arguments)}"
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
        command = (
            f"cd -- {shlex.quote(folder)} && exec"
            f" {shlex.join([self.connection.python, *arguments])}"
        )
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
        with suppress(StageError, UsageError):
            run_program(
                [*self._argv(), "-O", "exit", "--", self.connection.destination], timeout_s=10
            )

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
            tuple(line.split(None, 1)[::-1]) for line in listing.stdout.splitlines() if " " in line
        }
        for name, (path, digest) in files.items():
            if (name, digest) not in present:
                part = shlex.quote(f"{folder}/{name}.part")
                target = shlex.quote(f"{folder}/{name}")
                limit = _QUICK_S + path.stat().st_size / 1e5  # at least 100 kB/s
                # Written beside and renamed: a file that is there is whole.
                done = self._run_remotely(f"cat > {part} && mv -f -- {part} {target}", limit, path)
                if done.status:
                    raise StageError(
                        f"{self.connection.label}: cannot store {path.name}: {done.complaint}"
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
        options = (*_OPTIONS, f"ControlPath={self.sockets}/c")
        port = [] if self.connection.port is None else ["-p", str(self.connection.port)]
        return [
            self.connection.program,
            *port,
            *(part for option in options for part in ("-o", option)),
        ]


def _name_files(models: Sequence[Path]) -> dict[str, Path]:
    """Return the file for each name on the device, the agent first."""
    return {
        "agent.py": AGENT,
        **{f"model{i}{model.suffix}": model for i, model in enumerate(models)},
    }


def _key(files: Mapping[str, tuple[Path, str]], arguments: Sequence[str]) -> str:
    text = repr(([digest for _, digest in files.values()], list(arguments)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def connect_here(accelerator: str) -> HostConnection:
    """Return the connection to this machine; UsageError for an accelerator."""
    _require_cpu(accelerator, "the host")
    return HostConnection()


def connect_board(settings: ConnectionSettings, accelerator: str) -> SshConnection:
    """Return the connection to a board with an SSH server; UsageError for an accelerator."""
    _require_cpu(accelerator, "ssh")
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


def _require_cpu(accelerator: str, place: str) -> None:
    if accelerator != "cpu":
        raise UsageError(
            f"over {place} the agent measures CPU targets only, not '{accelerator}'",
            "name a CPU target of the device, or connect to a phone over adb",
        )
