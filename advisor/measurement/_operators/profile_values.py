"""The profile of a file as values: its operators, its operator types and the whole.

The entries of :class:`Profile`, and the fields of the others, are keys of the document that
``advisor profile --json`` prints.
"""

from dataclasses import dataclass

from advisor.core import Written
from advisor.measurement import _host as host
from advisor.measurement._delegation import Delegation
from advisor.measurement._microcontrollers import EthosEstimate


@dataclass(frozen=True)
class ProfiledOperator:
    """One operator of the file's main graph, as a profile shows it.

    Inputs that are activations, and outputs, are texts such as ``float32 1x224x224x3``.
    ``bytes_moved`` are those of its inputs, constants and outputs; each tensor counts once.
    """

    index: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    macs: int
    bytes_moved: int


@dataclass(frozen=True)
class Roofline:
    """The limits of one core: 10^9 float32 operations per second (a matrix product in cache; a MAC
    is two operations).

    ``gbytes`` are 10^9 bytes per second between processor
    and memory (a copy; bytes read plus written).
    """

    gflops: float
    gbytes: float


@dataclass(frozen=True)
class OperatorTime:
    """One step of a run, in ``XNNPACK`` or ``builtin``;
    its ``type`` is the kernel's name if the operator is unknown.

    ``time_us`` is the interquartile mean over the undisturbed runs, which is finer than the
    clock's microsecond and as robust as the median; ``first_us`` is the time in the first of them.
    Shares (0-1) are of the sum of all operators; the cumulative one is the sum up to this step.
    ``gflops`` are 10^9 operations (float or integer) per second, two per MAC, and ``gbytes`` 10^9
    bytes per second; None if unknown.
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
    """All operators of one type in XNNPACK or in the builtin kernels;
    shares are as of :class:`OperatorTime`.

    ``data_type`` is that of the first one's output, empty if unknown.
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
    """The profile of one file at one thread count."""

    entries = (
        "schema_version",
        "model",
        "runtime",
        "kernels",
        "threads",
        "runs",
        "rejected_runs",
        "whole_us",
        "plain_us",
        "operators",
        "coverage",
        "macs",
        "parameters",
        "arena_bytes",
        "partitions",
        "roofline",
        "host",
        "notes",
        "ethos",
        "accelerators=delegations",
        "overhead",
        "by_type",
        "advice",
    )
    schema_version = 1

    model: str
    runtime: str
    kernels: str  #: ``default`` (XNNPACK for the operators that it supports) or ``builtin``
    threads: int
    #: number of undisturbed runs that the figures are based on;
    #: other processes disturbed the rejected ones.
    runs: int
    rejected_runs: int
    #: median time of a whole run with the profiler; ``plain_us`` is that without it
    whole_us: float
    plain_us: float
    operators: tuple[OperatorTime, ...]  #: in order of execution
    coverage: float  #: sum of the operators divided by the whole; 0.95-1.02 is good
    macs: int
    parameters: int  #: number of weights: elements of the constants that are not shapes or axes
    arena_bytes: int  #: memory that the activations need at once, computed from their lifetimes
    partitions: int  #: how often the run enters XNNPACK
    roofline: Roofline | None  #: limits of this machine at one thread, None if not measured
    host: host.Host
    notes: tuple[str, ...]
    advice: tuple[str, ...] = ()  #: what to improve; each sentence contains its evidence
    #: computed delegations of the file to the requested accelerators; they are not measured
    delegations: tuple[Delegation, ...] = ()
    ethos: tuple[EthosEstimate, ...] = ()  #: estimates for the requested Ethos-U by its compiler

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
            time_us = sum(row.time_us for row in rows)
            share = sum(row.share for row in rows)
            cumulative = share + (summary[-1].cumulative if summary else 0.0)
            known = [row.node for row in rows if row.node]
            outputs = [node.outputs[0] for node in known if node.outputs]
            kind = outputs[0].partition(" ")[0] if outputs else ""
            macs = sum(node.macs for node in known)
            first = rows[0]
            summary.append(
                TypeTime(
                    first.type, first.where, len(rows), time_us, share, cumulative, macs, kind
                )
            )
        return tuple(summary)

    def top(self, count: int = 10) -> tuple[OperatorTime, ...]:
        """Return the slowest operators."""
        return tuple(sorted(self.operators, key=lambda row: -row.time_us)[:count])
