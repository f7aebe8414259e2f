"""The ranking of the candidates that meet the budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from advisor.core.errors import UsageError, nearest

POINT_WORTH = 1.4
"""Factor in latency or size that one more point of accuracy is worth, at equal weights."""

MAX_WEIGHT = 100.0


@dataclass(frozen=True)
class Preference:
    """Weights of the three figures; only their ratios count.

    Attributes:
        accuracy: weight of a point of accuracy: at 1, a point is worth a factor of :data:`POINT_WORTH`.
        latency: weight of a factor in latency.
        size: weight of a factor in size.
        among_ties: rank only the candidates that are tied in accuracy with the best; otherwise all that meet the
            budget.
        name: name on the command line, empty for weights that the user wrote.
    """

    accuracy: float = 1.0
    latency: float = 1.0
    size: float = 1.0
    among_ties: bool = False
    name: str = ""

    def cost(self, slower: float, larger: float, points_behind: float) -> float:
        """Return the cost to minimise: a weighted sum of logarithms.

        Args:
            slower: latency relative to the fastest, at least 1.
            larger: size relative to the smallest, at least 1.
            points_behind: points of accuracy behind the best, at least 0.
        """
        return (
            self.latency * math.log(slower)
            + self.size * math.log(larger)
            + self.accuracy * math.log(POINT_WORTH) * points_behind
        )

    def doubled(self, figure: str) -> Preference:
        """Return the same preference with twice the weight on ``latency``, ``size`` or ``accuracy``."""
        return replace(self, **{figure: 2 * getattr(self, figure)}, name="")

    def __str__(self) -> str:
        return self.name or f"accuracy={self.accuracy:g},latency={self.latency:g},size={self.size:g}"


BALANCED = Preference(among_ties=True, name="balanced")
"""The default: of the candidates tied with the most accurate, the fastest and smallest."""

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
