"""Define a measure of an image, and the limits of a well-taken image.

``image_quality.py`` lists the measures.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """One measure of an image, and the limits of a well-taken image."""

    name: str  # its name in reports
    field: str  # of :class:`advisor.datasets._image_stats.ImageStats`
    low: float  # below it an image is ``low_word``
    low_word: str
    high: float | None = None  # above it an image is ``high_word``; None for no limit
    high_word: str = ""
