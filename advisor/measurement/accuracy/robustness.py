"""Measure the accuracy under capture conditions of phones: the mean over all conditions at two strengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.statistics import Interval
from advisor.datasets.capture import TESTS, captures
from advisor.datasets.images import InputSpec
from advisor.measurement.accuracy.inference import Classifier

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Labels = NDArray[np.int64]

RESAMPLES = 2000


@dataclass(frozen=True)
class Robustness:
    """The accuracy under capture conditions.

    Attributes:
        accuracy: mean top-1 over all tests, with a 95 % interval over the images.
        by_test: (condition, strength, top-1) of each test.
    """

    accuracy: Interval
    by_test: tuple[tuple[str, float, float], ...]


def captured_answers(model: Path | str, images: Sequence[Path], view: InputSpec) -> Labels:
    """Return the class that a ``.tflite`` classifier predicts for each image under each condition of ``TESTS``.

    Args:
        model: an image classifier, float or quantised.
        images: N image files; each is read once.
        view: how an image becomes the model's input.

    Returns:
        int64 (T, N), T = ``len(TESTS)``.

    Raises:
        UsageError: the model file is missing.
        StageError: it is not an image classifier, or an image cannot be read.
    """
    import numpy as np

    classifier = Classifier(model)
    answers = np.zeros((len(TESTS), len(images)), np.int64)
    for position, path in enumerate(images):
        for test, pixels in enumerate(captures(path, view.size)):
            answers[test, position] = classifier(view.normalise(pixels)).argmax()
    return answers


def robustness(answers: Labels, labels: Sequence[int]) -> Robustness:
    """Return the accuracy of the answers.

    The interval is a bootstrap over images, because the answers to one image are not independent.

    Args:
        answers: int64 (T, N) of :func:`captured_answers`.
        labels: the N true class indices.

    Raises:
        ValueError: there are no images, or the shapes do not match.
    """
    import numpy as np

    if answers.shape != (len(TESTS), len(labels)) or not len(labels):
        raise ValueError(f"answers {answers.shape} for {len(TESTS)} tests of {len(labels)} images")
    right = answers == np.asarray(labels)
    shares = right.mean(axis=0)
    drawn = np.random.default_rng(0).integers(0, len(shares), (RESAMPLES, len(shares)))
    low, high = np.quantile(shares[drawn].mean(axis=1), [0.025, 0.975])
    value = float(shares.mean())
    return Robustness(
        accuracy=Interval(value, min(value, float(low)), max(value, float(high))),
        by_test=tuple(
            (condition.name, strength, float(row.mean()))
            for (condition, strength), row in zip(TESTS, right, strict=True)
        ),
    )
