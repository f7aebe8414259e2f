"""A metric of a classifier's answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """One metric, in %: higher is better."""

    name: str  #: as users write it
    label: str  #: in sentences and tables
    meaning: str  #: what it is, in words
