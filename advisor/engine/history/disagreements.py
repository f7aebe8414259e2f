"""Compare with the float32 file and with what ships now, and expect what fine-tuning would add."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from advisor.catalog.catalogue import load_catalogue
from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Evaluation, Status
from advisor.core.figures import accuracy_of, latency_of, network_of, variant_of
from advisor.core.posterior import FLOAT
from advisor.core.quantity import Provenance, Quantity, paired
from advisor.core.training import FINETUNE_CACHED, HEAD, recipe_of
from advisor.core.units import show_seconds
from advisor.datasets.split import HOLDOUT, VALIDATION
from advisor.engine.decide import correct_answers, kept_array
from advisor.engine.history.loaded_run import LoadedRun
from advisor.engine.pipeline.cost import CostCalibration
from advisor.engine.pipeline.stage import StageName
from advisor.engine.pipeline.stages.finetuning import training_s
from advisor.engine.scheduling.promotion import PERFECT
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


@dataclass(frozen=True)
class Incumbent:
    """A file that the user ships today, beside the pick.

    Attributes:
        evaluation: the file with the threads of the pick, if it was measured with them.
        picked: it is the pick itself.
        points: accuracy of the pick less that of the file on the same images, with a 95 % interval; None if it is not
            known.
        part: the part of these images in words.
    """

    evaluation: Evaluation
    picked: bool
    points: Quantity | None = None
    part: str = ""


def incumbents(
    run: RunFolder, evaluations: Sequence[Evaluation], pick: Evaluation | None, robust: bool = False
) -> tuple[Incumbent, ...]:
    """Return the files that the user ships, in the order of their names.

    Accuracies are compared on the hold-out if both files ran there, otherwise on validation. If candidates are compared
    under capture conditions (``robust``), it is validation.
    """
    shipped = [each for each in evaluations if each.status is Status.OK and each.card_facts.as_it_is]
    if pick is None:
        return ()
    there = [each for each in shipped if each.configuration.target.device == pick.configuration.target.device]
    names = sorted({each.configuration.card for each in there})
    return tuple(
        _compared(run, _nearest([each for each in there if each.configuration.card == name], pick), pick, robust)
        for name in names
    )


def _nearest(rows: Sequence[Evaluation], pick: Evaluation) -> Evaluation:
    """Return the evaluation with the threads of the pick, or the fastest."""
    threads = pick.configuration.target.threads
    return min(rows, key=lambda each: (each.configuration.target.threads != threads, latency_of(each)))


def _compared(run: RunFolder, own: Evaluation, pick: Evaluation, robust: bool) -> Incumbent:
    if own.configuration.card == pick.configuration.card:
        return Incumbent(own, picked=True)
    for part in (VALIDATION,) if robust else (HOLDOUT, VALIDATION):
        ours, theirs = correct_answers(run, own, part), correct_answers(run, pick, part)
        if ours and theirs:
            gained = paired(theirs, ours)
            value, low, high = (100 * each for each in (gained.value, gained.low, gained.high))
            points = Quantity(value, "points", Provenance.MEASURED, low, high, 0.95, len(ours), PARTS[part])
            return Incumbent(own, False, points, PARTS[part])
    return Incumbent(own, picked=False)


LEAST_POINTS = 0.5
"""Fine-tuning that is expected to add less than this is not mentioned."""

LEAST_IMAGES = 300
"""Training images below which no gain is stated. With 400 of TrashNet, MobileNets gained nothing
(``benchmarks/results/tuning_promotion_table.csv``), but hand signs gained 3 points with 866: validation decides."""


@dataclass(frozen=True)
class ExpectedTuning:
    """Expected gain of fine-tuning the pick's card.

    Attributes:
        points: expected gain in points of top-1.
        low: lower end, in points, of the range that holds two thirds of the gains seen on other sets.
        high: upper end of that range in points.
        seconds: rough seconds of one core on this machine.
        card: the card.
    """

    points: float
    low: float
    high: float
    seconds: float
    card: str

    def command(self, folder: str) -> str:
        """Return the command that fine-tunes the card; its head comes from the cache.

        Args:
            folder: the run folder as the user would type it.
        """
        return (
            f"advisor search --request {folder}/request.yaml --training {HEAD},{FINETUNE_CACHED} "
            f"--candidates {self.card}"
        )

    def sentence(self, folder: str) -> str:
        """Return the expectation in words, with the command."""
        return (
            f"Fine-tuning {self.card} is expected to add about {self.points:.0f} points ({self.low:.0f} to "
            f"{self.high:.0f}) in about {show_seconds(self.seconds)}: {self.command(folder)}"
        )


def expected_tuning(run: LoadedRun) -> ExpectedTuning | None:
    """Return what fine-tuning is expected to add to the pick; None if it was fine-tuned, or cannot be or gain."""
    pick, train = run.decision.pick, run.dataset.get("train")
    if pick is None or pick.configuration.training != HEAD or not isinstance(train, int) or train < LEAST_IMAGES:
        return None
    name = pick.configuration.card
    tuned = (each.configuration for each in run.evaluations if each.accuracy is not None)
    if any(each.card == name and recipe_of(each.training).tunes_backbone for each in tuned):
        return None
    try:
        card = load_catalogue(run.question.catalog).get(name)
    except AdvisorError:
        return None
    tuning, room = recipe_of(FINETUNE_CACHED), PERFECT - accuracy_of(pick)
    if card is None or card.own_file or math.isnan(room) or tuning.gain * room < LEAST_POINTS:
        return None
    rough_s = training_s(card, FINETUNE_CACHED, train) + training_s(card, FINETUNE_CACHED, train, ships=True)
    seconds = rough_s * CostCalibration().pace.get(StageName.FINETUNE_CACHED, 1.0)
    low, middle, high = (room * (tuning.gain + sd * tuning.spread) for sd in (-1, 0, 1))
    return ExpectedTuning(middle, low, high, seconds, name)
