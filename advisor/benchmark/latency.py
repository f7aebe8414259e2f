"""Latency, load time and memory of one ``.tflite`` file on this machine, each in a fresh child process.

What to compare: :attr:`LatencyResult.budget_ms` against a budget, :attr:`LatencyResult.rank_ms` among artefacts.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from operator import truediv
from pathlib import Path
from typing import Any

from advisor.benchmark import agent, host
from advisor.benchmark.agent import EFFORTS, Effort
from advisor.benchmark.child import existing_model, run_json
from advisor.benchmark.summary import LEVEL, UNSTABLE_CV, Summary, Verdict, block_medians, paired_ratio, summarise
from advisor.core.errors import UsageError, nearest
from advisor.core.quantity import Provenance, Quantity

__all__ = ["EFFORTS", "Comparison", "Effort", "LatencyResult", "ModelTiming", "Ratio", "compare_interleaved", "measure"]

CHILD_MEMORY_LIMIT = 3 * 10**9
CPU_SHARE_LIMIT = 0.9  # CPU / wall at one thread: measured >= 0.99 on an idle host, 0.45 with 3 busy processes
WAITED_LIMIT = 0.1  # share of the time that the threads stood ready without a processor: < 0.01 on an idle host
OTHERS_LIMIT = 0.2  # processors that others take from the threads; finer is below the tick of /proc/stat


@dataclass(frozen=True)
class LatencyResult:
    """The latency of one file at one thread count; times in milliseconds.

    Attributes:
        threads: number of threads.
        wall: statistics of the wall time of each run.
        cpu: statistics of the CPU time of each run; None above one thread, where no clock tells it per run.
        first_ms: the first run after loading.
        load_ms: making the interpreter on the memory-mapped file and allocating its tensors.
        contended: other processes took processor time from the runs.
        verdict: ``stable``, ``unstable`` or ``contended``.
        reason: why, with the figure.
        cpu_share: CPU time / wall time at one thread, the lesser of the runs' median and of the whole; else None. The
            whole matters: a run much shorter than the scheduler's slice is rarely disturbed, but then for long.
        waited_share: part of the time in which the threads stood ready without a processor, None where unknown.
        others_cores: processors kept busy by other processes meanwhile, None where unknown.
        block_medians_ms: median of each block, in the order measured.
        block_cpu_medians_ms: the same of the CPU time, empty above one thread.
    """

    threads: int
    wall: Summary
    cpu: Summary | None
    first_ms: float
    load_ms: float
    contended: bool
    verdict: Verdict
    reason: str
    cpu_share: float | None
    waited_share: float | None
    others_cores: float | None
    block_medians_ms: tuple[float, ...]
    block_cpu_medians_ms: tuple[float, ...]

    @property
    def _trusted(self) -> Summary:
        """CPU time where the wall time was contended and CPU time is known, else wall time."""
        return self.cpu if self.contended and self.cpu is not None else self.wall

    @property
    def clock(self) -> str:
        """Which clock :attr:`rank_ms` and :attr:`budget_ms` come from."""
        if not self.contended:
            return "wall time"
        return "CPU time, as the machine was contended" if self.cpu else "least wall time, as the machine was contended"

    @property
    def rank_ms(self) -> float:
        """What artefacts are ranked by: the median of the block medians.

        When contended: at one thread that of the CPU time, which stays within 4 % of the idle figure while the wall
        time grows sixfold; above one thread the least wall time, the run that was disturbed least.
        """
        return self.wall.min if self.contended and self.cpu is None else self._trusted.median

    @property
    def interval_ms(self) -> tuple[float, float]:
        """95 % bootstrap interval that belongs to :attr:`rank_ms`."""
        if self.contended and self.cpu is None:
            return self.wall.min, self.wall.median
        return self._trusted.low, self._trusted.high

    @property
    def budget_ms(self) -> float:
        """What a budget is compared with: the 90th percentile (MLPerf Mobile's metric).

        When contended at one thread that of the CPU time; above one thread the wall time stays, as the worse case.
        """
        return self._trusted.p90

    def to_quantities(self, source: str) -> dict[str, Quantity]:
        """Return ``latency`` and ``latency_p90`` in ms with provenance ``measured``."""
        low, high = self.interval_ms
        where = f"{source}, {self.threads} thread{'s' if self.threads > 1 else ''}, {self.clock}"
        common: dict[str, Any] = {"unit": "ms", "provenance": Provenance.MEASURED, "n": self.wall.runs, "source": where}
        return {
            "latency": Quantity(value=self.rank_ms, low=low, high=high, level=LEVEL, **common),
            "latency_p90": Quantity(value=self.budget_ms, **common),
        }


@dataclass(frozen=True)
class ModelTiming:
    """What one fresh process measured of one file.

    Attributes:
        model: the file's path as given.
        results: one result a thread count, in the order asked.
        peak_memory_bytes: private memory (clean + dirty) that loading and the first run added at the first thread
            count, None where the system does not tell.
        dirty_memory_bytes: its dirty part, which the system cannot drop and read again from the file.
        process_memory_bytes: private memory of the whole process, interpreter and libraries included.
        load_content_ms: loading from bytes in memory instead of the mapped file, None where not measured.
        runtime: package and version, such as ``ai-edge-litert==2.3.0``.
        effort: name of the effort.
        host: the machine.
    """

    model: str
    results: tuple[LatencyResult, ...]
    peak_memory_bytes: int | None
    dirty_memory_bytes: int | None
    process_memory_bytes: int | None
    load_content_ms: float | None
    runtime: str
    effort: str
    host: host.Host

    @property
    def source(self) -> str:
        """Where the figures come from, for :class:`Quantity`."""
        return f"host {self.host}, {self.runtime}"

    def at(self, threads: int) -> LatencyResult:
        """Return the result at a thread count.

        Raises:
            KeyError: that count was not measured.
        """
        for result in self.results:
            if result.threads == threads:
                return result
        raise KeyError(threads)

    def to_quantities(self, threads: int) -> dict[str, Quantity]:
        """Return ``latency``, ``latency_p90`` and, where known, ``memory`` of one thread count."""
        quantities = self.at(threads).to_quantities(self.source)
        if self.peak_memory_bytes is not None:
            quantities["memory"] = Quantity(
                float(self.peak_memory_bytes), "bytes", Provenance.MEASURED, n=1, source=self.source
            )
        return quantities

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object with everything measured but the single runs."""
        data: dict[str, Any] = {"schema_version": agent.SCHEMA_VERSION, **asdict(self), "host": self.host.to_json()}
        for row, result in zip(data["results"], self.results, strict=True):
            row.update(rank_ms=result.rank_ms, budget_ms=result.budget_ms, clock=result.clock)
        return data

    def to_log(self) -> str:
        """Return one MLPerf-style log line (``:::MLLOG {...}``) a thread count."""
        return "\n".join(
            ":::MLLOG " + json.dumps({"key": key, "value": value, "metadata": {"threads": result.threads}})
            for result in self.results
            for key, value in (
                ("result_90.00_percentile_latency_ms", result.wall.p90),
                ("result_median_latency_ms", result.wall.median),
                ("result_validity", result.verdict.value.upper()),
                ("effort", self.effort),
            )
        )


@dataclass(frozen=True)
class Ratio:
    """How much slower one file is than the reference: 1.2 is 20 % slower.

    Attributes:
        model: the file's path.
        reference: the path of the file it is compared with.
        threads: number of threads.
        ratio: median over the paired blocks.
        low: lower end of the 95 % bootstrap interval.
        high: upper end.
    """

    model: str
    reference: str
    threads: int
    ratio: float
    low: float
    high: float

    @property
    def differs(self) -> bool:
        """True where the interval leaves out 1."""
        return not self.low <= 1 <= self.high


@dataclass(frozen=True)
class Comparison:
    """Several files timed in one run, block by block in turn.

    Attributes:
        models: the paths; the first is the reference.
        results: one result a file.
        ratios: each further file against the first.
        runtime: package and version.
        host: the machine.
    """

    models: tuple[str, ...]
    results: tuple[LatencyResult, ...]
    ratios: tuple[Ratio, ...]
    runtime: str
    host: host.Host

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {"schema_version": agent.SCHEMA_VERSION, **asdict(self), "host": self.host.to_json()}


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
    kernels: str = "default",
    shape: Sequence[int] | None = None,
) -> ModelTiming:
    """Measure one file at each thread count, in a fresh child process.

    Thread counts that come out contended are measured again after a rest; of the attempts the least disturbed is kept.

    Args:
        model: a ``.tflite`` file.
        threads: thread counts; memory is that of the first.
        effort: one of ``EFFORTS``, or its name.
        timeout_s: limit of one child, None for a limit that fits the effort.
        retries: how often contended thread counts are measured again.
        kernels: ``default`` (XNNPACK where it applies) or ``builtin``.
        shape: shape of the first input where the file leaves it open.

    Raises:
        UsageError: the file is missing, or a thread count or effort is not valid.
        StageError: the file cannot be loaded or run, or the child crashed or timed out.
    """
    path, counts = existing_model(model), _thread_counts(threads)
    asked = effort_named(effort) if isinstance(effort, str) else effort
    document = _run_agent([path], counts, asked, timeout_s, kernels, shape)
    results = {result.threads: result for result in _results(document)}
    for attempt in range(retries):
        contended = [count for count in counts if results[count].contended]
        if not contended:
            break
        time.sleep(0.25 * (attempt + 1))
        again = _results(_run_agent([path], contended, asked, timeout_s, kernels, shape))
        for result in again:
            results[result.threads] = min(results[result.threads], result, key=_disturbance)
    return _timing(str(model), document, tuple(results[count] for count in counts), asked)


