"""Take a user's own tagger into the catalogue, and into a search.

``advisor catalog add`` asks :class:`OwnTaggers`. In a search, :func:`own_tagger` gives the file
thresholds that the user's images choose; nothing trains it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from advisor.catalog import (
    Array,
    Card,
    ImportedModel,
    ModelFacts,
    classifier,
    read_published_labels,
)
from advisor.core import StageError, UsageError
from advisor.engine import FloatModel, Purpose, Stage, Workload
from advisor.tasks._own_file import take_own_file
from advisor.tasks.tagging import TAGGING
from advisor.tasks.tagging._stages import SCORES
from advisor.tasks.tagging._thresholds import set_thresholds
from advisor.tflite import Metadata, Model, count, form_of, has_postprocess, read, read_head

SIGMOIDS = "give a model with one sigmoid for each label"
AS_IT_IS = "add it with --as-it-is: it is then judged in its form, and keeps its own scores"


class OwnTaggers:
    """See :class:`advisor.catalog.OwnFiles`."""

    search_options = f" --task {TAGGING.name} --data TABLE"

    def takes(self, model: Model, asked: bool) -> bool:
        """Return whether a file ends in several sigmoids, or the user says it gives labels."""
        several = len(model.outputs) == 1 and model.outputs[0].elements > 1
        return (several and classifier.ends_in_sigmoids(model)) or (
            asked and not has_postprocess(model)
        )

    def prepare(self, data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
        """Write the master of a tagger, with sigmoids behind logits."""
        model = read(data, name)
        input_size = classifier.side_of(data, name)
        labels = classifier.count_scores(model, name, least=1)
        _refuse_softmax(data, input_size, labels, name)
        sigmoids = classifier.ends_in_sigmoids(model)
        edited = classifier.with_bias(
            classifier.name_output(data, name, "" if sigmoids else "LOGISTIC", SCORES), name
        )
        try:
            read_head(edited, name)
        except StageError as error:
            what = (
                f"{name}: no thresholds can be put into it:"
                f" {error.message.removeprefix(name).strip()}"
            )
            raise UsageError(what, AS_IT_IS) from None
        target.write_bytes(edited)
        work = count(read(edited, name))
        return ModelFacts(
            input_size, labels, work.parameters, work.macs, None, metadata, TAGGING.name
        )

    def take(self, data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
        """Write a tagger as it is, with its output named and a batch of one image."""
        model = read(data, name)
        input_size = classifier.side_of(data, name, finished=True)
        labels = classifier.count_scores(model, name, least=1)
        _refuse_softmax(data, input_size, labels, name)
        if not classifier.ends_in_sigmoids(model):
            hint = (
                f"add the float file, which then gets sigmoids: advisor catalog add {name} --task"
                f" {TAGGING.name}"
            )
            raise UsageError(
                f"{name}: it gives logits, and a file that keeps its form has sigmoids", hint
            )
        target.write_bytes(classifier.name_output(data, name, output_name=SCORES))
        model = read(target.read_bytes(), name)
        work = count(model)
        form = form_of(model, work)
        return ModelFacts(
            input_size, labels, work.parameters, work.macs, None, metadata, TAGGING.name, form
        )

    def run(self, data: bytes, image: Array, finished: bool) -> Mapping[str, Array]:
        """Return the scores of the labels."""
        return {SCORES: classifier.scores_of(data, image, "the model")[None]}

    def surest(
        self, outputs: Mapping[str, Array], facts: ModelFacts, title: str
    ) -> list[tuple[int, float]]:
        """Return the label with the highest score."""
        (row,) = outputs[SCORES]
        if row.min() < 0 or row.max() > 1:
            raise UsageError(
                f"the model's answer to a photograph ({title}) is not scores from 0 to 1", SIGMOIDS
            )
        return [(int(row.argmax()), float(row.max()))]

    def remarks(self, added: ImportedModel) -> Iterator[str]:
        """Yield what a search does with a tagger."""
        if not added.card.form:
            yield (
                "it gives several labels: a search chooses their thresholds on your images,"
                " compresses and judges it, and does not train it"
            )


def _refuse_softmax(data: bytes, input_size: int, labels: int, name: str) -> None:
    if labels > 1 and classifier.sums_to_one(data, input_size, name):
        what = (
            f"{name}: its scores add up to one: it ends in a softmax, and gives an image one label"
        )
        raise UsageError(what, f"{SIGMOIDS}, or search without --task {TAGGING.name}")


def name_scores(data: bytes, name: str) -> bytes:
    """Return a tagger with its output named, without description."""
    return classifier.name_output(data, name, output_name=SCORES)


def own_tagger(
    card: Card, training: str, purpose: Purpose, workload: Workload
) -> Stage[FloatModel]:
    """Take a user's own float tagger; the file that ships has thresholds that validation chose."""
    taken = take_own_file(card, name_scores)
    if purpose is Purpose.COMPARE:
        return taken
    return set_thresholds(card, training, purpose, workload, taken, read_published_labels(card))
