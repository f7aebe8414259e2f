"""Measure on a phone with the user's adb and the user's ``benchmark_model`` binary."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import StageError, UsageError
from advisor.devices._connections.protocol import MeasurementJob, Timing, needs_export
from advisor.isolation import run_program

if TYPE_CHECKING:
    from advisor.devices._connections.settings import ConnectionSettings

DELEGATES: Mapping[str, tuple[str, ...]] = {"cpu": (), "gpu": ("--use_gpu=true",), "npu": ("--use_nnapi=true",)}
"""Options of ``benchmark_model`` that put a model on an accelerator (its own help text)."""

_TIMINGS = re.compile(
    r"Inference timings in us: Init: ([\d.e+]+), First inference: ([\d.e+]+), "
    r"Warmup \(avg\): ([\d.e+]+), Inference \(avg\): ([\d.e+]+)"
)
_COUNTS = re.compile(r"count=(\d+)((?: \w+=[-\d.e+]+)+)")
_FOOTPRINT = re.compile(
    r"(?:Memory footprint delta from the start of the tool|Peak memory footprint) \(MB\): "
    r"init=[-\d.e+]+ overall=([-\d.e+]+)"
)
_DELEGATED = re.compile(r"Replacing (\d+) out of (\d+) node\(s\) with delegate")
STEADY = 1.1
_REMARK = re.compile(r"\s*[(;\[]|\s+\w+:")  # What may follow the state of a device: an explanation, or its model
_COLUMN = re.compile(r"\[([^\]]+)\]")

_SERIAL = re.compile(r"[A-Za-z0-9_.:%\[\]-]{1,128}")
_FOLDER = "/data/local/tmp"
_QUICK_S = 60.0
_INSTALL = "install the Android platform tools"
_RUNS = {"load": 5, "survey": 20, "search": 20, "quick": 30, "normal": 50, "full": 200}
_SHORT = {"survey": ("--min_secs=0.2", "--warmup_min_secs=0.1")}
_GONE = ("device offline", "not found", "no devices", "device unauthorized", "closed", "protocol fault")

_STATES = {
    "no permissions": (
        "may not be used by this user: 'no permissions'",
        "add a udev rule for it, or install the package android-sdk-platform-tools-common, and plug it in again",
    ),
    "unauthorized": ("does not allow debugging", "unlock it, and allow debugging on its screen"),
    "authorizing": ("is being asked for permission", "unlock it, and allow debugging on its screen"),
    "offline": ("does not answer: 'offline'", "plug it in again, or type: adb reconnect offline"),
    "recovery": ("runs its recovery system", "start it normally: adb reboot"),
    "sideload": ("waits for an update: 'sideload'", "start it normally: adb reboot"),
    "bootloader": ("runs its boot loader", "start it normally: fastboot reboot"),
    "rescue": ("runs its rescue system", "start it normally: adb reboot"),
    "connecting": ("is being connected", "try again in some seconds"),
    "host": ("is not in the state of a phone: 'host'", "unplug it, and plug it in again"),
}
"""The error about a device and its hint, by the state that ``adb devices`` prints."""


def parse_output(text: str, model: Path, threads: int) -> Timing:
    """Return the timing that the tool printed; StageError if there is none: it failed, or it is another tool."""
    try:
        return _parse_timing(text, model, threads)
    except (ValueError, OverflowError) as problem:
        raise StageError(f"benchmark_model printed timings that are none: {problem}") from problem


def _parse_timing(text: str, model: Path, threads: int) -> Timing:
    """Return the timing; StageError if there is none, ValueError or OverflowError if it cannot be read.

    Its details are the figures of the inferences in ms (``std_ms``, ``max_ms``, ...); the number of ``delegated``
    operators and of all, None if no delegate reports it; and the ``operators`` in run order, each with kind, name,
    average ms in one inference and percent of the total.
    """
    # The tool has no machine-readable output, so its lines for people are read.
    timings = _TIMINGS.search(text)
    runs = list(_COUNTS.finditer(text))
    if timings is None or not runs:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if "ERROR" in line or "ailed" in line]
        raise StageError(f"benchmark_model printed no timings: {(errors or lines or ['no output'])[-1][:300]}")
    # The last count= line is that of the inference, the line before that of the warm-up.
    last = dict(part.split("=") for part in runs[-1][2].split())
    figures = {name: float(value) / 1e3 for name, value in last.items()}
    init, first, _, mean = (float(value) / 1e3 for value in timings.groups())
    if mean <= 0:
        raise StageError("benchmark_model reports an inference that took no time")
    footprint = _FOOTPRINT.search(text)
    # How many operators delegates took, and all: nothing else shows that a model fell back to the CPU.
    taken = [(int(match[1]), int(match[2])) for match in _DELEGATED.finditer(text)]
    return Timing(
        model=model,
        threads=threads,
        # Older releases of the tool print neither a median nor percentiles.
        median_ms=figures.get("median", figures.get("p50", mean)),
        runs=int(runs[-1][1]),
        first_ms=first,
        load_ms=init,
        runtime="tflite benchmark_model",
        memory_bytes=max(0, round(float(footprint[1]) * 2**20)) if footprint else None,  # its MB are 2^20 bytes
        details={
            **{f"{name}_ms": value for name, value in figures.items()},
            # Each delegate reports what it took; the number of all operators is the same in each line.
            "delegated": (sum(number for number, _ in taken), taken[0][1]) if taken else None,
            "operators": _parse_operators(text),
        },
        throttled=_describe_throttling(figures.get("first"), mean, figures.get("curr")),
    )


def _describe_throttling(first_ms: float | None, mean_ms: float, last_ms: float | None) -> str:
    """Return by how much the device slowed down, empty if it did not or if a figure is missing.

    The tool prints the first, the mean and the last run only. After a steady slowdown, the mean is well above the first
    run, and the last run well above the mean. A single slow run does not have this effect.
    """
    if first_ms is None or last_ms is None or mean_ms < STEADY * first_ms or last_ms < STEADY * mean_ms:
        return ""
    return f"throttled: the last run took {last_ms / first_ms:.2f} times as long as the first"


def _parse_operators(text: str) -> tuple[dict[str, object], ...]:
    """Return the rows of the last table in run order, that of the inferences; its header names the columns."""
    # The table before it is that of the initialisation.
    _, separator, tail = text.rpartition("= Run Order =")
    lines = tail.splitlines()[1:]
    if not separator or not lines:
        return ()
    columns = _COLUMN.findall(lines[0])
    if "avg ms" not in columns or "%" not in columns or len(columns) < 4:
        return ()
    numbers = len(columns) - 2
    row = re.compile(rf"^\s*(.+?)((?:\s+[-\d.]+%?){{{numbers}}})(?:\s+(.*))?$")
    mean = columns.index("avg ms") - 1
    share = columns.index("%") - 1
    rows = []
    for line in lines[1:]:
        match = row.match(line)
        if "====" in line or match is None:
            break
        values = [float(value.rstrip("%")) for value in match[2].split()]
        name = (match[3] or "").strip().removeprefix("[").split("]:")[0]
        rows.append({"kind": match[1].strip(), "name": name, "mean_ms": values[mean], "share": values[share]})
    return tuple(rows)


def check_serial(serial: str) -> None:
    """Refuse what is not the serial of a phone: another character than serials have, or the beginning of an option."""
    if not _SERIAL.fullmatch(serial) or serial.startswith("-"):
        raise UsageError(f"{serial!r} is not a valid serial", "adb devices lists the serials")


@dataclass(frozen=True)
class AdbConnection:
    """Measures on one attached phone."""

    serial: str
    binary: Path  # the user's ``benchmark_model`` for the phone; it is copied to the phone
    cores: str = ""  # hexadecimal mask of the cores that ``taskset`` pins it to, such as ``f0``, or empty
    arguments: tuple[str, ...] = ()  # further arguments of ``benchmark_model``, such as ``("--use_gpu=true",)``

    def __post_init__(self) -> None:
        check_serial(self.serial)
        if self.cores and not re.fullmatch(r"[0-9a-fA-F]{1,8}", self.cores):
            raise UsageError(f"'{self.cores}' is not a mask of cores", "write a hexadecimal mask such as f0")

    @property
    def label(self) -> str:
        """``adb`` and the serial."""
        return f"adb {self.serial}"

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """See :class:`advisor.devices.Connection`."""
        job.check()
        if needs_export(job.runtime):
            raise UsageError(f"benchmark_model runs .tflite files, not {job.runtime}", "name a target with tflite")
        self._check_attached()
        # Two jobs on one phone must not share a folder: each removes its own at the end.
        folder = f"{_FOLDER}/advisor-{_key(self.binary, job)}"
        try:
            self._run_in_shell(
                f"mkdir -p {shlex.quote(folder)} && chmod 700 {shlex.quote(folder)}", _QUICK_S, "make a folder"
            )
            self._push(self.binary, f"{folder}/benchmark_model")
            self._run_in_shell(
                f"chmod 700 {shlex.quote(folder + '/benchmark_model')}", _QUICK_S, "mark the tool executable"
            )
            return tuple(
                timing for i, model in enumerate(job.models) for timing in self._measure_file(job, folder, i, model)
            )
        finally:
            with suppress(StageError):
                self._run_in_shell(f"rm -rf {shlex.quote(folder)}", _QUICK_S, "remove the folder")

    def _measure_file(self, job: MeasurementJob, folder: str, index: int, model: Path) -> list[Timing]:
        remote = f"{folder}/model{index}.tflite"
        self._push(model, remote)
        timings = []
        for threads in job.threads:
            command = self._build_command(job, folder, remote, threads)
            output = self._run_in_shell(command, job.timeout_s, model.name)
            # A phone that disconnects ends adb's shell so, in some releases with status 0.
            if not output.strip():
                raise StageError(
                    f"{self.label} disconnected, or its tool printed nothing, while measuring {model.name}"
                )
            timings.append(parse_output(output, model, threads))
        # Phones have little room in this folder, so each model goes before the next one comes.
        self._run_in_shell(f"rm -f {shlex.quote(remote)}", _QUICK_S, "remove the model")
        return timings

    def _build_command(self, job: MeasurementJob, folder: str, remote: str, threads: int) -> str:
        """Return the command for the phone's shell, with every part quoted."""
        argv = [
            f"{folder}/benchmark_model",
            f"--graph={remote}",
            f"--num_threads={threads}",
            f"--num_runs={_RUNS.get(job.effort, _RUNS['quick'])}",
            *_SHORT.get(job.effort, ()),
            "--report_peak_memory_footprint=true",
            "--enable_op_profiling=true",
            *self.arguments,
        ]
        return shlex.join(["taskset", self.cores, *argv] if self.cores else argv) + " 2>&1"

    def _check_attached(self) -> None:
        finished = run_program(["adb", "devices"], timeout_s=_QUICK_S, hint=_INSTALL)
        if finished.status:
            raise StageError(f"adb devices failed: {finished.complaint}")
        states = states_of(finished.stdout)
        state = states.get(self.serial)
        if state is None:
            raise UsageError(f"no device {self.serial} is attached", f"attached: {', '.join(states) or 'none'}")
        if state != "device":
            message, hint = _STATES.get(state, ("is in the state '{state}'", "unplug it, and plug it in again"))
            raise UsageError(f"the device {self.serial} {message.format(state=state)}", hint)

    def _push(self, path: Path, remote: str) -> None:
        # adb reads a local path that begins with a dash as an option; an absolute path never begins with one.
        limit = _QUICK_S + path.stat().st_size / 1e6
        self._run(["push", str(path.resolve()), remote], limit, f"cannot store {path.name}")

    def _run_in_shell(self, command: str, timeout_s: float, what: str) -> str:
        return self._run(["shell", command], timeout_s, f"failed ({what})")

    def _run(self, arguments: list[str], timeout_s: float, what: str) -> str:
        """Run adb for this phone and return its output; StageError with ``what`` if it failed."""
        finished = run_program(["adb", "-s", self.serial, *arguments], timeout_s=timeout_s, hint=_INSTALL)
        if not finished.status:
            return finished.stdout
        # adb has no exit status for a phone that is gone.
        if any(word in finished.stderr for word in _GONE):
            hint = "check the cable, and that the phone is awake"
            raise StageError(f"{self.label} disconnected: {finished.complaint}", hint)
        raise StageError(f"{self.label} {what}: {finished.complaint}")


