"""The order of evaluation before there are results: known costs and the prior decide.

On 337 published ImageNet classifiers this order alone needs 5 to 10 evaluations for 95 % of the hypervolume of the
whole pool. Random order needs 79 to 218 (``benchmarks/results/sampler_timm_pool.md``).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.engine.scheduling.sampler.hypervolume import Floats, hypervolume_improvement, pareto_mask

_SPREAD = 48


def prior_order(points: ArrayLike) -> Iterator[int]:
    """Yield the row numbers of (n, d) minimised points, the most promising first.

    The Pareto front comes first, then the front of the rest, and so on. Within a front the next point is the one that
    adds most hypervolume to those before it, so that the whole front is known coarsely first. Equal gains keep the
    order of the rows. The order is computed while it is drawn.

    Args:
        points: (n, d) with d 2 or 3: the known or predicted costs and the negated prior accuracy.
    """
    values = _unit_range(np.asarray(points, dtype=float))
    left = np.arange(len(values))
    while len(left):
        on_front = pareto_mask(values[left])
        yield from _spread(values, left[on_front])
        left = left[~on_front]


def _spread(values: Floats, front: NDArray[np.intp]) -> Iterator[int]:
    """Yield a front's members by falling gain of hypervolume.

    After the first 48 the gains are tiny: the rest follows by the gain that it had then.
    """
    reference = np.full(values.shape[1], 1.1)
    taken: list[int] = []
    left = front
    while len(left) and len(taken) < _SPREAD:
        gains = hypervolume_improvement(values[left], values[taken], reference)
        best = int(np.argmax(gains))
        taken.append(int(left[best]))
        yield taken[-1]
        left = np.delete(left, best)
    if len(left):
        gains = hypervolume_improvement(values[left], values[taken], reference)
        yield from (int(row) for row in left[np.argsort(-gains, kind="stable")])


def _unit_range(values: Floats) -> Floats:
    """Scale each objective to 0..1 over the pool, so that hypervolume weighs them equally."""
    if len(values) == 0:
        return values.reshape(0, 2)
    low = values.min(axis=0)
    span = values.max(axis=0) - low
    scaled: Floats = (values - low) / np.where(span > 0, span, 1.0)
    return scaled
