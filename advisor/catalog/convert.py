"""From a card and its weights to one float ``.tflite``, made once; every other form is made from this file."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

from advisor.catalog.cards import Card
from advisor.catalog.weights.file import WeightsFile
from advisor.core.errors import StageError

CONVERT_VERSION = "convert-1"
MAX_DIFFERENCE = 1e-3
"""Largest difference of a probability between Keras and the converted file; measured ports stay below 1e-4."""


def convert(card: Card, weights: WeightsFile | None, path: Path) -> dict[str, Any]:
    """Build the card's Keras graph, convert it and check the file against the graph on a photograph.

    Args:
        card: the model card.
        weights: its weights, None for settled random ones (latency, memory and operators do not depend on them).
        path: where to write the file: input ``image`` float32 (1, S, S, 3), outputs ``probabilities`` and ``features``.

    Returns:
        ``difference``: the largest difference of a probability between Keras and LiteRT.

    Raises:
        StageError: the converter failed, or the file does not compute what the graph does.
    """
    import keras
    import tensorflow as tf

    from advisor.catalog.build import build_model

    try:
        model = build_model(card, weights)
        with contextlib.redirect_stdout(io.StringIO()):
            data: bytes = tf.lite.TFLiteConverter.from_keras_model(model).convert()
        difference = _difference(model, data, card)
    finally:
        keras.backend.clear_session()
    if not difference <= MAX_DIFFERENCE:
        raise StageError(f"the converted {card.name} differs from its Keras graph by {difference:.2g} in a probability")
    path.write_bytes(data)
    return {"difference": difference}


def _difference(model: Any, data: bytes, card: Card) -> float:
    import numpy as np

    picture = _photograph(card)
    expected = np.asarray(model(picture, training=False)["probabilities"])
    actual = _run(data, picture)
    return float(np.abs(expected - actual).max())


def _photograph(card: Card) -> Any:
    import numpy as np
    from skimage import data, transform

    side = card.input_size
    picture = transform.resize(data.chelsea(), (side, side), order=1, preserve_range=True)
    scaled = (picture - np.asarray(card.preprocessing.mean)) / np.asarray(card.preprocessing.std)
    return scaled[None].astype(np.float32)


def _run(data: bytes, picture: Any) -> Any:
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_content=data).get_signature_runner()
    (name,) = runner.get_input_details()
    return runner(**{name: picture})["probabilities"]
