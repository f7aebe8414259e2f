"""Jobs of a detector's stages: functions for child processes, from paths and values to files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.errors import StageError
from advisor.datasets.images import InputSpec

if TYPE_CHECKING:
    from advisor.catalog.cards import Card
    from advisor.downloads.files import WeightsFile
    from advisor.measurement.accuracy import Detections, Detector


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
    from advisor.measurement.accuracy import save

    run, named = _loaded(model, view, classes)
    save(path, [named(run(image)) for image in images])


def capture(model: Path, images: Sequence[Path], view: InputSpec, path: Path, classes: Sequence[str]) -> None:
    """Run a file over images under each of :data:`advisor.datasets.capture.STAYING`, one image after the other."""
    from advisor.datasets.capture import STAYING, captures
    from advisor.measurement.accuracy import save

    run, named = _loaded(model, view, classes)
    seen = (pixels for image in images for pixels in captures(image, view.size, STAYING))
    save(path, [named(run.found_in(view.normalise(pixels))) for pixels in seen])


def _loaded(
    model: Path, view: InputSpec, classes: Sequence[str]
) -> tuple[Detector, Callable[[Detections], Detections]]:
    """Return a file that runs, and what gives its labels their places among the classes."""
    from advisor.datasets.dataset import class_order
    from advisor.measurement.accuracy import CentreFinder, Detector
    from advisor.tflite.metadata import read_metadata
    from advisor.tflite.model import read
    from advisor.tflite.postprocess import has_postprocess

    data = model.read_bytes()
    run = (Detector if has_postprocess(read(data, model.name)) else CentreFinder)(model, view)
    said = read_metadata(data, model.name)
    if not (said and said.labels):
        return run, lambda found: found
    order = class_order(classes, said.labels, len(said.labels))
    places = {label: place for place, label in enumerate(order)}
    return run, lambda found: found.relabelled(places)


def calibrate(
    model: Path, detections: Path, true: Sequence[Any], sizes: Sequence[tuple[int, int]], classes: int, path: Path
) -> None:
    """Write a float detector whose scores are calibrated by what was found in images, see :func:`.accuracy.save`.

    ``true`` are the true boxes of each image, and ``sizes`` its height and width in pixels.
    """
    from advisor.measurement.accuracy import load, true_boxes
    from advisor.measurement.average_precision import match
    from advisor.measurement.box_confidence import answers_of, calibration
    from advisor.tflite.postprocess import with_calibrated_scores

    matched = match([true_boxes(rows) for rows in true], load(detections), sizes, classes, 0.0)
    found, data = calibration(answers_of(matched)), model.read_bytes()
    path.write_bytes(data if found == (1.0, 0.0) else with_calibrated_scores(data, *found, model.name))
