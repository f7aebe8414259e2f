"""Facts of how far a classifier's probabilities can be believed on the images of one part."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from advisor.core.statistics import Interval


class Bin(NamedTuple):
    """A bin of answers with about equal probabilities: their mean, the share of right ones (0-1), their number."""

    probability: float
    right: float
    images: int


@dataclass(frozen=True)
class Threshold:
    """A score, and the answers from it on.

    Attributes:
        score: least probability (0-1) of an answer that counts.
        precision: share (0-1) of these answers that are right, with a 95 % interval; None without such an answer.
        images: number of these answers.
        of: number of all answers, so that ``images / of`` is the coverage.
    """

    score: float
    precision: Interval | None
    images: int
    of: int

    @property
    def coverage(self) -> float:
        """Share (0-1) of the answers that count; the rest would go to a person."""
        return self.images / self.of if self.of else 0.0


class Mistake(NamedTuple):
    """A wrong answer: path and hash of the image, labels of its class and of the answer, probability (0-1)."""

    path: str
    sha256: str
    label: int
    answer: int
    probability: float


@dataclass(frozen=True)
class ConfidenceFacts:
    """Probabilities of a classifier on the images of one part.

    Attributes:
        temperature: by which the logits of the file are divided.
        error: expected calibration error (0-1) with that temperature, with a 95 % interval.
        error_before: the same without it.
        brier: Brier score (0-2) with that temperature, with a 95 % interval.
        brier_before: the same without it.
        bins: for a reliability diagram, the least confident first.
        promised: share (0-1) of right answers that the thresholds promise; None if there are none.
        threshold: for the answers of all classes; None if no score keeps the promise.
        by_class: for the answers of each class; None for one that no score keeps the promise for.
        reachable: largest share (0-1) that a threshold for all classes can promise; None if that was not computed.
        mistakes: the wrong answers with the highest probabilities, the highest first; of the hold-out alone.
    """

    temperature: float
    error: Interval
    error_before: Interval
    brier: Interval
    brier_before: Interval
    bins: tuple[Bin, ...] = ()
    promised: float | None = None
    threshold: Threshold | None = None
    by_class: Mapping[str, Threshold | None] = field(default_factory=dict)
    reachable: float | None = None
    mistakes: tuple[Mistake, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a temperature that no file can have.

        Raises:
            ValueError: it is not finite and above zero.
        """
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"a temperature of {self.temperature} is not finite and above zero")
