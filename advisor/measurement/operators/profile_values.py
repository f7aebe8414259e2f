"""The profile of a file as values: its operators, its operator types, and the whole."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.core.codec import Written
from advisor.measurement import host
from advisor.measurement.accelerators.delegation import Delegation
from advisor.measurement.microcontrollers import EthosEstimate
from advisor.measurement.operators import roofline
from advisor.measurement.operators.attribution import ProfiledOperator


@dataclass(frozen=True)
class OperatorTime:
    """One step of a run.

    Attributes:
        position: position in the order of execution.
        kernel: name of the kernel in the runtime.
        type: name of the operator in the file, or that of the kernel if the operator is not known.
        where: ``XNNPACK`` or ``builtin``.
        time_us: interquartile mean over the undisturbed runs; it is finer than the clock's microsecond and as robust as
            the median.
        first_us: its time in the first of these runs.
        share: share of the sum of all operators, 0-1.
        cumulative: sum of the shares up to this one.
        node: the operator in the file, None if it is not known.
        gflops: achieved 10^9 operations (float or integer) per second, two per MAC; None if unknown.
        gbytes: achieved 10^9 bytes per second, None if unknown.
    """

    position: int
    kernel: str
    type: str
    where: str
    time_us: float
    first_us: float
    share: float
    cumulative: float
    node: ProfiledOperator | None
    gflops: float | None
    gbytes: float | None


@dataclass(frozen=True)
class TypeTime:
    """All operators of one type in XNNPACK or in the builtin kernels.

    Attributes:
        type: operator name.
        where: ``XNNPACK`` or ``builtin``.
        count: how many.
        time_us: their time.
        share: share of the sum of all operators, 0-1.
        cumulative: sum of the shares from the largest up to this one.
        macs: their multiply-accumulates.
        data_type: data type of the first one's output, empty if unknown.
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
class Profile(Written):
    """The profile of one file at one thread count.

    Attributes:
        model: the file's path as given.
        runtime: package and version.
        kernels: ``default`` (XNNPACK for the operators that it supports) or ``builtin``.
        threads: number of threads.
        runs: number of undisturbed runs that the figures are based on.
        rejected_runs: number of runs that other processes disturbed.
        whole_us: median time of a whole run with the profiler.
        plain_us: median time of a run without it.
        operators: in order of execution.
        coverage: sum of the operators divided by the whole; 0.95-1.02 is good.
        macs: multiply-accumulates of a run.
        parameters: number of weights: elements of the constants that are not shapes or axes.
        arena_bytes: memory that the activations need at once, computed from their lifetimes.
        partitions: how often the run enters XNNPACK.
        roofline: limits of this machine at one thread, None if not measured.
        host: the machine.
        notes: notes for the reader.
        advice: what to improve; each sentence contains its evidence.
        delegations: computed delegations of the file to the requested accelerators; they are not measured.
        ethos: estimates for the requested Ethos-U by its compiler.
    """

    entries = (
        "schema_version", "model", "runtime", "kernels", "threads", "runs", "rejected_runs", "whole_us", "plain_us",
        "operators", "coverage", "macs", "parameters", "arena_bytes", "partitions", "roofline", "host", "notes",
        "ethos", "accelerators=delegations", "overhead", "by_type", "advice",
    )  # fmt: skip
    schema_version = 1

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
    advice: tuple[str, ...] = ()
    delegations: tuple[Delegation, ...] = ()
    ethos: tuple[EthosEstimate, ...] = ()

    @property
    def overhead(self) -> float:
        """Additional time of a run with the profiler: 0.05 is 5 %."""
        return self.whole_us / self.plain_us - 1

    @property
    def by_type(self) -> tuple[TypeTime, ...]:
        """The operators summed by type and kind of kernel, the slowest type first."""
        groups: dict[tuple[str, str], list[OperatorTime]] = {}
        for row in self.operators:
            groups.setdefault((row.type, row.where), []).append(row)
        summary: list[TypeTime] = []
        for rows in sorted(groups.values(), key=lambda rows: -sum(row.time_us for row in rows)):
            share = sum(row.share for row in rows)
            output = next((row.node.outputs[0] for row in rows if row.node and row.node.outputs), "")
            summary.append(
                TypeTime(
                    type=rows[0].type,
                    where=rows[0].where,
                    count=len(rows),
                    time_us=sum(row.time_us for row in rows),
                    share=share,
                    cumulative=share + (summary[-1].cumulative if summary else 0.0),
                    macs=sum(row.node.macs for row in rows if row.node),
                    data_type=output.partition(" ")[0],
                )
            )
        return tuple(summary)

    def top(self, count: int = 10) -> tuple[OperatorTime, ...]:
        """Return the slowest operators."""
        return tuple(sorted(self.operators, key=lambda row: -row.time_us)[:count])
