"""Weigh accuracy, latency and size as a user wants it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from advisor.core._units import show_bytes, show_ms

POINT_WORTH = 1.4
"""Factor in latency or size that one more point of accuracy is worth, at equal weights."""

SHOWN_WORTH = 9.0
"""Additional weight, in the plan of a search, of a point by which a result would be behind beyond the noise."""

LOST_WORTH = 1.0
"""Additional weight, in the plan of a search, of a point that a form is expected to lose against its float form."""

TIED_WORTH = 2.0
"""Additional weight of a point by which one of the tied candidates is behind another one: it counts as a factor of
1.4^3 = 2.7. Chosen on made-up answers, see docs/decisions."""

SCALE = 0.1
"""Share of a limit below which a saving counts little; see :meth:`Preference.within`. A tenth of the latency at a
fiftieth of the limit is worth half a point. Chosen on splits of two sets, see docs/decisions."""

AT_ONCE_MS = 100.0
"""Latency limit that the scale is a share of where none is set: up to it, an answer seems to come at once (R. B.
Miller, "Response time in man-computer conversational transactions", AFIPS 1968)."""

INSTALLS_BYTES = 6e6
"""Bytes of an app that cost 1 % of its installs (S. Tolomei, "Shrinking APKs, growing installs", Google Play 2017). At
their scale, where no size limit is set, they count like a point of accuracy."""

Figure = Any
"""A number, or an array of them."""


@dataclass(frozen=True)
class Preference:
    """Weights of the three figures; only their ratios count."""

    accuracy: float = 1.0  #: weight of a point of accuracy: at 1, a point is worth a factor of :data:`POINT_WORTH`
    latency: float = 1.0  #: weight of a factor in latency
    size: float = 1.0  #: weight of a factor in size
    #: only candidates that the images do not show to be behind the most accurate one are weighed, and their points
    #: count three times.
    accuracy_first: bool = False
    name: str = ""  #: name on the command line, empty for weights that the user wrote
    scale_ms: float = 0.0  #: added to a latency before its logarithm counts, milliseconds
    scale_bytes: float = 0.0  #: added to a size, bytes

    def within(self, limits: Mapping[str, float]) -> Preference:
        """Return the same preference with the limits of ``latency`` (ms) and ``size`` (bytes) as scales.

        Near a limit, a factor counts as such; far below it hardly, as :data:`SCALE` of the limit is added before
        factors are formed. Weights that the user wrote, and a preference for one figure, stay as they are.
        """
        if not self.accuracy_first:
            return self
        size = SCALE * limits["size"] if "size" in limits else INSTALLS_BYTES / (POINT_WORTH - 1)
        return replace(self, scale_ms=SCALE * limits.get("latency", AT_ONCE_MS), scale_bytes=size)

    def price(self, latency_ms: Figure, size_bytes: Figure) -> Figure:
        """Return the cost of latency and size: the part of the loss that is not accuracy, in the same unit."""
        import numpy as np

        latency = np.log(latency_ms + self.scale_ms)
        size = np.log(size_bytes + self.scale_bytes)
        return self.latency * latency + self.size * size

    @property
    def point_factor(self) -> float:
        """The factor in latency or size that a point of accuracy is worth."""
        return float(POINT_WORTH ** (self.accuracy * (1 + TIED_WORTH * self.accuracy_first)))

    def price_of_points(self, behind: Figure) -> Figure:
        """Return the loss of a candidate ``behind`` any fixed accuracy by so many points, in the unit of a price."""
        return math.log(self.point_factor) * behind

    def loss(self, behind: Figure, shown: Figure, lost: Figure) -> Figure:
        """Return the loss by accuracy in the plan of a search, in logarithms of a factor in latency or size.

        In points: the network's float form is ``behind`` any fixed accuracy; a result would be ``shown`` to be behind
        another candidate, at least 0; and the form is expected to have ``lost`` against the float form.
        """
        more = SHOWN_WORTH * shown + LOST_WORTH * lost if self.accuracy_first else 0.0
        return self.accuracy * math.log(POINT_WORTH) * (behind + lost + more)

    def point(self, latency_ms: float, size_bytes: float) -> str:
        """Return what a point of accuracy is worth at a latency and a size: ``6.6 ms or 8.9 MB``."""
        more = self.point_factor - 1
        worth = (
            show_ms((latency_ms + self.scale_ms) * more) if self.latency else "",
            show_bytes((size_bytes + self.scale_bytes) * more) if self.size else "",
        )
        return " or ".join(filter(None, worth))

    @property
    def weighs_costs(self) -> bool:
        """True if latency or size count beside the accuracy."""
        return self.latency > 0 or self.size > 0

    @property
    def rule(self) -> str:
        """The rule in words, for the answer's page."""
        if self.name in ("accuracy", "latency", "size"):
            return f"The rule: of the candidates within the limits, the one with the best {self.name}."
        figures = (("latency", self.latency), ("size", self.size))
        costs = [f"{name} (weight {weight:g})" if weight != 1 else name for name, weight in figures if weight]
        counted = (
            f"{' and '.join(costs).capitalize() or 'No cost'} {'count' if len(costs) > 1 else 'counts'} as factors"
        )
        if self.scale_ms:
            counted += (
                f"; {show_ms(self.scale_ms)} and {show_bytes(self.scale_bytes)} are added first, so that time and size "
                "far below the limits count little"
            )
        if self.accuracy:
            counted += f". A point of accuracy counts as a factor of {self.point_factor:.2g}"
        if not self.accuracy_first:
            return f"The rule: of the candidates within the limits, the one with the smallest loss. {counted}."
        return (
            "The rule: of the candidates within the limits, those that the validation images do not show to be behind "
            "the most accurate one: the difference on the same images is at most its standard error. Of these, the "
            f"cheapest. {counted}. A file that ran on the hold-out comes before one that did not, and a network whose "
            "fine-tuning was not shortened before its head. If other images were drawn from the same ones, no other "
            "file may be the pick more often."
        )

    def doubled(self, figure: str) -> Preference:
        """Return the same preference with twice the weight on ``latency``, ``size`` or ``accuracy``."""
        return replace(self, **{figure: 2 * getattr(self, figure)}, name="")

    def __str__(self) -> str:
        return self.name or f"accuracy={self.accuracy:g},latency={self.latency:g},size={self.size:g}"
