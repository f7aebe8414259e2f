"""Facts of found objects, and of images of unknown things, on the images of one part."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from advisor.core.quantity import Interval


@dataclass(frozen=True)
class ClassBoxes:
    """Boxes of one class from the threshold on.

    Attributes:
        true: number of true boxes.
        found: number of found boxes.
        precision: share (0-1) of the found boxes that are right; None if none was found.
        recall: share (0-1) of the true boxes that were found; None without a true box.
        count_error: difference between the numbers of found and true boxes, summed over the images, over the number of
            true boxes; None without a true box.
    """

    true: int
    found: int
    precision: float | None
    recall: float | None
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
    """One image with its true boxes and those that were found from the threshold on.

    Attributes:
        path: as ``split.json`` has it.
        sha256: hash of the file.
        width: of the upright image, in pixels.
        height: in pixels.
        f1: twice the right boxes over the true and the found ones, 0 to 1.
        true: the true boxes.
        found: the found boxes, the surest first.
    """

    path: str
    sha256: str
    width: int
    height: int
    f1: float
    true: tuple[JudgedBox, ...]
    found: tuple[JudgedBox, ...]


@dataclass(frozen=True)
class BoxFacts:
    """Boxes that a detector found in the images of one part, compared with the true ones.

    Attributes:
        threshold: score (0-1) from which on a box counts: the one with the best F1 on the validation part.
        coco: average precision over overlaps from 0.5 to 0.95, COCO's main figure, 0 to 1; None of centres.
        by_class: counts of each class at the threshold.
        worst: the images with the lowest F1 at the threshold, the lowest first; of the hold-out alone.
        coco_interval: 95 % interval of ``coco``; None if it was not computed.
    """

    threshold: float
    coco: float | None
    by_class: Mapping[str, ClassBoxes]
    worst: tuple[JudgedImage, ...] = ()
    coco_interval: tuple[float, float] | None = None


def _require_shares(*values: float | Interval | None) -> None:
    """Refuse shares that are not between 0 and 1.

    Raises:
        ValueError: there is one.
    """
    for value in values:
        ends = (value.low, value.value, value.high) if isinstance(value, Interval) else (value,)
        if not all(end is None or 0 <= end <= 1 for end in ends):
            raise ValueError(f"{value} is no share between 0 and 1")


@dataclass(frozen=True)
class LeftOut:
    """Images of one class, judged by a head that was not trained on it.

    Attributes:
        auroc: probability (0-1) that an image of the class has a higher score than one of another class.
        accepted: share (0-1) of its images that pass as known where 95 % of the others do.
        images: number of its images.
    """

    auroc: Interval
    accepted: float
    images: int

    def __post_init__(self) -> None:
        """Refuse impossible shares; see :func:`_require_shares`."""
        _require_shares(self.auroc, self.accepted)


@dataclass(frozen=True)
class OtherThings:
    """Images that the user gave of other things, answered by the file with the class ``unknown``.

    Attributes:
        found: share (0-1) that was answered ``unknown``.
        auroc: probability (0-1) that such an image has a higher score than one of the hold-out.
        images: number of these images.
    """

    found: Interval
    auroc: Interval
    images: int

    def __post_init__(self) -> None:
        """Refuse impossible shares; see :func:`_require_shares`."""
        _require_shares(self.found, self.auroc)


@dataclass(frozen=True)
class UnknownFacts:
    """A file and images of other things.

    Attributes:
        auroc: mean over the classes that were left out in turn; None with fewer than three classes.
        float_auroc: the same of the float32 file; None if the file is one itself.
        accepted: mean share (0-1) of unknown images that pass as known where 95 % of the known ones do; None as above.
        by_class: each class that was left out.
        label: name of the class in the file.
        file: path in the run of the file with that class.
        sha256: its hash.
        size_bytes: its size.
        kept: share (0-1) of the hold-out that it does not answer with that class; None before it ran there.
        precision: share (0-1) of right answers among these; None as above.
        others: the user's images of other things; None if there are none.
    """

    auroc: Interval | None = None
    float_auroc: Interval | None = None
    accepted: float | None = None
    by_class: Mapping[str, LeftOut] = field(default_factory=dict)
    label: str = ""
    file: str = ""
    sha256: str = ""
    size_bytes: int = 0
    kept: Interval | None = None
    precision: Interval | None = None
    others: OtherThings | None = None

    def __post_init__(self) -> None:
        """Refuse impossible shares; see :func:`_require_shares`."""
        _require_shares(self.auroc, self.float_auroc, self.accepted, self.kept, self.precision)
