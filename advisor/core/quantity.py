"""A number with its unit, interval and provenance."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from advisor.core.codec import to_json


class Provenance(StrEnum):
    """Origin of a number, from the strongest evidence to the weakest."""

    MEASURED = "measured"
    PREDICTED = "predicted"
    PUBLISHED = "published"
    ESTIMATED = "estimated"


@dataclass(frozen=True)
class Quantity:
    """A value with its unit, interval and provenance.

    Attributes:
        value: the number, in ``unit``.
        unit: ``ms``, ``bytes``, ``%`` (0-100) or ``points``.
        provenance: how it was obtained.
        low: lower end of the interval in ``unit``, or None where none is known.
        high: upper end of the interval in ``unit``, or None.
        level: the interval's confidence (0.95 = 95 %), or None.
        n: number of samples, or None.
        source: the paper, table, host or method.
    """

    value: float
    unit: str
    provenance: Provenance
    low: float | None = None
    high: float | None = None
    level: float | None = None
    n: int | None = None
    source: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; unknown parts have no entry."""
        return to_json(self)

    def overlaps(self, other: Quantity) -> bool:
        """Return whether the two intervals share a point; a missing interval is the value alone."""
        low, high = (self.value if end is None else end for end in (self.low, self.high))
        other_low, other_high = (other.value if end is None else end for end in (other.low, other.high))
        return low <= other_high and other_low <= high
