"""Facts of a classifier's probabilities: calibration, thresholds, and the guarantees asked for.

The engine computes them for each file (``engine/_pipeline/evaluation/confidence.py``), reports
show them, and a bundle ships the thresholds. The names of the fields are entries of
``evaluations.jsonl``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import NamedTuple

from advisor.core._quantity import Interval


@dataclass(frozen=True)
class Shares:
    """A wanted share for all classes, and wanted shares of single classes."""

    #: share (0-1) for each class without a share in ``by_class``; None for no wish
    plain: float | None = None
    #: share (0-1) by the name of a class
    by_class: Mapping[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether anything is wanted."""
        return self.plain is not None or bool(self.by_class)

    def of(self, name: str) -> float | None:
        """Return the share (0-1) that is wanted of a class; None for no wish."""
        return self.by_class.get(name, self.plain)


@dataclass(frozen=True)
class Guarantees:
    """Shares that thresholds must guarantee, with a probability of 95 %,
    for as many new images as the hold-out has.
    """

    #: of the answers from the threshold on, the share that is right
    precision: Shares = field(default_factory=Shares)
    #: of the images of a class, the share whose probability of that class reaches its threshold.
    recall: Shares = field(default_factory=Shares)
    #: share (0-1) of all images that have an answer from the threshold on; None for no wish.
    coverage: float | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """The options that ask for them."""
        wanted = {
            "--min-precision": bool(self.precision),
            "--min-recall": bool(self.recall),
            "--min-coverage": self.coverage is not None,
        }
        return tuple(option for option, asked in wanted.items() if asked)


class Bin(NamedTuple):
    """A bin of answers with about equal probabilities:
    their mean, the share of right ones (0-1), their number.
    """

    probability: float
    right: float
    images: int


class Point(NamedTuple):
    """A point of the risk-coverage curve:
    a score, the number of answers from it on, and of the right ones of them.
    """

    score: float
    images: int
    right: int


class Reachable(NamedTuple):
    """The largest share of right answers that can be guaranteed (0-1; 0: none),
    and the share of answers that count.
    """

    precision: float
    coverage: float


@dataclass(frozen=True)
class Threshold:
    """A score, and the answers from it on."""

    score: float  #: least probability (0-1) of an answer that counts
    #: share (0-1) of these answers that are right, with a 95 % interval;
    #: None without such an answer.
    precision: Interval | None
    images: int  #: number of these answers
    of: int  #: number of all answers, so that ``images / of`` is the coverage

    def __post_init__(self) -> None:
        """Refuse numbers of answers that are none. Raises ValueError:
        there are fewer than none, or more than all.
        """
        if not 0 <= self.images <= self.of:
            raise ValueError(f"a threshold has {self.images} of {self.of} answers")

    @property
    def coverage(self) -> float:
        """Share (0-1) of the answers that count; the rest would go to a person."""
        return self.images / self.of if self.of else 0.0


@dataclass(frozen=True)
class RecallThreshold:
    """A threshold of one class: images with at least this probability of it may be of it,
    whatever their answer is.
    """

    wanted: float  #: share (0-1) of the images of the class that must reach it
    #: share (0-1) that validation guarantees:
    #: at least ``wanted``, or the most that its images support.
    guaranteed: float
    score: float  #: the probability (0-1)
    #: share (0-1) of the images of the class that reach it, with a 95 % interval;
    #: None without an image.
    recall: Interval | None
    #: share (0-1) of the images that reach it that are of the class; None if none reaches it.
    precision: Interval | None
    images: int  #: number of the images that reach it
    of: int  #: number of all images

    @property
    def kept(self) -> bool:
        """True if validation guarantees the wanted share."""
        return self.guaranteed >= self.wanted

    @property
    def flagged(self) -> float:
        """Share (0-1) of all images that count as possibly of the class."""
        return self.images / self.of if self.of else 0.0


@dataclass(frozen=True)
class CoverageThreshold:
    """The threshold that answers a wanted share of the images."""

    wanted: float  #: the share (0-1) of images
    #: share (0-1) that validation guarantees:
    #: at least ``wanted``, or the most that its images support.
    guaranteed: float
    precision: float  #: share (0-1) of right answers that validation guarantees from there on
    at: Threshold  #: the score with its answers

    @property
    def kept(self) -> bool:
        """True if validation guarantees the wanted share."""
        return self.guaranteed >= self.wanted


