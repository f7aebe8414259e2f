"""Judge found centres in the user's images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.tasks.detection.judging import FoundObjects, ObjectFigures

if TYPE_CHECKING:
    from advisor.measurement.box_counts import Matched


@dataclass(frozen=True)
class ByCentres:
    """Criterion of centres: a found centre is inside the object's box."""

    metric: str

    def figures(self, given: FoundObjects) -> ObjectFigures:
        """See :class:`advisor.tasks.detection.judging.Criterion`."""
        from advisor.measurement.counting import centre_score

        reached = centre_score(self.match(given, self.threshold(given)), given.classes)
        return ObjectFigures(reached.mean, reached.by_class)

    def shares(self, given: FoundObjects) -> list[float]:
        """See :class:`advisor.tasks.detection.judging.Criterion`."""
        from advisor.measurement.counting import centre_shares

        each: list[float] = centre_shares(self.match(given, self.threshold(given)), given.classes).tolist()
        return each

    def threshold(self, _given: FoundObjects) -> float:
        """See :class:`advisor.tasks.detection.judging.Criterion`: the training has moved it to one half."""
        from advisor.measurement.counting import LEAST_SCORE

        return LEAST_SCORE

    def match(self, given: FoundObjects, threshold: float) -> list[Matched]:
        """See :class:`advisor.tasks.detection.judging.Criterion`."""
        from advisor.measurement.counting import match_centres

        return match_centres(given.true, given.found, threshold)
