"""Read which operators an accelerator supports (``device_profiles/accelerators/*.yaml``),
and say which it refuses.

Its rules refer to facts of an operator (``_operator_facts.py``). The classes are the schema of the
files: a new key needs a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from advisor.core import UsageError, nearest
from advisor.devices import (
    NAME_PATTERN,
    DeviceProfile,
    DeviceTarget,
    FileKind,
    find_shipped_profiles,
)
from advisor.measurement._microcontrollers import list_compiled
from advisor.measurement._operator_facts import (
    SHAPE_FACTS,
    Fact,
    expands_constants,
    read_facts,
    read_types,
)
from advisor.tflite import BUILTINS, OPTIONS, Model, Operator

Text = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$")]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]


@dataclass(frozen=True)
class DataTypes:
    """Types of input activations, constant weights and output;
    the last two are as the first if they are empty.
    """

    data: str
    weights: str = ""
    output: str = ""

    @classmethod
    def parse(cls, text: object) -> DataTypes:
        """Parse ``float32``, ``float32*int8`` (activations * weights)
        or ``float32->int8`` (in -> out).
        """
        inputs, _, output = str(text).partition("->")
        data, _, weights = inputs.partition("*")
        parts = (data.strip(), weights.strip(), output.strip())
        if not parts[0] or any(part and not part.isidentifier() for part in parts):
            raise ValueError(f"'{text}' is not a list of data types")
        return cls(*parts)

    def fits(self, data: str, weights: str, output: str) -> bool:
        """Return True if an operator has these types; ``weights`` is empty if it has none."""
        # An operator without weights, such as ADD, fits whatever the rule says of weights.
        same_weights = not weights or weights == (self.weights or self.data)
        return self.data == data and same_weights and output == (self.output or self.data)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class FactRange(_Strict):
    """A minimum of a fact, a maximum, or both."""

    least: float | None = None
    most: float | None = None

    @model_validator(mode="after")
    def _require_sensible(self) -> FactRange:
        if self.least is None and self.most is None:
            raise ValueError("write least, most or both")
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"least {self.least:g} is above most {self.most:g}")
        return self


def _require_known_facts(value: object) -> object:
    known = {*SHAPE_FACTS, *OPTIONS}
    for name in value if isinstance(value, dict) else ():
        if name not in known:
            raise ValueError(f"'{name}' is not a fact of an operator{nearest(str(name), known)}")
    return value


def _require_known_operator(value: object) -> object:
    if value not in BUILTINS.values():
        raise ValueError(
            f"'{value}' is not a TensorFlow Lite operator{nearest(str(value), BUILTINS.values())}"
        )
    return value


Where = Annotated[
    dict[str, FactRange | Annotated[list[int | float | str], Field(min_length=1)]],
    BeforeValidator(_require_known_facts),
]
"""Conditions on facts (:func:`read_facts`): a range, or the allowed values."""


class Operators(_Strict):
    """Operators that are supported in the same forms and under the same conditions.

    ``note`` names conditions that the rules do not check.
    """

    names: Annotated[
        list[Annotated[str, BeforeValidator(_require_known_operator)]], Field(min_length=1)
    ]
    types: Annotated[
        list[Annotated[DataTypes, BeforeValidator(DataTypes.parse)]], Field(min_length=1)
    ]
    where: Where = {}
    note: Text = ""


class Serves(_Strict):
    """Targets of device profiles that use this accelerator.

    ``unit`` is the begin of the unit's name in a profile, and ``part`` a part of the runtime that
    its version names, such as ``qairt``; empty ones are any. No other accelerator serves a target
    that names the part.
    """

    runtime: Name
    accelerator: Literal["cpu", "gpu", "npu", "tpu"]
    unit: Annotated[str, Field(max_length=100)] = ""
    part: Annotated[str, Field(max_length=100)] = ""

    def takes(self, profile: DeviceProfile, target: DeviceTarget) -> bool:
        """Return whether it may serve a target:
        of its runtime and kind, with its unit, and a version that fits.
        """
        same = (self.runtime, self.accelerator) == (target.runtime, target.accelerator)
        # A version that is not stated may have the part.
        versions = not target.version or self.part in target.version
        return same and profile.npu.startswith(self.unit) and versions


class Keeps(_Strict):
    """The number of partitions that the runtime delegates, and the choice of them."""

    pieces: Annotated[int, Field(ge=1, le=1000)]
    choose: Literal["first", "largest"] = "largest"


class Accelerator(_Strict):
    """The operators that an accelerator supports:
    in ways of which one is enough, under the conditions ``where``.

    A partition with fewer than ``least_operators`` is not delegated, and ``keeps`` limits how many
    are. A delegation of fewer than ``least_macs`` is not worth it, nor one of more than
    ``most_partitions``, which cost more than a delegate gains (TensorFlow Lite's guidance on
    delegates).
    """

    name: Name
    title: Text
    about: Text = ""
    sources: Annotated[list[Text], Field(min_length=1)]
    serves: list[Serves] = []
    least_macs: Annotated[int, Field(ge=0, le=10**15)] = 1_000_000
    most_partitions: Annotated[int, Field(ge=1, le=10_000)] = 3
    least_operators: Annotated[int, Field(ge=1, le=10_000)] = 1
    keeps: Keeps | None = None
    where: Where = {}
    operators: Annotated[list[Operators], Field(min_length=1)]

    @property
    def supported(self) -> frozenset[str]:
        """Names of the operators that it supports."""
        return frozenset(chain.from_iterable(form.names for form in self.operators))

    def refusals(self, model: Model) -> tuple[str, ...]:
        """Return for each operator of the main graph why it is not supported, empty if it is."""
        constants = set()
        for index, tensor in enumerate(model.tensors):
            if tensor.is_constant:
                constants.add(index)
        # Constants in float16 are expanded once, when the file is loaded,
        # so the results are constants too.
        for operator in model.operators:
            if expands_constants(model, operator):
                constants.update(operator.outputs)
        refusals = []
        for operator in model.operators:
            facts = read_facts(model, operator, constants)
            refusals.append(self._refusal(operator, read_types(model, operator), facts))
        return tuple(refusals)

    def _refusal(
        self, operator: Operator, types: tuple[str, str, str], facts: Mapping[str, Fact]
    ) -> str:
        ways = [rule for rule in self.operators if operator.name in rule.names]
        if not ways:
            return f"{operator.name} is not supported"
        matching = []
        for rule in ways:
            if any(form.fits(*types) for form in rule.types):
                matching.append(rule)
        if not matching:
            # Written as DataTypes.parse reads them.
            data, weights, output = types
            shown = data
            if weights not in ("", data):
                shown += f"*{weights}"
            if output != data:
                shown += f"->{output}"
            return f"{operator.name} in {shown} is not supported"
        # One way that fits is enough; otherwise the reason of the first one is shown.
        failures = []
        for rule in matching:
            failures.append(_find_failure(self.where, facts) or _find_failure(rule.where, facts))
        if all(failures):
            return f"{operator.name} with {failures[0]}"
        return ""

    @staticmethod
    def find(name: str) -> Accelerator:
        """Return one accelerator by name;
        raise UsageError, which names the nearest one, if there is none.
        """
        known = read_accelerators()
        if name not in known:
            names = sorted((*known, *list_compiled()))
            raise UsageError(
                f"unknown accelerator '{name}'{nearest(name, names)}",
                f"accelerators: {', '.join(names)}",
            )
        return known[name]

    @staticmethod
    def list_serving(profile: DeviceProfile, target: DeviceTarget) -> tuple[Accelerator, ...]:
        """Return the accelerators that a device's target uses;
        several if its version does not tell which one it is.
        """
        named = []
        serving = []
        for accelerator in read_accelerators().values():
            for served in accelerator.serves:
                if served.takes(profile, target):
                    serving.append(accelerator)
                    named += [accelerator] * bool(served.part and target.version)
        return tuple(named or serving)


@cache
def _describe_accelerator_file() -> FileKind[Accelerator]:
    """Return how a file that describes an accelerator is validated."""
    return FileKind(
        "description of an accelerator",
        Accelerator,
        {"operators": Operators, "serves": Serves, "keeps": Keeps, "where": FactRange},
        f"see the files of {find_shipped_profiles() / 'accelerators'} for examples",
    )


def read_folder(folder: Path) -> dict[str, Accelerator]:
    """Read every ``*.yaml`` file in a folder;
    raise UsageError, which names file and line, if one is not valid.
    """
    accelerators = {}
    for path in sorted(folder.glob("*.yaml")):
        accelerator = _describe_accelerator_file().read_file(path)
        accelerators[accelerator.name] = accelerator
    return accelerators


@cache
def read_accelerators() -> Mapping[str, Accelerator]:
    """Return the shipped accelerators by name."""
    return MappingProxyType(read_folder(find_shipped_profiles() / "accelerators"))


def _find_failure(where: Where, facts: Mapping[str, Fact]) -> str:
    """Return the first condition that fails; empty if all hold.
    A fact that the operator does not have is ignored.
    """
    for fact, wanted in where.items():
        value = facts.get(fact)
        name = fact.replace("_", " ")
        if value is None:
            continue
        if not isinstance(wanted, FactRange):
            if value not in wanted:
                # An empty list of axes has an empty text, which a reader would not see.
                allowed = " or ".join(str(choice) or "none" for choice in wanted)
                return f"{name} {str(value) or 'none'}, {allowed} only"
        elif wanted.most is not None and float(value) > wanted.most:
            return f"{name} {value:g}, {wanted.most:g} at most"
        elif wanted.least is not None and float(value) < wanted.least:
            return f"{name} {value:g}, {wanted.least:g} at least"
    return ""
