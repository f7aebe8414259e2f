"""The profile of a file as values: its operators, its operator types, and the whole."""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.core.codec import Written
from advisor.measurement import host
from advisor.measurement.accelerators.delegation import Delegation, execution_order
from advisor.measurement.microcontrollers import EthosEstimate
from advisor.measurement.operators import roofline
from advisor.measurement.operators.runs import ProfilerEvent
from advisor.tflite.macs import OperatorCost, count
from advisor.tflite.model import Model, Operator

# Find the operator of the file that each event of the profiler belongs to.
#
# Builtin kernels report the index of the operator. XNNPACK fuses operators and names only its own kernels, so its
# events are matched by kind and order: if a kind has as many events as the graph has remaining operators of this
# kind, they are matched in the order in which the runtime executes its partitions. If the counts differ, the kind
# gets no operator.

# The names of XNNPACK's kernels (without the types in brackets), and the operators that become such a kernel.
_KINDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("DWConv", frozenset({"DEPTHWISE_CONV_2D"})),
    ("Deconvolution", frozenset({"TRANSPOSE_CONV"})),
    ("Convolution", frozenset({"CONV_2D", "FULLY_CONNECTED"})),
    ("Fully Connected", frozenset({"CONV_2D", "FULLY_CONNECTED"})),
    ("Dynamic Fully Connected", frozenset({"CONV_2D", "FULLY_CONNECTED"})),
    ("Add", frozenset({"ADD"})),
    ("Subtract", frozenset({"SUB"})),
    ("Multiply", frozenset({"MUL"})),
    ("Average Pooling", frozenset({"AVERAGE_POOL_2D"})),
    ("Max Pooling", frozenset({"MAX_POOL_2D"})),
    ("Mean", frozenset({"MEAN"})),
    ("Softmax", frozenset({"SOFTMAX"})),
    ("Sigmoid", frozenset({"LOGISTIC"})),
    ("HardSwish", frozenset({"HARD_SWISH"})),
    ("Concatenate", frozenset({"CONCATENATION"})),
    ("Constant Pad", frozenset({"PAD"})),
    ("Static Reshape", frozenset({"RESHAPE"})),
    ("Resize Bilinear", frozenset({"RESIZE_BILINEAR"})),
)


@dataclass(frozen=True)
class ProfiledOperator:
    """One operator of the file, as a profile shows it.

    Attributes:
        index: index in the file's main graph.
        name: the builtin operator's name.
        inputs: ``float32 1x224x224x3`` of each input that is an activation.
        outputs: the same for each output.
        macs: multiply-accumulates in a run; 0 for operators without any.
        bytes_moved: bytes of its inputs, constants and outputs; each tensor counts once.
    """

    index: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    macs: int
    bytes_moved: int


def nodes(model: Model) -> tuple[ProfiledOperator, ...]:
    """Return the operators of the main graph."""
    costs = count(model).operators
    return tuple(_node(model, cost, operator) for cost, operator in zip(costs, model.operators, strict=True))


def match(model: Model, events: Sequence[ProfilerEvent]) -> tuple[ProfiledOperator | None, ...]:
    """Return the operator of each event, None if it is not known."""
    known = nodes(model)
    found: list[ProfiledOperator | None] = [_builtin_node(known, event) for event in events]
    taken = {node.index for node in found if node is not None}
    rest = [known[index] for index in execution_order(model, taken) if index not in taken]
    waiting: dict[frozenset[str], list[int]] = {}
    for position, event in enumerate(events):
        if found[position] is None and (kind := kind_of(event.tag)):
            waiting.setdefault(kind, []).append(position)
    for kind, positions in waiting.items():
        left = [node for node in rest if node.name in kind]
        if len(left) == len(positions):
            for position, node in zip(positions, left, strict=True):
                found[position] = node
    return tuple(found)


def kind_of(tag: str) -> frozenset[str] | None:
    """Return the operators that can become an XNNPACK kernel of this name, None if unknown."""
    name = tag.removeprefix("Delegate/")
    if "DWConv" in name:
        return _KINDS[0][1]
    return next((kind for start, kind in _KINDS if name.startswith(start)), None)


def _builtin_node(known: Sequence[ProfiledOperator], event: ProfilerEvent) -> ProfiledOperator | None:
    """Return the operator that a builtin kernel reports, if the names are equal."""
    if not event.builtin or event.operator >= len(known):
        return None
    node = known[event.operator]
    return node if event.tag == node.name else None


def _node(model: Model, cost: OperatorCost, operator: Operator) -> ProfiledOperator:
    tensors = model.tensors
    inputs = [tensors[position] for position in operator.inputs if position >= 0]
    outputs = [tensors[position] for position in operator.outputs]
    return ProfiledOperator(
        index=cost.index,
        name=operator.name,
        inputs=tuple(_shown(tensor.dtype, tensor.shape) for tensor in inputs if not tensor.is_constant),
        outputs=tuple(_shown(tensor.dtype, tensor.shape) for tensor in outputs),
        macs=cost.macs,
        bytes_moved=sum(tensor.size_bytes for tensor in {id(tensor): tensor for tensor in inputs + outputs}.values()),
    )


def _shown(dtype: str, shape: tuple[int, ...]) -> str:
    """Return ``float32 1x224x224x3``."""
    return f"{dtype} {'x'.join(map(str, shape)) or 'scalar'}"


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
