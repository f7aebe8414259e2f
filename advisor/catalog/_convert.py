"""Build a card's Keras graph, and convert it to the float ``.tflite`` of the card.

A stage of each search calls :func:`convert` in a child process; all other files of the card are
made from that file. Fine-tuning and benchmarks call :func:`build_model`. If equal weights give
another file after a change, raise ``CONVERT_VERSION``: it is a part of the stage's key.
"""

from __future__ import annotations

import contextlib
import io
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import _architectures as architectures
from advisor.catalog._cards import GRAPH_FILE, Card
from advisor.catalog._graph_file import graph_of
from advisor.catalog._user_models.classifier import load_photograph, run
from advisor.core import StageError, UnsupportedRecipe, WeightsFile
from advisor.tflite import unpack

if TYPE_CHECKING:
    import keras

CONVERT_VERSION = "convert-4"
INPUT = "image"
OUTPUTS = ("probabilities", "features")
MAX_DIFFERENCE = 1e-3
"""Largest difference between Keras and the converted file: of a probability, and of a feature as a
share of the largest feature; measured ports stay below 1e-4 in both.
"""


def build_model(card: Card, weights: WeightsFile | None) -> keras.Model:
    """Build the card's ``keras.Model``.

    Input ``image``: (1, S, S, 3) float32 RGB, already normalised by ``card.preprocessing``.
    Outputs, a dictionary: ``probabilities`` (1, classes), softmax, and ``features`` (1, F), the
    pooled vector under the classifier. Without ``weights`` the values are random with a fixed
    seed; latency and memory are those of the trained network.
    """
    if card.architecture == GRAPH_FILE or card.whole:
        from advisor.catalog._keras_graph import keras_graph

        return keras_graph(fill_graph_file(card, weights), card.name)
    if card.own_file:
        from advisor.catalog._keras_graph import keras_graph
        from advisor.catalog._user_models import master

        content = master.content_of_own(card, weights)
        data, has_features = master.master_of(card, content, softmax=False)
        # Without features there is no layer to put a new head on.
        if not has_features:
            raise UnsupportedRecipe(
                f"{card.name} does not end in one linear layer, so it cannot be fine-tuned"
            )
        return keras_graph(data, card.name)
    model = architectures.build(card.architecture, card.input_size, card.classes, card.keywords)
    from advisor.catalog._keras_layers import fill_layers, layers_of
    from advisor.catalog._weights import mapping, readers

    if weights is not None:
        tensors = readers.read_tensors(weights.format, weights.path)
        fill_layers(model, mapping.map_weights(weights.port, layers_of(model), tensors))
    elif card.filled_graph:
        # The weights of the converted file.
        fill_layers(model, graph_of(card).draw_tensors())
    else:
        fill_randomly(model)
    return model


def fill_randomly(model: keras.Model) -> None:
    """Fill ``model`` with random weights whose activations keep their scale.

    BatchNorm's statistics are filled too. Kernels are drawn as in He et al. (arXiv 1502.01852).
    Then one image of noise passes in training mode with a momentum of zero, which sets every
    moving mean and variance to that of the layer's input. With the default values, activations
    shrink layer by layer into denormal numbers, which processors compute many times slower.
    """
    from keras import layers

    rng = np.random.default_rng(0)
    for layer in model.layers:
        # The names of Slim's and torch's layers do not say that they are depthwise.
        is_depthwise = isinstance(layer, layers.DepthwiseConv2D)
        for variable in layer.trainable_variables:
            shape = variable.shape
            if len(shape) >= 2:
                is_separable = isinstance(layer, layers.SeparableConv2D)
                uses_depthwise = is_depthwise or (
                    is_separable and variable is layer.depthwise_kernel
                )
                fan_in = prod(shape[:2]) if uses_depthwise else prod(shape[:-1])
                variable.assign(rng.normal(0.0, np.sqrt(2.0 / fan_in), shape).astype(np.float32))
    set_norm_statistics(model, rng)


def set_norm_statistics(model: keras.Model, rng: np.random.Generator) -> None:
    """Set every moving mean and variance to that of its layer's input, for an image of noise."""
    from keras import layers

    norms = [layer for layer in model.layers if isinstance(layer, layers.BatchNormalization)]
    # Fine-tuning of the model needs them again.
    momenta = [layer.momentum for layer in norms]
    for layer in norms:
        layer.momentum = 0.0
    model(rng.normal(size=model.inputs[0].shape).astype(np.float32), training=True)
    for layer, momentum in zip(norms, momenta, strict=True):
        layer.momentum = momentum


