"""From a fine-tuned trunk and head to the float ``.tflite`` that compression starts from."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from advisor.training.features import extract
from advisor.training.head import GRID, fit_head

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from advisor.training.finetune import Finetuned


@dataclass(frozen=True)
class Lessons:
    """Pictures as a head behind a tuned trunk learns from them.

    Attributes:
        pictures: files.
        labels: their classes.
        validation: places of those that are not learnt from.
        size: side of the model's input.
        mean: per channel, on RGB 0..255.
        std: per channel.
    """

    pictures: Sequence[Path]
    labels: Sequence[int]
    validation: Sequence[int]
    size: int
    mean: Sequence[float]
    std: Sequence[float]


def to_tflite(trunk: Any, tuned: Finetuned) -> bytes:
    """Convert the trunk and join the head to it, softmax behind.

    Args:
        trunk: ``keras.Model`` as :func:`advisor.training.finetune.finetune` left it.
        tuned: what it returned.

    Returns:
        a float ``.tflite``: input ``image`` (1, S, S, 3), output ``probabilities`` (1, C).
    """
    from advisor.tflite.surgery import attach_head

    return attach_head(convert(trunk), tuned.weights, tuned.bias)


def convert(trunk: Any) -> bytes:
    """Return the trunk as a float ``.tflite`` with the only output ``features`` (1, F)."""
    import keras
    import tensorflow as tf

    named = keras.Model(trunk.inputs[0], {"features": trunk.outputs[0]})
    with contextlib.redirect_stdout(io.StringIO()):
        data: bytes = tf.lite.TFLiteConverter.from_keras_model(named).convert()
    return data


def with_all_levels(trunk: bytes, lessons: Lessons) -> tuple[bytes, float]:
    """Put a head behind a tuned trunk that reads every level of it, as the heads of untuned trunks do.

    The trunk has learnt the training part by heart, so that cross-validation on it would trust the features too far:
    the penalty is the one that does best on the validation part, which also stopped the tuning.

    Args:
        trunk: float ``.tflite`` with the only output ``features``.
        lessons: what to learn from.

    Returns:
        the classifier, and the share of the validation part that it answers rightly.
    """
    import numpy as np

    from advisor.tflite.levels import with_levels
    from advisor.tflite.surgery import attach_head

    leveled = with_levels(trunk)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trunk.tflite"
        path.write_bytes(leveled)
        features = extract(path, lessons.pictures, lessons.size, lessons.mean, lessons.std)
    labels = np.asarray(lessons.labels, np.int64)
    unseen = np.isin(np.arange(len(labels)), lessons.validation)
    best, weights, bias = max(_heads(features, labels, unseen), key=lambda found: found[0])
    return attach_head(leveled, weights, bias), best


def _heads(
    features: NDArray[np.float32], labels: NDArray[np.int64], unseen: NDArray[np.bool_]
) -> list[tuple[float, NDArray[np.float32], NDArray[np.float32]]]:
    """Return validation accuracy, weights and bias for every penalty, the strongest first."""
    classes, seen = int(labels.max()) + 1, labels[~unseen].tolist()
    found = []
    for strength in GRID:
        weights, bias = fit_head(features[~unseen], seen, classes, strength)
        answers = (features[unseen] @ weights + bias).argmax(axis=1)
        found.append((float((answers == labels[unseen]).mean()), weights, bias))
    return found
