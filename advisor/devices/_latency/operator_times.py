"""Predict the time of an operator, and of a network as the sum of its operators,
from kernels timed on the device.

A kernel of each kind (convolution, depthwise convolution, ...) takes the sum of a few parts:
arithmetic, values written and read, weights, a launch. The coefficients are not negative and fit
the relative errors (non-negative least squares). Arithmetic is padded to the tiles in which the
runtime computes; of a few usual tiles, those that fit best are taken. A Gaussian process over the
sizes corrects what is left, so a kernel near a timed one takes about as long.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.core import UsageError
from advisor.devices._latency.features import ModelFeatures
from advisor.devices._profiles.reading import find_shipped_profiles
from advisor.devices._profiles.values import DeviceProfile, DeviceTarget
from advisor.tflite import CLAMPS, CONVOLUTION, DENSE, DEPTHWISE, Work, Works

Floats = NDArray[np.float64]
Setting = tuple[float, ...]

_SCALES = np.array([1.2, 0.8, 0.8, 0.5, 0.5])
"""Distances (log) of pixels, channels, depth, taps and stride over which corrections are alike."""

_CORRECTION = 0.05
_NOISE = 0.02
"""Standard deviations (log) of the correction of a kind's formula, and of a timed kernel."""

# With fewer kernels of a kind, its error is not known, and :data:`_FEW_SD` stands for it.
_ENOUGH = 5

_FEW_SD = 0.25
# Deviation (log) of a kind that was not timed: it is taken for an addition of as many values.
_OTHER_SD = 0.7

_COPIES = frozenset({"SPLIT", "SPLIT_V", "STRIDED_SLICE", "SLICE", "PACK", "UNPACK"})
"""Kinds that copy values, as a concatenation does."""

_SUMS = frozenset({"ADD", "MUL", "SUB"})
"""Kinds of two inputs. One input may be a vector, which is added at every position:
that takes other kernels.
"""

_SHARED = 0.2
"""Share of the variance of a kind's error that its operators in one network have in common,
because they are alike.
"""

_RAMP = 0.15  # Half the width (log) in which a kernel's working set leaves the fastest cache

# The operators of the catalogue's networks, shipped with the device profiles.
OPERATORS_FILE = "model_operators.csv"

_LEVEL = 0.03
_LEVEL_SD = 0.05
_NETWORK_SD = 0.05
"""A network against the sum of its operators (log): the prior mean and deviation of a target's
level, and the deviation of a network from it. In a network, data come from farther away than in an
operator that runs again and again. From 22 networks in two forms that do not judge
(``benchmarks/latency_kernels.py``), on an AMD EPYC that others share: the level was 0.04 on one
occasion and 0.01 on another, the deviation 0.054 in float32 and 0.029 in int8.
"""


class _Kind(NamedTuple):
    """The formula of one kind of operator."""

    # The parts of an operator under a setting.
    formula: Callable[[Work, Setting], tuple[float, ...]]
    settings: tuple[Setting, ...] = ((),)  # the settings to choose from

    def parts(self, works: Sequence[Work], setting: Setting) -> Floats:
        """Return the parts (n, parts) of operators."""
        return np.array([self.formula(work, setting) for work in works], dtype=np.float64)


def _round_up(count: int, tile: float) -> float:
    return math.ceil(count / tile) * tile


def _split_convolution(work: Work, setting: Setting) -> tuple[float, ...]:
    """Return the parts of a convolution, which is a product of matrices in tiles of rows,
    columns and depth.
    """
    rows, columns, depth = setting
    macs = (
        _round_up(work.pixels, rows)
        * _round_up(work.channels, columns)
        * work.taps
        * _round_up(work.depth, depth)
    )
    window = work.taps > 1
    gathered = work.pixels * work.taps
    parts = 1, macs * (not window), macs * window, work.written, gathered * window
    return *parts, work.weights, gathered * work.depth


def _split_depthwise(work: Work, setting: Setting) -> tuple[float, ...]:
    """Return the parts of a depthwise convolution;
    rows and weights beyond the fastest cache make it slower.
    """
    columns, knee = setting
    channels = _round_up(work.channels, columns)
    macs = work.pixels * channels * work.taps
    beyond = min(1.0, max(0.0, (math.log(work.channels * work.taps / knee) / _RAMP + 1) / 2))
    return 1, macs, work.pixels * channels, work.pixels, macs * beyond, macs * (work.stride > 1)


def _split_values(work: Work, _setting: Setting) -> tuple[float, ...]:
    """Return the parts of an operator on values: a launch, and the values;
    each position of a pool's window counts.
    """
    return 1, work.written * work.taps if work.taps > 1 else work.written + work.read


