"""Take a user's own classifier into the catalogue.

``advisor catalog add`` asks :class:`OwnClassifiers`. ``prepare`` writes the master from which a
search trains and compresses; ``take`` keeps a file in its form. A file that no other task takes
comes here, and is refused if it is no classifier. The names of its outputs are those of every
master: they stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from advisor.catalog import Array, ImportedModel, ModelFacts, classifier
from advisor.core import UsageError, as_probabilities
from advisor.tflite import Metadata, Model, count, form_of, read, with_fixed_batch


class OwnClassifiers:
    """See :class:`advisor.catalog.OwnFiles`."""

    search_options = ""

    def takes(self, model: Model, asked: bool) -> bool:
        """Return True: a file of no other task is a classifier, and refused if it is none."""
        return True

    def prepare(self, data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
        """Write the master of a classifier;
        a run of the file shows whether its scores are probabilities.
        """
        data = classifier.with_two_classes(data, name)
        input_size, classes = classifier.shape_of(data, name)
        end = "" if classifier.sums_to_one(data, input_size, name) else "SOFTMAX"
        edited = classifier.name_output(data, name, end)
        target.write_bytes(edited)
        cost = count(read(edited, name))
        master, has_features = classifier.with_features(edited, name)
        width = None
        if has_features:
            width = read(master).outputs[1].shape[-1]
        return ModelFacts(input_size, classes, cost.parameters, cost.macs, width, metadata)

    def take(self, data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
        """Write a classifier as it is, with a batch of one image;
        a run shows that the runtime has its operators.
        """
        input_size, classes = classifier.shape_of(data, name, finished=True)
        target.write_bytes(with_fixed_batch(data, name))
        model = read(target.read_bytes(), name)
        cost = count(model)
        classifier.scores_of(
            target.read_bytes(), np.zeros((1, input_size, input_size, 3), np.float32), name
        )
        return ModelFacts(
            input_size,
            classes,
            cost.parameters,
            cost.macs,
            None,
            metadata,
            form=form_of(model, cost),
        )

    def run(self, data: bytes, image: Array, finished: bool) -> Mapping[str, Array]:
        """Return the probabilities; those of a finished file are read from its only output."""
        if not finished:
            return classifier.run(data, image)
        row = as_probabilities(classifier.scores_of(data, image, "the model")[None])
        # Probabilities of 8 bits are rounded, and their sum is not quite 1.
        return {classifier.PROBABILITIES: row / max(float(row.sum()), 1e-6)}

    def surest(
        self, outputs: Mapping[str, Array], facts: ModelFacts, title: str
    ) -> list[tuple[int, float]]:
        """Return the class with the highest probability."""
        (row,) = outputs[classifier.PROBABILITIES]
        if not np.isfinite(row).all() or abs(float(row.sum()) - 1.0) > 1e-3:
            raise UsageError(
                f"the model's answer to a photograph ({title}) is not a row of probabilities",
                classifier.SCORES,
            )
        return [(int(row.argmax()), float(row.max()))]

    def remarks(self, added: ImportedModel) -> Iterator[str]:
        """Yield what a search cannot do with the classifier, and what its metadata asks for."""
        if not added.card.form and added.features is None:
            yield "it does not end in a linear classifier: it is a candidate only without --data"
        if added.card.top1() is None:
            yield "no --top1 was stated: a search without --data cannot rank it"
        if added.threshold is not None and added.threshold > 1:
            yield (
                f"its metadata asks for a score of at least {added.threshold:g}: clients that read"
                " it, such as MediaPipe, show no answer; files that are made of it have no"
                " threshold"
            )
