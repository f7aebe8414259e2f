"""Jobs of a detector's stages: functions for child processes, from paths and values to files."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from advisor.core.errors import StageError
from advisor.datasets.images import InputSpec

if TYPE_CHECKING:
    from advisor.catalog.cards import Card
    from advisor.downloads.files import WeightsFile
    from advisor.tasks.detection import Detection

HEAD_WEIGHTS = "head.npz"  # The weights of a detector's head, beside its float file


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

    Each image comes with label, top, left, bottom and right (in shares) of its objects. ``task`` gives the kind of
    head. ``start`` is that of fine-tuning: the float file of an earlier training, and the share of the backbone's
    layers that learn, from the top; None for a new head on a frozen backbone.
    """
    from advisor.core.tasks import TASKS
    from advisor.training.detection import DetectorStart, train as train_detector
    from advisor.training.on_maps.kept import LabelledImages, objects_of

    kind = cast("Detection", TASKS[task]).head
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        learnt = LabelledImages([path for path, _ in images], [objects_of(rows) for _, rows in images])
        begun = None
        if start:
            with np.load(start[0].with_name(HEAD_WEIGHTS), allow_pickle=False) as arrays:
                begun = DetectorStart([arrays[f"arr_{place}"] for place in range(len(arrays.files))], start[1])
        trained = train_detector(card, weights, learnt, classes, kind, seed, Path(folder), begun)
    path.write_bytes(trained.data)
    np.savez(path.with_name(HEAD_WEIGHTS), *trained.head)


def take(card: Card, weights: WeightsFile | None, path: Path) -> None:
    """Write a user's own detector as the float file of its card, its outputs named, without its description."""
    from advisor.tflite.postprocess import with_named_outputs

    if weights is None:
        raise StageError(f"{card.name} is a file of your own, and the file is not available")
    path.write_bytes(with_named_outputs(weights.path.read_bytes(), card.name))


def detect(model: Path, images: Sequence[Path], view: InputSpec, path: Path, classes: Sequence[str]) -> None:
    """Run a file that finds boxes or marks centres over images; write what it finds, see :func:`.accuracy.save`.

    The file's labels may be more than the user's classes, in another order; without, they are these.
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