@cache
def _map_kinds() -> Mapping[str, _Kind]:
    """Return the kinds of operators, with the settings of which the best is fitted."""
    return {
        # Rows and columns of the tiles of XNNPACK's matrix products (src/configs/gemm-config.c):
        # 1-8 x 4-32.
        CONVOLUTION: _Kind(
            _split_convolution, tuple(product((1, 2, 4, 5, 6, 7, 8), (1, 4, 8, 16, 32), (1, 4, 8)))
        ),
        # Working sets of 8 to 120 kB in float32: caches of the first level have 16 to 64 kB.
        DEPTHWISE: _Kind(
            _split_depthwise,
            tuple(product((1, 8, 16, 32), (*(1000 * 1.2**step for step in range(14)), 1e12))),
        ),
        DENSE: _Kind(lambda work, _setting: (1, work.weights, work.channels)),
    }


@cache
def _plain_kind() -> _Kind:
    """Return the kind of all other operators."""
    return _Kind(_split_values)


@dataclass(frozen=True, eq=False)
class _Fitted:
    """The fitted formula of one kind."""

    kind: _Kind  # its parts
    setting: Setting  # the chosen setting
    coefficients: Floats  # (parts,) microseconds for each unit of a part
    points: Floats  # (n, 5) sizes of the timed kernels
    corrections: Floats  # (n,) weights of the correction's covariances
    log_sd: float  # standard deviation (log) of the error of a kernel that was not timed

    def microseconds(self, works: Sequence[Work]) -> Floats:
        """Return the time of each operator (n,)."""
        formula = np.maximum(self.kind.parts(works, self.setting) @ self.coefficients, 1e-3)
        return np.asarray(
            formula
            * np.exp(_compute_covariance(_locate_works(works), self.points) @ self.corrections)
        )


class OperatorTimes:
    """The times of operators on one target in one form,
    fitted to operators that were timed there (microseconds).
    """

    def __init__(self, timed: Iterable[tuple[Work, float]]) -> None:
        self._timed = dict(timed)
        self._fitted = {}
        for kind, timed_works in _group_by_kind(self._timed.items()).items():
            self._fitted[kind] = _fit_kind(_map_kinds().get(kind, _plain_kind()), timed_works)

    def covers(self, works: Works) -> bool:
        """Return whether operators of every kind in a network were timed;
        additions stand for kinds without weights.
        """
        others = []
        for work, _ in works:
            if _kind_of(work) not in self._fitted:
                others.append(work)
        # An operator without weights takes about as long as an addition of its values;
        # one with weights does not.
        return not others or (
            "ADD" in self._fitted and all(work.macs <= work.written for work in others)
        )

    def network(self, works: Works) -> tuple[float, float]:
        """Return the milliseconds of a network,
        and the standard deviation (log) that comes from its operators.

        ``works`` is each operator of the network with its number (:func:`.count_works`).
        """
        total = 0.0
        variance = 0.0
        for kind, rows in _group_by_kind(works).items():
            times, log_sd = self._estimate_times(kind, [work for work, _ in rows])
            times *= [number for _, number in rows]
            total += float(times.sum())
            deviations = times * log_sd
            # What the errors have in common adds up linearly,
            # and the rest as independent errors do.
            variance += float(
                _SHARED * deviations.sum() ** 2 + (1 - _SHARED) * np.square(deviations).sum()
            )
        return total / 1e3, math.sqrt(variance) / total

    def _estimate_times(self, kind: str, works: Sequence[Work]) -> tuple[Floats, Floats]:
        """Return the time of each operator (n,),
        as it was timed or else by the formula of its kind, and its log_sd.
        """
        fitted = self._fitted.get(kind) or self._fitted["ADD"]
        log_sd = fitted.log_sd if kind in self._fitted else _OTHER_SD
        exact = np.array([self._timed.get(work, math.nan) for work in works])
        known = ~np.isnan(exact)
        return np.where(known, exact, fitted.microseconds(works)), np.where(known, _NOISE, log_sd)


def _group_by_kind(rows: Iterable[tuple[Work, float]]) -> dict[str, list[tuple[Work, float]]]:
    rows_by_kind: dict[str, list[tuple[Work, float]]] = {}
    for work, figure in rows:
        rows_by_kind.setdefault(_kind_of(work), []).append((work, figure))
    return rows_by_kind


def _kind_of(work: Work) -> str:
    if work.kind == CONVOLUTION and work.pixels == 1:
        return DENSE  # a convolution of a single position, as in squeeze-and-excite
    if work.kind in _SUMS and work.read < 2 * work.written:
        return f"{work.kind} of a vector"
    if work.kind in CLAMPS:
        return "RELU"
    return "CONCATENATION" if work.kind in _COPIES else work.kind