def compare_interleaved(
    models: Sequence[Path | str],
    threads: int = 1,
    effort: Effort | str = "quick",
    *,
    timeout_s: float | None = None,
    kernels: str = "default",
) -> Comparison:
    """Time several files in one process, block by block in turn, so that a drift of the machine meets all alike.

    Raises:
        UsageError: fewer than two files, a missing one, or an effort that is not valid.
        StageError: as :func:`measure`.
    """
    paths = [existing_model(model) for model in models]
    if len(paths) < 2:
        raise UsageError(f"{len(paths)} model given, nothing to compare", "give two or more .tflite files")
    asked = effort_named(effort) if isinstance(effort, str) else effort
    document = _run_agent(paths, _thread_counts([threads]), asked, timeout_s, kernels, None)
    results = _results(document)
    names = tuple(str(model) for model in models)
    ratios = tuple(_ratio(names[0], results[0], name, row) for name, row in zip(names[1:], results[1:], strict=True))
    return Comparison(names, results, ratios, _runtime(document), host.describe())


def _ratio(reference: str, first: LatencyResult, model: str, second: LatencyResult) -> Ratio:
    """Compare two results of one run by the clock that both have and that can be trusted."""
    by_cpu = (first.contended or second.contended) and first.block_cpu_medians_ms and second.block_cpu_medians_ms
    one, other = (row.block_cpu_medians_ms if by_cpu else row.block_medians_ms for row in (first, second))
    return Ratio(model, reference, first.threads, *paired_ratio(one, other))


