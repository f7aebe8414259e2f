"""Convert a card and its weights to one float ``.tflite``, from which all other files are made."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.cards import Card
from advisor.catalog.user_models.classifier import photograph, run
from advisor.core.errors import StageError
from advisor.downloads.files import WeightsFile
from advisor.tflite.rewrite import pack, sign, unpack

if TYPE_CHECKING:
    import keras

CONVERT_VERSION = "convert-3"
INPUT, OUTPUTS = "image", ("probabilities", "features")
MAX_DIFFERENCE = 1e-3
"""Largest difference between Keras and the converted file: of a probability, and of a feature as a share of the
largest feature; measured ports stay below 1e-4 in both."""


def convert(card: Card, weights: WeightsFile | None, path: Path) -> dict[str, Any]:
    """Make the card's float file and check it on a photograph.

    A card of a user's own file is that file with its outputs named; every other card is built in Keras and converted.

    Args:
        card: the model card.
        weights: its weights, None for fixed-seed random ones (latency, memory and operators do not depend on them).
        path: where to write the file: input ``image`` float32 (1, S, S, 3), outputs ``probabilities`` and ``features``.

    Returns:
        ``difference``: the largest difference of a probability between Keras and LiteRT; ``features_difference``: that
        of a feature, as a share of the largest one.

    Raises:
        StageError: the converter failed, or the file does not compute what the graph does.
    """
    if card.own_file:
        from advisor.catalog.user_models.master import convert_own

        return convert_own(card, weights, path)
    data, differences = _converted(card, weights)
    for output, difference in differences.items():
        if not difference <= MAX_DIFFERENCE:
            raise StageError(f"the converted {card.name} differs from its Keras graph by {difference:.2g} in {output}")
    path.write_bytes(data)
    return {"difference": differences["probabilities"], "features_difference": differences["features"]}


def _converted(card: Card, weights: WeightsFile | None) -> tuple[bytes, dict[str, float]]:
    import keras

    from advisor.catalog.build import build_model

    try:
        model = build_model(card, weights)
        with contextlib.redirect_stdout(io.StringIO()):
            data = to_tflite(model)
        return data, _differences(model, data, photograph(card.preprocessing, card.input_size))
    finally:
        keras.backend.clear_session()


def _differences(model: keras.Model, data: bytes, image: NDArray[np.float32]) -> dict[str, float]:
    """Return the largest difference of each output, of features as a share of the largest one.

    Probabilities alone would not do: a saturated softmax hides what went wrong in the backbone.
    """
    expected, actual = model(image, training=False), run(data, image)
    differences = {}
    for name in OUTPUTS:
        wanted = np.asarray(expected[name])
        scale = max(float(np.abs(wanted).max()), 1e-12) if name == "features" else 1.0
        differences[name] = float(np.abs(wanted - actual[name]).max()) / scale
    return differences


def to_tflite(model: keras.Model) -> bytes:
    """Convert a ``keras.Model`` of one fixed input and the outputs :data:`OUTPUTS`.

    The converter's method for Keras models writes a SavedModel and reads it back, which traces the graph five times.
    From a single trace, whose variables it makes constants, it takes a third of the processor time and gives the same
    operators, without names for inputs and outputs.

    Returns:
        A file with one signature: ``image`` in, ``probabilities`` and ``features`` out.

    Raises:
        StageError: the converter gave another number of outputs.
    """
    import tensorflow as tf

    image = tf.TensorSpec(model.inputs[0].shape, tf.float32, name=INPUT)
    called = tf.function(lambda image: tuple(model(image, training=False)[name] for name in OUTPUTS))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([called.get_concrete_function(image)])
    tables = unpack(converter.convert())
    graph = tables.subgraphs[0]
    if len(graph.outputs) != len(OUTPUTS):
        raise StageError(f"the converted file has {len(graph.outputs)} outputs, {' and '.join(OUTPUTS)} were wanted")
    sign(tables, graph, INPUT, dict(zip(OUTPUTS, graph.outputs, strict=True)))
    return pack(tables)
