"""Define the values that weights are stored as, and round weights to them.

They are a grid of steps for each kind of kernel, or a few clusters. Recipes name grids,
`correction.py` puts kernels on them, and a search rounds adjusted heads with :func:`round_dense`.
Grids are stored with a prepared model (`prepared.py`), so their fields are a format on disk. If
equal weights are rounded otherwise, raise the versions that ``docs/extend-stages.md`` lists
("Which version to raise"): of the stage of calibration, of recipes, and of adjusted heads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RIDGE = 1e-2
"""Share of the inputs' mean variance that is added to each: rare directions stay unchanged."""

SHRINKS = tuple(1.5**-power for power in range(30))
"""Shares of the step that holds the greatest weight, to be tried where weights may be clipped."""

ROUNDS = 50
"""Rounds of k-means, at most."""


@dataclass(frozen=True)
class Grid:
    """The values that weights are stored as: symmetric, the largest magnitude on the last step.

    Attributes:
        per_channel: one step for each output channel, else one for the tensor.
        power_of_two: steps are powers of two. Weights that stay float then end in zero bits, which
            deflate well.
        in_deviation: number of steps, powers of two, in a channel's root mean square, if the
            bits hold the largest magnitude. The download size depends on the usual values, not
            on the largest one.
    """

    bits: int
    per_channel: bool = True
    power_of_two: bool = False
    in_deviation: float = 0.0

    @property
    def last(self) -> int:
        """The last step."""
        return (1 << (self.bits - 1)) - 1

    def compute_steps(self, kernel: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        """Return the step of each output channel, ``axis``, as an array of the kernel's rank."""
        # Over these axes one step is shared.
        kept_axis = axis if self.per_channel else None
        others = tuple(other for other in range(kernel.ndim) if other != kept_axis)
        step: NDArray[np.float64] = np.abs(kernel).max(axis=others, keepdims=True) / self.last
        # A channel of zeros has no greatest weight, and any step stores it.
        step[step == 0] = 1.0
        if self.power_of_two:
            step = np.exp2(np.ceil(np.log2(step)))
        if self.in_deviation:
            usual = np.sqrt(np.square(kernel).mean(axis=others, keepdims=True)) / self.in_deviation
            power_of_two = np.exp2(np.rint(np.log2(np.maximum(usual, 1e-30))))
            step = np.maximum(step, power_of_two)
        return step

    def round(self, kernel: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        """Round each weight of a kernel to the grid; ``axis`` is that of the output channels."""
        step = self.compute_steps(kernel, axis)
        result: NDArray[np.float64] = np.rint(kernel / step) * step
        return result

    def spread(
        self, kernel: NDArray[np.float64], axis: int, moments: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        """Put a kernel on the grid and spread the errors, as :func:`spread_errors` does.

        ``axis`` is that of its output channels. The layer's ``moments`` are those of
        :class:`.observe.Observation`, if any.
        """
        flat = np.moveaxis(kernel, axis, -1).reshape(-1, kernel.shape[axis])
        if moments is None or moments.shape[-1] != len(flat):
            return self.round(kernel, axis)
        steps = np.broadcast_to(self.compute_steps(kernel, axis).reshape(-1), flat.shape[1:])
        # A depthwise kernel may have several outputs for one input channel,
        # which all read the same inputs.
        if moments.ndim == 3:
            moments = np.repeat(moments, flat.shape[1] // len(moments), axis=0)
        spread_rows = spread_errors(flat, steps, moments, None if self.power_of_two else self.last)
        shape = np.moveaxis(kernel, axis, -1).shape
        result: NDArray[np.float64] = np.moveaxis(spread_rows.reshape(shape), -1, axis)
        return result


@dataclass(frozen=True)
class Grids:
    """The grid of each kind of kernel; None leaves the kind unchanged.

    Depthwise convolutions have few weights and are harmed most.
    Dense layers share the grid of other convolutions.
    """

    dense: Grid
    depthwise: Grid | None

    def of(self, depthwise: bool) -> Grid | None:
        """Return the grid of a kind of kernel."""
        return self.depthwise if depthwise else self.dense


def spread_errors(
    weights: Floats, steps: Floats, moments: Floats, last: int | None = None
) -> Floats:
    """Round weights to multiples of their steps such that a layer's output changes least.

    The weights are (inputs, outputs), the steps (outputs,). Rounding each weight to the nearest
    step is best only if inputs are uncorrelated. Neighbouring pixels and channels are correlated.
    So the weights of an output channel are rounded one after another, and each error is spread
    over the weights that follow, by least squares over the layer's inputs on the calibration
    images (Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
    Transformers", 2023; the largest inputs go first, as there).

    ``moments`` are the covariance of the inputs, (inputs, inputs), or of each output channel's,
    (outputs, inputs, inputs). Weights on the largest multiple, ``last``, keep it, as the step is
    computed from the greatest weight. It is None if the weights stay float.

    The caller limits the BLAS to one thread: several add in another order, and the last bits would
    change the rounding of a weight. To limit it takes milliseconds, which a network with a hundred
    layers would spend a hundred times.
    """
    if moments.ndim == 3:
        return _spread_by_channel(weights, steps, moments, last)
    return _spread_together(weights, steps, moments, last)


def round_dense(
    kernel: NDArray[np.float32], inputs: NDArray[np.float32], per_channel: bool = True
) -> Floats:
    """Round a dense kernel to 8-bit steps such that its outputs on ``inputs`` change least.

    The kernel is (inputs, outputs), and ``inputs`` are (N, inputs). The step of an output channel
    may clip its greatest weights. A head has such weights on features that hardly ever vary: they
    would take all steps, and leave 0 of the others.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

    weights = kernel.astype(np.float64)
    last = Grid(8).last
    moments = np.cov(inputs.astype(np.float64), rowvar=False).reshape(len(weights), len(weights))
    greatest = np.maximum(np.abs(weights).max(axis=0 if per_channel else None), 1e-30) / last
    errors = []
    for shrink in SHRINKS:
        steps = greatest * shrink
        error = np.clip(np.rint(weights / steps), -last, last) * steps - weights
        errors.append(np.einsum("fc,fc->c", error, moments @ error))
    # With one step for all channels, the share that is best for all of them together.
    losses = np.array(errors) if per_channel else np.sum(errors, axis=1, keepdims=True)
    best_shrinks = np.array(SHRINKS)[losses.argmin(axis=0)]
    steps = np.broadcast_to(greatest * best_shrinks, weights.shape[1:])
    with threadpool_limits(limits=1, user_api="blas"):
        return spread_errors(weights, steps, moments, last)


def _spread_together(weights: Floats, steps: Floats, moments: Floats, last: int | None) -> Floats:
    """Round weights whose output channels all read the same inputs."""
    # The largest inputs are rounded first,
    # while most weights that can take up their errors are still free.
    order = np.argsort(-np.diag(moments), kind="stable")
    factor = _factorise(moments[np.ix_(order, order)])
    remaining = weights[order]
    rounded = np.empty_like(weights)
    for index, row in enumerate(order):
        rounded[row] = _round_weights(remaining[index], weights[row], steps, last)
        error = (remaining[index] - rounded[row]) / factor[index, index]
        remaining[index + 1 :] -= np.outer(factor[index, index + 1 :], error)
    return rounded


def _spread_by_channel(
    weights: Floats, steps: Floats, moments: Floats, last: int | None
) -> Floats:
    """Round weights whose output channels each read other inputs, as in a depthwise kernel."""
    factors = _factorise(moments)
    remaining = weights.copy()
    rounded = np.empty_like(weights)
    for index in range(len(weights)):
        rounded[index] = _round_weights(remaining[index], weights[index], steps, last)
        error = (remaining[index] - rounded[index]) / factors[:, index, index]
        remaining[index + 1 :] -= (factors[:, index, index + 1 :] * error[:, None]).T
    return rounded


def _round_weights(remaining: Floats, first: Floats, steps: Floats, last: int | None) -> Floats:
    """Round the corrected weights; those that began on the last step stay on it."""
    if last is None:
        return np.rint(remaining / steps) * steps
    clipped = np.clip(np.rint(remaining / steps), -last, last)
    # The converter computes a channel's step from its greatest weight:
    # if that moved, the whole grid would move.
    greatest = np.abs(first) >= (last - 1e-6) * steps
    return np.where(greatest, np.sign(first) * last, clipped) * steps


def _factorise(moments: Floats) -> Floats:
    """Return the upper Cholesky factor of the inverse.

    Its rows spread an error over the weights that follow.
    """
    count = moments.shape[-1]
    size = np.trace(moments, axis1=-2, axis2=-1) / count
    ridge = np.maximum(RIDGE * size, 1e-9)[..., None, None] * np.eye(count)
    # Images are fewer than inputs in wide layers, so the covariance alone may have no inverse.
    inverse = np.linalg.inv(moments + ridge)
    # Rounding leaves the inverse slightly asymmetric.
    symmetric = (inverse + np.swapaxes(inverse, -1, -2)) / 2
    upper: Floats = np.swapaxes(np.linalg.cholesky(symmetric), -1, -2)
    return upper


def cluster_weights(
    kernel: NDArray[np.float32], count: int
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return ``count`` values and the index of each weight's value, by k-means (Lloyd, 1982).

    The start is values spread evenly over the kernel's range, which keeps the few large weights
    (Han et al., "Deep Compression", 2016).
    """
    flat = np.sort(kernel.ravel().astype(np.float64))
    # Weights of a cluster are neighbours in the sorted list,
    # so its sum is a difference of running sums.
    sums = np.concatenate([[0.0], np.cumsum(flat)])
    values = np.linspace(flat[0], flat[-1], count)
    for _ in range(ROUNDS):
        middles = (values[1:] + values[:-1]) / 2
        bounds = np.concatenate([[0], np.searchsorted(flat, middles), [flat.size]])
        sizes = np.diff(bounds)
        # A cluster without weights keeps its value: its mean is not defined.
        means = np.diff(sums[bounds]) / np.maximum(sizes, 1)
        moved = np.where(sizes > 0, means, values)
        if np.array_equal(moved, values):
            break
        values = np.sort(moved)
    places = np.searchsorted(
        (values[1:] + values[:-1]) / 2, kernel.astype(np.float64), side="right"
    )
    return values.astype(np.float32), places.astype(np.int32)
