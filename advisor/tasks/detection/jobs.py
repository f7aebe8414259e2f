"""Jobs of a detector's stages: functions for child processes, from paths and values to files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.errors import StageError
from advisor.datasets.images import InputSpec

if TYPE_CHECKING:
    from advisor.catalog.cards import Card
    from advisor.downloads.files import WeightsFile


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
