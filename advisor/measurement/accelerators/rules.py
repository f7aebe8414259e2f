"""What an accelerator takes, as values: operators, the types they come in, and what else must hold of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.core.errors import UsageError
from advisor.measurement.accelerators.operator_facts import Fact, constant_tensors, facts, types_of
from advisor.tflite.model import Model, Operator

# More hand-overs than this cost more than a delegate gains (TensorFlow Lite's guidance on delegates). The least work
# worth a hand-over is a default: whoever describes an accelerator knows better.
MOST_PARTITIONS = 3
LEAST_MACS = 1_000_000


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
class Constraint:
    """What one fact of an operator must be.

    Attributes:
        fact: its name (:mod:`advisor.measurement.accelerators.operator_facts`).
        most: at most so much.
        least: at least so much.
        allowed: one of these, empty for any.
    """

    fact: str
    most: float | None = None
    least: float | None = None
    allowed: tuple[Fact, ...] = ()

    def refusal(self, found: Mapping[str, Fact]) -> str:
        """Return what is wrong, empty where nothing is or the operator has no such fact."""
        value = found.get(self.fact)
        if value is None:
            return ""
        name = self.fact.replace("_", " ")
        if self.allowed and value not in self.allowed:
            return f"{name} {_said(value)}, {' or '.join(map(_said, self.allowed))} only"
        if self.most is not None and float(value) > self.most:
            return f"{name} {value:g}, {self.most:g} at most"
        if self.least is not None and float(value) < self.least:
            return f"{name} {value:g}, {self.least:g} at least"
        return ""


@dataclass(frozen=True)
class Accepted:
    """One way in which an operator is taken: types, and constraints that must all hold."""

    forms: tuple[Form, ...]
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True)
class Rules:
    """What an accelerator takes.

    Attributes:
        name: of the accelerator or its delegate, as it is asked for.
        title: for people.
        sources: where the rules are stated.
        accepted: for each operator (``CONV_2D``) the ways in which it is taken.
        everywhere: constraints on every operator.
        about: what else to know, in a sentence.
        least_macs: handing over fewer is not worth it.
        most_partitions: handing over more pieces is not worth it.
        least_operators: a piece of fewer is not handed over.
        keeps: how many pieces the runtime hands over at most, None for all.
        keeps_first: those that come first rather than the largest.
    """

    name: str
    title: str
    sources: tuple[str, ...]
    accepted: Mapping[str, tuple[Accepted, ...]]
    everywhere: tuple[Constraint, ...] = ()
    about: str = ""
    least_macs: int = LEAST_MACS
    most_partitions: int = MOST_PARTITIONS
    least_operators: int = 1
    keeps: int | None = None
    keeps_first: bool = field(default=False)

    def refusals(self, model: Model) -> tuple[str, ...]:
        """Return for each operator of the main graph why it is not taken, empty where it is."""
        constants = constant_tensors(model)
        return tuple(
            self._refusal(operator, types_of(model, operator), facts(model, operator, constants))
            for operator in model.operators
        )

    def _refusal(self, operator: Operator, types: tuple[str, str, str], found: Mapping[str, Fact]) -> str:
        ways = self.accepted.get(operator.name)
        if not ways:
            return f"{operator.name} is not supported"
        fitting = [way for way in ways if any(form.fits(*types) for form in way.forms)]
        if not fitting:
            return f"{operator.name} in {_shown(*types)} is not supported"
        common = _first_wrong(self.everywhere, found)
        wrong = [common or _first_wrong(way.constraints, found) for way in fitting]
        return f"{operator.name} with {wrong[0]}" if all(wrong) else ""


@dataclass(frozen=True)
class Accelerator:
    """One accelerator.

    Attributes:
        rules: what it takes.
        serves: the (runtime, kind of accelerator) of the device targets that mean it.
        notes: what the rules do not check, by operator.
    """

    rules: Rules
    serves: tuple[tuple[str, str], ...]
    notes: Mapping[str, str]


def _said(value: Fact) -> str:
    """Return a fact for people; an empty list of axes is none."""
    return str(value) or "none"


def _first_wrong(constraints: tuple[Constraint, ...], found: Mapping[str, Fact]) -> str:
    return next((said for each in constraints if (said := each.refusal(found))), "")


def _shown(data: str, weights: str, output: str) -> str:
    """Return types as :meth:`Form.parse` reads them."""
    return data + (f"*{weights}" if weights and weights != data else "") + (f"->{output}" if output != data else "")
