"""Content of a bundle, by task."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from advisor.core.confidence_facts import ShippedThresholds
from advisor.core.evaluation import Evaluation
from advisor.core.tasks import IMAGE_CLASSIFICATION, OBJECT_COUNTING, OBJECT_DETECTION
from advisor.datasets.images import InputSpec
from advisor.exporting.model import ShippedModel
from advisor.exporting.shipped import check
from advisor.isolation import Scratch
from advisor.measurement.counting import LEAST_SCORE
from advisor.tflite.metadata import one_line
from advisor.tflite.postprocess import Suppression

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]

COUNT = 6
SEED = 20
TOLERANCES = (0.02, 0.05, 0.1)
"""Largest differences of a probability, a score or an edge (in shares of the image) that the checker accepts. Other
processors add in another order, and kernels of a quantized model round differently: probabilities of an int8
MobileNetV2 differed by 0.010 between two runtimes, scores of an int8 detector with it by 0.06 between two kernels."""

LOOKED_AT = 5 * COUNT
"""Images that a detector's vectors are chosen from, those with the highest scores."""

DIGITS = 6
MAP_DIGITS = 4
"""Digits of the scores of a map, which has thousands."""

Answer = Mapping[str, object]
"""A model's answer to an image, in the form of ``vectors.json``."""

Answering = Callable[[ShippedModel, "Pixels"], tuple[float, Sequence[tuple[int, Answer]]]]
"""Function from images (N, size, size, 3) to a tolerance, and the places and answers of at most ``COUNT`` of them."""


@dataclass(frozen=True)
class Vector:
    """One input with the model's answer.

    Attributes:
        name: file name of the input.
        pixels: uint8 RGB, row by row: size x size x 3 bytes.
        answer: what the model answers.
    """

    name: str
    pixels: bytes
    answer: Answer


def make_vectors(model: ShippedModel, answering: Answering) -> tuple[float, tuple[Vector, ...]]:
    """Run the model over crops of the photographs that ship with scikit-image and scikit-learn.

    The user's images stay in the run, because a bundle goes to people who may not see them.

    Returns:
        The largest difference that the checker accepts, and the vectors.
    """
    import numpy as np

    from advisor.compression.calibration import from_photographs
    from advisor.measurement.on_device.gpu_process import redirected_errors

    crops = from_photographs(InputSpec(model.size, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)), SEED)
    images = crops.reshape(-1, model.size, model.size, 3).astype(np.uint8)
    with redirected_errors():  # the runtime reports there which kernels it uses
        tolerance, rows = answering(model, images)
    vectors = (
        Vector(f"{number:02}.rgb", images[place].tobytes(), answer) for number, (place, answer) in enumerate(rows)
    )
    return tolerance, tuple(vectors)


