"""Jobs of a detector's stages: functions for child processes, from paths and values to files."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from advisor.core.errors import StageError
from advisor.datasets.images import InputSpec

if TYPE_CHECKING:
    from advisor.catalog.cards import Card
    from advisor.downloads.files import WeightsFile
    from advisor.tasks.detection import Detection

HEAD_WEIGHTS = "head.npz"
"""The weights of a detector's head, beside its float file."""


def train(
    card: Card,
    weights: WeightsFile | None,
    images: Sequence[tuple[Path, Sequence[tuple[int, float, float, float, float]]]],
    classes: int,
    task: str,
    seed: int,
    path: Path,
    start: tuple[Path, float] | None = None,
) -> None:
    """Train a card's detector and write its float file, and the weights of its head beside it.

    Args:
        card: the model card.
        weights: the pretrained weights.
        images: the images to learn from, each with label, top, left, bottom and right (in shares) of its objects.
        classes: number of classes.
        task: gives the kind of head.
        seed: of the training.
        path: where to write the ``.tflite``.
        start: of fine-tuning: the float file of an earlier training, and the share of the backbone's layers that learn,
            from the top. None for a new head on a frozen backbone.
    """
    from advisor.core.tasks import TASKS
    from advisor.training.detection.changes import objects_of
    from advisor.training.detection.maps import Boxed
    from advisor.training.detection.network import DetectorStart, train as train_detector

    kind = cast("Detection", TASKS[task]).head
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        boxed = Boxed([path for path, _ in images], [objects_of(rows) for _, rows in images])
        begun = DetectorStart(_head_of(start[0]), start[1]) if start else None
        trained = train_detector(card, weights, boxed, classes, kind, seed, Path(folder), begun)
    path.write_bytes(trained.data)
    np.savez(path.with_name(HEAD_WEIGHTS), *trained.head)


def _head_of(path: Path) -> list[NDArray[np.float32]]:
    """Return the weights of the head beside a float file, in their order."""
    with np.load(path.with_name(HEAD_WEIGHTS), allow_pickle=False) as arrays:
        return [arrays[f"arr_{place}"] for place in range(len(arrays.files))]


def take(card: Card, weights: WeightsFile | None, path: Path) -> None:
    """Write a user's own detector as the float file of its card, its outputs named, without its description.

    Raises:
        StageError: the file is not available.
    """
    from advisor.tflite.postprocess import with_named_outputs

    if weights is None:
        raise StageError(f"{card.name} is a file of your own, and the file is not available")
    path.write_bytes(with_named_outputs(weights.path.read_bytes(), card.name))


def detect(model: Path, images: Sequence[Path], view: InputSpec, classes: Sequence[str], path: Path) -> None:
    """Run a file that finds boxes or marks centres over images; write what it finds.

    See :func:`advisor.measurement.accuracy.save` for the format.

    Args:
        model: the file. Its labels may be more than the user's classes, in another order; without, they are these.
        images: image files.
        view: how an image becomes input.
        classes: names of the user's classes, in label order.
        path: where to write.
    """
    from advisor.datasets.dataset import class_order
    from advisor.measurement.accuracy import CentreFinder, Detector, save
    from advisor.tflite.metadata import read_metadata
    from advisor.tflite.model import read
    from advisor.tflite.postprocess import has_postprocess

    data = model.read_bytes()
    run = (Detector if has_postprocess(read(data, model.name)) else CentreFinder)(model, view)
    said = read_metadata(data, model.name)
    found = [run(image) for image in images]
    if said and said.labels:
        order = class_order(classes, said.labels, len(said.labels))
        places = {label: place for place, label in enumerate(order)}
        found = [one.relabelled(places) for one in found]
    save(path, found)
