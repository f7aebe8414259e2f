"""The job that runs a segmenter over images, in a child process of the search.

The search calls :func:`segment` by module and name, with paths and plain values. ``masks.npz`` is
kept in the cache: a change of its content needs a new version of the stage (:func:`.over_images`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from advisor.datasets import InputSpec
from advisor.measurement import Floats, Runner

Classes = NDArray[np.uint8]
SCORES = "scores"  # Output of the file: a probability of each class for each pixel, (1, S, S, C)


def resize_labels(labels: Classes, size: tuple[int, int]) -> Classes:
    """Return classes at another height and width, each that of the nearest pixel."""
    return np.asarray(Image.fromarray(labels).resize(size[::-1], Image.Resampling.NEAREST))


class Segmenter(Runner[Classes]):
    """A loaded file with a score of each class for each pixel:
    one output ``scores``, (1, S, S, C).
    """

    outputs = (SCORES,)
    kind = "a segmenter"

    def read(self, outputs: Mapping[str, Floats]) -> Classes:
        """Return the class of each pixel, uint8 (S, S)."""
        return np.asarray(outputs[SCORES][0].argmax(axis=-1), np.uint8)


def segment(
    captured: bool,
    model: Path,
    images: Sequence[Path],
    view: InputSpec,
    path: Path,
    _classes: Sequence[str],
) -> None:
    """Run a file over images in a child process, and write the class of each pixel,
    uint8 (N, S, S).
    """
    np.savez_compressed(path, masks=np.stack(list(Segmenter(model, view).over(images, captured))))