def classified(model: ShippedModel, images: Pixels) -> tuple[float, list[tuple[int, Answer]]]:
    """See :data:`Answering`: the probabilities of each class, and what the app does with them at its thresholds."""
    places = range(len(images))[:: max(1, len(images) // COUNT)][:COUNT]
    rows = answers(model.content, images[places], model)
    return TOLERANCES[0], [
        (
            place,
            {"label": row.index(max(row)), "probabilities": [round(value, DIGITS) for value in row]}
            | _done(model, row),
        )
        for place, row in zip(places, rows, strict=True)
    ]


def _done(model: ShippedModel, row: Sequence[float]) -> dict[str, object]:
    """Return whether the app answers and which labels it flags, as far as it has thresholds for that."""
    thresholds, found = model.thresholds, dict[str, object]()
    if thresholds.plain is not None or thresholds.by_class:
        found["answered"] = max(row) >= thresholds.least(model.labels[row.index(max(row))])
    if thresholds.recall:
        scores = zip(model.labels, row, strict=True)
        found["may_show"] = [label for label, score in scores if score >= thresholds.recall.get(label, math.inf)]
    return found


def answers(content: bytes, pixels: Pixels, model: ShippedModel) -> list[list[float]]:
    """Return the probabilities of uint8 images (N, size, size, 3), computed with one thread."""
    from advisor.measurement.accuracy import predict_pixels

    view = InputSpec(model.size, (model.mean,) * 3, (model.std,) * 3)
    with Scratch() as folder:
        path = folder / "model.tflite"
        path.write_bytes(content)
        rows: list[list[float]] = predict_pixels(path, pixels, view).tolist()
    return rows


def detected(model: ShippedModel, images: Pixels) -> tuple[float, list[tuple[int, dict[str, Any]]]]:
    """See :data:`Answering`: the boxes with at least half of an image's highest score.

    Only images in which other kernels find the same boxes within half the tolerance are taken: of two boxes that
    overlap, rounding can decide which one stays. The tolerance is the smallest that leaves enough images.
    """
    own, other = _runners(model, images)
    rows: list[tuple[int, dict[str, Any]]] = []
    for place in range(len(images)):
        found = check.boxes_of(own(place), 0.0)
        least = max([box["score"] for box in found], default=0.0) / 2
        rows.append((place, {"least": least, "boxes": [box for box in found if box["score"] >= least]}))
    rows = sorted(rows, key=lambda row: -row[1]["least"])[:LOOKED_AT]
    others = [other(place) for place, _ in rows]
    for tolerance in TOLERANCES:
        same = [not check.other_boxes(found, row[1], tolerance / 2) for row, found in zip(rows, others, strict=True)]
        if sum(same) >= COUNT:
            break
    return tolerance, list(itertools.compress(rows, same))[:COUNT]


def marked(model: ShippedModel, images: Pixels) -> tuple[float, list[tuple[int, dict[str, Any]]]]:
    """See :data:`Answering`: the scores of a map of centres.

    The tolerance is the smallest one of which half contains the difference between two kernels in enough images.
    """
    own, other = _runners(model, images)
    scores = [own(place)[0] for place in range(len(images))]
    apart = [float(abs(values - other(place)[0]).max()) for place, values in enumerate(scores)]
    order = sorted(range(len(images)), key=lambda place: -float(scores[place].max()))[:LOOKED_AT]
    for tolerance in TOLERANCES:
        same = [place for place in order if apart[place] <= tolerance / 2][:COUNT]
        if len(same) == COUNT:
            break
    return tolerance, [(place, {"scores": scores[place].reshape(-1).round(MAP_DIGITS).tolist()}) for place in same]


def _runners(model: ShippedModel, images: Pixels) -> tuple[Callable[[int], list[Any]], Callable[[int], list[Any]]]:
    """Return two functions that run the model on one of the images: with the kernels of clients, and with others."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    def runner(kind: OpResolverType) -> Callable[[int], list[Any]]:
        interpreter = Interpreter(model_content=model.content, num_threads=1, experimental_op_resolver_type=kind)
        interpreter.allocate_tensors()
        return lambda place: check.outputs(interpreter, images[place], model.mean, model.std)

    return runner(OpResolverType.AUTO), runner(OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)


def vectors_json(tolerance: float, vectors: Sequence[Vector], model: ShippedModel) -> str:
    """Return the JSON file with the vectors and their expected answers."""
    document = {
        "schema_version": 1,
        "size": model.size,
        "layout": "uint8 RGB, row by row",
        "mean": model.mean,
        "std": model.std,
        "tolerance": tolerance,
        "vectors": [{"input": vector.name, **vector.answer} for vector in vectors],
    }
    return json.dumps(document, indent=1) + "\n"


@dataclass(frozen=True)
class Shipping:
    """Content of a bundle of one task. Each file of code has a template of its name.

    Attributes:
        does: purpose of its programs, as a verb with its object.
        answers: name of the model's answers.
        card: template of the model card.
        snippets: path of the code for each platform.
        edgetpu: path of the program for a Coral Edge TPU; empty if there is none.
        answering: function that makes the expected answers of test vectors.
        web: there is a page for browsers, and a Core ML package.
        least: score from which on objects are shown, if the evaluation chose none; None of a classifier.
    """

    does: str
    answers: str
    card: str
    snippets: Mapping[str, str]
    edgetpu: str
    answering: Answering
    web: bool = False
    least: float | None = None

    def thresholds(self, evaluation: Evaluation) -> ShippedThresholds:
        """Return the scores from which on answers are shown, which the evaluation chose on the validation part."""
        boxes, confidence = evaluation.answers.boxes, evaluation.answers.confidence
        if confidence is not None:
            found = confidence.thresholds
            return replace(found, by_class=_as_stored(found.by_class), recall=_as_stored(found.recall))
        return ShippedThresholds(self.least if boxes is None else round(boxes.threshold, 4))


def _as_stored(by_class: Mapping[str, float]) -> dict[str, float]:
    return {one_line(name): score for name, score in by_class.items()}


SHIPPING: Mapping[str, Shipping] = {
    IMAGE_CLASSIFICATION: Shipping(
        "classifies images", "probabilities", "classifier_card.md.j2",
        {"android": "android/Classifier.kt", "ios": "ios/Classifier.swift", "python": "python/classify.py"},
        "edgetpu/classify_edgetpu.py", classified, web=True,
    ),
    OBJECT_DETECTION: Shipping(
        "finds objects in images", "boxes", "detector_card.md.j2",
        {"android": "android/Detector.kt", "ios": "ios/Detector.swift", "python": "python/detect.py"},
        "", detected, least=Suppression().score,
    ),
    OBJECT_COUNTING: Shipping(
        "counts objects in images", "scores", "counter_card.md.j2",
        {"android": "android/Counter.kt", "ios": "ios/Counter.swift", "python": "python/count.py"},
        "", marked, least=LEAST_SCORE,
    ),
}  # fmt: skip
"""Content of a bundle, by task."""
