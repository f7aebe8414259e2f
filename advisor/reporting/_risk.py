"""One risk of an answer, with its severity.

``_risks.py`` lists the risks of a file, ``_image_risks.py`` those of the images that it was judged
on. Both words are in ``recommendation.json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

BUDGET = "Latency budget"


class Level(StrEnum):
    """Severity of a risk."""

    LOW = "low"
    SOME = "some"
    HIGH = "high"


@dataclass(frozen=True)
class Risk:
    """One risk.

    Attributes:
        name: its topic.
        level: its severity.
        text: a sentence with its figures.
    """

    name: str
    level: Level
    text: str

    @property
    def warns(self) -> bool:
        """Return whether every form of an answer shows the risk beside the pick,
        because it is high.

        A latency over its limit is not such a risk:
        nothing meets the budget then, and the answer begins with that.
        """
        return self.level is Level.HIGH and self.name != BUDGET
