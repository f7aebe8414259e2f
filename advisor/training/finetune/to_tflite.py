"""Convert a fine-tuned backbone and head to the float ``.tflite`` that compression starts from."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import keras

    from advisor.training.finetune.finetune import Finetuned


def to_tflite(backbone: keras.Model, tuned: Finetuned) -> bytes:
    """Convert the backbone and append the head and a softmax.

    Args:
        backbone: ``keras.Model`` as :func:`advisor.training.finetune.finetune.finetune` left it.
        tuned: the result of that call.

    Returns:
        a float ``.tflite``: input ``image`` (1, S, S, 3), output ``probabilities`` (1, C).
    """
    from advisor.tflite.levels import with_levels
    from advisor.tflite.surgery import attach_head

    data = convert(backbone)
    return attach_head(with_levels(data) if tuned.levels else data, tuned.weights, tuned.bias)


def convert(backbone: keras.Model) -> bytes:
    """Return the backbone as a float ``.tflite`` with the only output ``features`` (1, F)."""
    import keras
    import tensorflow as tf

    named = keras.Model(backbone.inputs[0], {"features": backbone.outputs[0]})
    with contextlib.redirect_stdout(io.StringIO()):
        data: bytes = tf.lite.TFLiteConverter.from_keras_model(named).convert()
    return data
