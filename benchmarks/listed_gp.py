"""Optuna's Gaussian process over a space that can be listed.

``GPSampler`` samples its acquisition, the expected hypervolume improvement, at about two thousand points and climbs
from ten of them. With three objectives and hundreds of trials this takes seconds for each suggestion, and it repeats
what was evaluated. Here the same acquisition is computed exactly for every configuration that may start, and the best
is suggested. This is the best that its own search could find.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.samplers import GPSampler

Floats = NDArray[np.float64]
Listed = Callable[[], Sequence[Mapping[str, Any]]]
"""Returns the parameters of every configuration that may start now."""


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
        """Leave out deferred configurations: Optuna thinks that they run, but they may get no result."""
        return super()._sample_relative_impl(study, completed_trials, [], search_space)

    def _optimize_acqf(self, acqf: Any, best_params: Any) -> Floats:
        """Return the normalised parameters with the largest acquisition; Optuna intends this to be overridden."""
        listed = list(self._listed())
        points: Floats = acqf.search_space.get_normalized_params(listed, listed)
        lower = acqf._non_dominated_box_lower_bounds.numpy()
        upper = lower + acqf._non_dominated_box_intervals.numpy()
        predictions = [_predicted(process, points) for process in acqf._gpr_list]
        means, deviations = (np.column_stack(each) for each in zip(*predictions, strict=True))
        best: Floats = points[int(np.argmax(improvement(means, deviations, lower, upper)))]
        return best


def improvement(means: Floats, deviations: Floats, lower: Floats, upper: Floats) -> Floats:
    """Return (n,) the expected hypervolume improvement of points whose objectives are independent normal variables.

    Args:
        means: (n, d), more is better.
        deviations: (n, d).
        lower: (m, d) lower corners of the boxes that are not dominated yet.
        upper: (m, d) their upper corners; may be infinite.
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
    finite = np.where(np.isfinite(ahead), ahead, -1e9)  # nothing exceeds an infinite level
    excess: Floats = deviation * (finite * ndtr(finite) + density)
    return excess


def _predicted(process: Any, points: Floats) -> tuple[Floats, Floats]:
    import torch

    mean, variance = process.posterior(torch.from_numpy(points))
    return mean.numpy(), np.sqrt(variance.numpy())
