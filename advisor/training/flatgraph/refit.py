"""Prune kernels and refit their other weights by least squares, layer after layer, without gradients.

Each kernel in turn is fitted to its output in the whole model, from the present outputs of the layers before it. The
weights with the least magnitude times input size are removed (Sun et al., "A Simple and Effective Pruning Approach for
Large Language Models", 2024). The others are fitted as in He et al., "Channel Pruning for Accelerating Very Deep Neural
Networks" (2017), section 3.1, weight by weight.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

from advisor.training.flatgraph.graph import Graph, Node, run_operator

if TYPE_CHECKING:
    import tensorflow as tf


Floats = NDArray[np.float32]

POSITIONS = 6000
"""Largest number of rows in a fit: about six for each input of the widest layer of a mobile network."""

RIDGE = 1e-3
"""Added to the inputs' variances, as a share of their mean, so that weights of rare directions stay small."""


@dataclass(frozen=True, eq=False)
class Refitted:
    """A pruned kernel, its bias, and a mask of the weights that it kept (1) and lost (0)."""

    kernel: Floats
    bias: Floats
    keep: Floats


def refit(graph: Graph, kernels: Collection[int], share: float, images: Floats) -> Mapping[int, Refitted]:
    """Remove ``share`` (0 to 1) of the weights from each kernel and fit the others to normalised images, float32 (n, S,
    S, 3).

    The kernels are those of convolutions and dense layers with a bias, by tensor index, as in the result.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        return _refit(graph, kernels, share, images)


def _refit(graph: Graph, kernels: Collection[int], share: float, images: Floats) -> Mapping[int, Refitted]:
    whole: dict[int, Any] = {graph.source: images}
    thinned: dict[int, Any] = {graph.source: images}
    changed: dict[int, Any] = {}
    found: dict[int, Refitted] = {}
    last = {index: place for place, node in enumerate(graph.nodes) for index in node.inputs}
    for place, node in enumerate(graph.nodes):
        if len(node.inputs) > 2 and node.inputs[1] in kernels:
            one = found[node.inputs[1]] = _refit_layer(graph, node, whole, thinned, share)
            changed |= {node.inputs[1]: one.kernel, node.inputs[2]: one.bias}
        whole[node.output] = _run(graph, node, whole, {})
        thinned[node.output] = _run(graph, node, thinned, changed)
        for index in node.inputs:
            if last[index] == place and index in whole:
                del whole[index], thinned[index]
    return found


def _run(graph: Graph, node: Node, values: Mapping[int, tf.Tensor], changed: Mapping[int, tf.Tensor]) -> tf.Tensor:
    """Run one operator; ``changed`` replaces constants of the graph."""
    known = {**graph.constants, **changed, **values}
    return run_operator(node.name, node.options, [known[index] for index in node.inputs])


def _refit_layer(
    graph: Graph, node: Node, whole: Mapping[int, tf.Tensor], thinned: Mapping[int, tf.Tensor], share: float
) -> Refitted:
    options = copy.copy(node.options)
    options.fusedActivationFunction = 0
    linear = Node(node.name, options, node.inputs, node.output)
    wanted = np.asarray(_run(graph, linear, whole, {}))
    kernel = graph.constants[node.inputs[1]]
    rows = _rows(node, thinned[node.inputs[0]], kernel)
    targets = wanted.reshape(-1, wanted.shape[-1])
    chosen = np.random.default_rng(0).permutation(len(rows))[:POSITIONS]
    return _fit(rows[chosen].astype(np.float64), targets[chosen].astype(np.float64), kernel, share)


def _rows(node: Node, value: tf.Tensor, kernel: Floats) -> Floats:
    """Return the inputs of each output position of a layer, (positions, weights of an output channel)."""
    import tensorflow as tf

    if node.name == "FULLY_CONNECTED":
        return np.asarray(value).reshape(-1, kernel.shape[1])
    height, width = kernel.shape[1:3]
    strides = [1, node.options.strideH, node.options.strideW, 1]
    if height == width == strides[1] == strides[2] == 1:
        return np.asarray(value).reshape(-1, kernel.shape[3])
    rates = [1, node.options.dilationHFactor, node.options.dilationWFactor, 1]
    padding = "VALID" if node.options.padding else "SAME"
    patches = tf.image.extract_patches(value, [1, height, width, 1], strides, rates, padding)
    return np.asarray(patches).reshape(-1, patches.shape[-1])


def _fit(rows: NDArray[np.float64], targets: NDArray[np.float64], kernel: Floats, share: float) -> Refitted:
    """Fit each output channel to its targets with the weights that it keeps."""
    weights = kernel.reshape(len(kernel), -1).astype(np.float64)
    keep = _kept(np.abs(weights) * np.sqrt(np.square(rows).mean(axis=0)), share)
    mean, centre = rows.mean(axis=0), targets.mean(axis=0)
    products = (rows - mean).T @ (rows - mean) / len(rows)
    products[np.diag_indices_from(products)] += RIDGE * max(float(np.trace(products)) / len(products), 1e-12)
    wanted = (rows - mean).T @ (targets - centre) / len(rows)
    fitted = np.zeros_like(weights)
    for channel, kept in enumerate(keep):
        if kept.any():
            fitted[channel, kept] = np.linalg.solve(products[np.ix_(kept, kept)], wanted[kept, channel])
    shaped = fitted.reshape(kernel.shape).astype(np.float32)
    bias = (centre - fitted @ mean).astype(np.float32)
    return Refitted(shaped, bias, keep.reshape(kernel.shape).astype(np.float32))


def _kept(scores: NDArray[np.float64], share: float) -> NDArray[np.bool_]:
    """Return a mask of the weights to keep: those of the kernel with the greatest scores."""
    keep = np.ones(scores.size, bool)
    keep[np.argsort(scores, axis=None, kind="stable")[: round(share * scores.size)]] = False
    return keep.reshape(scores.shape)


DEPTHWISE = "DEPTHWISE_CONV_2D"


class Weight:
    """A constant that is trained without constraint; the optimizer updates ``variable``."""

    def __init__(self, start: Floats) -> None:
        import tensorflow as tf

        self.variable = tf.Variable(start)

    def value(self) -> tf.Tensor:
        """Return the value for the layer, a tensor of the constant's shape."""
        return self.variable