@dataclass(frozen=True)
class ShippedThresholds:
    """Probabilities that a product compares with."""

    plain: float | None = None  #: an answer counts from it on; None if all answers count
    #: the same for the answers of single classes, by name; they come before ``plain``.
    by_class: Mapping[str, float] = field(default_factory=dict)
    #: by name of a class, the probability of that class from which on an image is possibly of it.
    recall: Mapping[str, float] = field(default_factory=dict)
    #: an image may have several of the classes, each from its own threshold on
    several: bool = False

    def least(self, name: str) -> float:
        """Return the least probability at which an answer of a class counts."""
        return self.by_class.get(name, self.plain or 0.0)


class Mistake(NamedTuple):
    """A wrong answer: path and hash of the image,
    labels of its class and of the answer, and the probability (0-1) of the answer.
    """

    path: str
    sha256: str
    label: int
    answer: int
    probability: float


@dataclass(frozen=True)
class ConfidenceFacts:
    """Probabilities of a classifier on the images of one part."""

    temperature: float  #: by which the logits of the file are divided
    #: expected calibration error (0-1) with that temperature, with a 95 % interval
    error: Interval
    error_before: Interval  #: the same without it
    brier: Interval  #: Brier score (0-2) with that temperature, with a 95 % interval
    brier_before: Interval  #: the same without it
    bins: tuple[Bin, ...] = ()  #: for a reliability diagram, the least confident first
    #: share (0-1) of right answers that ``threshold`` guarantees; None if there are no thresholds.
    guaranteed: float | None = None
    #: for the answers of all classes of which no precision was asked by name;
    #: None if no score keeps the guarantee.
    threshold: Threshold | None = None
    #: for the answers of each class; None for one that no score keeps the guarantee for.
    by_class: Mapping[str, Threshold | None] = field(default_factory=dict)
    #: what a threshold for all these classes can guarantee; None if that was not computed.
    reachable: Reachable | None = None
    #: wrong answers on the hold-out, in the order of ``varied_mistakes``;
    #: earlier versions kept the most probable ones.
    mistakes: tuple[Mistake, ...] = ()
    #: what the user asked for. Without a wish, ``threshold`` and ``by_class`` only inform.
    wanted: Guarantees = field(default_factory=Guarantees)
    #: what can be guaranteed for the classes whose wanted precision no score guarantees.
    reachable_by_class: Mapping[str, Reachable] = field(default_factory=dict)
    #: thresholds by class for the wanted recall
    recall: Mapping[str, RecallThreshold] = field(default_factory=dict)
    #: threshold for the wanted coverage; None if none was asked for
    coverage: CoverageThreshold | None = None
    #: the answers that count with all of ``thresholds``; None if all answers count
    answered: Threshold | None = None
    curve: tuple[Point, ...] = ()  #: risk-coverage curve, the highest score first

    def __post_init__(self) -> None:
        """Refuse a temperature that no file can have. Raises ValueError:
        it is not finite and above zero.
        """
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"a temperature of {self.temperature} is not finite and above zero")

    @property
    def varied_mistakes(self) -> tuple[Mistake, ...]:
        """The wrong answers, first one of each confusion, then the second of each, and so on.

        A confusion is a class and the class of the answer. The most frequent one comes first.
        Its answers keep their order.
        """
        confusions: dict[tuple[int, int], list[Mistake]] = {}
        for mistake in self.mistakes:
            confusions.setdefault((mistake.label, mistake.answer), []).append(mistake)
        by_frequency = sorted(confusions.values(), key=len, reverse=True)
        return tuple(filter(None, chain.from_iterable(zip_longest(*by_frequency))))

    @property
    def thresholds(self) -> ShippedThresholds:
        """Probabilities that the product compares with:
        those that were asked for and can be guaranteed.

        A wanted precision comes before a wanted coverage:
        it answers the most images of those that keep it.
        """
        asked = self.wanted.precision
        plain = self.threshold if asked.plain is not None else None
        if plain is None and self.coverage is not None and self.coverage.kept:
            plain = self.coverage.at
        by_class = {}
        for name in asked.by_class:
            threshold = self.by_class.get(name)
            if threshold is not None:
                by_class[name] = _round_down(threshold.score)
        recall = {}
        for name, recall_threshold in self.recall.items():
            if recall_threshold.kept:
                recall[name] = _round_down(recall_threshold.score)
        least = None if plain is None else _round_down(plain.score)
        return ShippedThresholds(least, by_class, recall)


def _round_down(score: float) -> float:
    """Return a threshold with six digits, rounded down, so that no score at it is lost."""
    return math.floor(score * 1e6) / 1e6
