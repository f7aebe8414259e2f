"""The command line of TensorFlow Lite's ``benchmark_model``, and the timing in what it prints.

A phone over adb and the phones of device clouds are measured with this tool. It prints lines for
people only, and their form changes between releases: patterns here accept all that were seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from advisor.core import StageError, plural
from advisor.devices._connections.protocol import NotOnUnit, Timing
from advisor.devices._connections.tool import fetch_tool
from advisor.store import FetchOptions

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

_ERROR = re.compile("ERROR|ailed")

STEADY = 1.1  # Ratio of the mean to the first run, and of the last to the mean, of a slowdown
_COLUMN = re.compile(r"\[([^\]]+)\]")
_RUNS = {"load": 5, "survey": 20, "search": 20, "quick": 30, "normal": 50, "full": 200}
_SHORT = {"survey": ("--min_secs=0.2", "--warmup_min_secs=0.1")}


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
        raise StageError(f"benchmark_model printed no timings: {_find_complaint(text)[:300]}")
    # The last count= line is that of the inference, the line before that of the warm-up.
    figures = {}
    for part in runs[-1][2].split():
        name, value = part.split("=")
        figures[name] = float(value) / 1e3
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


def _find_complaint(text: str) -> str:
    """Return the last line about an error, or the last line."""
    lines = list(filter(None, map(str.strip, text.splitlines())))
    errors = list(filter(_ERROR.search, lines))
    return (errors or lines or ["no output"])[-1]


def _describe_throttling(first_ms: float | None, mean_ms: float, last_ms: float | None) -> str:
    """Return by how much the device slowed down, empty if it did not or if a figure is missing.

    The tool prints the first, the mean and the last run only. After a steady slowdown, the mean is
    well above the first run, and the last run well above the mean. A single slow run does not have
    this effect.
    """
    if first_ms is None or last_ms is None:
        return ""
    if mean_ms < STEADY * first_ms or last_ms < STEADY * mean_ms:
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
    if len(columns) < 4 or not {"avg ms", "%"} <= set(columns):
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
        """Return the published tool for an instruction set, fetched once.

        UsageError if there is none to fetch.
        """
        return fetch_tool(abi, FetchOptions()).path

    @staticmethod
    def arguments(
        tool: str,
        model: str,
        threads: int,
        unit: str = "cpu",
        effort: str = "quick",
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