def _fit_kind(kind: _Kind, rows: Sequence[tuple[Work, float]]) -> _Fitted:
    works = [work for work, _ in rows]
    times = np.array([microseconds for _, microseconds in rows])

    def error(setting: Setting) -> float:
        """Return the mean squared error (log) of the best coefficients."""
        parts = kind.parts(works, setting)
        predicted = np.maximum(parts @ _fit_coefficients(parts, times), 1e-3)
        # Rounded, so that two settings that are equal but
        # for rounding give the same choice on every machine.
        return round(float(np.square(np.log(predicted / times)).mean()), 9)

    setting = min(kind.settings, key=error)
    parts = kind.parts(works, setting)
    points = _locate_works(works)
    coefficients = _fit_coefficients(parts, times)
    left = np.log(times / np.maximum(parts @ coefficients, 1e-3))
    cover = _compute_covariance(points, points) + _NOISE**2 * np.eye(len(points))
    corrections = np.asarray(np.linalg.solve(cover, left), dtype=np.float64)
    # What each kernel differs from its prediction by the others,
    # which would also find other coefficients.
    shares = parts * coefficients / np.maximum(parts @ coefficients, 1e-3)[:, None]
    inverse = np.linalg.inv(cover + shares @ shares.T)
    left_out = inverse @ left / np.diag(inverse)
    log_sd = _FEW_SD
    if len(works) >= _ENOUGH:
        log_sd = max(_NOISE, float(np.sqrt(np.mean(np.square(left_out)))))
    return _Fitted(kind, setting, coefficients, points, corrections, log_sd)


def _fit_coefficients(parts: Floats, times: Floats) -> Floats:
    """Return the non-negative coefficients with the least squared relative error."""
    from scipy.optimize import nnls

    # Errors are relative: a kernel of 5 microseconds counts as much as one of 5 milliseconds.
    relative = parts / times[:, None]
    # Columns of MACs and of launches differ by nine orders of magnitude,
    # which nnls does not take well.
    scale = np.linalg.norm(relative, axis=0)
    scale[scale == 0] = 1.0
    coefficients, _residual = nnls(relative / scale, np.ones(len(times)))
    return np.asarray(coefficients / scale)


def _locate_works(works: Sequence[Work]) -> Floats:
    sizes = [(work.pixels, work.channels, work.depth, work.taps, work.stride) for work in works]
    return np.asarray(np.log(np.maximum(np.array(sizes, dtype=np.float64), 1.0)))


def _compute_covariance(left: Floats, right: Floats) -> Floats:
    apart = np.square((left[:, None] - right[None]) / _SCALES).sum(axis=-1)
    return np.asarray(_CORRECTION**2 * np.exp(-apart / 2))


@dataclass(frozen=True)
class NetworkTimes:
    """Times of networks as the sum of their operators, corrected by measured networks."""

    operators: OperatorTimes  # times of operators
    level: float  # posterior mean (log) of networks against the sums of their operators
    level_sd: float  # its posterior standard deviation
    measured: int  # number of measured networks that it was corrected by

    @classmethod
    def of(cls, operators: OperatorTimes, measured: Sequence[tuple[Works, float]]) -> NetworkTimes:
        """Correct the level by networks with their measured milliseconds."""
        # The prior counts like one more network. Each measured one adds its precision.
        precision = _LEVEL_SD**-2
        evidence = precision * _LEVEL
        for works, milliseconds in measured:
            total, log_sd = operators.network(works)
            weight = 1 / (_NETWORK_SD**2 + log_sd**2)
            precision += weight
            evidence += weight * math.log(milliseconds / total)
        return cls(operators, evidence / precision, precision**-0.5, len(measured))

    def predict(self, works: Works) -> tuple[float, float]:
        """Return the mean and the standard deviation of the natural logarithm
        of a network's milliseconds.
        """
        total, log_sd = self.operators.network(works)
        return math.log(total) + self.level, math.hypot(self.level_sd, _NETWORK_SD, log_sd)


def network_times(
    profile: DeviceProfile, target: DeviceTarget, precision: str, measured: Mapping[str, float]
) -> NetworkTimes | None:
    """Return what the kernels and the measured networks of a target say about other networks;
    None without kernels.

    ``measured`` is the milliseconds of each network that was measured there, by its name.
    """
    timed = []
    for kernel in profile.kernels:
        if kernel.target == target.name and kernel.form == precision:
            timed.append((kernel.work, kernel.microseconds))
    if not timed:
        return None
    operators = _operator_times(tuple(timed))
    anchors = []
    for name, milliseconds in measured.items():
        works = model_operators().get(name)
        if works is not None and operators.covers(works):
            anchors.append((works, milliseconds))
    return NetworkTimes.of(operators, anchors)


# A process that predicts again uses its last fits.
_operator_times = lru_cache(maxsize=16)(OperatorTimes)


def operators_of(model: ModelFeatures, times: NetworkTimes) -> Works:
    """Return the operators of a model if the kernels predict all of them, else none."""
    works = model.operators or model_operators().get(model.name, ())
    if works and times.operators.covers(works):
        return works
    return ()


@lru_cache(maxsize=1)
def model_operators() -> Mapping[str, Works]:
    """Return the operators of each network of the catalogue by name, from the shipped table."""
    path = find_shipped_profiles() / OPERATORS_FILE
    works_by_model: dict[str, list[tuple[Work, int]]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                work = Work.of_row(row)
                works_by_model.setdefault(row["model"], []).append((work, int(row["number"])))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "install the package again") from error
    return {name: tuple(works) for name, works in works_by_model.items()}
