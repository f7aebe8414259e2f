"""Find the images on which the pick and its float32 file disagree.

They show in a report what the compression of the pick costs and gains. Only classifiers have
such answers: one label for each image.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from advisor.core import FLOAT, Evaluation
from advisor.datasets import SplitPart
from advisor.engine._image_answers import PART_NAMES, read_image_array
from advisor.store import RunFolder


@dataclass(frozen=True)
class ImageAnswer:
    """An answer to an image.

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
        compressed: answer of the compressed file.
        floats: answer of the float32 file.
    """

    path: str
    sha256: str
    label: int
    compressed: ImageAnswer
    floats: ImageAnswer

    @property
    def right(self) -> tuple[bool, bool]:
        """Return whether the compressed file is right, and whether the float32 file is."""
        return self.compressed.label == self.label, self.floats.label == self.label


@dataclass(frozen=True)
class Disagreements:
    """All images of one part with two answers.

    Attributes:
        form: compression recipe of the compressed file.
        part: ``hold-out`` or ``validation``.
        images: number of images of the part.
        rows: first the images on which only float32 is right, then those on which only the form
            is, then the others.
    """

    form: str
    part: str
    images: int
    rows: tuple[Disagreement, ...]

    @property
    def sentence(self) -> str:
        """A sentence with the number of images that differ,
        and on how many of them each file is right.
        """
        if not self.rows:
            return (
                f"{self.form} and {FLOAT} give the same answer on each of {self.images}"
                f" {self.part} images."
            )
        compressed = sum(row.right[0] for row in self.rows)
        floats = sum(row.right[1] for row in self.rows)
        return (
            f"{self.form} and {FLOAT} differ on {len(self.rows)} of {self.images} {self.part}"
            f" images: {self.form} is right on {compressed} of them, {FLOAT} on {floats}."
        )


def find_disagreements(
    run: RunFolder, evaluations: Sequence[Evaluation], pick: Evaluation | None
) -> Disagreements | None:
    """Return the images on which the pick and its float32 file disagree,
    None where they have no answers to compare.

    They are of the hold-out if both files ran there, otherwise of the validation part.
    """
    if pick is None or pick.configuration.compression == FLOAT:
        return None
    floats = []
    for evaluation in evaluations:
        if evaluation.variant == (*pick.network, FLOAT):
            floats.append(evaluation)
    split = run.read_json("split.json")
    # Both files must have answered the same part.
    # A run without finalists has answers on validation only.
    for part, name in PART_NAMES.items():
        images = _list_images(split, part)
        compressed = _list_answers(run, pick, part, images)
        # The float32 file has one evaluation for each target, and all have the same answers.
        reference = list[ImageAnswer]()
        for evaluation in floats:
            reference = reference or _list_answers(run, evaluation, part, images)
        if compressed and reference:
            rows = _list_differing(images, compressed, reference)
            return Disagreements(pick.configuration.compression, name, len(images), rows)
    return None


class _LabelledImage(NamedTuple):
    path: str
    sha256: str
    label: int


def _list_differing(
    images: Sequence[_LabelledImage],
    compressed: Sequence[ImageAnswer],
    floats: Sequence[ImageAnswer],
) -> tuple[Disagreement, ...]:
    """Return the images with two answers, in the order of :class:`Disagreements`."""
    rows = []
    for image, answer, reference in zip(images, compressed, floats, strict=True):
        if answer.label != reference.label:
            rows.append(Disagreement(*image, answer, reference))
    # Images on which exactly one file is right come first:
    # they are what the compression costs or gains.
    rows.sort(key=lambda row: (not any(row.right), row.right[0]))
    return tuple(rows)


def _list_answers(
    run: RunFolder, evaluation: Evaluation, part: str, images: Sequence[_LabelledImage]
) -> list[ImageAnswer]:
    """Return the answers that the run has of a file;
    none where it has shares, or answers under capture conditions.
    """
    judged = evaluation.holdout_answers if part == SplitPart.HOLDOUT else evaluation.answers
    if judged is None or not judged.file:
        return []
    labels = read_image_array(run, judged.file)
    if labels is None or labels.dtype.kind not in "iu" or labels.shape != (len(images),):
        return []
    mistakes = judged.confidence.mistakes if judged.confidence else ()
    probabilities = {mistake.sha256: mistake.probability for mistake in mistakes}
    answers = []
    for image, label in zip(images, labels, strict=True):
        answers.append(ImageAnswer(int(label), probabilities.get(image.sha256)))
    return answers


def _list_images(split: Mapping[str, Any], part: str) -> list[_LabelledImage]:
    """Return the images of a part; none where the split is missing or damaged."""
    images = []
    try:
        label_of = {name: label for label, name in enumerate(split["classes"])}
        for row in split[part]:
            label = label_of[row["class"]]
            images.append(_LabelledImage(str(row["path"]), str(row["sha256"]), label))
    except (KeyError, TypeError):
        return []
    return images
