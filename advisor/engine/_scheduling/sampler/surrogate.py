"""Correct the prior by the results seen:
a Bayesian ridge over the prior and the candidates' features.

``AdvisorSampler`` (``__init__.py``) fills an :class:`Observations`, and ``acquisition.py`` reads
it. The *revealed* loss is that of the one objective which only an evaluation shows; the *known*
losses are those of the other objectives, exact or predicted. A trial that *only teaches* informs
the model, but is never a point of the front. Equal results in equal order must give equal figures:
a resumed study then continues as one that was not interrupted (``docs/sampler.md``).

The revealed loss is linear in the prior, in the candidate's numbers, in their squares and
products, and in an effect for each level of each group (family, training data, recipe), with
normal priors whose widths are chosen by marginal likelihood. A prior that does not predict this
task loses its weight; a family that differs gets its own level. Mean, noise and coefficients have
the closed normal-inverse-gamma form (Bishop, "Pattern Recognition and Machine Learning", 2006,
section 3.5; O'Hagan and Forster, "Kendall's Advanced Theory of Statistics 2B", 2004, chapter 11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from advisor.engine._scheduling.sampler.hypervolume import Floats, pareto_mask

_CLIP = 4.0
_CURVED_AT_MOST = 6

_WIDTHS = {
    "one": (100.0,),
    "prior": (3.0, 0.3, 30.0, 300.0),
    "number": (0.3, 0.03, 3.0, 30.0),
    "curve": (0.1, 0.01, 1.0),
    "group": (0.5, 0.05, 5.0, 50.0),
}
"""Prior variances of a block's coefficients in units of the noise's, the one to start from
first.
"""
_NOISE_SHAPE = 1.0
_NOISE_RATE = 0.1
_TUNE_ALWAYS_BELOW = 64
_TUNE_GROWTH = 1.1


@dataclass(frozen=True)
class Design:
    """The candidates as a matrix (n, p) of columns of about unit size, with their squares.

    ``blocks`` are the columns that share one prior width, by name;
    the name up to ``:`` is the block's kind.
    """

    matrix: Floats
    squares: Floats
    blocks: Mapping[str, NDArray[np.intp]]


def make_design(
    prior: Floats, known: Floats, features: Sequence[Mapping[str, float | str]]
) -> Design:
    """Build the matrix from the prior (n,),
    the known losses (n, k) and the features of each candidate.

    A missing number counts as the mean. Constant numbers and levels with one member are left out.
    Squares and products are taken of all numbers if there are at most six with the prior, else of
    the prior and the known losses.
    """
    standard = _standardise(prior[:, None])
    numbers = np.column_stack([_standardise(known), _standardise(_numbers(features))])
    basis = np.column_stack([standard, numbers])
    if basis.shape[1] > _CURVED_AT_MOST:
        basis = np.column_stack([standard, _standardise(known)])
    parts = {
        "one": np.ones((len(prior), 1)),
        "prior": standard,
        "number": numbers,
        "curve": _curves(basis),
    }
    parts |= {f"group:{name}": levels for name, levels in _groups(features).items()}
    ends = np.cumsum([part.shape[1] for part in parts.values()])
    spans = zip(parts.items(), ends, strict=True)
    blocks = {}
    for (name, part), end in spans:
        blocks[name] = np.arange(end - part.shape[1], end)
    matrix = np.column_stack(list(parts.values()))
    return Design(matrix, matrix**2, blocks)


def _numbers(features: Sequence[Mapping[str, float | str]]) -> Floats:
    numeric = set()
    for row in features:
        for name, value in row.items():
            if not isinstance(value, str):
                numeric.add(name)
    names = sorted(numeric)
    table = []
    for row in features:
        table.append([float(row.get(name, np.nan)) for name in names])
    return np.array(table, dtype=float).reshape(len(features), len(names))


def _groups(features: Sequence[Mapping[str, float | str]]) -> dict[str, Floats]:
    groups = {}
    textual = set()
    for row in features:
        for name, value in row.items():
            if isinstance(value, str):
                textual.add(name)
    for name in sorted(textual):
        members = [row.get(name) for row in features]
        levels = sorted(
            str(level) for level, count in Counter(members).items() if 1 < count < len(members)
        )
        if levels:
            positions = {level: position for position, level in enumerate(levels)}
            codes = np.array(
                [
                    positions.get(member, -1) if isinstance(member, str) else -1
                    for member in members
                ]
            )
            groups[name] = (codes[:, None] == np.arange(len(levels))).astype(float)
    return groups


def _standardise(values: Floats) -> Floats:
    """Scale the columns to mean 0 and deviation 1, clipped;
    missing values become the mean, constants are dropped.
    """
    finite = np.where(np.isfinite(values), values, np.nan)
    known = finite[:, (np.isfinite(finite).sum(axis=0) > 0)]
    means = np.nanmean(known, axis=0) if known.size else 0.0
    filled = np.where(np.isnan(known), means, known)
    spread = filled.std(axis=0)
    varied = spread > 1e-12 * np.maximum(1.0, np.abs(filled).max(axis=0, initial=0.0))
    centred = (filled - filled.mean(axis=0))[:, varied] / spread[varied]
    clipped: Floats = np.clip(centred, -_CLIP, _CLIP)
    return clipped


def _curves(basis: Floats) -> Floats:
    pairs = combinations_with_replacement(range(basis.shape[1]), 2)
    products = []
    for i, j in pairs:
        products.append(basis[:, i] * basis[:, j] - float(i == j))
    if products:
        return np.column_stack(products)
    return np.zeros((len(basis), 0))


class Surrogate:
    """Predicts a value of every candidate from the values added so far,
    of which there must be one.

    Adding a value costs O(p^2), the fit after it O(p^3), a prediction O(p),
    with its exact deviation O(p^2).
    """

    def __init__(self, design: Design) -> None:
        self._rows = list[int]()
        self._values = list[float]()
        self._widths: dict[str, float] = {}
        self.replace_design(design)

    def __len__(self) -> int:
        return len(self._rows)

    def replace_design(self, design: Design) -> None:
        """Use another design of the same candidates; the values stay."""
        self.design = design
        columns = design.matrix.shape[1]
        self._gram = np.zeros((columns, columns))
        self._moment = np.zeros(columns)
        self._sums = np.zeros(columns)
        self._absorbed = 0
        self._posterior: _Posterior | None = None
        self._tuned_at = 0

    def add(self, row: int, value: float) -> None:
        """Add the value of the candidate ``row``."""
        self._rows.append(row)
        self._values.append(value)
        self._posterior = None

    def means(self) -> Floats:
        """Return the expected value (n,) of every candidate."""
        posterior = self._find_posterior()
        result: Floats = (
            self.design.matrix @ posterior.coefficients * posterior.scale + posterior.location
        )
        return result

    def rough_deviations(self) -> Floats:
        """Return :meth:`deviations` (n,) of every candidate as
        if the coefficients were independent.
        """
        posterior = self._find_posterior()
        return self._deviation(
            posterior, self.design.squares @ (posterior.root**2 / np.diag(posterior.precision))
        )

    def deviations(self, rows: NDArray[np.intp]) -> Floats:
        """Return the standard deviation (m,)
        of what evaluating the candidates ``rows`` would show.
        """
        posterior = self._find_posterior()
        weighted = self.design.matrix[rows] * posterior.root
        return self._deviation(
            posterior, ((weighted @ posterior.covariance) * weighted).sum(axis=1)
        )

    @staticmethod
    def _deviation(posterior: _Posterior, leverage: Floats) -> Floats:
        noise = posterior.rate / max(posterior.shape - 1.0, 0.5)
        deviation: Floats = np.sqrt((leverage + 1.0) * noise) * posterior.scale
        return deviation

    def _find_posterior(self) -> _Posterior:
        if self._posterior is None:
            gram, moment, sums = self._sums_over(self._absorbed, len(self._rows))
            self._gram = self._gram + gram
            self._moment = self._moment + moment
            self._sums = self._sums + sums
            self._absorbed = len(self._rows)
            self._tune()
            self._posterior = _fit_posterior(
                self._moments(len(self._rows)), self._root(self._widths)
            )
        return self._posterior

    def _sums_over(self, start: int, stop: int) -> tuple[Floats, Floats, Floats]:
        part = self.design.matrix[self._rows[start:stop]]
        return part.T @ part, part.T @ np.array(self._values[start:stop]), part.sum(axis=0)

    def _moments(self, count: int) -> _Moments:
        """Return the moments of the first ``count`` values."""
        sums = (self._gram, self._moment, self._sums)
        gram, moment, row_sum = sums if count == self._absorbed else self._sums_over(0, count)
        values = np.array(self._values[:count])
        location = float(values.mean())
        scale = float(values.std())
        scale = scale if scale > 1e-12 * max(1.0, abs(location)) else 1.0
        value_squares = float(((values - location) ** 2).sum()) / scale**2
        return _Moments(
            gram, (moment - location * row_sum) / scale, value_squares, count, location, scale
        )

    def _tune(self) -> None:
        """Climb the marginal likelihood one width at a time.

        It starts from the same widths each time, at fixed numbers of values that become rarer. So
        a resumed run gets the same widths as one that was not interrupted.
        """
        count = len(self._rows)
        if count >= _TUNE_ALWAYS_BELOW:
            last = following = _TUNE_ALWAYS_BELOW
            while following <= count:
                last = following
                following = int(following * _TUNE_GROWTH)
            count = last
        if count == self._tuned_at:
            return
        self._tuned_at = count
        moments = self._moments(count)
        options = {name: _WIDTHS[name.partition(":")[0]] for name in self.design.blocks}
        self._widths = {name: first for name, (first, *_) in options.items()}
        best = _log_evidence(moments, self._root(self._widths))
        for name in [*self._widths, *self._widths]:
            for option in options[name]:
                trial = {**self._widths, name: option}
                if (
                    option != self._widths[name]
                    and (evidence := _log_evidence(moments, self._root(trial))) > best
                ):
                    best = evidence
                    self._widths = trial

    def _root(self, widths: Mapping[str, float]) -> Floats:
        root = np.empty(self.design.matrix.shape[1])
        for name, columns in self.design.blocks.items():
            root[columns] = np.sqrt(widths[name])
        return root


@dataclass(frozen=True)
class _Moments:
    """Moments of the data; the values are standardised by ``location`` and ``scale``.

    ``gram`` (p, p) sums the rows' outer products, ``moment`` (p,) the rows times their values,
    ``value_squares`` is the sum of the squares of the values.
    """

    gram: Floats
    moment: Floats
    value_squares: float
    count: int
    location: float
    scale: float

    @property
    def shape(self) -> float:
        """Shape of the noise's inverse gamma law."""
        return _NOISE_SHAPE + self.count / 2

    def rate(self, explained: float) -> float:
        """Rate of the noise's inverse gamma law when ``explained`` of the squares is."""
        return _NOISE_RATE + max(self.value_squares - explained, 0.0) / 2

    def precision(self, root: Floats) -> Floats:
        """Precision (p, p) of the coefficients in units of their prior deviations ``root``."""
        precision: Floats = root[:, None] * self.gram * root
        precision[np.diag_indices_from(precision)] += 1.0
        return precision