def _thread_counts(threads: Sequence[int]) -> list[int]:
    """Return the thread counts without repeats.

    Raises:
        UsageError: none, or one below 1.
    """
    counts = list(dict.fromkeys(threads))
    if not counts or min(counts) < 1:
        raise UsageError(f"thread counts {list(threads)} are not valid", "give whole numbers from 1, such as 1,2")
    return counts


def _run_agent(
    paths: Sequence[Path],
    threads: Sequence[int],
    effort: Effort,
    timeout_s: float | None,
    kernels: str,
    shape: Sequence[int] | None,
) -> dict[str, Any]:
    """Run the agent in a child process and return its document."""
    lanes = len(paths) * len(threads)
    limit = timeout_s or 60 + lanes * (30 + 2 * effort.max_seconds)
    options = ["--threads", ",".join(map(str, threads)), "--effort", effort.name, "--kernels", kernels]
    options += ["--memory-limit", str(CHILD_MEMORY_LIMIT)]
    options += ["--shape", ",".join(map(str, shape))] if shape else []
    subject = " and ".join(path.name for path in paths)
    return run_json(Path(agent.__file__), [*(str(path.absolute()) for path in paths), *options], limit, subject)


def _runtime(document: dict[str, Any]) -> str:
    """Return the runtime as package and version."""
    return f"{document['runtime']}=={document['runtime_version']}"


