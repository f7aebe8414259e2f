"""The results of ``advisor benchmark`` as values: one for each file, and the ratios between files."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from advisor.measurement import host
from advisor.measurement.latency.advice import advise_threads
from advisor.measurement.latency.conditions import Conditions
from advisor.measurement.latency.end_to_end import Pipeline
from advisor.measurement.latency.results import LatencyResult, ModelTiming, Ratio
from advisor.measurement.latency.sustained import Sustained

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class FileBenchmark:
    """The results of one file.

    Attributes:
        model: its path as given.
        size_bytes: size of the file.
        arena_bytes: memory that its activations need at once, computed from their lifetimes.
        timing: latency, load time and memory; None if it failed.
        failure: reason of the failure, empty if there is none.
        loaded: latency during a load on the other processors for each thread count; empty if not measured.
        sustained: latency in a run without a pause, None if not measured.
        pipeline: times from an image to an answer, None if not measured.
    """

    model: str
    size_bytes: int
    arena_bytes: int
    timing: ModelTiming | None = None
    failure: str = ""
    loaded: tuple[LatencyResult, ...] = ()
    sustained: Sustained | None = None
    pipeline: Pipeline | None = None

    @property
    def advice(self) -> tuple[str, ...]:
        """Advice based on the figures; each sentence contains its evidence."""
        sentences = advise_threads(self.timing, self.loaded) if self.timing else ()
        more = [part.sentence for part in (self.sustained, self.pipeline) if part]
        return (*sentences, *more)

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        timing = self.timing.to_json() if self.timing else None
        loaded = [latency_json(row) for row in self.loaded]
        sustained = None
        if self.sustained:
            row = self.sustained
            sustained = {**asdict(row), "first_ms": row.first_ms, "last_ms": row.last_ms, "ratio": row.ratio}
        extra = {"timing": timing, "loaded": loaded, "sustained": sustained, "advice": list(self.advice)}
        plain = {"model": self.model, "size_bytes": self.size_bytes, "arena_bytes": self.arena_bytes}
        pipeline = asdict(self.pipeline) if self.pipeline else None
        return {**plain, "failure": self.failure or None, "pipeline": pipeline, **extra}


@dataclass(frozen=True)
class Benchmark:
    """One run of ``advisor benchmark``.

    Attributes:
        files: one result for each file, in the given order.
        ratios: each further file relative to the first that ran, for each thread count.
        effort: name of the effort.
        kernels: ``default`` (XNNPACK for the operators that it supports) or ``builtin``.
        conditions: the machine before the measurement.
        host: the machine.
        notes: notes for the reader.
    """

    files: tuple[FileBenchmark, ...]
    ratios: tuple[Ratio, ...]
    effort: str
    kernels: str
    conditions: Conditions
    host: host.Host
    notes: tuple[str, ...]

    @property
    def failed(self) -> tuple[FileBenchmark, ...]:
        """The files that could not be measured."""
        return tuple(file for file in self.files if file.timing is None)

    @property
    def runtime(self) -> str:
        """Package and version of the runtime, empty if nothing ran."""
        return next((file.timing.runtime for file in self.files if file.timing), "")

    def to_json(self) -> dict[str, object]:
        """Return a JSON object with everything except single runs."""
        ratios = [{**asdict(row), "differs": row.differs} for row in self.ratios]
        return {
            "schema_version": SCHEMA_VERSION,
            "files": [file.to_json() for file in self.files],
            "ratios": ratios,
            "effort": self.effort,
            "kernels": self.kernels,
            "runtime": self.runtime,
            "conditions": self.conditions.to_json(),
            "host": self.host.to_json(),
            "notes": list(self.notes),
        }

    def to_log(self) -> str:
        """Return log lines in MLPerf's format (``:::MLLOG {...}``) for every file that ran."""
        return "\n".join(file.timing.to_log() for file in self.files if file.timing)


def latency_json(row: LatencyResult) -> dict[str, object]:
    """Return a result as a JSON object, with the figures for ranking and for the budget."""
    return {**asdict(row), "rank_ms": row.rank_ms, "budget_ms": row.budget_ms, "clock": row.clock}
