"""Say what a training needs of a detector that learnt other objects.

The catalogue builds it; :func:`.begin_detector` (`_detection/whole.py`) puts new layers into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import keras


class LearntDetector(Protocol):
    """A Keras graph of a detector, divided where a training replaces its layers."""

    @property
    def maps(self) -> keras.Model:
        """The backbone, from an image to the maps that the neck reads, the finest first."""

    @property
    def logits(self) -> Sequence[keras.layers.Layer]:
        """The last convolution of each level, which gives the logits of the classes."""

    @property
    def encodings(self) -> Sequence[keras.layers.Layer]:
        """The last convolution of each level for the boxes."""

    @property
    def anchors(self) -> Sequence[NDArray[np.float32]]:
        """The anchors of each level, (N, 4): centre, height and width in shares of the image."""

    @property
    def anchors_of_place(self) -> int:
        """The number of anchors of a place."""

    def encoding_weights(
        self, level: int, scales: Sequence[float]
    ) -> Sequence[NDArray[np.float32]]:
        """Return kernel and bias of the layer that moves the boxes of a level.

        They are for encodings of y, x, height and width that are multiplied by ``scales``.
        """
