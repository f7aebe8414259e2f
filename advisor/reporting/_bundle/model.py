"""Make the model that a bundle ships from the file that a run measured.

The export, photographs (``advisor predict``, pages) and integrations call
:meth:`ShippedModel.prepare`, so all of them run the same bytes. Clients read the file with
MediaPipe 1.2: float32 in and out, one mean and deviation, labels and thresholds in the metadata.
The sentences of ``edits`` are written into ``bundle.json`` and the model card.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from advisor.core import Evaluation, ShippedThresholds, UsageError
from advisor.reporting._view import make_typed_path
from advisor.store import Problem
from advisor.tflite import (
    Metadata,
    Tables,
    open_model,
)

if TYPE_CHECKING:
    from advisor.engine import LoadedRun


NO_THRESHOLD = ShippedThresholds()
THRESHOLD = "the metadata states the score from which on answers are shown:"


@dataclass(frozen=True)
class ShippedModel:
    """The model of a bundle.

    Attributes:
        content: the ``.tflite``; identical to the measured artefact where ``edits`` is empty.
        labels: one label for each output, in order.
        mean: subtracted from RGB values 0..255, one number for all channels.
        std: divisor of the difference.
        size: side of the input in pixels.
        edits: changes for clients that do not support the artefact's types or normalization, or
            that read a threshold.
        measured: description of the measured artefact.
        thresholds: scores from which on a client shows an object or a class.
        types: types of the measured artefact's inputs and outputs.
    """

    content: bytes
    labels: tuple[str, ...]
    mean: float
    std: float
    size: int
    edits: tuple[str, ...]
    measured: Metadata
    thresholds: ShippedThresholds = field(default_factory=ShippedThresholds)
    types: frozenset[str] = frozenset()

    def by_place(self, scores: Mapping[str, float]) -> dict[int, float]:
        """Return scores by the place of their label."""
        return {place: scores[label] for place, label in enumerate(self.labels) if label in scores}

    @property
    def threshold(self) -> float | None:
        """Score for the answers of all classes without an own one; None if all of them count."""
        return self.thresholds.plain

    @property
    def converts(self) -> bool:
        """It converts the measured file's input or output, which takes time that no figure has."""
        uneven = any(len(set(values)) > 1 for values in (self.measured.mean, self.measured.std))
        return uneven or bool(self.types - {"float32"})

    @classmethod
    def prepare(
        cls, artefact: bytes, name: str, thresholds: ShippedThresholds = NO_THRESHOLD
    ) -> ShippedModel:
        """Return the artefact as MediaPipe 1.2 needs it:
        float32 in and out, one mean and std, a threshold.

        No edit changes the values that the network computes. Metadata is written last, because
        every edit drops it. Clients show a box or a class from its score in ``thresholds`` on.

        Raises:
            UsageError: the file, called ``name``, is damaged, or has no metadata.
        """
        tables, model = open_model(artefact, name)
        metadata = Metadata.read_description(model, artefact, name)
        if metadata is None or not metadata.labels or not metadata.mean:
            raise UsageError(
                f"{name} has no metadata with labels and normalization",
                "search again: artefacts of this version have it",
            )
        types = frozenset(tensor.dtype for tensor in (*model.inputs, *model.outputs))
        described, edits = _adapt_tables(tables, types, metadata)
        scores = _scores_of_labels(thresholds, metadata.labels)
        # No client reads a threshold of a map.
        is_map = len(model.outputs[0].shape) >= 4
        if scores and not is_map:
            # MediaPipe reads one threshold for all classes.
            # The lowest one hides no answer that a class may show.
            least = min(scores)
            by_class = scores if thresholds.by_class else ()
            more = ", for some classes a higher one" if by_class else ""
            described = replace(described, threshold=least, by_class=by_class)
            edits = (*edits, f"{THRESHOLD} {least:g}{more}")
        return cls(
            content=described.write_tables(tables, model) if edits else artefact,
            labels=metadata.labels,
            mean=described.mean[0],
            std=described.std[0],
            size=model.inputs[0].shape[1],
            edits=edits,
            thresholds=thresholds,
            measured=metadata,
            types=types,
        )


def _scores_of_labels(thresholds: ShippedThresholds, labels: Sequence[str]) -> tuple[float, ...]:
    """Return the score of each label for the metadata, with which clients compare it;
    empty if all answers count.

    Where scores differ and an image has one class, they are at least a half: no class is shown
    behind a more probable one that is left out.
    """
    least = 0.0 if thresholds.several else 0.5
    if not thresholds.by_class:
        return () if thresholds.plain is None else (thresholds.plain,)
    return tuple(max(least, thresholds.least(label)) for label in labels)


def _adapt_tables(
    tables: Tables, types: frozenset[str], metadata: Metadata
) -> tuple[Metadata, tuple[str, ...]]:
    """Edit the tables of a file; return its description then, and what was edited."""
    from advisor.tflite import fold_normalization, take_floats

    edits = list[str]()
    # MediaPipe 1.2 refuses integer inputs, and a normalization that differs by channel.
    if types != {"float32"}:
        # Before the normalization, which can go inside only behind a float32 input.
        take_floats(tables.make_editable())
        edits.append(
            f"input and output take float32 instead of {'/'.join(sorted(types - {'float32'}))}"
        )
    if len(set(metadata.mean)) == 1 and len(set(metadata.std)) == 1:
        return metadata, tuple(edits)
    fold_normalization(tables.make_editable(), metadata.mean, metadata.std)
    edits.append(
        "the normalization, which differs by channel, happens inside the model: it takes RGB"
        " 0..255"
    )
    return replace(metadata, mean=(0.0,), std=(1.0,)), tuple(edits)


def suggest_list(run: LoadedRun) -> str:
    """Return the command that lists what can be exported of a run."""
    return f"advisor export {shlex.quote(make_typed_path(run.folder.path))} --list"


def artefact_of(run: LoadedRun, evaluation: Evaluation) -> bytes:
    """Return the file of an evaluation;
    one that is missing, changed or without weights is a ``UsageError``.
    """
    problem = Problem.find_in_artefact(run.folder, evaluation)
    if problem is not None:
        raise UsageError(
            f"'{run.folder.path}': {problem}",
            f"{suggest_list(run)} shows the others; or search again, which takes what it can from"
            " the cache",
        )
    # Such a card was timed with random weights:
    # its file is right in size and latency, and answers nothing.
    if evaluation.card_facts.lacks_weights:
        card = evaluation.configuration.card
        raise UsageError(
            f"{card} was measured without its weights: there is nothing to ship yet",
            f"get them first (advisor catalog show {card} lists their sources), then search again",
        )
    return (run.folder.path / evaluation.artefact).read_bytes()