def states_of(listing: str) -> dict[str, str]:
    """Return the state of each device that ``adb devices`` lists, by its serial number.

    A state may have several words, such as ``no permissions``; what stands behind them in brackets is left out.
    """
    states = {}
    for line in listing.splitlines():
        serial, _, rest = line.partition("\t")
        if rest and not line.startswith(("List of", "*")):
            states[serial.strip()] = _REMARK.split(rest.strip())[0]
    return states


def _key(binary: Path, job: MeasurementJob) -> str:
    text = repr((str(binary), [str(model) for model in job.models], job.threads, job.effort))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def connect_phone(settings: ConnectionSettings, accelerator: str) -> AdbConnection:
    """Return the connection to a phone; UsageError without its tool, or for an accelerator that the tool lacks."""
    if accelerator not in DELEGATES:
        raise UsageError(
            f"benchmark_model has no option for '{accelerator}'", f"it has options for: {', '.join(DELEGATES)}"
        )
    binary = settings.benchmark_model
    if binary is None or not binary.is_file():
        raise UsageError(
            f"--benchmark-model: '{binary or ''}' is not a file",
            "download TensorFlow Lite's benchmark_model for the phone's processor",
        )
    return AdbConnection(settings.address, binary, settings.cores, DELEGATES[accelerator])
