"""Describe which operators an accelerator supports: their data types and further conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.core.errors import UsageError
from advisor.measurement.accelerators.operator_facts import Fact, constant_tensors, facts, types_of
from advisor.tflite.model import Model, Operator

# More partitions than this cost more than a delegate gains (TensorFlow Lite's guidance on delegates). The minimum work
# of a delegation is a default, which the description of an accelerator can change.
MOST_PARTITIONS = 3
LEAST_MACS = 1_000_000


@dataclass(frozen=True)
class Form:
    """Data types of an operator that an accelerator supports.

    Attributes:
        data: type of the input activations.
        weights: type of the constant weights; the same as ``data`` if this is empty.
        output: type of the output; the same as ``data`` if this is empty.
    """

    data: str
    weights: str = ""
    output: str = ""

    @classmethod
    def parse(cls, text: str) -> Form:
        """Parse ``float32``, ``float32*int8`` (activations * weights) or ``float32->int8`` (in -> out).

        Raises:
            UsageError: the text has another form.
        """
        inputs, _, output = text.partition("->")
        data, _, weights = inputs.partition("*")
        parts = (data.strip(), weights.strip(), output.strip())
        if not parts[0] or any(part and not part.isidentifier() for part in parts):
            raise UsageError(
                f"'{text}' is not a list of data types", "write for example float32, float32*int8 or float32->int8"
            )
        return cls(*parts)

    def fits(self, data: str, weights: str, output: str) -> bool:
        """Return True if an operator has these types; ``weights`` is empty if it has none."""
        same_weights = not weights or weights == (self.weights or self.data)
        return self.data == data and same_weights and output == (self.output or self.data)


@dataclass(frozen=True)
class Constraint:
    """A condition on one fact of an operator.

    Attributes:
        fact: its name (:mod:`advisor.measurement.accelerators.operator_facts`).
        most: maximum value.
        least: minimum value.
        allowed: allowed values, empty for any.
    """

    fact: str
    most: float | None = None
    least: float | None = None
    allowed: tuple[Fact, ...] = ()

    def refusal(self, found: Mapping[str, Fact]) -> str:
        """Return why the condition fails; empty if it holds or the operator does not have the fact."""
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
    """One way in which an operator is supported: its types, and constraints that must all hold."""

    forms: tuple[Form, ...]
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True)
class Rules:
    """The operators that an accelerator supports.

    Attributes:
        name: name of the accelerator or its delegate, for the command line.
        title: name as people read it.
        sources: where the rules come from.
        accepted: for each operator (``CONV_2D``) the ways in which it is supported.
        common: constraints on every operator.
        about: further information in a sentence.
        least_macs: a delegation of fewer MACs is not worth it.
        most_partitions: a delegation in more partitions is not worth it.
        least_operators: a partition with fewer operators is not delegated.
        keeps: maximum number of delegated partitions, None for all.
        keeps_first: whether the first partitions are delegated instead of the largest.
    """

    name: str
    title: str
    sources: tuple[str, ...]
    accepted: Mapping[str, tuple[Accepted, ...]]
    common: tuple[Constraint, ...] = ()
    about: str = ""
    least_macs: int = LEAST_MACS
    most_partitions: int = MOST_PARTITIONS
    least_operators: int = 1
    keeps: int | None = None
    keeps_first: bool = field(default=False)

    def refusals(self, model: Model) -> tuple[str, ...]:
        """Return for each operator of the main graph why it is not supported, empty if it is."""
        constants = constant_tensors(model)
        return tuple(
            self._refusal(operator, types_of(model, operator), facts(model, operator, constants))
            for operator in model.operators
        )

    def _refusal(self, operator: Operator, types: tuple[str, str, str], found: Mapping[str, Fact]) -> str:
        ways = self.accepted.get(operator.name)
        if not ways:
            return f"{operator.name} is not supported"
        matching = [way for way in ways if any(form.fits(*types) for form in way.forms)]
        if not matching:
            return f"{operator.name} in {_shown(*types)} is not supported"
        always = _first_failure(self.common, found)
        wrong = [always or _first_failure(way.constraints, found) for way in matching]
        return f"{operator.name} with {wrong[0]}" if all(wrong) else ""


@dataclass(frozen=True)
class Accelerator:
    """One accelerator.

    Attributes:
        rules: the operators that it supports.
        serves: the (runtime, kind of accelerator) of device targets that use it.
        notes: for each operator, conditions that the rules do not check.
    """

    rules: Rules
    serves: tuple[tuple[str, str], ...]
    notes: Mapping[str, str]


def _said(value: Fact) -> str:
    """Return a fact as text; an empty list of axes is ``none``."""
    return str(value) or "none"


def _first_failure(constraints: tuple[Constraint, ...], found: Mapping[str, Fact]) -> str:
    return next((said for each in constraints if (said := each.refusal(found))), "")


def _shown(data: str, weights: str, output: str) -> str:
    """Return types as :meth:`Form.parse` reads them."""
    return data + (f"*{weights}" if weights and weights != data else "") + (f"->{output}" if output != data else "")
