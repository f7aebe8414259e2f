"""Read images with one class each for a search, and check them for ``advisor data check``.

``read`` returns the images of a question, divided into parts, with those of ``--unknown``. It asks
the user, by an :class:`.AmbiguousInput`, where the folder may be of another task.
``check_images`` returns the findings of a check, whose content is :class:`Classes`. The keys of
``Classes.to_json`` are those of the JSON document of a check: they stay.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from advisor.core import (
    TASKS,
    AmbiguousInput,
    Reading,
    StageError,
    UsageError,
    WeightsError,
    plural,
    show_probability,
)
from advisor.datasets import (
    Dataset,
    Division,
    Entry,
    Finding,
    Kind,
    LabelledImage,
    Listing,
    ObjectSizes,
    Overview,
    Pair,
    Survey,
    check_survey,
    images_in,
    missing_hint,
    phrase_count,
    require_usable,
    write_manifest,
)
from advisor.engine import (
    TUNED_IMAGES,
    DataCheck,
    Drawing,
    Images,
    LabelCheck,
    LabelChecker,
    Question,
    Say,
)
from advisor.tasks._task import report_progress
from advisor.training import Suspect

HINT = "name a folder of images of things that are none of your classes"

# Share of the images that are in several classes, from which on this is hardly a mistake.
MOST_SHARED = 0.05


def read_others(folder: Path, known: Survey) -> tuple[tuple[LabelledImage, ...], str]:
    """Return the images of a folder, at any depth, with the label 0, and a sentence about them.

    Images that show the same as known ones are left out, as are files that cannot be read.

    Raises:
        UsageError: the folder is missing, or no image is left.
    """
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise UsageError(f"--unknown: '{folder}' {what}", missing_hint(folder, HINT))
    files = images_in(folder)
    if not files:
        raise UsageError(f"--unknown: no image below '{folder}'", HINT)
    read = Survey.read(
        Listing(folder, [Entry(file, "unknown") for file in files]), with_quality=False
    )
    first = len(known.dataset.images)
    pairs = Pair.find_alike(np.concatenate([known.thumbnails, read.thumbnails]))
    # A copy of an image with a class would teach and judge that the class is unknown.
    copies = set()
    for pair in pairs:
        if pair.first < first <= pair.second:
            copies.add(pair.second - first)
    images = tuple(image for place, image in enumerate(read.dataset.images) if place not in copies)
    left_out = []
    if copies:
        verb = phrase_count(len(copies), "shows", "show")
        left_out.append(f"{verb} the same as images of --data")
    if read.dataset.rejected:
        left_out.append(f"{len(read.dataset.rejected)} cannot be read")
    reasons = ", ".join(left_out)
    if not images:
        raise UsageError(f"--unknown: no image below '{folder}' can be used: {reasons}", HINT)
    sentence = f"--unknown: {phrase_count(len(images), 'image', 'images')} of other things"
    if reasons:
        sentence += f"; left out: {reasons}"
    return images, sentence


def read(question: Question, say: Say) -> Images:
    """Return the images of the classes, divided into parts, with those of other things if the
    question names some.

    Raises:
        UsageError: the images cannot be read, or there are too few.
        AmbiguousInput: they cannot be read as images of classes, and may be those of another task.
    """
    path = question.require_data()
    try:
        # Blur and light cost time, and only the check of the images shows them.
        read = Survey.read(path, report_progress(say), question.most_images, with_quality=False)
        require_usable(read.dataset)
    except UsageError as error:
        # Images of another task are no mistake in the files:
        # the user may only have left out --task.
        other_tasks = _list_readings(path)
        if not other_tasks:
            raise
        readings = error.readings if isinstance(error, AmbiguousInput) else ()
        raise AmbiguousInput(error.message, (*readings, other_tasks[0])) from None
    _ask_about_shared_images(path, read.dataset)
    if question.judged_whole:
        return Images.all_held_out(read.dataset, question.seed)
    division = Division.of_survey(read, question.seed)
    notes = division.list_notes(read.dataset)
    train = len(division.split.train)
    if train > TUNED_IMAGES:
        note = (
            f"A fine-tuning learns from {TUNED_IMAGES:,} of the {train:,} images for training, and"
            " a head from all."
        )
        notes = (*notes, note)
    images = Images.of_division(read.dataset, division, notes, say)
    if question.unknown is None:
        return images
    outside, note = read_others(question.unknown, read)
    say(note)
    return replace(images, others=outside, notes=(*images.notes, note))


def _ask_about_shared_images(path: Path, dataset: Dataset) -> None:
    """Ask whether images have several labels, if many of them are in several folders of classes.

    Raises:
        AmbiguousInput: more than :data:`MOST_SHARED` of the images are.
    """
    labels = defaultdict[str, set[int]](set)
    for image in dataset.images:
        labels[image.sha256].add(image.label)
    shared = sum(len(labels_of_image) > 1 for labels_of_image in labels.values())
    # Who writes the pattern has said that each folder is a class.
    if not path.is_dir() or shared < MOST_SHARED * len(labels):
        return
    by_mistake = Reading(
        {"data": f"{path}/*"}, "each image has one class, and some are copied by mistake"
    )
    raise AmbiguousInput(
        f"--data: {shared} of {plural(len(labels), 'image')} are in several classes",
        [*_list_readings(path), by_mistake],
    )


def _list_readings(path: Path) -> list[Reading]:
    """Return the tasks that recognize images of theirs in a folder."""
    readings = []
    for task in TASKS.values():
        content = task.recognize(path)
        if content:
            readings.append(Reading({"task": task.name}, f"the folder has {content}"))
    return readings


@dataclass(frozen=True)
class Classes:
    """The classes of images, as the content of a check."""

    dataset: Dataset
    sizes: tuple[ObjectSizes, ...] = ()
    next_command: str = "advisor search --data {manifest} --budget 50ms"

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Images of each class."""
        return dict(zip(self.dataset.classes, self.dataset.counts, strict=True))

    @property
    def summary(self) -> str:
        """The number of images and of classes."""
        return (
            f"{plural(len(self.dataset.images), 'image')} in {len(self.dataset.classes)} classes"
        )

    def label(self, path: Path) -> str:
        """Return the class of an image, empty for one that was left out."""
        return self._labels.get(path, "")

    @cached_property
    def _labels(self) -> Mapping[Path, str]:
        return {image.path: self.dataset.classes[image.label] for image in self.dataset.images}

    def drawing(self, path: Path) -> Drawing | None:
        """Return None: an image has a class and no boxes."""
        return None

    def to_json(self) -> Mapping[str, Any]:
        """Return the number of images of each class."""
        return {"pictures_per_class": self.counts}

    def write(self, path: Path, findings: Sequence[Finding]) -> int:
        """Write a manifest without the images that the findings leave out;
        return its number of images.
        """
        left_out = set[Path]()
        for finding in findings:
            left_out.update(finding.leave_out)
        return write_manifest(path, self.dataset, left_out)


