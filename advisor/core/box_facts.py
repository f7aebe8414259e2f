"""Facts of found objects, and of images of unknown things, on the images of one part."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from advisor.core.quantity import Interval


@dataclass(frozen=True)
class ClassBoxes:
    """Boxes of one class from the threshold on."""

    true: int  #: number of true boxes
    found: int  #: number of found boxes
    precision: float | None  #: share (0-1) of the found boxes that are right; None if none was found
    recall: float | None  #: share (0-1) of the true boxes that were found; None without a true box
    #: difference between the numbers of found and true boxes, summed over the images, over the number of true boxes;
    #: None without a true box.
    count_error: float | None


class JudgedBox(NamedTuple):
    """A box with its class, its edges in shares of the image, its score (1 for a true box), and whether it is matched.

    A true box is matched if it was found, a found one if it is right.
    """

    label: int
    top: float
    left: float
    bottom: float
    right: float
    score: float
    matched: bool


@dataclass(frozen=True)
class JudgedImage:
    """One image with its true boxes and those that were found from the threshold on."""

    path: str  #: as ``split.json`` has it
    sha256: str  #: hash of the file
    width: int  #: of the upright image, in pixels
    height: int  #: in pixels
    f1: float  #: twice the right boxes over the true and the found ones, 0 to 1
    true: tuple[JudgedBox, ...]  #: the true boxes
    found: tuple[JudgedBox, ...]  #: the found boxes, the surest first


@dataclass(frozen=True)
class BoxFacts:
    """Boxes that a detector found in the images of one part, compared with the true ones."""

    threshold: float  #: score (0-1) from which on a box counts: the one with the best F1 on the validation part
    #: average precision over overlaps from 0.5 to 0.95, COCO's main figure, 0 to 1; None of centres.
    coco: float | None
    by_class: Mapping[str, ClassBoxes]  #: counts of each class at the threshold
    #: the images with the lowest F1 at the threshold, the lowest first; of the hold-out alone.
    worst: tuple[JudgedImage, ...] = ()
    coco_interval: tuple[float, float] | None = None  #: 95 % interval of ``coco``; None if it was not computed


def _require_shares(*values: float | Interval | None) -> None:
    """Refuse shares that are not between 0 and 1. Raises ValueError: there is one."""
    for value in values:
        ends = (value.low, value.value, value.high) if isinstance(value, Interval) else (value,)
        if not all(end is None or 0 <= end <= 1 for end in ends):
            raise ValueError(f"{value} is no share between 0 and 1")


@dataclass(frozen=True)
class LeftOut:
    """Images of one class, judged by a head that was not trained on it."""

    auroc: Interval  #: probability (0-1) that an image of the class has a higher score than one of another class
    accepted: float  #: share (0-1) of its images that pass as known where 95 % of the others do
    images: int  #: number of its images

    def __post_init__(self) -> None:
        """Refuse impossible shares; see :func:`_require_shares`."""
        _require_shares(self.auroc, self.accepted)


@dataclass(frozen=True)
class OtherThings:
    """Images that the user gave of other things, answered by the file with the class ``unknown``."""

    found: Interval  #: share (0-1) that was answered ``unknown``
    auroc: Interval  #: probability (0-1) that such an image has a higher score than one of the hold-out
    images: int  #: number of these images

    def __post_init__(self) -> None:
        """Refuse impossible shares; see :func:`_require_shares`."""
        _require_shares(self.found, self.auroc)


@dataclass(frozen=True)
class UnknownFacts:
    """A file and images of other things."""

    #: mean over the classes that were left out in turn; None with fewer than three classes.
    auroc: Interval | None = None
    float_auroc: Interval | None = None  #: the same of the float32 file; None if the file is one itself
    #: mean share (0-1) of unknown images that pass as known where 95 % of the known ones do; None as above.
    accepted: float | None = None
    by_class: Mapping[str, LeftOut] = field(default_factory=dict)  #: each class that was left out
    label: str = ""  #: name of the class in the file
    file: str = ""  #: path in the run of the file with that class
    sha256: str = ""  #: its hash
    size_bytes: int = 0  #: its size
    #: share (0-1) of the hold-out that it does not answer with that class; None before it ran there.
    kept: Interval | None = None
    precision: Interval | None = None  #: share (0-1) of right answers among these; None as above
    others: OtherThings | None = None  #: the user's images of other things; None if there are none

    def __post_init__(self) -> None:
        """Refuse impossible shares; see :func:`_require_shares`."""
        _require_shares(self.auroc, self.float_auroc, self.accepted, self.kept, self.precision)
