"""What part of a file an accelerator would take, and in how many pieces, without having the accelerator.

Which operators and types it takes is a value, :class:`Rules`, made by whoever describes the accelerator. How the
runtime cuts the graph is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from advisor.benchmark.attribution import execution_order, nodes
from advisor.core.errors import UsageError
from advisor.tflite.model import Model, Operator, Tensor

# More hand-overs than this cost more than a delegate gains (TensorFlow Lite's guidance on delegates). The least work
# worth a hand-over is a default: whoever describes an accelerator knows better.
MOST_PARTITIONS = 3
LEAST_MACS = 1_000_000

_INDICES = ("int32", "int64")


@dataclass(frozen=True)
class Form:
    """Types in which an accelerator takes an operator.

    Attributes:
        data: type of the activations that come in.
        weights: type of the constant weights; the same as ``data`` where the operator has them and this is empty.
        output: type of what goes out; the same as ``data`` where this is empty.
    """

    data: str
    weights: str = ""
    output: str = ""

    @classmethod
    def parse(cls, text: str) -> Form:
        """Parse ``float32``, ``float32*int8`` (activations * weights) or ``float32->int8`` (in -> out).

        Raises:
            UsageError: something else.
        """
        inputs, _, output = text.partition("->")
        data, _, weights = inputs.partition("*")
        parts = (data.strip(), weights.strip(), output.strip())
        if not parts[0] or any(part and not part.isidentifier() for part in parts):
            raise UsageError(f"'{text}' names no types", "write for example float32, float32*int8 or float32->int8")
        return cls(*parts)

    def fits(self, data: str, weights: str, output: str) -> bool:
        """Tell whether an operator of these types is meant; ``weights`` is empty where it has none."""
        same_weights = not weights or weights == (self.weights or self.data)
        return self.data == data and same_weights and output == (self.output or self.data)


@dataclass(frozen=True)
class Rules:
    """What an accelerator takes.

    Attributes:
        name: of the accelerator or its delegate.
        source: where the rules are stated.
        forms: for each operator (``CONV_2D``) the types that it is taken in.
        most_inputs: for an operator with a limit, how many inputs it may have.
        least_macs: handing over fewer is not worth it.
        most_partitions: handing over more pieces is not worth it.
    """

    name: str
    source: str
    forms: Mapping[str, tuple[Form, ...]]
    most_inputs: Mapping[str, int] = field(default_factory=dict)
    least_macs: int = LEAST_MACS
    most_partitions: int = MOST_PARTITIONS

    def refusal(self, model: Model, operator: Operator) -> str:
        """Return why an operator is not taken, empty where it is."""
        forms = self.forms.get(operator.name)
        if not forms:
            return f"{operator.name} is not supported"
        count = sum(index >= 0 for index in operator.inputs)
        if count > self.most_inputs.get(operator.name, count):
            return f"{operator.name} with {count} inputs, {self.most_inputs[operator.name]} at most"
        types = types_of(model, operator)
        if any(form.fits(*types) for form in forms):
            return ""
        data, weights, output = types
        shown = (
            data + (f"*{weights}" if weights and weights != data else "") + (f"->{output}" if output != data else "")
        )
        return f"{operator.name} in {shown} is not supported"


@dataclass(frozen=True)
class Refused:
    """An operator that stays behind: its place in the file, its name and why."""

    index: int
    operator: str
    reason: str


@dataclass(frozen=True)
class Delegation:
    """How an accelerator would take a file.

    Attributes:
        rules: what the accelerator takes.
        operators: how many operators the file has.
        taken: how many of them it takes.
        macs: multiply-accumulates of a run.
        taken_macs: those that it takes.
        partitions: in how many pieces.
        refused: the operators that stay behind, in the order of the file.
    """

    rules: Rules
    operators: int
    taken: int
    macs: int
    taken_macs: int
    partitions: int
    refused: tuple[Refused, ...]

    @property
    def share(self) -> float:
        """Part of the arithmetic that is taken, 0-1; of the operators where there is no arithmetic."""
        if self.macs:
            return self.taken_macs / self.macs
        return self.taken / self.operators if self.operators else 0.0

    @property
    def objections(self) -> tuple[str, ...]:
        """What speaks against the accelerator for this file, each with its figure; empty where it is worth it."""
        if not self.taken:
            return ("it takes no operator",)
        found = []
        if self.taken_macs < self.rules.least_macs:
            wanted = self.rules.least_macs / 1e6
            found.append(f"only {self.taken_macs / 1e6:.2f} million MACs are taken, fewer than {wanted:g} million")
        if self.partitions > self.rules.most_partitions:
            left = ", ".join(dict.fromkeys(row.operator for row in self.refused))
            found.append(f"{self.partitions} pieces, more than {self.rules.most_partitions}, cut apart by {left}")
        return tuple(found)

    @property
    def sentence(self) -> str:
        """The answer in words."""
        pieces = f"{self.partitions} piece{'' if self.partitions == 1 else 's'}"
        part = f"{self.share:.0%} of the arithmetic ({self.taken} of {self.operators} operators, {pieces})"
        head = f"{self.rules.name} takes {part}"
        return f"{head}: not worth it, {'; '.join(self.objections)}" if self.objections else f"{head}: worth it"


def parse_forms(texts: Mapping[str, Iterable[str]]) -> dict[str, tuple[Form, ...]]:
    """Return the forms of :class:`Rules` from types written as :meth:`Form.parse` reads them.

    Raises:
        UsageError: a form cannot be read.
    """
    return {operator: tuple(Form.parse(text) for text in forms) for operator, forms in texts.items()}


def delegate(model: Model, rules: Rules) -> Delegation:
    """Say how an accelerator would take the main graph of a file."""
    reasons = [rules.refusal(model, operator) for operator in model.operators]
    refused = tuple(
        Refused(index, model.operators[index].name, reason) for index, reason in enumerate(reasons) if reason
    )
    left = {row.index for row in refused}
    macs = [node.macs for node in nodes(model)]
    return Delegation(
        rules=rules,
        operators=len(reasons),
        taken=len(reasons) - len(left),
        macs=sum(macs),
        taken_macs=sum(count for index, count in enumerate(macs) if index not in left),
        partitions=pieces(model, left),
        refused=refused,
    )


def pieces(model: Model, left: set[int]) -> int:
    """Return into how many pieces the runtime cuts what an accelerator takes, all but the operators ``left``.

    An operator that only expands constants (float16 to float32) runs once, when the file is loaded, and makes no piece.
    """
    entered, inside = 0, False
    for index in execution_order(model, left):
        if index in left:
            inside = False
        elif not inside and not expands_constants(model, model.operators[index]):
            entered, inside = entered + 1, True
    return entered


def types_of(model: Model, operator: Operator) -> tuple[str, str, str]:
    """Return the types of an operator's activations, of its weights (empty where it has none) and of its output.

    Shapes, axes and biases of whole numbers are no weights; constants that an operator before expands (float16) count
    with the type that they are expanded to.
    """
    tensors = [model.tensors[index] for index in operator.inputs if index >= 0]
    data = next((tensor for tensor in tensors if not tensor.is_constant), tensors[0] if tensors else None)
    weights = next((tensor for tensor in tensors if _is_weights(tensor) and tensor is not data), None)
    output = model.tensors[operator.outputs[0]] if operator.outputs else None
    return tuple(tensor.dtype if tensor else "" for tensor in (data, weights, output))  # type: ignore[return-value]


def _is_weights(tensor: Tensor) -> bool:
    return tensor.is_constant and tensor.dtype not in _INDICES


def expands_constants(model: Model, operator: Operator) -> bool:
    """Tell whether all that an operator reads are constants."""
    return all(model.tensors[index].is_constant for index in operator.inputs if index >= 0)
