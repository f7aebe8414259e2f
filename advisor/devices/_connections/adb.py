"""Measure on a phone with the user's adb and TensorFlow Lite's ``benchmark_model``,
the user's own or a fetched one.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import StageError, UsageError, plural
from advisor.devices._connections.attached import INSTALL, QUICK_S, find_serial, read_phone
from advisor.devices._connections.protocol import (
    MeasurementJob,
    NotOnUnit,
    Presence,
    Timing,
    needs_export,
)
from advisor.devices._connections.tool import check_tool, fetch_tool, find_tool
from advisor.downloads import FetchOptions
from advisor.isolation import run_program
from advisor.store import sha256_file

if TYPE_CHECKING:
    from advisor.devices._connections.settings import ConnectionSettings

DELEGATES: Mapping[str, tuple[str, ...]] = {
    "cpu": (),
    "gpu": ("--use_gpu=true",),
    "npu": ("--use_nnapi=true",),
}
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

_ON_UNIT = {
    "cpu": "TfLiteXNNPackDelegate",
    "gpu": "TfLiteGpuDelegate",
    "npu": "TfLiteNnapiDelegate",
}
"""The beginning of the name of the delegate that runs operators on a unit."""

_REPLACED = re.compile(r"Replacing (\d{1,9}) out of (\d{1,9}) node\(s\) with delegate \((\w+)\)")
_NOT_APPLIED = re.compile(
    r"Restored original execution plan after delegate application failure"
    r"|Though \w+ delegate is explicitly applied, the model graph will not be executed by the"
    r" delegate"
)
"""Lines of TensorFlow Lite about a delegate that had taken operators and could not begin:
the CPU runs them then.
"""

STEADY = 1.1
_COLUMN = re.compile(r"\[([^\]]+)\]")
_SERIAL = re.compile(r"[A-Za-z0-9_.:%\[\]-]{1,128}")
_FOLDER = "/data/local/tmp"
_RUNS = {"load": 5, "survey": 20, "search": 20, "quick": 30, "normal": 50, "full": 200}
_SHORT = {"survey": ("--min_secs=0.2", "--warmup_min_secs=0.1")}
_HASH_SHOWN = 8  # Characters of a tool's hash, which tell it from the few others of a user
_GONE = (
    "device offline",
    "not found",
    "no devices",
    "device unauthorized",
    "closed",
    "protocol fault",
)


def parse_output(text: str, model: Path, threads: int, unit: str = "cpu") -> Timing:
    """Return the timing that the tool printed for a unit: ``cpu``, ``gpu`` or ``npu``.

    StageError if there is none: the tool failed, it is another tool, or the unit ran no operator.
    """
    try:
        timing = _parse_timing(text, model, threads)
    except (ValueError, OverflowError) as problem:
        raise StageError(f"benchmark_model printed timings that are none: {problem}") from problem
    delegated = _count_delegated(text, unit)
    if unit != "cpu" and delegated is not None and not delegated[0]:
        operators = plural(delegated[1], "operator") if delegated[1] else "operators"
        raise NotOnUnit(
            f"{model.name} did not run on the {unit.upper()}, which took none of its {operators}:"
            " the CPU ran them",
            "its latency there is that of the CPU target",
        )
    placement = ""
    if unit != "cpu":
        placement = _describe_placement(delegated, unit.upper())
    return replace(timing, details={**timing.details, "delegated": delegated}, placement=placement)


def _describe_placement(delegated: tuple[int, int] | None, unit: str) -> str:
    if delegated is None:
        return f"the tool does not tell how many operators ran on the {unit}"
    taken, total = delegated
    return f"{taken} of {plural(total, 'operator')} ran on the {unit}"


def _count_delegated(text: str, unit: str) -> tuple[int, int] | None:
    """Return how many operators the delegate of a unit took, and all;
    None if the tool does not tell.
    """
    taken = 0
    total = 0
    for match in _REPLACED.finditer(text):
        total = max(total, int(match[2]))
        if match[3].startswith(_ON_UNIT[unit]):
            taken += int(match[1])
    # A delegate that fails later prints first that it took operators.
    # XNNPACK then still has the rest.
    if unit != "cpu" and _NOT_APPLIED.search(text):
        return 0, total
    return (taken, total) if total else None


def _parse_timing(text: str, model: Path, threads: int) -> Timing:
    """Return the timing; StageError if there is none,
    ValueError or OverflowError if it cannot be read.

    Its details are the figures of the inferences in ms (``std_ms``, ``max_ms``, ...), and the
    ``operators`` in run order, each with kind, name, average ms in one inference and percent of
    the total.
    """
    # The tool has no machine-readable output, so its lines for people are read.
    timings = _TIMINGS.search(text)
    runs = list(_COUNTS.finditer(text))
    if timings is None or not runs:
        lines = []
        for line in text.splitlines():
            if line.strip():
                lines.append(line.strip())
        errors = list(filter(re.compile("ERROR|ailed").search, lines))
        raise StageError(
            f"benchmark_model printed no timings: {(errors or lines or ['no output'])[-1][:300]}"
        )
    # The last count= line is that of the inference, the line before that of the warm-up.
    last = dict(part.split("=") for part in runs[-1][2].split())
    figures = {name: float(value) / 1e3 for name, value in last.items()}
    init, first, _, mean = (float(value) / 1e3 for value in timings.groups())
    if mean <= 0:
        raise StageError("benchmark_model reports an inference that took no time")
    footprint = _FOOTPRINT.search(text)
    return Timing(
        model=model,
        threads=threads,
        # Older releases of the tool print neither a median nor percentiles.
        median_ms=figures.get("median", figures.get("p50", mean)),
        runs=int(runs[-1][1]),
        first_ms=first,
        load_ms=init,
        runtime="tflite benchmark_model",
        # Its MB are 2^20 bytes.
        memory_bytes=max(0, round(float(footprint[1]) * 2**20)) if footprint else None,
        details={
            **{f"{name}_ms": value for name, value in figures.items()},
            "operators": _parse_operators(text),
        },
        throttled=_describe_throttling(figures.get("first"), mean, figures.get("curr")),
    )


def _describe_throttling(first_ms: float | None, mean_ms: float, last_ms: float | None) -> str:
    """Return by how much the device slowed down, empty if it did not or if a figure is missing.

    The tool prints the first, the mean and the last run only. After a steady slowdown, the mean is
    well above the first run, and the last run well above the mean. A single slow run does not have
    this effect.
    """
    if (
        first_ms is None
        or last_ms is None
        or mean_ms < STEADY * first_ms
        or last_ms < STEADY * mean_ms
    ):
        return ""
    return f"throttled: the last run took {last_ms / first_ms:.2f} times as long as the first"


def _parse_operators(text: str) -> tuple[dict[str, object], ...]:
    """Return the rows of the last table in run order, that of the inferences;
    its header names the columns.
    """
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
        rows.append(
            {
                "kind": match[1].strip(),
                "name": name,
                "mean_ms": values[mean],
                "share": values[share],
            }
        )
    return tuple(rows)


class PhoneTool:
    """``benchmark_model`` for those who bring it to a phone themselves, as a device cloud does."""

    @staticmethod
    def fetch(abi: str) -> Path:
        """Return the published tool for an instruction set, fetched once; UsageError:
        it is nowhere.
        """
        return fetch_tool(abi, FetchOptions()).path

    @staticmethod
    def arguments(
        tool: str, model: str, threads: int, unit: str = "cpu", effort: str = "quick"
    ) -> list[str]:
        """Return the command with its arguments, by the paths of tool and model on the phone."""
        return [
            tool,
            f"--graph={model}",
            f"--num_threads={threads}",
            f"--num_runs={_RUNS.get(effort, _RUNS['quick'])}",
            *_SHORT.get(effort, ()),
            "--report_peak_memory_footprint=true",
            "--enable_op_profiling=true",
            *DELEGATES[unit],
        ]

    #: See :func:`parse_output`.
    read = staticmethod(parse_output)


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
        folder = f"{_FOLDER}/advisor-{_key(tool, job)}"
        try:
            self._run_in_shell(
                f"mkdir -p {shlex.quote(folder)} && chmod 700 {shlex.quote(folder)}",
                QUICK_S,
                "make a folder",
            )
            self._push(tool, f"{folder}/benchmark_model")
            self._run_in_shell(
                f"chmod 700 {shlex.quote(folder + '/benchmark_model')}",
                QUICK_S,
                "mark the tool executable",
            )
            timings = []
            for place, model in enumerate(job.models):
                timings += self._measure_file(job, folder, place, model)
            return tuple(timings)
        finally:
            with suppress(StageError):
                self._run_in_shell(f"rm -rf {shlex.quote(folder)}", QUICK_S, "remove the folder")

    def _measure_file(
        self, job: MeasurementJob, folder: str, index: int, model: Path
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
        argv = [
            *PhoneTool.arguments(
                f"{folder}/benchmark_model", remote, threads, self.unit, job.effort
            ),
            *self.arguments,
        ]
        pinned = ["taskset", self.cores, *argv] if self.cores else argv
        return shlex.join(pinned) + " 2>&1"

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
            hint = "check the cable, and that the phone is awake"
            raise StageError(f"{self.label} disconnected: {finished.complaint}", hint)
        raise StageError(f"{self.label} {what}: {finished.complaint}")


def _key(binary: Path, job: MeasurementJob) -> str:
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
