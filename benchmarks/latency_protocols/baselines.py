"""Methods to hold the product's against: each predicts a column's other models from a few of its own."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


def nearest_times_ratio(pool: Floats, seen: Indices, values: Floats, hidden: Indices) -> Floats:
    """The known target whose ratio to the anchors varies least, times the median ratio.

    Args:
        pool: (targets, models) log latencies of the known targets, NaN where not measured.
        seen: (k,) indices of the anchors.
        values: (k,) their log latencies.
        hidden: indices of the models to predict.

    Returns:
        log latencies; a model that the nearest target lacks takes the mean target's.
    """
    best: tuple[float, Floats] | None = None
    for target in pool:
        both = ~np.isnan(target[seen])
        if both.sum() < max(1, (len(seen) + 1) // 2):
            continue
        ratios = (values - target[seen])[both]
        if best is None or float(np.std(ratios)) < best[0]:
            best = (float(np.std(ratios)), target[hidden] + float(np.median(ratios)))
    middle = mean_target(pool)
    fallback = middle[hidden] + float(np.nanmean(values - middle[seen]))
    if best is None:
        return fallback
    return np.where(np.isnan(best[1]), fallback, best[1])


def mean_target(pool: Floats) -> Floats:
    """Mean (models,) of the known targets after their levels are taken off; NaN where none measured the model."""
    centred = pool - np.nanmean(pool, axis=1, keepdims=True)
    counts = (~np.isnan(centred)).sum(axis=0)
    sums = np.nansum(centred, axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def fill(pool: Floats, rank: int = 4, rounds: int = 30) -> Floats:
    """Fill missing cells by soft-thresholded singular vectors of the centred matrix."""
    levels = np.nanmean(pool, axis=1, keepdims=True)
    start = np.nan_to_num(mean_target(pool)) + levels
    filled = np.where(np.isnan(pool), start, pool)
    for _ in range(rounds):
        means = filled.mean(axis=1, keepdims=True)
        shape = (filled - means).mean(axis=0)
        left, sizes, right = np.linalg.svd(filled - means - shape, full_matrices=False)
        sizes = np.maximum(sizes - 0.05, 0)
        sizes[rank:] = 0
        filled = np.where(np.isnan(pool), (left * sizes) @ right + shape + means, pool)
    return filled


def low_rank(pool: Floats, seen: Indices, values: Floats, hidden: Indices, noise: float = 0.05) -> Floats:
    """Collaborative: the target is one more draw from the known targets' multivariate normal, given its anchors."""
    filled = fill(pool)
    centred = filled - filled.mean(axis=1, keepdims=True)
    shape = centred.mean(axis=0)
    departures = centred - shape
    cover = departures.T @ departures / max(len(pool) - 1, 1)
    cover = 0.8 * cover + 0.2 * np.diag(np.diag(cover)) + 4.0
    inner = cover[np.ix_(seen, seen)] + noise**2 * np.eye(len(seen))
    level = float(filled.mean())
    told = np.linalg.solve(inner, values - shape[seen] - level)
    out: Floats = level + shape[hidden] + cover[np.ix_(hidden, seen)] @ told
    return out


def features_alone(features: Floats, seen: Indices, values: Floats, hidden: Indices) -> Floats:
    """Ridge regression of the anchors' log latency on log MACs and log parameters: no other target is used."""
    sizes = features[:, :2]
    centre = np.nanmean(sizes, axis=0)
    design = np.nan_to_num(sizes - centre)
    inner = design[seen] - design[seen].mean(axis=0)
    # Without evidence a latency grows as the 0.7th power of the MACs.
    prior = np.array([0.7, 0.0])
    slopes = prior + np.linalg.solve(inner.T @ inner + np.eye(2), inner.T @ (values - values.mean() - inner @ prior))
    out: Floats = values.mean() + (design[hidden] - design[seen].mean(axis=0)) @ slopes
    return out


def spearman(left: Floats, right: Floats) -> float:
    """Spearman's rank correlation (no ties expected)."""
    ranks = [np.argsort(np.argsort(side)) for side in (left, right)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
