"""Jobs of a detector's stages: run a file over images, and calibrate the scores of a file.

The search calls these functions in child processes, by module and name, with paths and plain
values. Both write one file. What they write is cached: a change of the content needs a new
version of the stage (``_stages.py``, :func:`.over_images`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from advisor.datasets import InputSpec


def detect(
    captured: bool,
    model: Path,
    images: Sequence[Path],
    view: InputSpec,
    path: Path,
    classes: Sequence[str],
) -> None:
    """Run a file that finds boxes or marks centres over images,
    and write what it finds (:meth:`.Detections.save_all`).

    The images are taken as they are, or under capture conditions (``captured``, which the stage
    states first). The file may have labels of its own, more than the user's ``classes`` and in
    another order; one without labels answers with the numbers of ``classes``.
    """
    from advisor.datasets import class_order
    from advisor.measurement import CentreFinder, Detections, Detector
    from advisor.tflite import has_postprocess, read

    finder = Detector if has_postprocess(read(model.read_bytes(), model.name)) else CentreFinder
    run = finder(model, view)
    detections = run.over(images, captured)
    labels = run.read_labels()
    # A detector of the user is matched by the names in it; its numbers mean other classes here.
    if labels:
        order = class_order(classes, labels, len(labels))
        places = {label: place for place, label in enumerate(order)}
        detections = (detection.relabel_boxes(places) for detection in detections)
    Detections.save_all(path, list(detections))


def calibrate(
    model: Path,
    detections: Path,
    true: Sequence[Any],
    sizes: Sequence[tuple[int, int]],
    classes: int,
    path: Path,
) -> None:
    """Write a float detector whose scores are calibrated by what was found in images,
    see :meth:`.Detections.save_all`.

    ``true`` are the true boxes of each image, and ``sizes`` its height and width in pixels.
    """
    from advisor.measurement import BoxAnswers, Detections, box_matches
    from advisor.tflite import with_calibrated_scores

    # Boxes of every score tell how far scores can be believed,
    # not only those that a threshold would show.
    every_box = 0.0
    matched = box_matches.match_boxes(
        list(map(Detections.of_true_boxes, true)),
        Detections.load_all(detections),
        sizes,
        classes,
        every_box,
    )
    calibration = BoxAnswers.of_matches(matched).fit_calibration()
    data = model.read_bytes()
    if calibration.changes_scores:
        data = with_calibrated_scores(data, *calibration, model.name)
    path.write_bytes(data)
