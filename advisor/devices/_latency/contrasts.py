"""Describe how the latencies of models differ between targets of one kind.

The differences come from known targets, and from the parts of a model's time: launching it,
starting its operators, moving its weights and computing. If one part is cheaper on a target,
models differ there by their share of that part. For example, a small network is relatively fast on
a slow processor with a fast driver. These shares (weights / latency, ...) need no measurement on
the target. The posterior and the choice of models to measure use them as further covariances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.devices._latency.base import Base, Indices
from advisor.devices._latency.model_space import Floats
from advisor.devices._latency.table import Column, other_release

PECULIARITY = 5.0
"""Weight of the observed differences between columns,
relative to differences that the models' features allow.
"""

SHARES = {"npu": 0.5, "cpu": 0.3}
"""Weight of each share of a model's time by kind of processor;
on others the shares did not improve predictions.
"""

# Number of a model's features that are counts:
# log MACs, log parameters, log input size, log layers.
COUNTS = 4

_MEASURED_ENOUGH = 8  # Measured models from which a column can be a peer
_PEERS = 4  # With fewer peers of a narrow kind, those of a wider one are taken
# Above this number, operators are parts of an unrolled recurrence, which runtimes merge.
_MOST_LAYERS = 1000.0
_FAR = 4.0  # Shares are clipped at this many standard deviations from the known models


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Directions in which models differ on targets like one column."""

    # (p,) indices of the columns that they are learnt from, empty if there are too few.
    peers: Indices
    levels: Floats  # (p,) level of each peer
    centre: Floats  # (s,) mean of the shares over the known models
    scale: Floats  # (s,) their standard deviation
    weight: float = 0.0  # weight of each share

    @classmethod
    def of(cls, base: Base, column: Column, candidates: Indices) -> Contrasts:
        """Return the directions for targets like ``column``, learnt from ``candidates``."""
        peers = peers_of(base, column, candidates)
        levels = base.filled[peers].mean(axis=1)
        if not len(peers):
            return cls(peers, levels, np.zeros(0), np.ones(0))
        shares = _compute_shares(base.filled.T[:, peers], base.table.features[:, :COUNTS])
        # Models that no peer measured are predictions,
        # which would narrow the spread of the shares.
        shares = shares[~np.isnan(base.table.values[peers]).all(axis=0)]
        centre = np.nanmean(shares, axis=0)
        scale = np.maximum(np.nanstd(shares, axis=0), 1e-6)
        return cls(peers, levels, centre, scale, SHARES.get(column.kind, 0.0))

    def coordinates(
        self, estimates: Floats, counts: Floats, peculiarity: float = PECULIARITY
    ) -> Floats:
        """Return the coordinates (n, p + s) of models in these directions;
        their inner products are a covariance.

        ``estimates`` (n, base columns) are those of :class:`Base`, ``counts`` (n, COUNTS)
        logarithms with NaN where unknown, ``peculiarity`` is the weight of the observed
        directions.
        """
        if not len(self.peers):
            return np.zeros((len(estimates), 0))
        on_peers = estimates[:, self.peers]
        shapes = on_peers - self.levels
        # Divided by the number of peers, so that more peers do not weigh more.
        seen = (shapes - shapes.mean(axis=1, keepdims=True)) / np.sqrt(max(len(self.peers) - 1, 1))
        if not self.weight:
            return np.asarray(np.sqrt(peculiarity) * seen)
        of_time = (_compute_shares(on_peers, counts) - self.centre) / self.scale
        of_time = np.clip(np.nan_to_num(of_time), -_FAR, _FAR)
        return np.hstack([np.sqrt(peculiarity) * seen, np.sqrt(self.weight) * of_time])


def _compute_shares(on_peers: Floats, counts: Floats) -> Floats:
    """Return (n, 5): launches, MACs, weights and operators per millisecond of each model,
    and its log latency.
    """
    log_latency = on_peers.mean(axis=1)
    layers = np.minimum(counts[:, 3], np.log(_MOST_LAYERS))
    work = np.column_stack([np.zeros(len(counts)), counts[:, 0], counts[:, 1], layers])
    return np.column_stack([np.exp(work - log_latency[:, None]), log_latency])


def peers_of(base: Base, column: Column, candidates: Indices) -> Indices:
    """Return the columns with enough measurements that show how models differ
    on targets like this one.
    """
    table = base.table
    counts = (~np.isnan(table.values)).sum(axis=1)
    form = column.kind, column.precision
    alike = []
    for i in candidates:
        same_form = (table.columns[i].kind, table.columns[i].precision) == form
        if same_form and counts[i] >= _MEASURED_ENOUGH:
            alike.append(i)
    package = column.runtime, column.kernels
    same = []
    for i in alike:
        if (table.columns[i].runtime, table.columns[i].kernels) == package:
            same.append(i)
    release = []
    for i in same:
        if not other_release(table.columns[i], column):
            release.append(i)
    # The nearest targets that are enough:
    # the same release, else the same build, else the same kind and precision.
    for columns in (release, same, alike):
        if len(columns) >= _PEERS:
            return np.array(columns, dtype=np.intp)
    return np.array([], dtype=np.intp)