class Rounded(Weight):
    """A kernel rounded to 8 bits with one symmetric step for each output channel; gradients ignore the rounding.

    This is the straight-through estimator of Bengio et al., "Estimating or Propagating Gradients Through Stochastic
    Neurons" (2013).
    """

    def __init__(self, start: Floats, name: str) -> None:
        super().__init__(start)
        axis = start.ndim - 1 if name == DEPTHWISE else 0
        self._others = [other for other in range(start.ndim) if other != axis]

    def value(self) -> tf.Tensor:
        """Return the rounded kernel."""
        import tensorflow as tf

        kernel = tf.convert_to_tensor(self.variable)
        step = tf.maximum(tf.reduce_max(tf.abs(kernel), axis=self._others, keepdims=True) / 127.0, 1e-12)
        return kernel + tf.stop_gradient(tf.round(kernel / step) * step - kernel)


class Masked(Weight):
    """A kernel with some weights fixed at 0: ``keep`` is 1 where a weight stays, else 0."""

    def __init__(self, start: Floats, keep: Floats) -> None:
        super().__init__(start * keep)
        self._keep = keep

    def value(self) -> tf.Tensor:
        """Return the kernel with its zeros."""
        return self.variable * self._keep


class Shared(Weight):
    """A kernel of a few shared values, which are trained; ``places``, the index of each weight's value, is fixed."""

    def __init__(self, values: Floats, places: NDArray[np.int32]) -> None:
        super().__init__(values)
        self._places = places

    def value(self) -> tf.Tensor:
        """Return the kernel."""
        import tensorflow as tf

        return tf.gather(self.variable, self._places)


def rounded_activation(value: tf.Tensor, low: float, high: float) -> tf.Tensor:
    """Round an activation to the 255 steps from ``low`` to ``high``; gradients pass within that range."""
    import tensorflow as tf

    step = max((high - low) / 255.0, 1e-9)
    zero = float(round(-low / step))
    low, high = -zero * step, (255.0 - zero) * step
    inside = tf.clip_by_value(value, low, high)
    return inside + tf.stop_gradient(tf.round(inside / step) * step - inside)
