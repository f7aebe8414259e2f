"""Take a user's own detector into the catalogue.

``advisor catalog add`` asks :class:`OwnDetectors`. ``prepare`` writes the master that a search
compresses and judges; ``take`` keeps a file in its form. No search trains such a file. The names
of its outputs are part of the contract with ``advisor.measurement`` and with apps: they stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from advisor.catalog import Array, ImportedModel, ModelFacts, classifier
from advisor.core import UsageError
from advisor.tasks.detection import DETECTION
from advisor.tflite import (
    DETECTIONS,
    ENDS,
    Metadata,
    Model,
    count,
    cut_postprocess,
    form_of,
    has_postprocess,
    read,
    with_named_outputs,
)


class OwnDetectors:
    """See :class:`advisor.catalog.OwnFiles`."""

    search_options = f" --task {DETECTION.name} --data BOXES"

    def takes(self, model: Model, asked: bool) -> bool:
        """Return whether a file decodes boxes and drops those that overlap."""
        return has_postprocess(model)

    def prepare(
        self,
        data: bytes,
        name: str,
        target: Path,
        metadata: Metadata,
        finished: bool = False,
    ) -> ModelFacts:
        """Write the master of a detector, with named outputs and a batch of one image."""
        edited = with_named_outputs(data, name)
        raw, process = cut_postprocess(edited, name)
        input_size = classifier.side_of(raw, name, finished=finished)
        target.write_bytes(edited)
        model = read(raw, name)
        cost = count(model)
        form = form_of(model, cost) if finished else ""
        return ModelFacts(
            input_size,
            process.classes,
            cost.parameters,
            cost.macs,
            None,
            metadata,
            DETECTION.name,
            form,
        )

    def take(self, data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
        """Write a detector as it is, with named outputs and a batch of one image."""
        return self.prepare(data, name, target, metadata, finished=True)

    def run(self, data: bytes, image: Array, finished: bool) -> Mapping[str, Array]:
        """Return the boxes, classes and scores."""
        return classifier.run(data, image)

    def surest(
        self, outputs: Mapping[str, Array], facts: ModelFacts, title: str
    ) -> list[tuple[int, float]]:
        """Return the class of the surest box, if there is one."""
        number = int(outputs["count"].reshape(-1)[0])
        boxes, classes, scores = (outputs[name][0, :number] for name in DETECTIONS[:3])
        # A file of the user may answer anything:
        # classes that it does not name, or values that are no numbers.
        known = ((classes >= 0) & (classes < facts.classes)).all()
        if not (known and np.isfinite(boxes).all() and np.isfinite(scores).all()):
            message = (
                f"the model's answer to a photograph ({title}) is not boxes of {facts.classes}"
                " classes"
            )
            raise UsageError(message, ENDS)
        if number:
            return [(int(classes[scores.argmax()]), float(scores.max()))]
        return []

    def remarks(self, added: ImportedModel) -> Iterator[str]:
        """Yield that a detector is not trained."""
        if not added.card.form:
            yield (
                "it is a detector: a search compresses and judges it on your images with boxes,"
                " and does not train it"
            )
