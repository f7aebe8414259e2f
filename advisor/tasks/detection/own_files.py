"""Take users' own detectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from advisor.catalog.trial_run import run
from advisor.catalog.user_models import classifier
from advisor.catalog.user_models.import_model import ImportedModel
from advisor.catalog.user_models.own_files import ModelFacts
from advisor.catalog.weights.arrays import Array
from advisor.core.errors import UsageError
from advisor.tasks.detection import DETECTION
from advisor.tflite.macs import count, form_of
from advisor.tflite.metadata import Metadata
from advisor.tflite.model import Model, read
from advisor.tflite.postprocess import DETECTIONS, ENDS, cut_postprocess, has_postprocess, with_named_outputs


class OwnDetectors:
    """See :class:`advisor.catalog.user_models.own_files.OwnFiles`."""

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
