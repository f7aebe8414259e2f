"""Read images with any number of labels each, drop labels that cannot be learnt, and split them.

Image tagging calls :meth:`LabelSetSurvey.read_images`. A label may be there, not there, or
unknown. The labels are a part of the data's fingerprint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.core import UsageError, listed
from advisor.datasets._boxes import formats_of
from advisor.datasets._boxes.entries import ONE_CLASS
from advisor.datasets._boxes.reading import BoxSurvey
from advisor.datasets._checks.findings import (
    Finding,
    list_extra_columns,
    list_left_out,
    make_row,
    phrase_count,
    write_rows,
)
from advisor.datasets._dataset import Listing, Rejected
from advisor.datasets._label_sets.stratification import deal_out
from advisor.datasets._label_sets.tables import is_json_table, list_label_sets
from advisor.datasets._split import Split
from advisor.datasets._survey import Progress, Survey
from advisor.store import sha256_json

if TYPE_CHECKING:
    from advisor.datasets._division import Division
    from advisor.datasets._duplicates import Pair

# (N, C): 1 where an image has a label, 0 where not, UNKNOWN where nobody knows.
Truth = NDArray[np.int8]
UNKNOWN = -1
LEAST = 3  # Images with a label, and without it, at least: one for each part
FEWEST_GROUPS = 10  # Groups of images from which on labels decide who comes into which part
NAMED = 5  # Labels that a sentence names
NOT_USED = "not used"


@dataclass(frozen=True, eq=False)
class LabelSetSurvey:
    """Images whose labels were read."""

    images: Survey  # of one class
    classes: tuple[str, ...]  # the labels, sorted
    truth: Truth
    notes: tuple[str, ...] = ()
    #: images that have labels, of which none is used
    with_unused_labels: frozenset[Path] = frozenset()
    by_columns: bool = False  # each label has a column

    @property
    def counts(self) -> Mapping[str, int]:
        """Images with each label."""
        return dict(zip(self.classes, (self.truth == 1).sum(axis=0).tolist(), strict=True))

    @property
    def unused(self) -> tuple[str, ...]:
        """The notes on labels that are left out."""
        return tuple(note for note in self.notes if NOT_USED in note)

    @property
    def lookalikes(self) -> tuple[tuple[str, ...], ...]:
        """The labels that differ by the case of their letters alone, together."""
        alike: dict[str, list[str]] = {}
        for name in self.classes:
            alike.setdefault(name.casefold(), []).append(name)
        several = []
        for names in alike.values():
            if len(names) > 1:
                several.append(tuple(names))
        return tuple(several)

    @classmethod
    def read_images(
        cls, path: Path, progress: Progress | None = None, most: int | None = None
    ) -> LabelSetSurvey:
        """Read images and their labels; faults of single files are recorded, not raised.

        Raises UsageError if no layout fits, or if no label is left that some images have and
        others do not.
        """
        return cls.read_all(path, progress, most).without_useless(path)

    @classmethod
    def read_all(
        cls,
        path: Path,
        progress: Progress | None = None,
        most: int | None = None,
        known: Collection[str] = (),
    ) -> LabelSetSurvey:
        """Read images with all their labels, those too that cannot be learnt from these images.

        ``known`` are labels of other images: where there are some, these need not have one.
        Raises UsageError if no layout fits.
        """
        if _has_boxes(path):
            boxes = BoxSurvey.read_images(path, progress, most)
            rows = []
            for content in boxes.contents:
                rows.append([name in content for name in boxes.classes])
            truth = np.array(rows, np.int8)
            note = "The labels of an image are the classes of its boxes."
            return cls(boxes.images, boxes.classes, truth, (note,))
        listing = list_label_sets(path, known)
        by_path = {entry.image.path: entry for entry in listing.entries}
        entries = [replace(entry.image, label=ONE_CLASS) for entry in by_path.values()]
        files = Listing(listing.root, entries, (), listing.rejected, listing.notes)
        images = Survey.read(files, progress, most)
        classes = tuple(sorted(listing.classes))
        truth = np.zeros((len(images.dataset.images), len(classes)), np.int8)
        for row, image in enumerate(images.dataset.images):
            entry = by_path[image.path]
            for column, name in enumerate(classes):
                truth[row, column] = UNKNOWN if name in entry.unknown else name in entry.there
        return cls(images, classes, truth, by_columns=listing.by_columns)

    def without_useless(self, path: Path) -> LabelSetSurvey:
        """Return the survey without labels that cannot be learnt and without unknown images.

        A label is left out if too few images have it, or too few are known to lack it; then an
        image is left out if none of its labels is known. ``path`` is named by the UsageError if no
        label is left.
        """
        return _drop_useless_labels(self, path)

    def keep_images(self, names: Collection[str]) -> LabelSetSurvey:
        """Return the survey with some images alone, by their paths within the data."""
        images, places = self.images.keep_images(names)
        return replace(self, images=images, truth=self.truth[places])

    def divide_images(self, seed: int, alike: tuple[Pair, ...] | None = None) -> Division:
        """Return the division of the images, in which each part has its share of each label.

        The user's own split is kept.
        """
        from advisor.datasets._division import Division
        from advisor.datasets._strata import make_stratifier

        dataset = self.images.dataset
        contents = [Counter(self.labels_of(place)) for place in range(len(self.truth))]
        division = Division.of_survey(self.images, seed, alike, make_stratifier(dataset, contents))
        if division.split.given or len(set(division.groups)) < FEWEST_GROUPS:
            return division
        split = division.split
        parts = (split.train, split.validation, split.holdout)
        # The first division gives the sizes of the parts alone:
        # its strata know only the rarest label of an image.
        shares = [len(part) / len(self.truth) for part in parts]
        hashes = [image.sha256 for image in dataset.images]
        part_of = deal_out(self.truth, division.groups, hashes, shares, seed)
        drawn = []
        for number in range(len(parts)):
            drawn.append(tuple(np.flatnonzero(part_of == number).tolist()))
        train, validation, holdout = drawn
        return replace(division, split=Split(train, validation, holdout, split.seed))

    def write_table(self, path: Path, findings: Sequence[Finding]) -> int:
        """Write a table with a column for each label; return its number of images.

        Images that findings leave out are not in it. Raises UsageError if it cannot be written.
        """
        left_out = list_left_out(findings)
        dataset = self.images.dataset
        rows = []
        for image, row in zip(dataset.images, self.truth.tolist(), strict=True):
            if image.path not in left_out:
                cells = ["" if value == UNKNOWN else str(value) for value in row]
                rows.append(
                    {**make_row(path, image), **dict(zip(self.classes, cells, strict=True))}
                )
        write_rows(path, ["path", *list_extra_columns(dataset), *self.classes], rows)
        return len(rows)

    def labels_of(self, place: int) -> tuple[str, ...]:
        """Return the labels of an image."""
        labels = np.flatnonzero(self.truth[place] == 1).tolist()
        return tuple(self.classes[label] for label in labels)


def _has_boxes(path: Path) -> bool:
    """Return whether the labels of a path are the classes of boxes."""
    if path.is_dir():
        return bool(formats_of(path))
    return path.suffix.lower() == ".json" and not is_json_table(path)


def _refuse_all_labels(read: LabelSetSurvey, path: Path, why: str) -> UsageError:
    """Return the error of a set of which no label can be learnt, with the likeliest cause."""
    dataset = read.images.dataset
    lost = dataset.rejected
    if lost and not dataset.images:
        what = (
            f"{phrase_count(len(lost), 'image')}, and none can be used; the first:"
            f" '{dataset.show_path(lost[0].path)}'"
        )
        hint = "correct the paths: they are relative to the folder of the table"
        return UsageError(f"--data: '{path}' names {what}: {lost[0].reason}", hint)
    hint = f"add images that have a label, and images that lack it, at least {LEAST} of each"
    if (read.truth == UNKNOWN).all():
        hint = "write 1 or 0 where it is known: an empty cell, '?' and -1 say that nobody knows it"
    elif (read.truth == UNKNOWN).any() and not (read.truth == 0).any():
        hint = "write 0 where an image lacks a label: an empty cell says that nobody knows it"
    example = ""
    if lost:
        example = f"; '{dataset.show_path(lost[0].path)}': {lost[0].reason}"
    return UsageError(
        f"--data: '{path}' has no label that {LEAST} images have and {LEAST} lack: {why}{example}",
        hint,
    )


def _drop_useless_labels(read: LabelSetSurvey, path: Path) -> LabelSetSurvey:
    """See :meth:`LabelSetSurvey.without_useless`."""
    present = (read.truth == 1).sum(axis=0)
    lacking = (read.truth == 0).sum(axis=0)
    unstated = np.flatnonzero(present + lacking == 0).tolist()
    rare = np.flatnonzero((present < LEAST) & (present + lacking > 0)).tolist()
    common = np.flatnonzero((present >= LEAST) & (lacking < LEAST)).tolist()
    notes = list(read.notes)
    for places, why in (
        (unstated, "nothing is known of"),
        (rare, f"fewer than {LEAST} images have"),
        (common, f"fewer than {LEAST} images lack"),
    ):
        if places:
            names = []
            for place in places:
                names.append(f"'{read.classes[place]}' ({int(present[place])})")
            what = phrase_count(len(places), "label is", "labels are")
            them = "it" if len(places) == 1 else "them"
            notes.append(f"{what} {NOT_USED}, as {why} {them}: {listed(names, NAMED)}.")
    useless = {*unstated, *rare, *common}
    useful = []
    for place in range(len(read.classes)):
        if place not in useless:
            useful.append(place)
    if not useful:
        raise _refuse_all_labels(read, path, " ".join(notes).removesuffix("."))
    truth = read.truth[:, useful]
    unlabelled = np.flatnonzero((truth == UNKNOWN).all(axis=1)).tolist()
    images = read.images
    has_unused = (read.truth[:, sorted(useless)] == 1).any(axis=1)
    has_used = (truth == 1).any(axis=1)
    with_unused_alone = set()
    for place in np.flatnonzero(has_unused & ~has_used).tolist():
        with_unused_alone.add(images.dataset.images[place].path)
    if unlabelled:
        known = (truth != UNKNOWN).any(axis=1)
        rejected = []
        for place in unlabelled:
            file = images.dataset.images[place].path
            rejected.append(Rejected(file, "none of its labels is known"))
        images = images.without_images(rejected)
        truth = truth[known]
    classes = tuple(read.classes[place] for place in useful)
    hashes = [image.sha256 for image in images.dataset.images]
    # Sorted, so that renamed files give the same fingerprint.
    rows = sorted(zip(hashes, truth.tolist(), strict=True))
    dataset = replace(images.dataset, fingerprint=sha256_json([classes, rows]))
    images = replace(images, dataset=dataset)
    return LabelSetSurvey(images, classes, truth, tuple(notes), frozenset(with_unused_alone))
