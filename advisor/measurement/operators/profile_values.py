"""A profile as values: one a step of a run, one an operator type, and the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from advisor.measurement import host
from advisor.measurement.accelerators.delegation import Delegation
from advisor.measurement.operators import roofline
from advisor.measurement.operators.attribution import Node


@dataclass(frozen=True)
class OperatorTime:
    """One step of a run.

    Attributes:
        position: place in the order of execution.
        kernel: the kernel's name as the runtime calls it.
        type: the operator's name in the file, or the kernel's where it cannot be told.
        where: ``XNNPACK`` or ``builtin``.
        time_us: interquartile mean over the undisturbed runs, finer than the clock's microsecond and as robust as the
            median.
        first_us: its time in the first of them.
        share: part of the sum of all operators, 0-1.
        cumulative: shares up to and including this one.
        node: the operator in the file, None where it cannot be told.
        gflops: achieved 10^9 floating-point (or integer) operations a second, two a MAC; None where unknown.
        gbytes: achieved 10^9 bytes a second, None where unknown.
    """

    position: int
    kernel: str
    type: str
    where: str
    time_us: float
    first_us: float
    share: float
    cumulative: float
    node: Node | None
    gflops: float | None
    gbytes: float | None


@dataclass(frozen=True)
class TypeTime:
    """All operators of one type at one place.

    Attributes:
        type: operator name.
        where: ``XNNPACK`` or ``builtin``.
        count: how many.
        time_us: their time.
        share: part of the sum of all operators, 0-1.
        cumulative: shares up to and including this one, from the largest.
        macs: their multiply-accumulates.
        data_type: type of the first one's output, empty where unknown.
    """

    type: str
    where: str
    count: int
    time_us: float
    share: float
    cumulative: float
    macs: int
    data_type: str


@dataclass(frozen=True)
class Profile:
    """The profile of one file at one thread count.

    Attributes:
        model: the file's path as given.
        runtime: package and version.
        kernels: ``default`` (XNNPACK where it applies) or ``builtin``.
        threads: number of threads.
        runs: undisturbed runs behind the figures.
        rejected_runs: runs left out because the thread was preempted.
        whole_us: median time of a whole run under the profiler.
        plain_us: median time of a run without it.
        operators: in order of execution.
        coverage: sum of the operators / whole; 0.95-1.02 is good.
        macs: multiply-accumulates of a run.
        parameters: elements of the file's constants that are weights (more than one element, no shape or axis).
        arena_bytes: memory that the activations need at once, computed from their lifetimes.
        partitions: how many times the run enters XNNPACK.
        roofline: what this host can do at one thread, None where not measured.
        host: the machine.
        notes: what the reader must know.
        delegations: what the accelerators that were asked for would take of the file; computed, not measured.
    """

    model: str
    runtime: str
    kernels: str
    threads: int
    runs: int
    rejected_runs: int
    whole_us: float
    plain_us: float
    operators: tuple[OperatorTime, ...]
    coverage: float
    macs: int
    parameters: int
    arena_bytes: int
    partitions: int
    roofline: roofline.Roofline | None
    host: host.Host
    notes: tuple[str, ...]
    delegations: tuple[Delegation, ...] = ()

    @property
    def overhead(self) -> float:
        """How much longer a run takes under the profiler: 0.05 is 5 %."""
        return self.whole_us / self.plain_us - 1

    @property
    def by_type(self) -> tuple[TypeTime, ...]:
        """The operators summed by type and place, the slowest type first."""
        groups: dict[tuple[str, str], list[OperatorTime]] = {}
        for row in self.operators:
            groups.setdefault((row.type, row.where), []).append(row)
        ordered = sorted(groups.values(), key=lambda rows: -sum(row.time_us for row in rows))
        summary: list[TypeTime] = []
        for rows in ordered:
            before = summary[-1].cumulative if summary else 0.0
            summary.append(_type_time(rows, before))
        return tuple(summary)

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do about it, each sentence with its evidence."""
        from advisor.measurement.operators.advice import advise

        return advise(self)

    def top(self, count: int = 10) -> tuple[OperatorTime, ...]:
        """Return the slowest operators."""
        return tuple(sorted(self.operators, key=lambda row: -row.time_us)[:count])

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object with the operators, the summary by type and the advice."""
        plain = {**asdict(replace(self, delegations=())), "host": self.host.to_json()}
        del plain["delegations"]
        return {
            "schema_version": 1,
            **plain,
            "accelerators": [row.to_json() for row in self.delegations],
            "overhead": self.overhead,
            "by_type": [asdict(row) for row in self.by_type],
            "advice": list(self.advice),
        }

    def to_tsv(self) -> str:
        """Return the tables of TensorFlow's benchmark tool, tab-separated."""
        from advisor.measurement.operators.profile_export import to_tsv

        return to_tsv(self)

    def to_trace(self) -> dict[str, Any]:
        """Return a trace for ``chrome://tracing`` and Perfetto."""
        from advisor.measurement.operators.profile_export import to_trace

        return to_trace(self)


def _type_time(rows: Sequence[OperatorTime], before: float) -> TypeTime:
    """Sum the rows of one type at one place."""
    share = sum(row.share for row in rows)
    output = next((row.node.outputs[0] for row in rows if row.node and row.node.outputs), "")
    return TypeTime(
        type=rows[0].type,
        where=rows[0].where,
        count=len(rows),
        time_us=sum(row.time_us for row in rows),
        share=share,
        cumulative=before + share,
        macs=sum(row.node.macs for row in rows if row.node),
        data_type=output.partition(" ")[0],
    )
