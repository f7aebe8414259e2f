"""Compare the answers of a compressed file with those of the float file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.compression.diagnosis.signals import decibel
from advisor.compression.user_model.values import Likeness
from advisor.core.statistics import paired_difference, wilson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def compare_answers(own: NDArray[np.float32], floats: NDArray[np.float32], labels: Sequence[int]) -> Likeness:
    """Compare answers with the float file's, and with the labels if they are known.

    Args:
        own: (n, classes).
        floats: the float file's on the same images.
        labels: true classes; empty if they are not known.
    """
    import numpy as np

    answers, expected = own.argmax(axis=1), floats.argmax(axis=1)
    same = int((answers == expected).sum())
    signal, noise = (float((values.astype(np.float64) ** 2).sum()) for values in (floats, own - floats))
    alike = Likeness(len(own), wilson(same, len(own)), decibel(signal, noise))
    if not labels:
        return alike
    right, float_right = (
        [bool(one == label) for one, label in zip(row, labels, strict=True)] for row in (answers, expected)
    )
    top1, drop = wilson(sum(right), len(right)), paired_difference(float_right, right)
    return Likeness(alike.images, alike.agreement, alike.snr_db, top1, drop)