def check_images(path: Path, checker: LabelChecker | None, say: Say) -> DataCheck:
    """Check a data set in any layout; it is not changed.

    Without a ``checker``, nothing looks for wrong labels and crops.

    Raises:
        UsageError: the path cannot be read as a data set, or the card is unknown.
    """
    say(f"reading images of {path}")
    read = Survey.read(path, report_progress(say))
    say("comparing images")
    pairs = Pair.find_alike(read.thumbnails)
    labels = LabelCheck()
    why_not = "not asked for"
    if checker is not None:
        try:
            labels = checker.check(read.dataset, pairs, say)
            why_not = ""
        except (WeightsError, StageError) as error:  # the other findings are useful without it
            why_not = error.message
    # Of one pair that both ways found, that of the thumbnails counts.
    by_images = {(pair.first, pair.second): pair for pair in (*labels.copies, *pairs)}
    alike = [by_images[images] for images in sorted(by_images)]
    findings = (*check_survey(read, alike), *_list_wrong_labels(read, labels.suspects))

    def overview(seed: int) -> Overview:
        require_usable(read.dataset)
        return Division.of_survey(read, seed, pairs).make_overview(read.dataset)

    return DataCheck.of_survey(
        path, read, Classes(read.dataset), findings, overview, labels.card, why_not, framing=True
    )


def _list_wrong_labels(read: Survey, suspects: Sequence[Suspect]) -> tuple[Finding, ...]:
    """Return the finding about images whose label is likely wrong; none without suspects."""
    if not suspects:
        return ()
    dataset = read.dataset
    share = 100 * len(suspects) / len(dataset.images)
    paths = tuple(dataset.images[suspect.index].path for suspect in suspects)
    notes = []
    for suspect in suspects:
        label = dataset.classes[dataset.images[suspect.index].label]
        better_label = dataset.classes[suspect.suggested]
        chance = show_probability(suspect.given)
        better_chance = show_probability(suspect.better)
        notes.append(f"{label} ({chance}), rather {better_label} ({better_chance})")
    verb = "has" if len(suspects) == 1 else "have"
    # An image is named from a probability of 15 % on, so most of them need not be wrong.
    counted = f"{phrase_count(len(suspects), 'image')} ({share:.1f} %)"
    message = f"{counted} {verb} a doubtful label: it is wrong, or the image is hard"
    advice = (
        "look at them, the most likely first; keep those whose labels are right: they are hard,"
        " and worth having"
    )
    images = tuple((path,) for path in paths)
    return (Finding(Kind.WRONG_LABEL, message, advice, images, tuple(notes), paths),)
