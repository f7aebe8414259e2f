"""How models differ between targets of one kind: as they were seen to differ, and as what takes their time says.

A target's time for a model is launching it, starting its operators, moving its weights and computing. On a target where
one of these is cheaper than elsewhere, models differ by how much of their time it takes: a small network on a slow unit
with a fast driver is quicker than its likes. Those shares (weights / latency, ...) need no measurement on the target.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.devices.latency.base import Base
from advisor.devices.latency.kernels import Floats
from advisor.devices.latency.table import Column

Indices = NDArray[np.intp]

PECULIARITY = 5.0
"""Weight of how columns were seen to differ from each other, against how models' features say that they may."""

SHARES = 0.5
"""Weight of each of the shares of a model's time on an NPU; elsewhere they gained nothing."""

COUNTS = 4
"""How many of a model's features are counts: log MACs, log parameters, log input size, log layers."""

_MEASURED_ENOUGH = 8
_PEERS = 4
_MOST_LAYERS = 1000.0
"""Above this the operators are pieces of a few (an unrolled recurrence), which runtimes join."""

_FAR = 4.0
"""Standard deviations from the known models at which a share counts no further."""


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Directions in which models differ on targets such as one column.

    Attributes:
        peers: (p,) indices of the columns that they are learnt from, empty where there are too few.
        levels: (p,) each peer's level.
        centre: (s,) mean of the shares over the known models.
        scale: (s,) their standard deviation.
        weight: of each share.
    """

    peers: Indices
    levels: Floats
    centre: Floats
    scale: Floats
    weight: float = 0.0

    @classmethod
    def of(cls, base: Base, column: Column, candidates: Indices) -> Contrasts:
        """Return the directions for targets such as ``column``, learnt from ``candidates``."""
        peers = peers_of(base, column, candidates)
        levels = base.filled[peers].mean(axis=1)
        if not len(peers):
            return cls(peers, levels, np.zeros(0), np.ones(0))
        shares = _shares(base.filled.T[:, peers], base.table.features[:, :COUNTS])
        shares = shares[~np.isnan(base.table.values[peers]).all(axis=0)]
        centre, scale = np.nanmean(shares, axis=0), np.maximum(np.nanstd(shares, axis=0), 1e-6)
        return cls(peers, levels, centre, scale, SHARES if column.kind == "npu" else 0.0)

    def coordinates(self, estimates: Floats, counts: Floats, peculiarity: float = PECULIARITY) -> Floats:
        """Return models (n, p + s) in these directions: their inner products are a covariance.

        Args:
            estimates: (n, base columns) of :class:`Base`.
            counts: (n, COUNTS) logarithms, NaN where unknown.
            peculiarity: weight of the directions that were seen.
        """
        if not len(self.peers):
            return np.zeros((len(estimates), 0))
        on_peers = estimates[:, self.peers]
        shapes = on_peers - self.levels
        seen = (shapes - shapes.mean(axis=1, keepdims=True)) / np.sqrt(max(len(self.peers) - 1, 1))
        if not self.weight:
            out: Floats = np.sqrt(peculiarity) * seen
            return out
        of_time = (_shares(on_peers, counts) - self.centre) / self.scale
        of_time = np.clip(np.nan_to_num(of_time), -_FAR, _FAR)
        return np.hstack([np.sqrt(peculiarity) * seen, np.sqrt(self.weight) * of_time])


def _shares(on_peers: Floats, counts: Floats) -> Floats:
    """Return (n, 5): what a model has of launches, MACs, weights and operators a millisecond, and its log latency."""
    log_latency = on_peers.mean(axis=1)
    layers = np.minimum(counts[:, 3], np.log(_MOST_LAYERS))
    work = np.column_stack([np.zeros(len(counts)), counts[:, 0], counts[:, 1], layers])
    return np.column_stack([np.exp(work - log_latency[:, None]), log_latency])


def peers_of(base: Base, column: Column, candidates: Indices) -> Indices:
    """Return the well-measured columns whose differences say how models differ on targets such as this one."""
    table = base.table
    counts = (~np.isnan(table.values)).sum(axis=1)
    alike = [
        i
        for i in candidates
        if table.columns[i].kind == column.kind
        and table.columns[i].precision == column.precision
        and counts[i] >= _MEASURED_ENOUGH
    ]
    same = [i for i in alike if table.columns[i].runtime == column.runtime]
    chosen = same if len(same) >= _PEERS else alike if len(alike) >= _PEERS else []
    return np.array(chosen, dtype=np.intp)
