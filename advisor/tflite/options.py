"""Read an operator's builtin options: strides, dilations, fused activation, masks."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from ai_edge_litert import schema_py_generated as schema

# Scalar fields of the schema's options tables that decide which kernels take an operator; vectors are left out.
_WANTED = (
    *("FusedActivationFunction", "Padding", "StrideH", "StrideW", "DilationHFactor", "DilationWFactor"),
    *("DepthMultiplier", "FilterHeight", "FilterWidth", "Axis", "Beta", "KeepDims", "KeepNumDims", "WeightsFormat"),
    *("AlignCorners", "HalfPixelCenters", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask", "BlockSize", "Mode"),
    *("NumSplits", "AsymmetricQuantizeInputs"),
)


def options_of(operator: Any) -> dict[str, float | str]:
    """Return the known options of a flatbuffer's operator by name.

    The caller has checked that the table lies inside the file.
    """
    place = operator.BuiltinOptions()
    table = _tables().get(operator.BuiltinOptionsType())
    if place is None or table is None:
        return {}
    kind, fields = table
    options = kind()
    options.Init(place.Bytes, place.Pos)
    return {name: _value(method, getattr(options, method)()) for name, method in fields}


@cache
def _tables() -> dict[int, tuple[Any, tuple[tuple[str, str], ...]]]:
    """Return the class of each options table by its number in the union, with its wanted fields."""
    found = {}
    for name, number in vars(schema.BuiltinOptions).items():
        kind = getattr(schema, name, None)
        if isinstance(number, int) and kind is not None:
            fields = tuple((_snake(method), method) for method in _WANTED if hasattr(kind, method))
            found[number] = (kind, fields)
    return found


@cache
def _activations() -> dict[int, str]:
    return {number: name for name, number in vars(schema.ActivationFunctionType).items() if isinstance(number, int)}


def _value(method: str, value: float) -> float | str:
    if method == "FusedActivationFunction":
        return _activations().get(int(value), f"activation_{value}")
    return int(value) if isinstance(value, bool) else value


def _snake(name: str) -> str:
    """Return ``stride_h`` of ``StrideH``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def option_names() -> tuple[str, ...]:
    """Return the names that :func:`options_of` may return."""
    return tuple(map(_snake, _WANTED))
