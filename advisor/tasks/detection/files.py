"""Files of detectors: ship them, and take users' own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.catalog.user_models import classifier
from advisor.catalog.user_models.classifier import run
from advisor.catalog.user_models.import_model import ImportedModel
from advisor.catalog.user_models.master import ModelFacts
from advisor.catalog.weights.readers import Array
from advisor.core.errors import UsageError
from advisor.exporting import check
from advisor.exporting.shipping import COUNT, LOOKED_AT, TOLERANCES, Found, ShippedModel, Shipping, runners
from advisor.tasks.detection import DETECTION
from advisor.tflite.macs import count, form_of
from advisor.tflite.metadata import Metadata
from advisor.tflite.model import Model, read
from advisor.tflite.postprocess import (
    DETECTIONS,
    ENDS,
    Suppression,
    cut_postprocess,
    has_postprocess,
    with_named_outputs,
)

if TYPE_CHECKING:
    from advisor.exporting.shipping import Pixels


class OwnDetectors:
    """See :class:`advisor.catalog.user_models.master.OwnFiles`."""

    search_options = f" --task {DETECTION.name} --data BOXES"

    def takes(self, model: Model) -> bool:
        """Return whether a file decodes boxes and drops those that overlap."""
        return has_postprocess(model)

    def prepare(self, data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
        """Write the master of a detector, with named outputs and a batch of one image."""
        edited = with_named_outputs(data, name)
        raw, process = cut_postprocess(edited, name)
        input_size = classifier.side_of(raw, name)
        target.write_bytes(edited)
        cost = count(read(raw, name))
        return ModelFacts(input_size, process.classes, cost.parameters, cost.macs, None, metadata, DETECTION.name)

    def take(self, data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
        """Write a detector as it is, with named outputs and a batch of one image."""
        edited = with_named_outputs(data, name)
        raw, process = cut_postprocess(edited, name)
        input_size = classifier.side_of(raw, name, finished=True)
        target.write_bytes(edited)
        model = read(raw, name)
        cost = count(model)
        form = form_of(model, cost)
        return ModelFacts(input_size, process.classes, cost.parameters, cost.macs, None, metadata, DETECTION.name, form)

    def run(self, data: bytes, image: Array, finished: bool) -> Mapping[str, Array]:
        """Return the boxes, classes and scores."""
        return run(data, image)

    def surest(self, outputs: Mapping[str, Array], facts: ModelFacts, title: str) -> list[tuple[int, float]]:
        """Return the class of the surest box, if there is one."""
        found = int(outputs["count"].reshape(-1)[0])
        boxes, classes, scores = (outputs[name][0, :found] for name in DETECTIONS[:3])
        sound = (
            np.isfinite(boxes).all()
            and np.isfinite(scores).all()
            and ((classes >= 0) & (classes < facts.classes)).all()
        )
        if not sound:
            raise UsageError(
                f"the model's answer to a photograph ({title}) is not boxes of {facts.classes} classes", ENDS
            )
        return [(int(classes[scores.argmax()]), float(scores.max()))] if found else []

    def remarks(self, added: ImportedModel) -> Iterator[str]:
        """Yield that a detector is not trained."""
        if not added.card.form:
            yield "it is a detector: a search compresses and judges it on your images with boxes, and does not train it"


def found(outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
    """Return the boxes that the app shows."""
    return tuple(
        Found(model.labels[one["label"]], one["score"], tuple(min(max(edge, 0.0), 1.0) for edge in one["box"]))
        for one in check.boxes_of(list(outputs), model.threshold or 0.0)
    )


def detected(model: ShippedModel, images: Pixels) -> tuple[float, list[tuple[int, dict[str, Any]]]]:
    """See :data:`Answering`: the boxes with at least half of an image's highest score.

    Only images in which other kernels find the same boxes within half the tolerance are taken: of two boxes that
    overlap, rounding can decide which one stays. The tolerance is the smallest that leaves enough images.
    """
    own, other = runners(model, images)
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


SHIPPING = Shipping(
    "finds objects in images", "boxes", "detector_card.md.j2",
    {"android": "android/Detector.kt", "ios": "ios/Detector.swift", "python": "python/detect.py"},
    "", detected, least=Suppression().score,
)  # fmt: skip
