"""Place GPUs that nobody measured among the measured ones, by their peak arithmetic.

``placement.py`` calls :func:`place_gpu` for a GPU whose peak is listed (``gpus.csv``). A change of
a constant, of the arithmetic or of a listed peak changes predictions and their errors: write
``prediction_calibration.json`` again (``make bench ARGS='latency_prediction --parts judging'``).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.devices._latency.model_space import Floats, invert_matrix
from advisor.devices._latency.table import Column

_LEVEL = 3.0
_LINEAR = 1.0
_BUILD = 0.15
_SILICON = 0.3
_NOISE = 0.5
"""Deviations (log) of a GPU's level: of all together, by its peak arithmetic (in standard
deviations of the known ones), by its runtime, by its silicon, and of its own. Chosen by the
likelihood of hidden silicon, over 38 targets of ncnn, ArmNN, Paddle Lite, MNN and OpenCV on 28
systems on chip. LiteRT's GPUs chose nothing ("GPUs that nobody measured",
``docs/studies/latency.md``).
"""


def place_gpu(known: Sequence[Column], column: Column) -> tuple[Floats, float]:
    """Return the weights (known,) of the known GPUs for a GPU's level,
    and the standard deviation of the level.

    The peak arithmetic of all of them is known.
    """
    gpus = (*known, column)
    peaks = np.log([gpu.gflops for gpu in gpus])
    others = peaks[:-1]
    centre = others.mean()
    scale = max(float(others.std()), 1e-3)
    points = (peaks - centre) / scale
    cover = _cover_levels(gpus, points)
    towards = cover[:-1, -1]
    among_others = cover[:-1, :-1]
    weights = invert_matrix(among_others) @ towards
    variance = float(cover[-1, -1] - weights @ towards)
    # The level of all targets together is known well: what is left over belongs to their mean.
    left = 1 - weights.sum()
    weights += left / len(weights)
    return weights, float(np.sqrt(variance))


def _cover_levels(gpus: Sequence[Column], points: Floats) -> Floats:
    """Return the covariance (gpus, gpus) of the levels of GPUs."""
    builds = _compare_names([gpu.build for gpu in gpus])
    silicons = _compare_names([gpu.silicon for gpu in gpus])
    by_peak = np.outer(points, points)
    itself = np.eye(len(gpus))
    cover = _LEVEL**2 + _LINEAR**2 * by_peak
    cover += _BUILD**2 * builds
    cover += _SILICON**2 * silicons
    cover += _NOISE**2 * itself
    total: Floats = cover
    return total


def _compare_names(names: Sequence[object]) -> NDArray[np.bool_]:
    """Return (names, names) which of them are equal."""
    order = {name: number for number, name in enumerate(dict.fromkeys(names))}
    numbers = np.array([order[name] for name in names])
    equal: NDArray[np.bool_] = numbers[:, None] == numbers[None]
    return equal
