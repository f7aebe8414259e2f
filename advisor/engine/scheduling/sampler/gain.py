"""The expected gain of hypervolume of a point with one uncertain objective."""

from __future__ import annotations

import numpy as np

from advisor.engine.scheduling.sampler.hypervolume import Columns, Floats, chunks, columns, pareto_mask

_WORK = 200_000
"""Points times boxes that a step may score."""
_COARSE_FRONTS = (6, 12, 24)
"""Points of the front in each step."""


def expected_gain(points: Floats, sd: Floats, front: Floats, weight: Floats, *, exact: bool = True) -> Floats:
    """Return (n,) the expected gain of each point over ``front`` below the reference of all ones.

    The last objective of a point (n, d) has the deviation ``sd`` (n,), the others are certain. If the sum has too many
    boxes, all points are scored over a coarse front first. The best by gain times ``weight`` (n,) are then scored over
    finer fronts, and in the end over the whole front if ``exact``.
    """
    reference = np.ones(points.shape[1])
    front = front[pareto_mask(front)]
    front = front[np.argsort(front[:, 0], kind="stable")]
    sizes = [size for size in _COARSE_FRONTS if size < len(front)] + [len(front)] * exact
    gain = np.zeros(len(points))
    left = np.arange(len(points))
    for i, size in enumerate(sizes or [len(front)]):
        subset = front[np.unique(np.linspace(0, len(front) - 1, size).astype(int))] if len(front) else front
        boxes = columns(subset, reference)
        affordable = max(_WORK // len(boxes.level), 8)
        if i and len(left) > affordable:
            left = left[np.argpartition(-(gain * weight)[left], affordable)[:affordable]]
        gain[left] = _gain_over(points[left], sd[left], boxes)
        gain = np.minimum(gain, gain[left].max())
    return gain


def _gain_over(points: Floats, sd: Floats, boxes: Columns) -> Floats:
    """Sum overlap times expected shortfall below each box's level."""
    table = np.column_stack([points, sd / np.sqrt(2.0)])
    parts = []
    for part in chunks(table, len(boxes.level)):
        scale = part[:, -1:]
        shortfall = scale * _t4_shortfall((boxes.level - part[:, -2:-1]) / scale)
        parts.append((boxes.overlap(part[:, :-2]) * shortfall).sum(axis=1))
    return np.concatenate(parts)


def t4_below(u: Floats) -> Floats:
    """Return P(T < u) for Student's t with four degrees of freedom, whose deviation is the square root of 2.

    Models that were trained on other data differ from a regression by far more than a normal distribution allows. Four
    degrees of freedom keep such surprises possible, and have closed forms.
    """
    root = 1.0 / np.sqrt(1.0 + u * u / 4.0)
    probability: Floats = 0.5 + 0.375 * u * root * (1.0 - u * u * root * root / 12.0)
    return probability


def _t4_shortfall(u: Floats) -> Floats:
    """Return E max(0, u - T) for the same distribution: ``u F(u) + f(u) (4 + u^2) / 3``."""
    root = 1.0 / np.sqrt(1.0 + u * u / 4.0)
    density = 0.375 * root * root * root * root * root
    shortfall: Floats = u * t4_below(u) + density * (4.0 + u * u) / 3.0
    return np.maximum(shortfall, 0.0)
