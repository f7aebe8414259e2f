"""Images on which a compressed file and its float32 file give different answers, by the answers that a run keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from advisor.core.evaluation import Evaluation
from advisor.core.figures import network_of, variant_of
from advisor.core.posterior import FLOAT
from advisor.datasets.split import HOLDOUT, VALIDATION
from advisor.engine.decide import kept_array
from advisor.store import RunFolder

PARTS = {HOLDOUT: "hold-out", VALIDATION: "validation"}
"""Parts of the images in words. The hold-out comes first: there, the files that ship ran."""

Image = tuple[str, str, int]
"""Path, hash and label of an image."""


@dataclass(frozen=True)
class ImageAnswer:
    """An answer.

    Attributes:
        label: number of the class, from 0.
        probability: its probability (0-1), None if that is not known.
    """

    label: int
    probability: float | None = None


@dataclass(frozen=True)
class Disagreement:
    """One image with two answers.

    Attributes:
        path: path of the image, relative to the data set.
        sha256: its hash.
        label: its class.
        own: answer of the compressed file.
        floats: answer of the float32 file.
    """

    path: str
    sha256: str
    label: int
    own: ImageAnswer
    floats: ImageAnswer

    @property
    def right(self) -> tuple[bool, bool]:
        """Return whether the compressed file is right, and whether the float32 file is."""
        return self.own.label == self.label, self.floats.label == self.label


@dataclass(frozen=True)
class Disagreements:
    """All images of one part with two answers.

    Attributes:
        form: compression recipe of the compressed file.
        part: ``hold-out`` or ``validation``.
        images: number of images of the part.
        rows: first the images on which only float32 is right, then those on which only the form is, then the others.
    """

    form: str
    part: str
    images: int
    rows: tuple[Disagreement, ...]

    @property
    def sentence(self) -> str:
        """A sentence with the number of images that differ, and on how many of them each file is right."""
        if not self.rows:
            return f"{self.form} and {FLOAT} give the same answer on each of {self.images} {self.part} images."
        own, floats = (sum(each) for each in zip(*(row.right for row in self.rows), strict=True))
        return (
            f"{self.form} and {FLOAT} differ on {len(self.rows)} of {self.images} {self.part} images: "
            f"{self.form} is right on {own} of them, {FLOAT} on {floats}."
        )


def disagreements(run: RunFolder, evaluations: Sequence[Evaluation], pick: Evaluation | None) -> Disagreements | None:
    """Return the images on which the pick and its float32 file disagree.

    They are of the hold-out if both files ran there, otherwise of the validation part. None if the pick is a float32
    file, or if the run does not have the answers of both to the same images.
    """
    if pick is None or pick.configuration.compression == FLOAT:
        return None
    floats = [each for each in evaluations if variant_of(each) == (*network_of(pick), FLOAT)]
    split = run.read_json("split.json")
    for part, name in PARTS.items():
        images = _images(split, part)
        own = _answers(run, pick, part, images)
        other = next(filter(None, (_answers(run, each, part, images) for each in floats)), ())
        if own and other:
            rows = [Disagreement(*image, *pair) for image, *pair in zip(images, own, other, strict=True)]
            differing = sorted((row for row in rows if row.own.label != row.floats.label), key=_rank)
            return Disagreements(pick.configuration.compression, name, len(images), tuple(differing))
    return None


def _rank(row: Disagreement) -> tuple[bool, bool]:
    own, floats = row.right
    return not (own or floats), own


def _answers(run: RunFolder, evaluation: Evaluation, part: str, images: Sequence[Image]) -> list[ImageAnswer]:
    """Return the answers that the run has of a file; none where it has shares, or answers under capture conditions.

    Probabilities are known of the mistakes that the run keeps.
    """
    judged = evaluation.holdout_answers if part == HOLDOUT else evaluation.answers
    labels = kept_array(run.path / judged.file) if judged and judged.file else None
    if judged is None or labels is None or labels.dtype.kind not in "iu" or labels.shape != (len(images),):
        return []
    mistakes = judged.confidence.mistakes if judged.confidence else ()
    known = {mistake.sha256: mistake.probability for mistake in mistakes}
    return [ImageAnswer(int(label), known.get(sha256)) for label, (_, sha256, _) in zip(labels, images, strict=True)]


def _images(split: Mapping[str, Any], part: str) -> list[Image]:
    """Return the images of a part; none where the split is missing or damaged."""
    try:
        label_of = {name: label for label, name in enumerate(split["classes"])}
        return [(str(row["path"]), str(row["sha256"]), label_of[row["class"]]) for row in split[part]]
    except (KeyError, TypeError):
        return []
