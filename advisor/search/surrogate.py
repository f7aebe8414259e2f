"""What a run has seen corrects what was believed: a Bayesian ridge over the prior and the candidates' features.

The revealed loss is linear in the prior, in the candidate's numbers, in their squares and products, and in an effect
for each level of each group (family, training data, recipe), with normal priors whose widths are chosen by marginal
likelihood: a prior that does not predict this task loses its weight, a family that behaves apart gains its own level.
Mean, noise and coefficients have the closed normal-inverse-gamma form (Bishop, "Pattern Recognition and Machine
Learning", 2006, section 3.5; O'Hagan and Forster, "Kendall's Advanced Theory of Statistics 2B", 2004, chapter 11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from advisor.search.hypervolume import Floats

_WIDTHS = {"prior": (3.0, 0.3, 30.0), "number": (0.3, 0.03, 3.0), "curve": (0.1, 0.01, 1.0), "group": (0.5, 0.05)}
_INTERCEPT_WIDTH = 100.0
_NOISE_SHAPE, _NOISE_RATE = 1.0, 0.1
_RETUNE_ALWAYS_BELOW = 64
_RETUNE_GROWTH = 1.1
_CLIP = 4.0
_CURVED_AT_MOST = 6


@dataclass(frozen=True)
class Design:
    """The candidates as a matrix.

    Attributes:
        matrix: (n, p) columns of about unit size.
        blocks: name -> the columns that share one prior width; the name up to ``:`` is the block's kind.
    """

    matrix: Floats
    blocks: Mapping[str, NDArray[np.intp]]


def make_design(prior: Floats, known: Floats, features: Sequence[Mapping[str, float | str]]) -> Design:
    """Build the matrix from the prior (n,), the known losses (n, k) and the features of each candidate.

    A number that is missing counts as the mean, a constant one and a group's level with one member tell nothing and
    are left out. Squares and products are taken of all numbers where they are few, else of prior and known losses.
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
    return Design(np.column_stack(list(parts.values())), blocks)


@dataclass
class Surrogate:
    """Predicts a value of every candidate from those seen so far. Seeing one more costs O(p^2), predicting O(p^3).

    Attributes:
        design: the candidates.
    """

    design: Design
    _rows: list[int] = field(default_factory=list)
    _values: list[float] = field(default_factory=list)
    _absorbed: int = 0
    _tuned_at: int = 0

    def __post_init__(self) -> None:
        self._widths = {name: _options(name)[0] for name in self.design.blocks}
        self.replace_design(self.design)

    def __len__(self) -> int:
        return len(self._rows)

    def replace_design(self, design: Design) -> None:
        """Take a design of the same candidates whose features changed; what was seen is kept."""
        self.design = design
        columns = design.matrix.shape[1]
        self._gram, self._moment, self._sums = np.zeros((columns, columns)), np.zeros(columns), np.zeros(columns)
        self._absorbed = 0
        self._widths = {name: self._widths.get(name, _options(name)[0]) for name in design.blocks}

    def add(self, row: int, value: float) -> None:
        """Note that the candidate ``row`` was seen to have ``value``."""
        self._rows.append(row)
        self._values.append(value)

    def predict(self, rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Return mean and standard deviation (m,) of what evaluating the candidates ``rows`` would show.

        At least one value must have been seen.
        """
        self._absorb()
        self._tune()
        location, scale = self._location_scale()
        fit = self._fit(self._widths)
        weighted = self.design.matrix[rows] * fit.root
        mean = weighted @ fit.mean
        spread = np.linalg.solve(fit.cholesky, weighted.T)
        variance = ((spread**2).sum(axis=0) + 1.0) * fit.rate / max(fit.shape - 1.0, 0.5)
        return mean * scale + location, np.sqrt(variance) * scale

    def means(self) -> Floats:
        """Return the expected value (n,) of every candidate."""
        self._absorb()
        location, scale = self._location_scale()
        fit = self._fit(self._widths)
        result: Floats = self.design.matrix @ (fit.root * fit.mean) * scale + location
        return result

    def _absorb(self) -> None:
        rows = self._rows[self._absorbed :]
        if rows:
            part = self.design.matrix[rows]
            self._gram += part.T @ part
            self._moment += part.T @ np.array(self._values[self._absorbed :])
            self._sums += part.sum(axis=0)
            self._absorbed = len(self._rows)

    def _location_scale(self) -> tuple[float, float]:
        values = np.array(self._values)
        scale = float(values.std())
        return float(values.mean()), scale if scale > 1e-12 * max(1.0, float(np.abs(values).max())) else 1.0

    def _tune(self) -> None:
        """Climb the marginal likelihood one width at a time, from the widths of the last time."""
        count = len(self._rows)
        if count >= _RETUNE_ALWAYS_BELOW and count < self._tuned_at * _RETUNE_GROWTH:
            return
        self._tuned_at = count
        best = self._fit(self._widths).evidence
        for name in [*self._widths, *self._widths]:
            for option in _options(name):
                trial = {**self._widths, name: option}
                if (evidence := self._fit(trial).evidence) > best:
                    best, self._widths = evidence, trial

    def _fit(self, widths: Mapping[str, float]) -> _Fit:
        location, scale = self._location_scale()
        count = len(self._rows)
        root = np.empty(len(self._moment))
        for name, columns in self.design.blocks.items():
            root[columns] = np.sqrt(widths[name])
        precision = root[:, None] * self._gram * root
        precision[np.diag_indices_from(precision)] += 1.0
        cholesky = np.linalg.cholesky(precision)
        half = np.linalg.solve(cholesky, root * (self._moment - location * self._sums) / scale)
        total = float(((np.array(self._values) - location) ** 2).sum()) / scale**2
        shape = _NOISE_SHAPE + count / 2
        rate = _NOISE_RATE + max(total - float(half @ half), 0.0) / 2
        evidence = -float(np.log(np.diag(cholesky)).sum()) - shape * float(np.log(rate))
        return _Fit(root, cholesky, np.linalg.solve(cholesky.T, half), shape, rate, evidence)


@dataclass(frozen=True)
class _Fit:
    """The posterior for given widths: coefficients are ``root * mean``, noise is inverse gamma (shape, rate)."""

    root: Floats
    cholesky: Floats
    mean: Floats
    shape: float
    rate: float
    evidence: float


def _options(name: str) -> tuple[float, ...]:
    return _WIDTHS.get(name.partition(":")[0], (_INTERCEPT_WIDTH,))


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
            groups[name] = np.array([[float(member == level) for level in levels] for member in members])
    return groups


def _standardise(values: Floats) -> Floats:
    """Scale the columns to mean 0 and deviation 1, clipped; missing values become the mean, constants go."""
    finite = np.where(np.isfinite(values), values, np.nan)
    known = finite[:, (np.isfinite(finite).sum(axis=0) > 0)]
    filled = np.where(np.isnan(known), np.nanmean(known, axis=0) if known.size else 0.0, known)
    spread = filled.std(axis=0)
    varied = spread > 1e-12 * np.maximum(1.0, np.abs(filled).max(axis=0, initial=0.0))
    centred = (filled - filled.mean(axis=0))[:, varied] / spread[varied]
    return np.clip(centred, -_CLIP, _CLIP)


def _curves(basis: Floats) -> Floats:
    pairs = combinations_with_replacement(range(basis.shape[1]), 2)
    products = [basis[:, i] * basis[:, j] - float(i == j) for i, j in pairs]
    return np.column_stack(products) if products else np.zeros((len(basis), 0))
