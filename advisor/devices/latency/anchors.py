"""Choose the few models to measure on a new target: the most informative ones about all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from advisor.devices.latency.base import LEVEL_VARIANCE, Base
from advisor.devices.latency.contrasts import COUNTS, PECULIARITY, Contrasts, Indices
from advisor.devices.latency.kernels import Floats
from advisor.devices.latency.posterior import NOISE, SCALES
from advisor.devices.latency.table import Column

_TYPICAL_SCALE = SCALES[3]
_PECULIARITY = 4 * PECULIARITY
_NOISE = 4 * NOISE
"""Both are larger than in prediction. An anchor must represent many models, and a model that behaves differently from
all others on every target says little about them, even if it varies much."""


def choose(
    base: Base, column: Column, candidates: Sequence[int], wanted: int, costs: Mapping[int, float] | None = None
) -> tuple[int, ...]:
    """Choose models greedily by how much variance of all candidates each measurement removes; the best first.

    Args:
        base: the additive model.
        column: the target to be measured.
        candidates: indices of the available models.
        wanted: how many to choose; all if there are fewer.
        costs: cost of each candidate (such as the size of its file) relative to 1 for a free one. The information is
            divided by it. None if all cost the same.
    """
    index = np.asarray(candidates, dtype=np.intp)
    cover = _prior_cover(base, column, index)
    price = np.array([1.0 + (costs or {}).get(int(i), 0.0) for i in index])
    chosen: list[int] = []
    for _ in range(min(wanted, len(index))):
        gains = np.square(cover).sum(axis=0) / (np.diag(cover) + _NOISE**2) / price
        gains[chosen] = -np.inf
        best = int(np.argmax(gains))
        chosen.append(best)
        cover = cover - np.outer(cover[:, best], cover[best]) / (cover[best, best] + _NOISE**2)
    return tuple(int(index[i]) for i in chosen)


def _prior_cover(base: Base, column: Column, models: Indices) -> Floats:
    """Return the covariance of the models' latencies on a target of this kind before any measurement there."""
    contrasts = replace(Contrasts.of(base, column, np.arange(len(base.table.columns))), weight=0.0)
    counts = base.table.features[models, :COUNTS]
    seen = contrasts.coordinates(base.filled.T[models], counts, _PECULIARITY)
    out: Floats = _TYPICAL_SCALE**2 * (base.gram[np.ix_(models, models)] + seen @ seen.T) + LEVEL_VARIANCE
    return out
