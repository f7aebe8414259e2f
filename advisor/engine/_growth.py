"""Define what ``advisor update`` asks a task whose models learn from more images.

A task returns a :class:`Growth` (``SearchTask.growth``). ``read`` gives the images of the run and
the new ones, each with a :class:`LabelSet`; the rest compares the answers of two files. How the
new images are divided (``_history/merged_images.py``), and when a file ships
(``api/_updates.py``), is the same for every task. The fields of :class:`JudgedPart` and
:class:`WorseLabel` are keys of a JSON document: they stay.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from advisor.core import Interval, UsageError, Written
from advisor.datasets import SplitPart

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from advisor.datasets import LabelledImage
    from advisor.engine._history.loaded_run import LoadedRun

CLAIMING_PARTS = (SplitPart.HOLDOUT, SplitPart.VALIDATION, SplitPart.TRAIN)
"""Parts of a run in the order in which they claim a new image
that shows the same as one of theirs.
"""

SHOWN = 5  # Images that are named for each label that got worse


@dataclass(frozen=True)
class LabelSet:
    """The labels of an image as a table states them. Those that it does not name are not there."""

    there: frozenset[str]
    unknown: frozenset[str] = frozenset()  # those of which nothing is said

    def without_knowledge_of(self, labels: frozenset[str]) -> Self:
        """Return the labels of an image by a table that says nothing of some of them."""
        return replace(self, unknown=self.unknown | labels)

    def correct(self, earlier: LabelSet) -> LabelSet:
        """Return what an ``earlier`` statement becomes by this later one, which says no less."""
        return LabelSet(
            self.there | (earlier.there & self.unknown), self.unknown & earlier.unknown
        )

    def contradicts(self, other: LabelSet) -> bool:
        """Return whether one says that a label is there, and the other that it is not."""
        return bool((self.there ^ other.there) - self.unknown - other.unknown)

    @property
    def sentence(self) -> str:
        """The labels that are there, in words."""
        return "|".join(sorted(self.there)) or "none"


@dataclass(frozen=True)
class GrownImage:
    """One image of the old and new ones together."""

    path: Path
    labels: LabelSet
    part: str  # a :class:`.SplitPart`
    group: str = ""
    new: bool = False


class ScoredObject(Protocol):
    """An object that a file has found in an image."""

    @property
    def label(self) -> str:
        """Its class."""

    @property
    def score(self) -> float:
        """Its score (0-1)."""

    @property
    def box(self) -> tuple[float, ...]:
        """Its top, left, bottom and right in shares of the image; empty without a place."""


@dataclass(frozen=True)
class FileAnswer:
    """The answer of a file to an image."""

    scores: Mapping[str, float]  # the label with the highest one first; empty without an answer
    # Scores from which on a label counts, where they are not those of the task.
    thresholds: Mapping[str, float] = field(default_factory=dict)
    objects: Sequence[ScoredObject] = ()  # all that it finds, of any score
    least: float = 0.0  # score from which on the app shows an object


Answers = Sequence[FileAnswer]
"""An answer to each of some images."""


Rights = tuple[Path, bool, bool]
"""An image, and whether the earlier and the new file have a label right there."""


@dataclass(frozen=True)
class JudgedPart(Written):
    """The figures of two files on the same images.

    Attributes:
        images: number of images.
        before: figure of the earlier file, in %: of classifiers the share of right answers.
        after: that of the new file, in %.
        gain: points that the new file gains.
        low: lower end of its 95 % interval.
        high: upper end.
    """

    images: int
    before: float
    after: float
    gain: float
    low: float
    high: float

    @classmethod
    def of_shares(cls, images: int, before: float, after: float, gain: Interval) -> JudgedPart:
        """Return the figures of two files in % and points; given are shares (0-1)."""
        return cls(
            images,
            before=100 * before,
            after=100 * after,
            gain=100 * gain.value,
            low=100 * gain.low,
            high=100 * gain.high,
        )

    @property
    def sentence(self) -> str:
        """The gain with its interval: ``+1.8 points (0.3 to 3.3)``."""
        return f"{self.gain:+.1f} points ({self.low:+.1f} to {self.high:+.1f})"


@dataclass(frozen=True)
class WorseLabel(Written):
    """A label that the new file has right on fewer images of the old hold-out, or a class of
    which it finds fewer objects there.

    Attributes:
        label: the label, or class.
        before: images on which the earlier file had it right, or objects that it found.
        after: those of the new file.
        images: number of its images; where an image may have several labels, of all those of
            which it is known; of objects, their number.
        examples: images that the earlier file had right and the new one has not.
    """

    label: str
    before: int
    after: int
    images: int
    examples: tuple[str, ...]

    @classmethod
    def list_losses(cls, label: str, rights: Iterable[Rights]) -> tuple[WorseLabel, ...]:
        """Return the label if the new file has it right on fewer images, else nothing."""
        images = before = after = 0
        # Only images that the earlier file had right: they show what the user would lose.
        lost = []
        for path, was_right, is_right in rights:
            images += 1
            before += was_right
            after += is_right
            if was_right and not is_right:
                lost.append(str(path))
        if after >= before:
            return ()
        # An image with several lost objects is named once.
        examples = tuple(dict.fromkeys(lost))[:SHOWN]
        return (cls(label, before, after, images, examples),)


@dataclass(frozen=True, eq=False)
class GrowingSet:
    """The images of a run, each with its part, and behind them new ones, which have none."""

    images: tuple[LabelledImage, ...]
    labels: tuple[LabelSet, ...]  # of each image
    thumbnails: NDArray[np.uint8]  # of each image, see :class:`advisor.datasets.Survey`
    named: frozenset[str] = frozenset()  # labels that the new images have or are said to lack
    notes: tuple[str, ...] = ()  # sentences for the answer

    @property
    def of_run(self) -> int:
        """Number of images of the run, which come first."""
        return sum(bool(image.part) for image in self.images)


@dataclass(frozen=True)
class Words:
    """The words of a task in the answer."""

    label: str = "class"
    labels: str = "classes"
    figure: str = "right"  # what files are compared by, as it stands before "on the old hold-out"
    right: str = "right"  # as it stands behind "16 of 30"
    corrected: str = "label"  # what is corrected of one image
    several_corrected: str = "labels"


class Growth(ABC):
    """Reads more images for the models of a task, and compares the answers of two files."""

    words = Words()

    @abstractmethod
    def read(self, earlier: LoadedRun, data: Path) -> GrowingSet:
        """Return the images of a run and the new ones; UsageError if they cannot be read."""

    def list_learnable(self, labels: Sequence[LabelSet]) -> frozenset[str]:
        """Return the labels of images that a file learns: all of them."""
        return frozenset[str]().union(*(image.there for image in labels))

    @abstractmethod
    def list_rows(self, labels: LabelSet) -> list[dict[str, str]]:
        """Return the rows of an image in the table that the new search reads, by columns."""

    def can_judge(self, images: Sequence[GrownImage]) -> bool:
        """Return whether some images show which of two files is better."""
        return bool(images)

    @abstractmethod
    def judge(self, images: Sequence[GrownImage], before: Answers, after: Answers) -> JudgedPart:
        """Return the figures of two files on some images, and what the later one gains."""

    @abstractmethod
    def has_learnt(
        self, labels: Collection[str], images: Sequence[GrownImage], after: Answers
    ) -> bool:
        """Return whether a file tells these labels better than a guess, with 97.5 % certainty."""

    def list_worse(
        self, images: Sequence[GrownImage], before: Answers, after: Answers
    ) -> tuple[WorseLabel, ...]:
        """Return the labels that the later file has right on fewer images, the largest loss
        first.
        """
        worse: list[WorseLabel] = []
        for label, rights in self.list_rights(images, before, after):
            worse += WorseLabel.list_losses(label, rights)
        return tuple(sorted(worse, key=lambda row: row.after - row.before))

    @abstractmethod
    def list_rights(
        self, images: Sequence[GrownImage], before: Answers, after: Answers
    ) -> Iterator[tuple[str, list[Rights]]]:
        """Yield each label that can get worse, with the images that judge it."""


@dataclass(frozen=True)
class RunImages:
    """The images that a run learnt from and was judged on, as it has kept them."""

    root: Path  # the paths are relative to it
    rows: Mapping[str, Mapping[str, str]]  # path, hash and class of each image by its path
    parts: Mapping[str, str]  # part of each image by its path
    fingerprint: str
    name: str  # of the run

    @classmethod
    def of_run(cls, earlier: LoadedRun) -> RunImages:
        """Return the images of a run; UsageError if it does not say which they are."""
        split = earlier.folder.read_json("split.json")
        rows = {}
        parts = {}
        for part in CLAIMING_PARTS:
            for row in split.get(part, ()):
                rows[row["path"]] = row
                parts[row["path"]] = part.value
        if not rows:
            raise UsageError(
                f"'{earlier.name}' does not say which images it learnt from", "search again"
            )
        return cls(
            earlier.images_folder, rows, parts, str(split.get("fingerprint", "")), earlier.name
        )

    def require_all(self, present: Mapping[str, str]) -> None:
        """Refuse a run whose images are gone, cannot be read, or have changed.

        ``present`` has the hashes of images that can be read, by their paths in the run.
        """
        lost = []
        for path, row in self.rows.items():
            if present.get(path) != row["sha256"]:
                lost.append(path)
        if lost:
            raise UsageError(
                f"{len(lost)} of {len(self.rows)} images of '{self.name}' are gone or changed,"
                f" such as '{self.root / lost[0]}'",
                "restore the images that the run learnt from, or search again",
            )
