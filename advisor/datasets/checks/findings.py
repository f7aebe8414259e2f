"""Define the findings of a data check, each with its images."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from advisor.datasets.boxes import Box
from advisor.datasets.dataset import Dataset


class Kind(StrEnum):
    """The kind of a finding."""

    UNREADABLE = "unreadable"
    UNUSABLE_BOXES = "unusable boxes"
    SPELLING = "one class, several spellings"
    EXACT_DUPLICATES = "exact duplicates"
    NEAR_DUPLICATES = "near duplicates"
    SAME_IMAGE_TWO_CLASSES = "same image in two classes"
    LEAK = "same image in two parts"
    SPLIT = "split"
    WRONG_LABEL = "likely wrong labels"
    TWO_LABELS = "one box, two labels"
    REPEATED_BOXES = "repeated boxes"
    OUTSIDE = "boxes outside the image"
    TINY = "tiny boxes"
    NO_BOXES = "images without boxes"
    SMALL_CLASS = "small class"
    IMBALANCE = "imbalance"
    OBJECT_SIZE = "object size"
    SIZE = "size"
    CAPTURE = "capture conditions"


@dataclass(frozen=True)
class Finding:
    """One result of a data check."""

    kind: Kind  # what it is about
    message: str  # one sentence with the figures
    advice: str  # what to do about it
    # the images concerned; duplicates as groups of the same image, others one by one
    groups: tuple[tuple[Path, ...], ...] = ()
    notes: tuple[str, ...] = ()  # a few words for each group, such as a better label; empty for none
    leave_out: tuple[Path, ...] = ()  # the images to remove from the set to correct it
    # the boxes concerned, for each group; empty if the finding is about whole images
    marked: tuple[tuple[Box, ...], ...] = ()
    leave_out_marked: bool = False  # these boxes are to be removed, too

    @property
    def images(self) -> tuple[Path, ...]:
        """The images of all groups."""
        return tuple(path for group in self.groups for path in group)


def counted(number: int, one: str, many: str = "") -> str:
    """Return ``1 image`` or ``2 images``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def paths_of(dataset: Dataset, groups: Sequence[Sequence[int]]) -> tuple[tuple[Path, ...], ...]:
    """Return groups of indices as groups of paths."""
    return tuple(tuple(dataset.images[index].path for index in group) for group in groups)
