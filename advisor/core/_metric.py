"""A metric of a classifier's answers, or of a detector's boxes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """One metric, in %: higher is better."""

    name: str  #: as users write it
    label: str  #: in sentences and tables
    meaning: str  #: what it is, in words
    of_boxes: bool = False  #: it judges a detector's boxes, and not a classifier's answers
    #: sides in pixels of the photograph of squares between whose areas an object counts; None: each object counts.
    sides: tuple[float, float] | None = None
