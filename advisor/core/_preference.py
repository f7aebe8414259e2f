"""The weights of accuracy, latency and size as a user wants them, and the loss that they give.

The rule of the pick minimises the loss among the files that are tied (``_choosing.py``); the plan
of a search uses the same loss for its expectations. ``_preferences.py`` has the preferences with a
name, and parses ``--prefer``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from advisor.core._units import show_bytes, show_ms

POINT_WORTH = 1.4
"""Factor in latency or size that one more point of accuracy is worth,
at equal weights that the user wrote.
"""

PLANNED_POINT = 1 / 3
"""Share of a point of the pick that a point between two networks counts in the plan of a search.
The plan compares estimates, the pick answers to the same images.
"""

SHOWN_WORTH = 9.0
"""Additional weight, in the plan of a search,
of a point by which a result would be behind beyond the noise.
"""

LOST_WORTH = 1.0
"""Additional weight, in the plan of a search,
of a point that a form is expected to lose against its float form.
"""

AT_ONCE_MS = 100.0
"""Milliseconds that count like a point of accuracy where no latency limit is set: up to this time,
an answer seems to come at once (R. B. Miller, "Response time in man-computer conversational
transactions", AFIPS 1968).
"""

INSTALLS_BYTES = 6e6
"""Bytes that count like a point of accuracy where no size limit is set: they cost an app 1 % of
its installs (S. Tolomei, "Shrinking APKs, growing installs", Google Play 2017).
"""

BEST = {"accuracy": "best accuracy", "latency": "lowest median latency", "size": "smallest size"}
"""The best value of the figure that a preference names.
The latency budget limits the 90th percentile instead.
"""

Figure = Any
"""A number, or an array of them."""


@dataclass(frozen=True)
class Preference:
    """Weights of the three figures; only their ratios count."""

    accuracy: float = 1.0  #: weight of a point of accuracy
    latency: float = 1.0  #: weight of latency
    size: float = 1.0  #: weight of size
    #: only candidates that the images do not show to be behind the most accurate one are weighed.
    #: Latency and size count in proportion to their scales. Otherwise a point is worth a factor of
    #: :data:`POINT_WORTH` in either.
    accuracy_first: bool = False
    name: str = ""  #: name on the command line, empty for weights that the user wrote
    scale_ms: float = AT_ONCE_MS  #: latency that counts like a point of accuracy, milliseconds
    scale_bytes: float = INSTALLS_BYTES  #: size that counts like a point of accuracy, bytes

    def within(self, limits: Mapping[str, float]) -> Preference:
        """Return the same preference with the limits of ``latency`` (ms)
        and ``size`` (bytes) as scales.

        A whole limit counts like a point of accuracy. So what is saved far below a limit counts
        little. Weights that the user wrote, and a preference for one figure, stay as they are.
        """
        if not self.accuracy_first:
            return self
        return replace(
            self,
            scale_ms=limits.get("latency", AT_ONCE_MS),
            scale_bytes=limits.get("size", INSTALLS_BYTES),
        )

    def price(self, latency_ms: Figure, size_bytes: Figure) -> Figure:
        """Return the cost of latency and size:
        the part of the loss that is not accuracy, in the same unit.
        """
        import numpy as np

        if self.accuracy_first:
            return (
                self.latency * latency_ms / self.scale_ms
                + self.size * size_bytes / self.scale_bytes
            )
        return self.latency * np.log(latency_ms) + self.size * np.log(size_bytes)

    def price_of_points(self, behind: Figure) -> Figure:
        """Return the loss of a candidate ``behind`` any fixed accuracy by so many points,
        in the unit of a price.
        """
        worth = self.accuracy
        if not self.accuracy_first:
            worth = self.accuracy * math.log(POINT_WORTH)
        return worth * behind

    def loss(self, behind: Figure, shown: Figure, lost: Figure) -> Figure:
        """Return the loss by accuracy in the plan of a search, in the unit of a price.

        In points: the network's float form is ``behind`` any fixed accuracy; a result would be
        ``shown`` to be behind another candidate, at least 0; and the form is expected to have
        ``lost`` against the float form.
        """
        if not self.accuracy_first:
            return self.price_of_points(behind + lost)
        return self.price_of_points(
            PLANNED_POINT * (behind + lost + SHOWN_WORTH * shown + LOST_WORTH * lost)
        )

    def point(self) -> str:
        """Return what a point of accuracy is worth among files that are tied:
        ``50.0 ms or 6.0 MB``.
        """
        return f"{show_ms(self.scale_ms)} or {show_bytes(self.scale_bytes)}"

    @property
    def weighs_costs(self) -> bool:
        """True if latency or size count beside the accuracy."""
        return self.latency > 0 or self.size > 0

    @property
    def rule(self) -> str:
        """The rule in words, for the answer's page."""
        if self.name in BEST:
            return (
                "The rule: of the candidates within the limits, the one with the"
                f" {BEST[self.name]}."
            )
        if self.accuracy_first:
            return (
                "The rule: of the candidates within the limits, those that the validation images"
                " do not show to be behind the most accurate one: the difference on the same"
                " images is at most its standard error. Of these, those that ran on the hold-out,"
                " if any did; where one figure alone matters, the others take part, too. Of these,"
                " the one that costs least in points, latency and size together: a point of"
                f" accuracy counts like {self.point()}. A head gives way to the same network,"
                " fine-tuned, that is at least as accurate. When the images are drawn again many"
                " times, no other file is picked more often; in a draw, a file gives way only to"
                " one that is better by more than noise."
            )
        return (
            "The rule: of the candidates within the limits, the one with the smallest loss."
            f" {self._describe_factors()}."
        )

    def _describe_factors(self) -> str:
        """Return what counts in the loss of weights that a user wrote, and how much."""
        costs = []
        for name, weight in (("latency", self.latency), ("size", self.size)):
            if weight == 1:
                costs.append(name)
            elif weight:
                costs.append(f"{name} (weight {weight:g})")
        subject = " and ".join(costs).capitalize() or "No cost"
        verb = "count" if len(costs) > 1 else "counts"
        counted = f"{subject} {verb} as factors"
        if self.accuracy:
            factor = POINT_WORTH**self.accuracy
            counted += f". A point of accuracy counts as a factor of {factor:.2g}"
        return counted

    def doubled(self, figure: str) -> Preference:
        """Return the same preference with twice the weight on ``latency``,
        ``size`` or ``accuracy``.
        """
        return replace(self, **{figure: 2 * getattr(self, figure)}, name="")

    def __str__(self) -> str:
        return (
            self.name or f"accuracy={self.accuracy:g},latency={self.latency:g},size={self.size:g}"
        )
