"""The kernels that the model needs, for a runtime that has only these."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from advisor.exporting.templating import render
from advisor.tflite.model import read

RUNTIME_KERNELS = 172
"""Builtin kernels of LiteRT 2.3.0, counted by requesting every operator of the schema."""

CUSTOM = "CUSTOM:"


@dataclass(frozen=True)
class UsedOperator:
    """One operator type of the model.

    Attributes:
        name: its name (``CONV_2D``), or ``CUSTOM:<code>``.
        least: lowest version used.
        most: highest version used.
        count: number of operators.
    """

    name: str
    least: int
    most: int
    count: int


def used_operators(content: bytes) -> tuple[UsedOperator, ...]:
    """Return the operator types of all subgraphs, by name."""
    found: dict[str, list[int]] = {}
    for graph in read(content).subgraphs:
        for operator in graph.operators:
            found.setdefault(operator.name, []).append(operator.version)
    return tuple(UsedOperator(name, min(seen), max(seen), len(seen)) for name, seen in sorted(found.items()))


def builtins(operators: tuple[UsedOperator, ...]) -> tuple[UsedOperator, ...]:
    """Return the operators that are built into the runtime."""
    return tuple(operator for operator in operators if not operator.name.startswith(CUSTOM))


def left_out(operators: tuple[UsedOperator, ...]) -> int:
    """Return how many builtin kernels a selective build omits."""
    return RUNTIME_KERNELS - len(builtins(operators))


def operators_json(operators: tuple[UsedOperator, ...]) -> str:
    """Return the operators as JSON."""
    document = {
        "schema_version": 1,
        "operators": [
            {"name": op.name, "least_version": op.least, "greatest_version": op.most, "count": op.count}
            for op in operators
        ],
        "kernels_of_the_full_runtime": RUNTIME_KERNELS,
        "kernels_left_out": left_out(operators),
    }
    return json.dumps(document, indent=1) + "\n"


def build_file(operators: tuple[UsedOperator, ...], model_name: str) -> str:
    """Return a Bazel file with a C++ and an Android library that contain only these kernels."""
    kernels = len(builtins(operators))
    return render("BUILD.bazel.j2", model=model_name, kernels=kernels, left_out=left_out(operators))


def registration(operators: tuple[UsedOperator, ...]) -> str:
    """Return C++ that registers these kernels with a ``MutableOpResolver``."""
    customs = [operator.name.removeprefix(CUSTOM) for operator in operators if operator.name.startswith(CUSTOM)]
    return render(
        "registered_ops.cc.j2",
        runtime_kernels=RUNTIME_KERNELS,
        customs=[re.sub(r"[^\w.-]", "?", name) for name in customs],
        builtins=builtins(operators),
    )
