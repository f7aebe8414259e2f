"""Validate ``device_profiles/accelerators/*.yaml`` against their schema."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from advisor.core.errors import UsageError, nearest
from advisor.devices.profiles import NAME_PATTERN
from advisor.devices.profiles.validation import MAX_YAML_BYTES, FileKind
from advisor.measurement.accelerators.operator_facts import SHAPE_FACTS
from advisor.measurement.accelerators.rules import (
    LEAST_MACS,
    MOST_PARTITIONS,
    Accelerator,
    Accepted,
    Constraint,
    Form,
    Rules,
)
from advisor.store.yamlfile import read_yaml

Text = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$")]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]


def _operator(value: object) -> object:
    known = _operators()
    if value not in known:
        raise ValueError(f"'{value}' is not a TensorFlow Lite operator{nearest(str(value), known)}")
    return value


def _form(value: object) -> Form:
    try:
        return Form.parse(str(value))
    except UsageError as error:
        raise ValueError(error.message) from error


@cache
def _operators() -> frozenset[str]:
    from ai_edge_litert import schema_py_generated as schema

    return frozenset(name for name, number in vars(schema.BuiltinOperator).items() if isinstance(number, int))


@cache
def _facts() -> frozenset[str]:
    from advisor.tflite.options import option_names

    return frozenset((*SHAPE_FACTS, *option_names()))


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class RangeSchema(_Strict):
    """A minimum, a maximum, or both."""

    least: float | None = None
    most: float | None = None

    @model_validator(mode="after")
    def _sensible(self) -> RangeSchema:
        if self.least is None and self.most is None:
            raise ValueError("write least, most or both")
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"least {self.least:g} is above most {self.most:g}")
        return self


def _where(value: object) -> object:
    for name in value if isinstance(value, dict) else ():
        if name not in _facts():
            raise ValueError(f"'{name}' is not a fact of an operator{nearest(str(name), _facts())}")
    return value


Where = Annotated[
    dict[str, RangeSchema | Annotated[list[int | float | str], Field(min_length=1)]], BeforeValidator(_where)
]


class OperatorsSchema(_Strict):
    """Operators with the same conditions."""

    names: Annotated[list[Annotated[str, BeforeValidator(_operator)]], Field(min_length=1)]
    types: Annotated[list[Annotated[Form, BeforeValidator(_form)]], Field(min_length=1)]
    where: Where = {}
    note: Text = ""


class ServesSchema(_Strict):
    """Targets of device profiles that use this accelerator."""

    runtime: Name
    accelerator: Literal["cpu", "gpu", "npu", "tpu"]


class KeepsSchema(_Strict):
    """How many partitions the runtime delegates, and which."""

    pieces: Annotated[int, Field(ge=1, le=1000)]
    choose: Literal["first", "largest"] = "largest"


class AcceleratorSchema(_Strict):
    """One accelerator."""

    name: Name
    title: Text
    about: Text = ""
    sources: Annotated[list[Text], Field(min_length=1)]
    serves: list[ServesSchema] = []
    least_macs: Annotated[int, Field(ge=0, le=10**15)] = LEAST_MACS
    most_partitions: Annotated[int, Field(ge=1, le=10_000)] = MOST_PARTITIONS
    least_operators: Annotated[int, Field(ge=1, le=10_000)] = 1
    keeps: KeepsSchema | None = None
    where: Where = {}
    operators: Annotated[list[OperatorsSchema], Field(min_length=1)]


_ACCELERATOR = FileKind(
    "description of an accelerator",
    AcceleratorSchema,
    {"operators": OperatorsSchema, "serves": ServesSchema, "keeps": KeepsSchema, "where": RangeSchema},
    "see the shipped files for examples",
)


def read_accelerator(path: Path) -> Accelerator:
    """Read one file.

    Raises:
        UsageError: the file does not match the schema; the error names file and line.
    """
    data = _ACCELERATOR.validated(read_yaml(path, MAX_YAML_BYTES))
    notes = {name: entry.note for entry in data.operators if entry.note for name in entry.names}
    return Accelerator(_rules(data), tuple((each.runtime, each.accelerator) for each in data.serves), notes)


def _rules(data: AcceleratorSchema) -> Rules:
    accepted: dict[str, tuple[Accepted, ...]] = {}
    for entry in data.operators:
        way = Accepted(tuple(entry.types), _constraints(entry.where))
        for name in entry.names:
            accepted[name] = (*accepted.get(name, ()), way)
    return Rules(
        name=data.name,
        title=data.title,
        sources=tuple(data.sources),
        accepted=accepted,
        common=_constraints(data.where),
        about=data.about,
        least_macs=data.least_macs,
        most_partitions=data.most_partitions,
        least_operators=data.least_operators,
        keeps=data.keeps.pieces if data.keeps else None,
        keeps_first=data.keeps is not None and data.keeps.choose == "first",
    )


def _constraints(where: Where) -> tuple[Constraint, ...]:
    return tuple(
        Constraint(fact, most=asked.most, least=asked.least)
        if isinstance(asked, RangeSchema)
        else Constraint(fact, allowed=tuple(asked))
        for fact, asked in where.items()
    )
