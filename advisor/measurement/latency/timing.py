"""Latency, load time and memory of one ``.tflite`` file on this machine, each in a fresh child process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.core.errors import UsageError, nearest
from advisor.devices.connections import agent
from advisor.devices.connections.agent import EFFORTS, Effort
from advisor.measurement import host
from advisor.measurement.latency.results import LatencyResult, ModelTiming, Ratio
from advisor.measurement.latency.summary import paired_ratio
from advisor.measurement.latency.trust import disturbance, judge
from advisor.measurement.processes.child import existing_model, run_json
from advisor.measurement.processes.memory import CHILD_MEMORY_LIMIT


@dataclass(frozen=True)
class Setup:
    """How a file is loaded.

    Attributes:
        kernels: ``default`` (XNNPACK where it applies) or ``builtin``.
        shape: shape of the first input where the file leaves it open.
        python: interpreter of another environment whose runtime measures, None for this one.
        cpus: processors that the threads are pinned to, None for all that this process may use.
    """

    kernels: str = "default"
    shape: tuple[int, ...] | None = None
    python: Path | None = None
    cpus: tuple[int, ...] | None = None

    def options(self) -> list[str]:
        """Return the agent's options."""
        shape = ["--shape", ",".join(map(str, self.shape))] if self.shape else []
        cpus = ["--cpus", ",".join(map(str, self.cpus))] if self.cpus else []
        return ["--kernels", self.kernels, "--memory-limit", str(CHILD_MEMORY_LIMIT), *shape, *cpus]


DEFAULT = Setup()


def effort_named(name: str) -> Effort:
    """Return an effort by name.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in EFFORTS:
        raise UsageError(f"unknown effort '{name}'{nearest(name, EFFORTS)}", f"efforts: {', '.join(EFFORTS)}")
    return EFFORTS[name]


def measure(
    model: Path | str,
    threads: Sequence[int] = (1,),
    effort: Effort | str = "quick",
    *,
    timeout_s: float | None = None,
    retries: int = 1,
    setup: Setup = DEFAULT,
) -> ModelTiming:
    """Measure one file at each thread count, in a fresh child process.

    Thread counts that come out contended are measured again after a rest; of the attempts the least disturbed is kept.

    Args:
        model: a ``.tflite`` file.
        threads: thread counts; memory is that of the first.
        effort: one of ``EFFORTS``, or its name.
        timeout_s: limit of one child, None for a limit that fits the effort.
        retries: how often contended thread counts are measured again.
        setup: how the file is loaded.

    Raises:
        UsageError: the file is missing, or a thread count or effort is not valid.
        StageError: the file cannot be loaded or run, or the child crashed or timed out.
    """
    path, counts = existing_model(model), thread_counts(threads)
    asked = effort_named(effort) if isinstance(effort, str) else effort
    document = _run_agent([path], counts, asked, timeout_s, setup)
    results = {result.threads: result for result in _results(document)}
    for attempt in range(retries):
        contended = [count for count in counts if results[count].contended]
        if not contended:
            break
        time.sleep(0.25 * (attempt + 1))
        again = _results(_run_agent([path], contended, asked, timeout_s, setup))
        for result in again:
            results[result.threads] = min(results[result.threads], result, key=disturbance)
    return _timing(str(model), document, tuple(results[count] for count in counts), asked)


def interleave(
    models: Sequence[Path | str],
    threads: Sequence[int] = (1,),
    effort: Effort | str = "quick",
    *,
    timeout_s: float | None = None,
    setup: Setup = DEFAULT,
) -> tuple[tuple[LatencyResult, ...], ...]:
    """Time several files in one process, block by block in turn, so that a drift of the machine meets all alike.

    Returns:
        For each file, one result a thread count.

    Raises:
        UsageError: a missing file, or a thread count or effort that is not valid.
        StageError: as :func:`measure`.
    """
    paths, counts = [existing_model(model) for model in models], thread_counts(threads)
    asked = effort_named(effort) if isinstance(effort, str) else effort
    results = _results(_run_agent(paths, counts, asked, timeout_s, setup))
    return tuple(results[start : start + len(counts)] for start in range(0, len(results), len(counts)))


def ratio(reference: str, first: LatencyResult, model: str, second: LatencyResult) -> Ratio:
    """Compare two results of one run by the clock that both have and that can be trusted."""
    by_cpu = (first.contended or second.contended) and first.block_cpu_medians_ms and second.block_cpu_medians_ms
    one, other = (row.block_cpu_medians_ms if by_cpu else row.block_medians_ms for row in (first, second))
    return Ratio(model, reference, first.threads, *paired_ratio(one, other))


def thread_counts(threads: Sequence[int]) -> list[int]:
    """Return the thread counts without repeats.

    Raises:
        UsageError: none, or one below 1.
    """
    counts = list(dict.fromkeys(threads))
    if not counts or min(counts) < 1:
        raise UsageError(f"thread counts {list(threads)} are not valid", "give whole numbers from 1, such as 1,2")
    return counts


def _run_agent(
    paths: Sequence[Path], threads: Sequence[int], effort: Effort, timeout_s: float | None, setup: Setup
) -> dict[str, Any]:
    """Run the agent in a child process and return its document."""
    lanes = len(paths) * len(threads)
    limit = timeout_s or 60 + lanes * (30 + 2 * effort.max_seconds)
    options = ["--threads", ",".join(map(str, threads)), "--effort", effort.name, *setup.options()]
    subject = " and ".join(path.name for path in paths)
    arguments = [*(str(path.absolute()) for path in paths), *options]
    return run_json(Path(agent.__file__), arguments, limit, subject, setup.python)


def runtime_of(document: dict[str, Any]) -> str:
    """Return the runtime as package and version."""
    return f"{document['runtime']}=={document['runtime_version']}"


def _results(document: dict[str, Any]) -> tuple[LatencyResult, ...]:
    """Turn every lane of the agent's document into a result."""
    return tuple(judge(lane, document["load"]) for lane in document["lanes"])


def _timing(model: str, document: dict[str, Any], results: tuple[LatencyResult, ...], effort: Effort) -> ModelTiming:
    """Put the first document's memory and the best results together."""
    memory = document["memory"] or {}
    content = document["load_content_ns"]
    return ModelTiming(
        model=model,
        results=results,
        peak_memory_bytes=memory.get("private_bytes"),
        dirty_memory_bytes=memory.get("dirty_bytes"),
        process_memory_bytes=memory.get("process_bytes"),
        load_content_ms=None if content is None else content / 1e6,
        runtime=runtime_of(document),
        effort=effort.name,
        host=host.describe(),
    )