def _results(document: dict[str, Any]) -> tuple[LatencyResult, ...]:
    """Turn every lane of the agent's document into a result."""
    return tuple(_result(lane, document["load"]) for lane in document["lanes"])


def _result(lane: dict[str, Any], load: dict[str, Any]) -> LatencyResult:
    """Summarise one lane and judge it."""
    walls = _milliseconds(lane, "wall_ns")
    cpus = _milliseconds(lane, "cpu_ns") if lane["threads"] == 1 else []
    wall, cpu = summarise(walls), summarise(cpus) if cpus else None
    share, waited = _cpu_share(walls, cpus), _waited_share(lane)
    contention = _contention(lane["threads"], share, waited, load)
    verdict, reason = _verdict(contention, wall)
    return LatencyResult(
        threads=lane["threads"],
        wall=wall,
        cpu=cpu,
        first_ms=lane["first_ns"] / 1e6,
        load_ms=lane["load_ns"] / 1e6,
        contended=bool(contention),
        verdict=verdict,
        reason=reason,
        cpu_share=share,
        waited_share=waited,
        others_cores=load["others_cores"],
        block_medians_ms=tuple(block_medians(walls)),
        block_cpu_medians_ms=tuple(block_medians(cpus)) if cpus else (),
    )


def _milliseconds(lane: dict[str, Any], clock: str) -> list[list[float]]:
    """Return the runs of each block by one clock, in milliseconds."""
    return [[value / 1e6 for value in block[clock]] for block in lane["blocks"]]


def _cpu_share(walls: list[list[float]], cpus: list[list[float]]) -> float | None:
    """Return the lesser of the median and the total CPU / wall time of the runs, None without CPU times."""
    if not cpus:
        return None
    cpu, wall = ([value for row in rows for value in row] for rows in (cpus, walls))
    median: float = statistics.median(map(truediv, cpu, wall))
    return min(median, sum(cpu) / sum(wall))


def _waited_share(lane: dict[str, Any]) -> float | None:
    """Return the part of its time that a thread of the lane stood ready without a processor."""
    if any(block["waited_ns"] is None for block in lane["blocks"]):
        return None
    waited = sum(block["waited_ns"] for block in lane["blocks"])
    return float(waited / (lane["threads"] * sum(block["elapsed_ns"] for block in lane["blocks"])))


def _contention(threads: int, cpu_share: float | None, waited: float | None, load: dict[str, Any]) -> str:
    """Say what disturbed the runs, or return an empty string."""
    if cpu_share is not None and cpu_share < CPU_SHARE_LIMIT:
        return f"the thread had the processor only {cpu_share:.0%} of the time"
    if waited is not None and waited > WAITED_LIMIT:
        return f"the threads waited {waited:.0%} of the time for a processor"
    if threads == 1:
        return ""
    others, free = load["others_cores"], max(0, load["cores"] - threads)
    if others is not None and others > free + OTHERS_LIMIT:
        return f"other processes kept {others:.1f} of {load['cores']} processors busy beside {threads} threads"
    if threads > load["cores"]:
        return f"{threads} threads share {load['cores']} processors"
    return ""


def _verdict(contention: str, wall: Summary) -> tuple[Verdict, str]:
    """Judge a result."""
    if contention:
        return Verdict.CONTENDED, contention
    if wall.block_cv > UNSTABLE_CV:
        return Verdict.UNSTABLE, f"block medians vary by {wall.block_cv:.1%} (limit {UNSTABLE_CV:.0%})"
    return Verdict.STABLE, f"block medians vary by {wall.block_cv:.1%}"


def _disturbance(result: LatencyResult) -> tuple[bool, float]:
    """Order attempts: those not contended first, then by how much the runs waited."""
    lost = 1 - result.cpu_share if result.cpu_share is not None else result.waited_share
    return result.contended, lost if lost is not None else (result.others_cores or 0.0)


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
        runtime=_runtime(document),
        effort=effort.name,
        host=host.describe(),
    )
