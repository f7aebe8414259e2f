"""Store a fit as JSON: numbers and names, no code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from advisor.core.errors import UsageError
from advisor.devices.latency.base import Base
from advisor.devices.latency.kernels import Floats, ModelSpace
from advisor.devices.latency.table import LatencyTable

_DIGITS = 7


def base_to_json(base: Base) -> dict[str, object]:
    """Return the fitted arrays with their targets and models."""
    return {
        "data_hash": base.table.fingerprint(),
        "targets": [
            {key: getattr(column, key) for key in ("device", "target", "precision", "runtime", "version")}
            for column in base.table.columns
        ],
        "models": list(base.table.models),
        "levels": _plain(base.levels),
        "smooth": _plain(base.smooth),
        "weights": _plain(base.weights),
    }


def base_from_json(data: object, table: LatencyTable, path: Path) -> Base:
    """Read an object that :func:`base_to_json` returned, for the same table.

    Raises:
        UsageError: it was fitted to other measurements, or its arrays have other shapes.
    """
    hint = "delete it; advisor makes it again"
    if not isinstance(data, Mapping) or data.get("data_hash") != table.fingerprint():
        raise UsageError(f"{path} was fitted to other measurements", hint)
    columns, models = table.values.shape
    levels = _array(data.get("levels"), (columns,), path)
    smooth = _array(data.get("smooth"), (columns, models), path)
    weights = _array(data.get("weights"), (models, columns), path)
    space = ModelSpace.of(table.features, table.families)
    filled = np.where(np.isnan(table.values), smooth, table.values)
    return Base(table, space, space.within(), filled, smooth, weights, levels)


def _plain(array: Floats) -> list[object]:
    rounded: list[object] = np.round(array, _DIGITS).tolist()
    return rounded


def _array(values: object, shape: tuple[int, ...], path: Path) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{path} contains a value that is not a number", "delete it; advisor makes it again"
        ) from error
    if array.shape != shape or not np.isfinite(array).all():
        raise UsageError(f"{path} does not match the measurements", "delete it; advisor makes it again")
    return array
