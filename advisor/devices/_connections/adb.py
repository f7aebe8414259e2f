"""Measure on an attached phone with the user's adb and TensorFlow Lite's ``benchmark_model``.

The tool is the user's own, or the published one (``tool.py``). A job gets a new folder on the
phone, which is removed at its end. ``benchmark_model.py`` has the tool's command line and output.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import StageError, UsageError
from advisor.devices._connections.attached import INSTALL, QUICK_S, find_serial, read_phone
from advisor.devices._connections.benchmark_model import DELEGATES, PhoneTool, parse_output
from advisor.devices._connections.protocol import MeasurementJob, Presence, Timing
from advisor.devices._connections.runtime_files import needs_export
from advisor.devices._connections.tool import check_tool, fetch_tool, find_tool
from advisor.isolation import run_program
from advisor.store import FetchOptions, sha256_file

if TYPE_CHECKING:
    from advisor.devices._connections.settings import ConnectionSettings

_SERIAL = re.compile(r"[A-Za-z0-9_.:%\[\]-]{1,128}")
_FOLDER = "/data/local/tmp"
_HASH_SHOWN = 8  # Characters of a tool's hash, which tell it from the few others of a user
_GONE = (
    "device offline",
    "not found",
    "no devices",
    "device unauthorized",
    "closed",
    "protocol fault",
)


def check_serial(serial: str) -> None:
    """Refuse what is not the serial of a phone:
    another character than serials have, or the beginning of an option.
    """
    if not _SERIAL.fullmatch(serial) or serial.startswith("-"):
        raise UsageError(f"{serial!r} is not a valid serial", "adb devices lists the serials")


@dataclass(frozen=True)
class AdbConnection:
    """Measures on one attached phone."""

    serial: str  #: its serial, or :data:`advisor.devices._connections.attached.ANY_PHONE`
    #: the user's ``benchmark_model`` for the phone, which is copied to it;
    #: None for the published one
    binary: Path | None = None
    #: hexadecimal mask of the cores that ``taskset`` pins it to, such as ``f0``, or empty
    cores: str = ""
    #: further arguments of ``benchmark_model``, such as ``("--use_gpu=true",)``
    arguments: tuple[str, ...] = ()
    unit: str = "cpu"  #: what runs the models: a key of :data:`DELEGATES`

    def __post_init__(self) -> None:
        check_serial(self.serial)
        if self.cores and not re.fullmatch(r"[0-9a-fA-F]{1,8}", self.cores):
            raise UsageError(
                f"'{self.cores}' is not a mask of cores", "write a hexadecimal mask such as f0"
            )

    @property
    def label(self) -> str:
        """``adb`` and the serial."""
        return f"adb {self.serial}"

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """See :class:`advisor.devices.Connection`."""
        job.check()
        if needs_export(job.runtime):
            raise UsageError(
                f"benchmark_model runs .tflite files, not {job.runtime}",
                "name a target with tflite",
            )
        serial = find_serial(self.serial)
        phone = self
        if serial != self.serial:
            phone = replace(self, serial=serial)
        return phone._measure_attached(job, self.binary or find_tool(serial))

    def _measure_attached(self, job: MeasurementJob, tool: Path) -> tuple[Timing, ...]:
        # Two jobs on one phone must not share a folder: each removes its own at the end.
        folder = f"{_FOLDER}/advisor-{_hash_job(tool, job)}"
        quoted = shlex.quote(folder)
        program = f"{folder}/benchmark_model"
        try:
            make = f"mkdir -p {quoted} && chmod 700 {quoted}"
            self._run_in_shell(make, QUICK_S, "make a folder")
            self._push(tool, program)
            allow = f"chmod 700 {shlex.quote(program)}"
            self._run_in_shell(allow, QUICK_S, "mark the tool executable")
            timings = []
            for place, model in enumerate(job.models):
                timings += self._measure_file(job, folder, place, model)
            return tuple(timings)
        finally:
            with suppress(StageError):
                self._run_in_shell(f"rm -rf {quoted}", QUICK_S, "remove the folder")

    def _measure_file(
        self,
        job: MeasurementJob,
        folder: str,
        index: int,
        model: Path,
    ) -> list[Timing]:
        remote = f"{folder}/model{index}.tflite"
        self._push(model, remote)
        timings = []
        for threads in job.threads:
            command = self._build_command(job, folder, remote, threads)
            output = self._run_in_shell(command, job.timeout_s, model.name)
            # A phone that disconnects ends adb's shell so, in some releases with status 0.
            if not output.strip():
                raise StageError(
                    f"{self.label} disconnected, or its tool printed nothing, while measuring"
                    f" {model.name}"
                )
            timings.append(parse_output(output, model, threads, self.unit))
        self._run_in_shell(f"rm -f {shlex.quote(remote)}", QUICK_S, "remove the model")
        return timings

    def _build_command(self, job: MeasurementJob, folder: str, remote: str, threads: int) -> str:
        """Return the command for the phone's shell, with every part quoted."""
        program = f"{folder}/benchmark_model"
        argv = PhoneTool.arguments(program, remote, threads, self.unit, job.effort)
        argv += self.arguments
        if self.cores:
            argv = ["taskset", self.cores, *argv]
        return shlex.join(argv) + " 2>&1"

    def _push(self, path: Path, remote: str) -> None:
        # adb reads a local path that begins with a dash as an option;
        # an absolute path never begins with one.
        limit = QUICK_S + path.stat().st_size / 1e6
        self._run(["push", str(path.resolve()), remote], limit, f"cannot store {path.name}")

    def _run_in_shell(self, command: str, timeout_s: float, what: str) -> str:
        return self._run(["shell", command], timeout_s, f"failed ({what})")

    def _run(self, arguments: list[str], timeout_s: float, what: str) -> str:
        """Run adb for this phone and return its output; StageError with ``what`` if it failed."""
        finished = run_program(
            ["adb", "-s", self.serial, *arguments], timeout_s=timeout_s, hint=INSTALL
        )
        if not finished.status:
            return finished.stdout
        # adb has no exit status for a phone that is gone.
        if any(word in finished.stderr for word in _GONE):
            raise StageError(
                f"{self.label} disconnected: {finished.complaint}",
                "check the cable, and that the phone is awake",
            )
        raise StageError(f"{self.label} {what}: {finished.complaint}")


