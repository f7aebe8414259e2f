"""Parse the output of TensorFlow Lite's ``benchmark_model``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from advisor.core.errors import StageError

_TIMINGS = re.compile(
    r"Inference timings in us: Init: ([\d.e+]+), First inference: ([\d.e+]+), "
    r"Warmup \(avg\): ([\d.e+]+), Inference \(avg\): ([\d.e+]+)"
)
_RUNS = re.compile(r"count=(\d+)((?: \w+=[-\d.e+]+)+)")
_FOOTPRINT = re.compile(
    r"(?:Memory footprint delta from the start of the tool|Peak memory footprint) \(MB\): "
    r"init=[-\d.e+]+ overall=([-\d.e+]+)"
)
_DELEGATED = re.compile(r"Replacing (\d+) out of (\d+) node\(s\) with delegate")
STEADY = 1.1
_COLUMN = re.compile(r"\[([^\]]+)\]")


@dataclass(frozen=True)
class OperatorTime:
    """One row of the operator profile, in run order.

    Attributes:
        kind: kind of operator, such as ``CONV_2D``.
        name: name of the node, or empty.
        mean_ms: average time in one inference.
        share: percent of the total.
    """

    kind: str
    name: str
    mean_ms: float
    share: float


@dataclass(frozen=True)
class BenchmarkOutput:
    """The result of one run of ``benchmark_model``.

    Attributes:
        init_ms: time to load and prepare the model.
        first_ms: the first inference.
        mean_ms: average inference.
        median_ms: median inference, None if the release does not print it.
        max_ms: slowest inference.
        std_ms: standard deviation.
        last_ms: the last timed inference, None if not printed.
        started_ms: the first timed inference, None if not printed.
        runs: number of timed inferences.
        memory_bytes: memory that the tool added in total, None if not printed.
        delegated: number of delegated operators and of all operators; None if no delegate reports it.
        operators: the profile in run order, empty if not asked for.
    """

    init_ms: float
    first_ms: float
    mean_ms: float
    median_ms: float | None
    max_ms: float
    std_ms: float
    runs: int
    memory_bytes: int | None
    delegated: tuple[int, int] | None
    operators: tuple[OperatorTime, ...]
    started_ms: float | None = None
    last_ms: float | None = None

    @property
    def throttled(self) -> str:
        """Return by how much the device slowed down, empty if it did not.

        The tool prints the first, the mean and the last run only. After a steady slowdown, the mean is well above the
        first run, and the last run well above the mean. A single slow run does not have this effect.
        """
        if self.started_ms is None or self.last_ms is None:
            return ""
        if self.mean_ms < STEADY * self.started_ms or self.last_ms < STEADY * self.mean_ms:
            return ""
        return f"throttled: the last run took {self.last_ms / self.started_ms:.2f} times as long as the first"


def parse_output(text: str) -> BenchmarkOutput:
    """Parse the tool's output.

    Raises:
        StageError: it contains no timings: the tool failed, or it is another tool.
    """
    timings, runs = _TIMINGS.search(text), list(_RUNS.finditer(text))
    if timings is None or not runs:
        raise StageError(f"benchmark_model printed no timings: {_said(text)}")
    # The last count= line is that of the inference, the line before that of the warm-up.
    last = dict(part.split("=") for part in runs[-1][2].split())
    figures = {name: float(value) / 1e3 for name, value in last.items()}
    init, first, _, mean = (float(value) / 1e3 for value in timings.groups())
    if mean <= 0:
        raise StageError("benchmark_model reports an inference that took no time")
    return BenchmarkOutput(
        init_ms=init,
        first_ms=first,
        mean_ms=mean,
        median_ms=figures.get("median", figures.get("p50")),
        max_ms=figures.get("max", mean),
        std_ms=figures.get("std", 0.0),
        runs=int(runs[-1][1]),
        memory_bytes=_megabytes(_FOOTPRINT.search(text)),
        delegated=_delegated(text),
        operators=_operators(text),
        started_ms=figures.get("first"),
        last_ms=figures.get("curr"),
    )


def _said(text: str) -> str:
    """Return the line that best explains why there are no timings."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "ERROR" in line or "ailed" in line]
    return (errors or lines or ["no output"])[-1][:300]


def _megabytes(match: re.Match[str] | None) -> int | None:
    """Return bytes; the tool's MB are 2^20 bytes."""
    return max(0, round(float(match[1]) * 2**20)) if match else None


def _delegated(text: str) -> tuple[int, int] | None:
    """Return how many operators delegates took, and all; nothing else shows that a model fell back to the CPU."""
    found = [(int(match[1]), int(match[2])) for match in _DELEGATED.finditer(text)]
    return (sum(taken for taken, _ in found), found[0][1]) if found else None


def _operators(text: str) -> tuple[OperatorTime, ...]:
    """Return the rows of the last table in run order, that of the inferences; its header names the columns."""
    _, found, tail = text.rpartition("= Run Order =")
    lines = tail.splitlines()[1:]
    if not found or not lines:
        return ()
    columns = _COLUMN.findall(lines[0])
    if "avg ms" not in columns or "%" not in columns or len(columns) < 4:
        return ()
    numbers = len(columns) - 2
    row = re.compile(rf"^\s*(.+?)((?:\s+[-\d.]+%?){{{numbers}}})(?:\s+(.*))?$")
    mean, share = columns.index("avg ms") - 1, columns.index("%") - 1
    rows = []
    for line in lines[1:]:
        match = row.match(line)
        if "====" in line or match is None:
            break
        values = [float(value.rstrip("%")) for value in match[2].split()]
        name = (match[3] or "").strip().removeprefix("[").split("]:")[0]
        rows.append(OperatorTime(match[1].strip(), name, values[mean], values[share]))
    return tuple(rows)
