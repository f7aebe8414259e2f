"""Extract the backbone's features of images with LiteRT, the runtime of the shipped model.

A stage of each search calls :func:`extract_features` once for a backbone and keeps the rows on
disk; heads are fitted on them, and fine-tuning begins with them. If a change gives other features
for equal files, raise the versions that ``docs/extend-stages.md`` lists ("Which version to
raise"): of the stages ``FEATURES``, ``PROBE`` and of those that run files over images.

For training, images may be changed as phones may take them, so that a head learns to ignore such
changes. Validation and scoring use the original ones. Mirrored and cropped images are not used:
they gain 0.6 points of top-1 for MobileNetV2's head on TrashNet (mean of 8 splits) at three
times the cost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.core import StageError
from advisor.datasets import InputSpec
from advisor.measurement import Classifier, run_in_threads
from advisor.training._capture_augmentation import CaptureAugmentation

OUTPUT_NAME = "features"

Pixels = NDArray[np.uint8]
# A network, from the input of an image to its features.
Run = Callable[[NDArray[np.float32]], NDArray[np.float32]]


AS_IT_IS = CaptureAugmentation()
# Two more copies of each image, as phones take it.
CAPTURED = (CaptureAugmentation(1), CaptureAugmentation(2))


def extract_features(
    model_path: Path | str,
    images: Sequence[Path],
    spec: InputSpec,
    augmentation: CaptureAugmentation = AS_IT_IS,
    maps: Path | None = None,
    threads: int = 1,
) -> NDArray[np.float32]:
    """Run a float feature model on images, one at a time in each of some threads: float32 (N, F).

    The ``.tflite`` has one float32 input (1, size, size, 3) and an output named ``features``, or
    only one output. The folder ``maps`` gets the maps at its cuts, see :mod:`._cut_maps`, if it
    has any; None for none. They are written in the order of the images, so they ask for one
    thread. Raises UsageError if the file is missing, RuntimeRefusal if the runtime cannot load
    or run it, and StageError if it has another input size, an image cannot be read, or a feature
    is not finite.
    """
    model = Classifier(model_path, OUTPUT_NAME)
    models: list[Run] = [model, *(Classifier(model_path, OUTPUT_NAME) for _ in range(1, threads))]
    if maps is not None and images:
        from advisor.training._cut_maps import MapWriter

        # A file without a cut, or one that cannot be edited.
        with contextlib.suppress(StageError):
            models = [MapWriter(Path(model_path), maps, len(images))]
    rows = run_in_threads([_make_run(run, spec, augmentation) for run in models], images)
    features = np.stack(rows) if rows else np.zeros((0, model.classes), np.float32)
    if not np.isfinite(features).all():
        raise StageError(
            f"the feature model '{Path(model_path).name}' gives values that are not finite"
        )
    return features


def _make_run(
    run: Run, spec: InputSpec, augmentation: CaptureAugmentation
) -> Callable[[Path], NDArray[np.float32]]:
    """Return a function from an image file to its features, with one buffer for its thread."""
    pixels = np.empty((spec.size, spec.size, 3), np.float32)

    def describe_image(path: Path) -> NDArray[np.float32]:
        return run(spec.normalise(augmentation.apply(path, spec.size), pixels))

    return describe_image


def join_parts(
    parts: Sequence[Path], rows: NDArray[np.int64] | None = None
) -> NDArray[np.float32]:
    """Return all or some of the concatenated rows of parts (``.npy`` files, float32).

    One part is in memory at a time. Raises IndexError if a row is in no part.
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
