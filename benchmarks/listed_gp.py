"""Optuna's Gaussian process over a space that can be listed, which it then need not search.

``GPSampler`` fits its processes as ever. Its acquisition, the expected hypervolume improvement, it samples at some two
thousand points and climbs from ten of them, which with three objectives and hundreds of trials takes seconds a
suggestion, and it suggests again what was evaluated. Here the same acquisition is taken exactly, in closed form, at
every configuration that may be begun, and the best of them is suggested: what the search would at best have found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.samplers import GPSampler

Floats = NDArray[np.float64]
Listed = Callable[[], Sequence[Mapping[str, Any]]]
"""Gives the parameters of every configuration that may be begun now."""


class ListedGP(GPSampler):
    """``GPSampler`` that chooses from a list.

    Args:
        listed: what there is to choose from.
        seed: of its first suggestions, which are random.
    """

    def __init__(self, listed: Listed, seed: int) -> None:
        super().__init__(seed=seed)
        self._listed = listed

    def _sample_relative_impl(self, study: Any, completed_trials: Any, running_trials: Any, search_space: Any) -> Any:
        """Leave out what was turned away and not told yet: it runs for Optuna, and nothing will come of it."""
        return super()._sample_relative_impl(study, completed_trials, [], search_space)

    def _optimize_acqf(self, acqf: Any, best_params: Any) -> Floats:
        """Return the normalised parameters with the largest acquisition; Optuna means this to be overridden."""
        listed = list(self._listed())
        points: Floats = acqf.search_space.get_normalized_params(listed, listed)
        lower = acqf._non_dominated_box_lower_bounds.numpy()
        upper = lower + acqf._non_dominated_box_intervals.numpy()
        beliefs = [_belief(process, points) for process in acqf._gpr_list]
        means, deviations = (np.column_stack(each) for each in zip(*beliefs, strict=True))
        best: Floats = points[int(np.argmax(improvement(means, deviations, lower, upper)))]
        return best


def improvement(means: Floats, deviations: Floats, lower: Floats, upper: Floats) -> Floats:
    """Return (n,) the expected hypervolume improvement of points whose objectives are independent normal variables.

    Args:
        means: (n, d), more is better.
        deviations: (n, d).
        lower: (m, d) corners of the boxes that make up what is not dominated yet.
        upper: (m, d) their other corners; may be infinite.
    """
    product = np.ones((len(means), len(lower)))
    for mean, deviation, low, high in zip(means.T, deviations.T, lower.T, upper.T, strict=True):
        product *= _excess(mean, deviation, low) - _excess(mean, deviation, high)
    total: Floats = product.sum(axis=1)
    return total


def _excess(mean: Floats, deviation: Floats, level: Floats) -> Floats:
    """Return (n, m) the expected excess of each variable over each level."""
    from scipy.special import ndtr

    deviation = np.maximum(deviation, 1e-9)[:, None]
    ahead = (mean[:, None] - level) / deviation
    density = np.exp(-0.5 * np.square(ahead)) / np.sqrt(2 * np.pi)
    finite = np.where(np.isfinite(ahead), ahead, -1e9)  # nothing is above what has no end
    excess: Floats = deviation * (finite * ndtr(finite) + density)
    return excess


def _belief(process: Any, points: Floats) -> tuple[Floats, Floats]:
    import torch

    mean, variance = process.posterior(torch.from_numpy(points))
    return mean.numpy(), np.sqrt(variance.numpy())
