"""The ranking of the candidates that meet the budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from advisor.core.errors import UsageError, nearest

POINT_WORTH = 1.4
"""Factor in latency or size that one more point of accuracy is worth, at equal weights."""

SHOWN_WORTH = 9.0
"""Additional weight of a point by which the images show that a network is behind another candidate."""

LOST_WORTH = 4.0
"""Additional weight of a point that a form is expected to lose against its network's float form."""

LOST_FACTOR = POINT_WORTH ** (1 + LOST_WORTH)
"""Factor in latency or size that a point is worth that a form is expected to lose, by default."""

MAX_WEIGHT = 100.0

Figure = Any
"""A number, or an array of them."""


@dataclass(frozen=True)
class Preference:
    """Weights of the three figures; only their ratios count.

    Attributes:
        accuracy: weight of a point of accuracy: at 1, a point is worth a factor of :data:`POINT_WORTH`.
        latency: weight of a factor in latency.
        size: weight of a factor in size.
        accuracy_first: a point by which the images show a network to be behind counts much more, so that a cheaper one
            is preferred only where the images hardly tell the accuracies apart. A point that a form is expected to lose
            counts more, too.
        name: name on the command line, empty for weights that the user wrote.
    """

    accuracy: float = 1.0
    latency: float = 1.0
    size: float = 1.0
    accuracy_first: bool = False
    name: str = ""

    def cost(self, log_latency: Figure, log_size: Figure, behind: Figure, shown: Figure, lost: Figure) -> Figure:
        """Return the cost to minimise, in logarithms of a factor in latency or size.

        Args:
            log_latency: logarithm of the latency.
            log_size: logarithm of the size.
            behind: points by which the network's float form is behind any fixed accuracy.
            shown: points by which the images show the float form to be behind another candidate, at least 0.
            lost: points that the form is expected to lose against the float form.
        """
        more = SHOWN_WORTH * shown + LOST_WORTH * lost if self.accuracy_first else 0.0
        point = self.accuracy * math.log(POINT_WORTH)
        return self.latency * log_latency + self.size * log_size + point * (behind + lost + more)

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
        point = POINT_WORTH**self.accuracy
        rule = (
            "The rule: of the candidates within the limits, the one with the smallest expected loss. "
            f"Costs are {' and '.join(costs) or 'not counted'}, as factors."
        )
        if self.accuracy:
            rule += f" A point of accuracy behind the best counts as a factor of {point:.3g}."
        if self.accuracy_first:
            rule += (
                f" It counts {1 + SHOWN_WORTH:g} times as much beyond the noise: where the validation images show with "
                "odds of about 3 to 1 that another candidate is more accurate than the network. Forms of one network "
                f"are nearly equal: a point that one is expected to lose counts as a factor of {LOST_FACTOR:.2g}, and "
                "a difference that may be noise counts less. So accuracy comes first, and of candidates that the "
                "images hardly tell apart, the cheaper one is picked."
            )
        return rule

    def doubled(self, figure: str) -> Preference:
        """Return the same preference with twice the weight on ``latency``, ``size`` or ``accuracy``."""
        return replace(self, **{figure: 2 * getattr(self, figure)}, name="")

    def __str__(self) -> str:
        return self.name or f"accuracy={self.accuracy:g},latency={self.latency:g},size={self.size:g}"


BALANCED = Preference(accuracy_first=True, name="balanced")
"""The default: accuracy first; of candidates that the images hardly tell apart, the fastest and smallest."""

PREFERENCES: Mapping[str, Preference] = {
    "balanced": BALANCED,
    "accuracy": Preference(1.0, 0.0, 0.0, name="accuracy"),
    "latency": Preference(0.0, 1.0, 0.0, name="latency"),
    "size": Preference(0.0, 0.0, 1.0, name="size"),
}

_EXAMPLE = "write --prefer balanced, accuracy, latency or size, or weights: --prefer accuracy=2,latency=1,size=0.5"


def parse_preference(text: str) -> Preference:
    """Parse a name of :data:`PREFERENCES`, or weights such as ``accuracy=2,latency=1,size=0.5`` (missing: 0).

    Raises:
        UsageError: an unknown name or figure, a weight outside 0 to 100, or no weight above 0.
    """
    wanted = text.strip().lower()
    if wanted in PREFERENCES:
        return PREFERENCES[wanted]
    if "=" not in wanted:
        raise UsageError(f"--prefer: unknown preference '{text}'{nearest(wanted, PREFERENCES)}", _EXAMPLE)
    weights = {"accuracy": 0.0, "latency": 0.0, "size": 0.0}
    for part in wanted.split(","):
        figure, _, number = (piece.strip() for piece in part.partition("="))
        if figure not in weights:
            raise UsageError(f"--prefer: unknown figure '{figure}'{nearest(figure, weights)}", _EXAMPLE)
        weights[figure] = _weight(figure, number)
    if not any(weights.values()):
        raise UsageError(f"--prefer: '{text}' has no weight above 0", _EXAMPLE)
    return Preference(weights["accuracy"], weights["latency"], weights["size"])


def _weight(figure: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 <= weight <= MAX_WEIGHT:
        raise UsageError(f"--prefer: the weight '{text}' of {figure} is not a number from 0 to 100", _EXAMPLE)
    return weight
