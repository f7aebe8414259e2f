"""Compute how many operators of a network an accelerator of a device would run,
before the network has a file.

The graphs of the catalogue have all operators and shapes, and the rules of accelerators are data
with sources. A plan shows the shares, and distrusts predictions for a device that would leave most
operators to its CPU. The attributes of ``NodeShare`` and ``ProcessorChoice`` are keys of
``advisor plan --json``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from advisor.catalog import Card, read_operators
from advisor.core import Quantity, Written, form_of
from advisor.engine._targets.target_devices import TargetDevice
from advisor.measurement import Accelerator, Delegation
from advisor.tflite import Model

_FLOAT = "float32"
_TYPES = {"float32": _FLOAT, "float16": _FLOAT, "int8": "int8"}
"""The type in which a form computes; only forms that have the operators of the float graph.
Weights in float16 are expanded when a file is loaded, and those operators do not count. Other
forms add or change operators.
"""

_BY_SCALES = "same_quantization"  # A fact of 8-bit files that is known once they are made

# Place of the bias among the inputs of a convolution or a dense layer,
# which 8-bit files have in 32 bits.
_BIAS = 2
_WITH_BIAS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


@dataclass(frozen=True)
class NodeShare(Written):
    """The operators of a network that one accelerator of a device would run.

    Attributes:
        device: the device as the user named it.
        unit: ``gpu``, ``npu`` or ``tpu``.
        accelerator: the accelerator with its driver as people read it; empty if nobody wrote its
            rules.
        delegated: number of operators that it would run, computed by its rules; None if that is
            not known.
        nodes: number of operators of the network; None if that is not known.
        reason: why the most operators are not run, or why nothing is known; empty if all are run.
        sources: where the rules of the accelerator come from.
    """

    device: str
    unit: str
    accelerator: str
    delegated: int | None
    nodes: int | None
    reason: str
    sources: tuple[str, ...] = ()

    @property
    def runs_whole(self) -> bool:
        """True if the accelerator is known to run every operator."""
        return self.nodes is not None and self.delegated == self.nodes

    @property
    def part(self) -> float:
        """The share of the nodes that it runs, 0 to 1; 0 if that is not known."""
        return (self.delegated or 0) / (self.nodes or 1)

    @property
    def falls_back(self) -> bool:
        """True if it is known to leave most operators to the CPU.
        No such measurement is behind a prediction.
        """
        if self.delegated is None or self.nodes is None:
            return False
        return 2 * self.delegated < self.nodes


@dataclass(frozen=True)
class ProcessorChoice(Written):
    """The processor of a device on which a file is predicted to be the fastest.

    Attributes:
        device: the device as the user named it.
        unit: ``cpu``, ``gpu``, ``npu`` or ``tpu``.
        target: name of its target in the device's profile.
        counted: true if the other latencies of the plan, and a search, are of this processor.
        compression: the form of the file.
        latency: its latency on this processor; None if it is not known on any.
        meets_latency_budget: probability of meeting the latency budget; None without a budget, or
            if the latency is not known well enough.
        nodes: how many of its operators the accelerator would run; none for a CPU, which runs all.
        reason: why no other processor is chosen.
    """

    device: str
    unit: str
    target: str
    counted: bool
    compression: str
    latency: Quantity | None
    meets_latency_budget: float | None
    nodes: tuple[NodeShare, ...]
    reason: str


@dataclass(frozen=True)
class NodeSummary:
    """A summary of the parts of many files that one accelerator of a device would run."""

    device: str  # the device as the user named it
    unit: str  # ``gpu``, ``npu`` or ``tpu``
    # The accelerator with its driver as people read it; empty if nobody wrote its rules.
    accelerator: str
    files: int  # number of files of which it is known what it runs
    whole: int  # number of these that it runs whole
    least_file: str  # the file of which it runs the smallest part; empty if it runs all whole
    least: NodeShare  # what it runs of that file; of any file if it runs all whole


def summarize_shares(shares_by_file: Mapping[str, Sequence[NodeShare]]) -> tuple[NodeSummary, ...]:
    """Return a summary for each accelerator of each device;
    ``shares_by_file`` has what they run of each file.
    """
    by_accelerator: dict[tuple[str, str, str], dict[str, NodeShare]] = {}
    for file, shares in shares_by_file.items():
        for share in shares:
            name = (share.device, share.unit, share.accelerator)
            by_accelerator.setdefault(name, {})[file] = share
    return tuple(map(_summarize, by_accelerator.values()))


def _summarize(shares: Mapping[str, NodeShare]) -> NodeSummary:
    """Return the summary of one accelerator from what it runs of each file, one at least."""
    known = {}
    parts = {}
    for file, share in shares.items():
        if share.nodes is not None:
            known[file] = share
            if not share.runs_whole:
                parts[file] = share
    # The file with the smallest part is the least likely to be as fast as predicted.
    least_file = min(parts, key=lambda file: parts[file].part, default="")
    any_share = next(iter((known or shares).values()))
    least = parts.get(least_file, any_share)
    return NodeSummary(
        device=least.device,
        unit=least.unit,
        accelerator=least.accelerator,
        files=len(known),
        whole=len(known) - len(parts),
        least_file=least_file,
        least=least,
    )


def list_node_shares(
    card: Card, recipe: str, devices: Sequence[TargetDevice]
) -> tuple[NodeShare, ...]:
    """Return the shares of a recipe's form of a card on the accelerators of devices.

    A device whose runtime has several, of which one is used, has one share for each.
    A CPU runs all operators, so it has none.
    """
    shares: list[NodeShare] = []
    for device in devices:
        if device.target.accelerator != "cpu":
            shares += _list_shares_on(card, form_of(recipe).name, device)
    return tuple(shares)


def falls_back(shares: Sequence[NodeShare]) -> bool:
    """Return whether a device leaves most operators to its CPU,
    whichever of its accelerators is used.
    """
    by_device: dict[str, list[bool]] = {}
    for share in shares:
        by_device.setdefault(share.device, []).append(share.falls_back)
    return any(map(all, by_device.values()))


def _list_shares_on(card: Card, form: str, device: TargetDevice) -> list[NodeShare]:
    """Return the shares of a form of a card on each accelerator that may serve a target."""
    target = device.target
    unknown = NodeShare(device.label, target.accelerator, "", None, None, "")
    serving = Accelerator.list_serving(device.profile, target)
    if not serving:
        reason = f"no rules of {target.runtime} on the {target.accelerator.upper()} are known"
        return [replace(unknown, reason=reason)]
    shares = []
    for accelerator in serving:
        share = replace(unknown, accelerator=accelerator.title, sources=tuple(accelerator.sources))
        delegation = _delegate_card(card, _TYPES.get(form, ""), accelerator.name)
        if delegation is None:
            reason = f"what it runs of a {form} file is known once the file is made"
            shares.append(replace(share, reason=reason))
            continue
        share = replace(
            share,
            delegated=delegation.taken,
            nodes=delegation.operators,
            reason=next(filter(_names_operator, delegation.reasons), ""),
        )
        shares.append(share)
    return shares


def _names_operator(reason: str) -> bool:
    """Return whether a reason is of an operator;
    a partition that is left out has such a reason behind it.
    """
    return reason.split(" ")[0].isupper()


@lru_cache(maxsize=256)
def _delegate_card(card: Card, data_type: str, name: str) -> Delegation | None:
    """Return what an accelerator would run of a card that computes in a type;
    None if that is not known.

    The forms of a card share it, and each is asked for with every training and number of threads.
    """
    accelerator = Accelerator.find(name)
    model = read_operators(card) if data_type else None
    if model is None:
        return None
    if data_type != _FLOAT:
        if any(_BY_SCALES in rule.where for rule in accelerator.operators):
            return None
        model = _convert_types(model, data_type)
    return Delegation.of_operators(model, accelerator)


def _convert_types(model: Model, data_type: str) -> Model:
    """Return a float model whose tensors have another type; biases have 32 bits."""
    (graph,) = model.subgraphs
    biases = set[int]()
    for operator in graph.operators:
        if operator.name in _WITH_BIAS:
            biases.update(operator.inputs[_BIAS:])
    tensors = []
    for index, tensor in enumerate(graph.tensors):
        if tensor.dtype == _FLOAT:
            tensor = replace(tensor, dtype="int32" if index in biases else data_type)
        tensors.append(tensor)
    return replace(model, subgraphs=(replace(graph, tensors=tuple(tensors)),))
