"""Call the agent (``isolation/agent.py``), and turn the document that it prints into timings.

``host.py`` runs the agent in a new process here, ``ssh.py`` on a board; other connections may call
:func:`timings_of_agent` with an answer of the same form. A device that slows down from block to
block is called throttled.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any

from advisor.core import StageError, UsageError
from advisor.devices._connections.protocol import Timing
from advisor.isolation import (
    WAITED_LIMIT,
    Block,
    Finished,
    SeriesDocument,
    agent,
    compute_waited_share,
)
from advisor.store import parse_json

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


def read_document(finished: Finished) -> dict[str, Any]:
    """Return the JSON document in the last line of the agent's output;
    StageError if there is none.
    """
    document = None
    with suppress(ValueError, IndexError):
        # Libraries may write to the output before it.
        document = parse_json(finished.stdout.strip().splitlines()[-1])
    if not isinstance(document, dict):
        cause = f" (exit status {finished.status}): {finished.complaint}"
        if finished.death:
            cause = f": it {finished.death}"
        raise StageError(f"the agent returned no measurements{cause}")
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
            model = by_name[series["model"]]
            timings.append(_make_timing(model, series, common, memory, document["load"]))
            # Memory is that of the process with the first model, so no later series may claim it.
            memory = None
        return tuple(timings)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as problem:
        raise StageError(
            f"invalid response from the device: {type(problem).__name__} {problem}"
        ) from problem


def _make_timing(
    model: Path,
    series: SeriesDocument,
    common: str,
    memory: int | None,
    load: object,
) -> Timing:
    walls: list[float] = []
    for block in series["blocks"]:
        walls += map(float, block["wall_ns"])
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
            cpu_medians or _undisturbed_medians(threads, series["blocks"])
        ),
        cpu_ms=statistics.median(cpu_medians) / 1e6 if cpu_medians else None,
        waited_share=compute_waited_share(threads, series["blocks"]),
    )


def _undisturbed_medians(threads: int, blocks: Sequence[Block]) -> list[float]:
    """Return the median wall time of each block in which the threads hardly waited."""
    medians = []
    for block in blocks:
        waited_share = compute_waited_share(threads, [block]) or 0.0
        if waited_share <= WAITED_LIMIT:
            medians.append(statistics.median(map(float, block["wall_ns"])))
    return medians


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


def require_cpu(accelerator: str, place: str) -> None:
    """Refuse a target of another kind (UsageError): the agent runs files on the CPU alone."""
    if accelerator != "cpu":
        raise UsageError(
            f"over {place} the agent measures CPU targets only, not '{accelerator}'",
            "name a CPU target of the device, or connect to a phone over adb",
        )
