"""Run the files of each task on images, and compare a form's answers with the float file's.

``advisor compress`` judges classifiers by their scores and detectors by their boxes. A kind of
files says how many classes a file has, what it answers, and how far a form is from its float file.
``answer_images`` runs in a child process, by its name.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.compression import to_decibel
from advisor.core import TASKS, Interval, StageError, UsageError
from advisor.datasets import InputSpec
from advisor.engine._compress.results import FileAgreement
from advisor.measurement import Detector, average_precision, predict, predict_arrays
from advisor.tflite import (
    DETECTIONS,
    OPERATOR,
    Model,
    cut_postprocess,
    post_processing,
    with_named_outputs,
)

if TYPE_CHECKING:
    from advisor.measurement import Detections

TrueBoxes = tuple["Detections", tuple[int, int]]
"""The true boxes in an image, their classes in the order of the model,
and its height and width in pixels.
"""

SCORING_SEED = 1
"""Added to the seed: other crops of the bundled photographs than those for calibration."""

SURE = 0.5
"""Least score of a box of the float file that its forms should find, too."""

SIDES = (100, 100)
"""Sides of an image without true boxes; the overlap of boxes does not depend on them."""


class Classifiers:
    """Files that give one row of scores."""

    def classes(self, _data: bytes, model: Model, name: str) -> int:
        """Return the number of classes; a UsageError if the outputs are not those of the task."""
        if len(model.outputs) == 1:
            scores = model.outputs[0]
            if len(scores.shape) >= 2 and scores.elements == scores.shape[-1]:
                return scores.shape[-1]
        shapes = ", ".join("x".join(map(str, tensor.shape)) for tensor in model.outputs)
        raise UsageError(
            f"{name} gives {shapes}, not one row of scores", "the output must be 1 x classes"
        )

    def answers(
        self,
        path: Path,
        images: Sequence[Path],
        spec: InputSpec,
        seed: int,
    ) -> NDArray[np.float32]:
        """Return the scores of images, or of the bundled photographs if there are none,
        float32 (n, classes).

        One that is not finite is a StageError.
        """
        if images:
            scores = predict(path, images, spec)
        else:
            scores = predict_arrays(path, spec.draw_photographs(seed + SCORING_SEED))
        if not np.isfinite(scores).all():
            raise StageError(f"{path.name} gives values that are not finite")
        return scores

    def compare(
        self, scores: NDArray[np.float32], floats: NDArray[np.float32], labels: Sequence[int]
    ) -> FileAgreement:
        """Compare scores, float32 (n, classes), with the float file's,
        and with the labels if they are known.
        """
        answers = scores.argmax(axis=1)
        expected = floats.argmax(axis=1)
        same = int((answers == expected).sum())
        signal = _sum_squares(floats)
        noise = _sum_squares(scores - floats)
        agreement = FileAgreement(
            len(scores), Interval.wilson(same, len(scores)), to_decibel(signal, noise)
        )
        if not labels:
            return agreement
        right = (answers == np.asarray(labels)).tolist()
        float_right = (expected == np.asarray(labels)).tolist()
        return replace(
            agreement,
            accuracy=Interval.wilson(sum(right), len(right)),
            drop=Interval.paired_difference(float_right, right),
        )

    def notes(self, _model: Model) -> Iterator[str]:
        """Yield remarks on the forms of a file."""
        yield from ()


def _sum_squares(values: NDArray[np.float32]) -> float:
    # In float64: a sum of many squares loses digits in float32.
    return float((values.astype(np.float64) ** 2).sum())


class Detectors:
    """Files that end in post-processing."""

    def classes(self, data: bytes, _model: Model, name: str) -> int:
        """Return the number of classes;
        a UsageError if the file does not end in post-processing.
        """
        average_precision.require_coco()
        return cut_postprocess(data, name)[1].classes

    def answers(
        self,
        path: Path,
        images: Sequence[Path],
        spec: InputSpec,
        seed: int,
    ) -> list[Detections]:
        """Return what is found in images, or in the bundled photographs if there are none."""
        with tempfile.TemporaryDirectory() as folder:
            named = Path(folder) / path.name
            named.write_bytes(with_named_outputs(path.read_bytes(), path.name))
            detector = Detector(named, spec)
            if images:
                return list(map(detector, images))
            return list(map(detector.answer_for, spec.draw_photographs(seed + SCORING_SEED)))

    def compare(
        self, boxes: list[Detections], floats: list[Detections], labels: Sequence[TrueBoxes]
    ) -> FileAgreement:
        """Compare boxes with the float file's, and with the true ones if they are known.

        Agreement is the mAP@0.5 where the boxes that the float file is sure of are the true ones.
        """
        expected = [boxes_of_image.above(SURE) for boxes_of_image in floats]
        agreement = FileAgreement(len(boxes), _compute_precision(expected, boxes))
        if not labels:
            return agreement
        true: list[Detections] = []
        sizes: list[tuple[int, int]] = []
        for boxes_of_image, size in labels:
            true.append(boxes_of_image)
            sizes.append(size)
        places = _number_classes(true)
        count = len(places)
        boxes = _relabel_all(boxes, places)
        true = _relabel_all(true, places)
        floats = _relabel_all(floats, places)
        accuracy = average_precision.score_boxes(true, boxes, sizes, count).half
        shares = average_precision.split_precision(true, boxes, sizes, count).tolist()
        float_shares = average_precision.split_precision(true, floats, sizes, count).tolist()
        drop = Interval.paired_shares(float_shares, shares)
        return replace(agreement, accuracy=accuracy, drop=drop)

    def notes(self, model: Model) -> Iterator[str]:
        """Yield remarks on the forms of a file."""
        yield f"each form has the post-processing of the file ({OPERATOR})"
        outputs = model.subgraphs[0].outputs
        order = [outputs.index(tensor) for tensor in post_processing(model).outputs]
        if order != sorted(order):
            yield (
                f"the outputs of the forms are {', '.join(DETECTIONS)}, in this order; your file"
                " has another order"
            )


def _compute_precision(true: list[Detections], detected: list[Detections]) -> Interval:
    """Return the mAP@0.5; the whole range from 0 to 1 where there is no true box."""
    places = _number_classes(true)
    if not places:
        return Interval(1.0, 0.0, 1.0)
    sides = [SIDES] * len(true)
    expected = _relabel_all(true, places)
    answered = _relabel_all(detected, places)
    return average_precision.score_boxes(expected, answered, sides, len(places)).half


def _relabel_all(detections: list[Detections], places: Mapping[int, int]) -> list[Detections]:
    return [boxes_of_image.relabel_boxes(places) for boxes_of_image in detections]


def _number_classes(true: list[Detections]) -> Mapping[int, int]:
    """Return numbers for the classes of the true boxes;
    other classes of the detector have no precision here.
    """
    labels = set[int]()
    for boxes_of_image in true:
        labels.update(map(int, boxes_of_image.labels))
    return {label: place for place, label in enumerate(sorted(labels))}


@cache
def map_file_kinds() -> Mapping[str, Classifiers | Detectors]:
    """Return the kind of files of each task that has one."""
    # TASKS begins with image classification and object detection; further tasks have no kind.
    return dict(zip(TASKS, (Classifiers(), Detectors()), strict=False))


def answer_images(
    path: Path,
    task: str,
    images: Sequence[Path],
    spec: InputSpec,
    seed: int,
) -> Any:
    """Return the answers to images, or to bundled photographs, in a child process."""
    return map_file_kinds()[task].answers(path, images, spec, seed)
