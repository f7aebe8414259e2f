"""Extract the backbone's features of images with LiteRT, the runtime of the shipped model.

For training, images may be changed as phones may take them, so that a head learns to ignore such changes. Validation
and scoring use the original ones. Mirrored and cropped images are not used: they gain 0.6 points of top-1 for
MobileNetV2's head on TrashNet (mean of 8 splits) at three times the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.core.errors import StageError
from advisor.datasets.capture import random_capture, seed_of
from advisor.datasets.images import InputSpec, load
from advisor.measurement.accuracy import Classifier

OUTPUT_NAME = "features"


@dataclass(frozen=True)
class CaptureAugmentation:
    """One way to change training images.

    Attributes:
        captured: 0 for no change; otherwise a number that, with the file's name, draws the capture condition.
    """

    captured: int = 0

    @property
    def key(self) -> dict[str, bool | float]:
        """Return the part of a cache key. Its unused entries keep older cache entries valid."""
        return {"mirrored": False, "zoom": 1.0, "captured": self.captured}

    def apply(self, path: Path, size: int) -> NDArray[np.uint8]:
        """Return a changed image: uint8, shape (size, size, 3), RGB."""
        array = load(path, size)
        return random_capture(array, (seed_of(path), self.captured)) if self.captured else array

    def names(self, hashes: Sequence[str], paths: Sequence[Path]) -> list[bytes]:
        """Return a key of 32 bytes for each changed image, from the file's hash and, if it draws, its name."""
        if not self.captured:
            return [bytes.fromhex(sha) for sha in hashes]
        return [sha256(f"{sha}/{path.name}".encode()).digest() for sha, path in zip(hashes, paths, strict=True)]


AS_IT_IS = CaptureAugmentation()
CAPTURED = (CaptureAugmentation(1), CaptureAugmentation(2))
"""Each training image twice more, under two of the capture conditions."""


def extract(
    model_path: Path | str,
    images: Sequence[Path],
    spec: InputSpec,
    augmentation: CaptureAugmentation = AS_IT_IS,
) -> NDArray[np.float32]:
    """Run a float feature model on images, one at a time, at one thread.

    Args:
        model_path: a ``.tflite`` with one float32 input (1, size, size, 3) and an output named ``features``, or only
            one output.
        images: N files.
        spec: how an image becomes the model's input.
        augmentation: how the images are changed first.

    Returns:
        float32, shape (N, F).

    Raises:
        UsageError: the model file is missing.
        RuntimeRefusal: the runtime cannot load or run the model.
        StageError: the model has another input size, an image cannot be read, or a feature is not finite.
    """
    model = Classifier(model_path, OUTPUT_NAME)
    pixels = np.empty((spec.size, spec.size, 3), np.float32)
    rows = [model(spec.normalise(augmentation.apply(path, spec.size), pixels)) for path in images]
    features = np.stack(rows) if rows else np.zeros((0, model.classes), np.float32)
    if not np.isfinite(features).all():
        raise StageError(f"the feature model '{Path(model_path).name}' gives values that are not finite")
    return features


def joined(parts: Sequence[Path], rows: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
    """Return the concatenated rows of all parts, or some of them; one part is in memory at a time.

    Args:
        parts: ``.npy`` files of features, float32 (n, F) each.
        rows: indices into the concatenated rows; None for all.

    Raises:
        IndexError: a row is in no part.
    """
    shapes = [np.load(part, mmap_mode="r", allow_pickle=False).shape for part in parts]
    starts = np.cumsum([0, *(shape[0] for shape in shapes)])
    wanted = np.arange(starts[-1]) if rows is None else rows
    if len(wanted) and wanted.max() >= starts[-1]:
        raise IndexError(f"row {wanted.max()} of features in parts with {starts[-1]} rows")
    joined = np.empty((len(wanted), shapes[0][1]), np.float32)
    for part, start, end in zip(parts, starts, starts[1:], strict=False):
        places = np.flatnonzero((wanted >= start) & (wanted < end))
        joined[places] = np.load(part, allow_pickle=False)[wanted[places] - start]
    return joined
