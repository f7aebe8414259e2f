"""Measure latency, load time and memory of ``.tflite`` files on this machine in new child processes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from advisor.core.errors import UsageError, nearest
from advisor.devices.connections import agent
from advisor.devices.connections.agent import EFFORTS, Document, Effort
from advisor.measurement import host
from advisor.measurement.latency.results import LatencyResult, ModelTiming, Ratio
from advisor.measurement.latency.summary import paired_ratio
from advisor.measurement.latency.trust import disturbance, judge
from advisor.measurement.processes.child import CHILD_MEMORY_LIMIT, existing_model, run_json


@dataclass(frozen=True)
class Setup:
    """How to load a file.

    Attributes:
        kernels: ``default`` (XNNPACK for the operators that it supports) or ``builtin``.
        shape: shape of the first input, if the file does not state it.
        python: interpreter of another environment with another runtime, None for this one.
        cpus: processors to pin the threads to, None for all that this process may use.
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
        UsageError: there is no effort of this name.
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
    """Measure one file at each thread count in a new child process.

    A contended thread count is measured again after a pause, and the least disturbed attempt is used.

    Args:
        model: a ``.tflite`` file.
        threads: thread counts; memory is measured with the first.
        effort: one of ``EFFORTS``, or its name.
        timeout_s: time limit of one child process, None for a limit that depends on the effort.
        retries: how often a contended thread count is measured again.
        setup: how to load the file.

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
    """Time several files in one process, block by block in turn, so that a drift of the machine affects all equally.

    Returns:
        For each file, one result for each thread count.

    Raises:
        UsageError: a file is missing, or a thread count or effort is not valid.
        StageError: as :func:`measure`.
    """
    paths, counts = [existing_model(model) for model in models], thread_counts(threads)
    asked = effort_named(effort) if isinstance(effort, str) else effort
    results = _results(_run_agent(paths, counts, asked, timeout_s, setup))
    return tuple(results[start : start + len(counts)] for start in range(0, len(results), len(counts)))


def ratio(reference: str, first: LatencyResult, model: str, second: LatencyResult) -> Ratio:
    """Compare two results of one run by CPU time if one was contended and both have it, otherwise by wall time."""
    by_cpu = (first.contended or second.contended) and first.block_cpu_medians_ms and second.block_cpu_medians_ms
    one, other = (row.block_cpu_medians_ms if by_cpu else row.block_medians_ms for row in (first, second))
    return Ratio(model, reference, first.threads, *paired_ratio(one, other))


def thread_counts(threads: Sequence[int]) -> list[int]:
    """Return the thread counts without repeats.

    Raises:
        UsageError: there is none, or one is below 1.
    """
    counts = list(dict.fromkeys(threads))
    if not counts or min(counts) < 1:
        raise UsageError(f"thread counts {list(threads)} are not valid", "give whole numbers from 1, such as 1,2")
    return counts


def _run_agent(
    paths: Sequence[Path], threads: Sequence[int], effort: Effort, timeout_s: float | None, setup: Setup
) -> Document:
    """Run the agent in a child process and return its document."""
    lanes = len(paths) * len(threads)
    limit = timeout_s or 60 + lanes * (30 + 2 * effort.max_seconds)
    options = ["--threads", ",".join(map(str, threads)), "--effort", effort.name, *setup.options()]
    subject = " and ".join(path.name for path in paths)
    files = [str(path.absolute()) for path in paths]
    return cast("Document", run_json([agent.__file__, *files, *options], limit, subject, setup.python))


def runtime_of(document: Document) -> str:
    """Return the runtime as package and version."""
    return f"{document['runtime']}=={document['runtime_version']}"


def _results(document: Document) -> tuple[LatencyResult, ...]:
    """Return a result for every series in the agent's document."""
    return tuple(judge(lane, document["load"]) for lane in document["lanes"])


def _timing(model: str, document: Document, results: tuple[LatencyResult, ...], effort: Effort) -> ModelTiming:
    """Combine the memory of the first document with the best results."""
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
