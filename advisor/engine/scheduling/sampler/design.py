"""The candidates as a matrix: prior, numbers, their squares and products, and a level for each value of a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from advisor.engine.scheduling.sampler.hypervolume import Floats

_CLIP = 4.0
_CURVED_AT_MOST = 6


@dataclass(frozen=True)
class Design:
    """The candidates as a matrix.

    Attributes:
        matrix: (n, p) columns of about unit size.
        squares: (n, p) their squares, kept because every suggestion needs them.
        blocks: name -> the columns that share one prior width; the name up to ``:`` is the block's kind.
    """

    matrix: Floats
    squares: Floats
    blocks: Mapping[str, NDArray[np.intp]]


def make_design(prior: Floats, known: Floats, features: Sequence[Mapping[str, float | str]]) -> Design:
    """Build the matrix from the prior (n,), the known losses (n, k) and the features of each candidate.

    A missing number counts as the mean. Constant numbers and levels with one member are left out. Squares and products
    are taken of all numbers if there are at most six with the prior, else of the prior and the known losses.
    """
    standard = _standardise(prior[:, None])
    numbers = np.column_stack([_standardise(known), _standardise(_numbers(features))])
    basis = np.column_stack([standard, numbers])
    if basis.shape[1] > _CURVED_AT_MOST:
        basis = np.column_stack([standard, _standardise(known)])
    parts = {"one": np.ones((len(prior), 1)), "prior": standard, "number": numbers, "curve": _curves(basis)}
    parts |= {f"group:{name}": levels for name, levels in _groups(features).items()}
    ends = np.cumsum([part.shape[1] for part in parts.values()])
    spans = zip(parts.items(), ends, strict=True)
    blocks = {name: np.arange(end - part.shape[1], end) for (name, part), end in spans}
    matrix = np.column_stack(list(parts.values()))
    return Design(matrix, matrix**2, blocks)


def _numbers(features: Sequence[Mapping[str, float | str]]) -> Floats:
    names = sorted({name for each in features for name, value in each.items() if not isinstance(value, str)})
    table = [[float(each.get(name, np.nan)) for name in names] for each in features]
    return np.array(table, dtype=float).reshape(len(features), len(names))


def _groups(features: Sequence[Mapping[str, float | str]]) -> dict[str, Floats]:
    groups = {}
    for name in sorted({name for each in features for name, value in each.items() if isinstance(value, str)}):
        members = [each.get(name) for each in features]
        levels = sorted(str(level) for level, count in Counter(members).items() if 1 < count < len(members))
        if levels:
            positions = {level: position for position, level in enumerate(levels)}
            codes = np.array([positions.get(member, -1) if isinstance(member, str) else -1 for member in members])
            groups[name] = (codes[:, None] == np.arange(len(levels))).astype(float)
    return groups


def _standardise(values: Floats) -> Floats:
    """Scale the columns to mean 0 and deviation 1, clipped; missing values become the mean, constants are dropped."""
    finite = np.where(np.isfinite(values), values, np.nan)
    known = finite[:, (np.isfinite(finite).sum(axis=0) > 0)]
    filled = np.where(np.isnan(known), np.nanmean(known, axis=0) if known.size else 0.0, known)
    spread = filled.std(axis=0)
    varied = spread > 1e-12 * np.maximum(1.0, np.abs(filled).max(axis=0, initial=0.0))
    centred = (filled - filled.mean(axis=0))[:, varied] / spread[varied]
    clipped: Floats = np.clip(centred, -_CLIP, _CLIP)
    return clipped


def _curves(basis: Floats) -> Floats:
    pairs = combinations_with_replacement(range(basis.shape[1]), 2)
    products = [basis[:, i] * basis[:, j] - float(i == j) for i, j in pairs]
    return np.column_stack(products) if products else np.zeros((len(basis), 0))
