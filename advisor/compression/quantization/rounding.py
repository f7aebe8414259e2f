"""Round weights so that a layer's output changes least: later weights make up for the errors of earlier ones.

Rounding each weight to the nearest step is best only if inputs are uncorrelated. Neighbouring pixels and channels are
correlated. So the weights of an output channel are rounded one after another, and each error is spread over the weights
that follow, by least squares over the layer's inputs on the calibration images (Frantar et al., "GPTQ: Accurate
Post-Training Quantization for Generative Pre-trained Transformers", 2023; the largest inputs go first, as there).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

RIDGE = 1e-2
"""Added to the inputs' variances, as a share of their mean, so that rare directions are left unchanged."""


def spread(weights: Floats, steps: Floats, moments: Floats, last: int | None = None) -> Floats:
    """Round weights to multiples of their steps and spread the errors within each output channel.

    Args:
        weights: (inputs, outputs).
        steps: of each output channel, (outputs,).
        moments: covariance of the inputs, (inputs, inputs), or of each output channel's inputs, (outputs, inputs,
            inputs).
        last: largest multiple. Weights on it keep it, as the step is computed from the greatest weight. None if the
            weights stay float.

    Returns:
        the rounded weights.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

    with threadpool_limits(limits=1, user_api="blas"):
        return (_each if moments.ndim == 3 else _together)(weights, steps, moments, last)


def _together(weights: Floats, steps: Floats, moments: Floats, last: int | None) -> Floats:
    """Round weights whose output channels all read the same inputs."""
    import numpy as np

    order = np.argsort(-np.diag(moments), kind="stable")
    factor = _factor(moments[np.ix_(order, order)])
    left, rounded = weights[order], np.empty_like(weights)
    for place, row in enumerate(order):
        rounded[row] = _rounded(left[place], weights[row], steps, last)
        error = (left[place] - rounded[row]) / factor[place, place]
        left[place + 1 :] -= np.outer(factor[place, place + 1 :], error)
    return rounded


def _each(weights: Floats, steps: Floats, moments: Floats, last: int | None) -> Floats:
    """Round weights whose output channels each read other inputs, as in a depthwise kernel."""
    import numpy as np

    factors, left = _factor(moments), weights.copy()
    rounded = np.empty_like(weights)
    for place in range(len(weights)):
        rounded[place] = _rounded(left[place], weights[place], steps, last)
        error = (left[place] - rounded[place]) / factors[:, place, place]
        left[place + 1 :] -= (factors[:, place, place + 1 :] * error[:, None]).T
    return rounded


def _rounded(left: Floats, first: Floats, steps: Floats, last: int | None) -> Floats:
    """Round the corrected weights; those that began on the last step stay on it."""
    import numpy as np

    if last is None:
        return np.rint(left / steps) * steps
    found = np.clip(np.rint(left / steps), -last, last)
    greatest = np.abs(first) >= (last - 1e-6) * steps
    return np.where(greatest, np.sign(first) * last, found) * steps


def _factor(moments: Floats) -> Floats:
    """Return the upper Cholesky factor of the inverse; its rows spread an error over the weights that follow."""
    import numpy as np

    count = moments.shape[-1]
    size = np.trace(moments, axis1=-2, axis2=-1) / count
    ridge = np.maximum(RIDGE * size, 1e-9)[..., None, None] * np.eye(count)
    inverse = np.linalg.inv(moments + ridge)
    upper: Floats = np.swapaxes(np.linalg.cholesky((inverse + np.swapaxes(inverse, -1, -2)) / 2), -1, -2)
    return upper
