"""Parse the output of TensorFlow Lite's ``benchmark_model``."""

from __future__ import annotations

import re
from pathlib import Path

from advisor.core.errors import StageError
from advisor.devices.connections.protocol import Timing

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


def parse_output(text: str, model: Path, threads: int) -> Timing:
    """Return the timing that the tool printed.

    Its details are the figures of the inferences in ms (``std_ms``, ``max_ms``, ...); the number of ``delegated``
    operators and of all, None if no delegate reports it; and the ``operators`` in run order, each with kind, name,
    average ms in one inference and percent of the total.

    Args:
        text: the tool's output.
        model: the file that it measured.
        threads: number of threads.

    Raises:
        StageError: the output contains no timings: the tool failed, or it is another tool.
    """
    timings, runs = _TIMINGS.search(text), list(_RUNS.finditer(text))
    if timings is None or not runs:
        raise StageError(f"benchmark_model printed no timings: {_explanation(text)}")
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
        median_ms=figures.get("median", figures.get("p50", mean)),
        runs=int(runs[-1][1]),
        first_ms=first,
        load_ms=init,
        runtime="tflite benchmark_model",
        memory_bytes=max(0, round(float(footprint[1]) * 2**20)) if footprint else None,  # its MB are 2^20 bytes
        details={
            **{f"{name}_ms": value for name, value in figures.items()},
            "delegated": _delegated(text),
            "operators": _operators(text),
        },
        throttled=_throttled(figures.get("first"), mean, figures.get("curr")),
    )


def _throttled(first_ms: float | None, mean_ms: float, last_ms: float | None) -> str:
    """Return by how much the device slowed down, empty if it did not or if a figure is missing.

    The tool prints the first, the mean and the last run only. After a steady slowdown, the mean is well above the first
    run, and the last run well above the mean. A single slow run does not have this effect.
    """
    if first_ms is None or last_ms is None or mean_ms < STEADY * first_ms or last_ms < STEADY * mean_ms:
        return ""
    return f"throttled: the last run took {last_ms / first_ms:.2f} times as long as the first"


def _explanation(text: str) -> str:
    """Return the line that best explains why there are no timings."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "ERROR" in line or "ailed" in line]
    return (errors or lines or ["no output"])[-1][:300]


def _delegated(text: str) -> tuple[int, int] | None:
    """Return how many operators delegates took, and all; nothing else shows that a model fell back to the CPU."""
    found = [(int(match[1]), int(match[2])) for match in _DELEGATED.finditer(text)]
    return (sum(taken for taken, _ in found), found[0][1]) if found else None


def _operators(text: str) -> tuple[dict[str, object], ...]:
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
        rows.append({"kind": match[1].strip(), "name": name, "mean_ms": values[mean], "share": values[share]})
    return tuple(rows)