@dataclass(frozen=True)
class _Posterior:
    """The posterior: normal coefficients, whose covariance in units of ``root`` is given,
    and noise (shape, rate).
    """

    root: Floats
    precision: Floats
    covariance: Floats
    coefficients: Floats
    shape: float
    rate: float
    location: float
    scale: float


def _fit_posterior(moments: _Moments, root: Floats) -> _Posterior:
    precision = moments.precision(root)
    covariance = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    weighted = root * moments.moment
    mean = covariance @ weighted
    rate = moments.rate(float(weighted @ mean))
    return _Posterior(
        root,
        precision,
        covariance,
        root * mean,
        moments.shape,
        rate,
        moments.location,
        moments.scale,
    )


def _log_evidence(moments: _Moments, root: Floats) -> float:
    """Return the log marginal likelihood up to a constant.

    The weighted moment goes through the Cholesky decomposition as one more row,
    which solves for it on the way.
    """
    weighted = root * moments.moment
    corner = np.array([[moments.value_squares + 1.0]])
    factor = np.linalg.cholesky(
        np.block([[moments.precision(root), weighted[:, None]], [weighted[None, :], corner]])
    )
    explained = float((factor[-1, :-1] ** 2).sum())
    return -float(np.log(np.diag(factor)[:-1]).sum()) - moments.shape * float(
        np.log(moments.rate(explained))
    )