def _hash_job(binary: Path, job: MeasurementJob) -> str:
    text = repr((str(binary), list(map(str, job.models)), job.threads, job.effort))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def connect_phone(settings: ConnectionSettings, accelerator: str) -> AdbConnection:
    """Return the connection to a phone;
    UsageError for a tool that no phone runs, or an accelerator that it lacks.
    """
    if accelerator not in DELEGATES:
        raise UsageError(
            f"benchmark_model has no option for '{accelerator}'",
            f"it has options for: {', '.join(DELEGATES)}",
        )
    binary = settings.benchmark_model
    if binary is not None:
        check_tool(binary)
    return AdbConnection(settings.address, binary, settings.cores, unit=accelerator)


def ask_phone(settings: ConnectionSettings) -> Presence:
    """Return that an attached phone can measure, by its serial and with the tool,
    which is fetched if there is none.

    Raises:
        UsageError: the phone cannot be used, or there is no tool for it.
        StageError: it does not answer.
    """
    phone = read_phone(settings.address)
    tool = settings.benchmark_model
    if tool is None:
        tool = fetch_tool(phone.abi, FetchOptions()).path
    else:
        check_tool(tool)
    # Its release and its tool decide what a file takes there, as the runtime does on this machine.
    system = f"Android {phone.android}, " if phone.android else ""
    software = f"{system}benchmark_model {sha256_file(tool)[:_HASH_SHOWN]}"
    return Presence(replace(settings, address=phone.serial, benchmark_model=tool), software)
