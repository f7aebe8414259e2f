"""Prune kernels and fit their other weights again, without gradients.

The recipes ``pruned_50`` and ``pruned_75`` call :func:`refit_kernels` before they train
(`retraining.py`). Kernels are fitted by least squares, layer after layer, each to its output in
the whole model, from the present outputs of the layers before it. The weights with the least
magnitude times input size are removed (Sun et al., "A Simple and Effective Pruning Approach for
Large Language Models", 2024). The others are fitted as in He et al., "Channel Pruning for
Accelerating Very Deep Neural Networks" (2017), section 3.1, weight by weight.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

from advisor.training._flatgraph import Graph, Node
from advisor.training._flatgraph.operators import run_operator

if TYPE_CHECKING:
    import tensorflow as tf

Floats = NDArray[np.float32]

# Largest number of rows in a fit, about six for each input of a mobile network's widest layer.
POSITIONS = 6000

# Share of the inputs' mean variance that is added to each: weights of rare directions stay small.
RIDGE = 1e-3


@dataclass(frozen=True, eq=False)
class Refitted:
    """A pruned kernel, its bias, and a mask of the weights that it kept (1) and lost (0)."""

    kernel: Floats
    bias: Floats
    keep: Floats


def refit_kernels(
    graph: Graph, kernels: Collection[int], share: float, images: Floats
) -> Mapping[int, Refitted]:
    """Remove ``share`` (0 to 1) of the weights from each kernel and fit the others to images.

    The images are normalised, (n, S, S, 3). The kernels are those of convolutions and dense layers
    with a bias, by tensor index, as in the result.
    """
    whole: dict[int, Any] = {graph.source: images}
    thinned: dict[int, Any] = {graph.source: images}
    changed: dict[int, Any] = {}
    refitted: dict[int, Refitted] = {}
    last_use: dict[int, int] = {}
    for place, node in enumerate(graph.nodes):
        last_use.update(dict.fromkeys(node.inputs, place))
    # Sums by one thread are the same on every machine (decision 0065).
    with threadpool_limits(limits=1, user_api="blas"):
        for place, node in enumerate(graph.nodes):
            if len(node.inputs) > 2 and node.inputs[1] in kernels:
                _, kernel, bias = node.inputs[:3]
                layer = _refit_layer(graph, node, whole, thinned, share)
                refitted[kernel] = layer
                changed |= {kernel: layer.kernel, bias: layer.bias}
            whole[node.output] = _run_node(graph, node, whole, {})
            thinned[node.output] = _run_node(graph, node, thinned, changed)
            for index in node.inputs:
                # The maps of both networks would not fit into memory: each goes after its last
                # use.
                if last_use[index] == place and index in whole:
                    del whole[index], thinned[index]
    return refitted


def _run_node(
    graph: Graph, node: Node, values: Mapping[int, tf.Tensor], changed: Mapping[int, tf.Tensor]
) -> tf.Tensor:
    """Run one operator; ``changed`` replaces constants of the graph."""
    tensors = {**graph.constants, **changed, **values}
    return run_operator(node.name, node.options, [tensors[index] for index in node.inputs])


def _refit_layer(
    graph: Graph,
    node: Node,
    whole: Mapping[int, tf.Tensor],
    thinned: Mapping[int, tf.Tensor],
    share: float,
) -> Refitted:
    options = copy.copy(node.options)
    # The fit is linear, so it is made before the activation.
    options.fusedActivationFunction = 0
    linear = Node(node.name, options, node.inputs, node.output)
    wanted = np.asarray(_run_node(graph, linear, whole, {}))
    kernel = graph.constants[node.inputs[1]]
    rows = _read_inputs(node, thinned[node.inputs[0]], kernel)
    targets = wanted.reshape(-1, wanted.shape[-1])
    places = np.random.default_rng(0).permutation(len(rows))[:POSITIONS]
    return _fit_kept_weights(
        rows[places].astype(np.float64), targets[places].astype(np.float64), kernel, share
    )


def _read_inputs(node: Node, value: tf.Tensor, kernel: Floats) -> Floats:
    """Return the inputs of each output position, (positions, weights of an output channel)."""
    import tensorflow as tf

    if node.name == "FULLY_CONNECTED":
        return np.asarray(value).reshape(-1, kernel.shape[1])
    height, width = kernel.shape[1:3]
    strides = [1, node.options.strideH, node.options.strideW, 1]
    # A pointwise convolution reads each place once: no patches are needed.
    if height == width == strides[1] == strides[2] == 1:
        return np.asarray(value).reshape(-1, kernel.shape[3])
    rates = [1, node.options.dilationHFactor, node.options.dilationWFactor, 1]
    padding = "VALID" if node.options.padding else "SAME"
    patches = tf.image.extract_patches(value, [1, height, width, 1], strides, rates, padding)
    return np.asarray(patches).reshape(-1, patches.shape[-1])


def _fit_kept_weights(
    rows: NDArray[np.float64], targets: NDArray[np.float64], kernel: Floats, share: float
) -> Refitted:
    """Fit each output channel to its targets with the weights that it keeps."""
    weights = kernel.reshape(len(kernel), -1).astype(np.float64)
    scores = np.abs(weights) * np.sqrt(np.square(rows).mean(axis=0))
    keep = np.ones(weights.shape, bool)
    # Over the whole kernel and not for each channel: some channels need fewer weights than others.
    order = np.argsort(scores, axis=None, kind="stable")
    keep.flat[order[: round(share * scores.size)]] = False
    mean = rows.mean(axis=0)
    centre = targets.mean(axis=0)
    products = (rows - mean).T @ (rows - mean) / len(rows)
    mean_variance = max(float(np.trace(products)) / len(products), 1e-12)
    products[np.diag_indices_from(products)] += RIDGE * mean_variance
    wanted = (rows - mean).T @ (targets - centre) / len(rows)
    fitted = np.zeros_like(weights)
    for channel, mask in enumerate(keep):
        if mask.any():
            products_left = products[np.ix_(mask, mask)]
            fitted[channel, mask] = np.linalg.solve(products_left, wanted[mask, channel])
    shaped = fitted.reshape(kernel.shape).astype(np.float32)
    bias = (centre - fitted @ mean).astype(np.float32)
    return Refitted(shaped, bias, keep.reshape(kernel.shape).astype(np.float32))