class Observations:
    """Results of the trials of one study, kept incrementally.

    ``front`` (m, d) has the non-dominated feasible losses, the revealed one last, and ``worst`` is
    the largest revealed one. ``hints`` are revealed losses by row of candidates that were not
    evaluated themselves.
    """

    def __init__(self, design: Design, objectives: int) -> None:
        self.front: Floats = np.zeros((0, objectives))
        self.worst = -np.inf
        self.evaluated = 0
        self.hints: dict[int, float] = {}
        self._seen: set[int] = set()
        self.revealed = Surrogate(design)
        self.constraints: dict[str, Surrogate] = {}

    def add(
        self,
        row: int,
        losses: Sequence[float],
        constraints: Mapping[str, float],
        teaches_only: bool = False,
    ) -> None:
        """Add one finished evaluation; losses (d,) with the revealed one last.

        If it breaks a constraint or only teaches, it is not part of the front.
        """
        self.evaluated += 1
        self.hint(row, losses[-1])
        self.hints.pop(row, None)
        for name, value in constraints.items():
            if np.isfinite(value):
                self.constraints.setdefault(name, Surrogate(self.revealed.design)).add(row, value)
        counts = not teaches_only and all(value <= 0 for value in constraints.values())
        if counts and not (self.front <= losses).all(axis=1).any():
            points = np.vstack([self.front, losses])
            self.front = points[pareto_mask(points)]

    def hint(self, row: int, loss: float) -> None:
        """Add a candidate's revealed loss that another evaluation has shown. Repeats count
        once.
        """
        if row not in self._seen:
            self._seen.add(row)
            self.hints[row] = loss
            self.revealed.add(row, loss)
            self.worst = max(self.worst, loss)

    def replace_design(self, design: Design) -> None:
        """Hand a changed design to the surrogates."""
        for surrogate in (self.revealed, *self.constraints.values()):
            surrogate.replace_design(design)