def convert(card: Card, weights: WeightsFile | None, path: Path) -> dict[str, Any]:
    """Write the card's float file to ``path`` and check it on a photograph.

    A card of a user's own file is that file with its outputs named, and a graph file gets its
    constants. A card without a graph file for its side is built in Keras and converted. Without
    weights, they are random with a fixed seed (latency, memory and operators do not depend on
    them). The file has the input ``image`` float32 (1, S, S, 3) and the outputs ``probabilities``
    and ``features``. The result has the largest ``difference`` of a probability between Keras and
    LiteRT, and ``features_difference``: that of a feature, as a share of the largest one; of a
    graph file, the largest difference of an answer that was found when it was made.
    """
    if card.own_file:
        from advisor.catalog._user_models.master import convert_own

        return convert_own(card, weights, path)
    if not card.needs_converter:
        path.write_bytes(fill_graph_file(card, weights))
        comparison = card.filled_graph or card.conversion
        return {"difference": comparison.difference if comparison else 0.0}
    import keras

    try:
        model = build_model(card, weights)
        # The converter prints hundreds of lines on tensors to standard output.
        with contextlib.redirect_stdout(io.StringIO()):
            data = to_tflite(model)
        photograph = load_photograph(card.preprocessing, card.input_size)
        differences = _measure_differences(model, data, photograph)
    finally:
        # A child converts many cards, and Keras keeps every graph until its session is cleared.
        keras.backend.clear_session()
    for output, difference in differences.items():
        # Written this way, a difference that is not a number fails too.
        if not difference <= MAX_DIFFERENCE:
            raise StageError(
                f"the converted {card.name} differs from its Keras graph by {difference:.2g} in"
                f" {output}"
            )
    path.write_bytes(data)
    return {
        "difference": differences["probabilities"],
        "features_difference": differences["features"],
    }


def fill_graph_file(card: Card, weights: WeightsFile | None) -> bytes:
    """Return the file of a card whose graph is a file, with its weights or random ones."""
    from advisor.catalog._weights import readers

    graph = graph_of(card)
    if weights is None:
        return graph.fill_constants(graph.draw_tensors())
    tensors = readers.read_tensors(weights.format, weights.path)
    return graph.fill_constants(graph.tensors_of(weights.port, tensors))


def _measure_differences(
    model: keras.Model, data: bytes, image: NDArray[np.float32]
) -> dict[str, float]:
    """Return the largest difference of each output, of features as a share of the largest one.

    Probabilities alone would not do: a saturated softmax hides what went wrong in the backbone.
    """
    expected = model(image, training=False)
    actual = run(data, image)
    differences = {}
    for name in OUTPUTS:
        wanted = np.asarray(expected[name])
        # A probability is at most 1; features have no scale of their own.
        scale = 1.0
        if name == "features":
            scale = max(float(np.abs(wanted).max()), 1e-12)
        differences[name] = float(np.abs(wanted - actual[name]).max()) / scale
    return differences


def to_tflite(model: keras.Model) -> bytes:
    """Convert a ``keras.Model`` of one fixed input and the outputs :data:`OUTPUTS`.

    The converter's method for Keras models writes a SavedModel and reads it back, which traces the
    graph five times. From a single trace, whose variables it makes constants, it takes a third of
    the processor time and gives the same operators, without names for inputs and outputs. The file
    has one signature: ``image`` in, the outputs out.
    """
    import tensorflow as tf

    image = tf.TensorSpec(model.inputs[0].shape, tf.float32, name=INPUT)
    called = tf.function(
        lambda image: tuple(model(image, training=False)[name] for name in OUTPUTS)
    )
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [called.get_concrete_function(image)]
    )
    tables = unpack(converter.convert())
    graph = tables.subgraphs[0]
    if len(graph.outputs) != len(OUTPUTS):
        raise StageError(
            f"the converted file has {len(graph.outputs)} outputs, {' and '.join(OUTPUTS)} were"
            " wanted"
        )
    tables.replace_signature(graph, INPUT, dict(zip(OUTPUTS, graph.outputs, strict=True)))
    return tables.pack()
