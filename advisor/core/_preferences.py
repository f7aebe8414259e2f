"""The preferences that have a name, and the parser of ``--prefer``."""

from __future__ import annotations

import math
from collections.abc import Mapping

from advisor.core._errors import UsageError, nearest
from advisor.core._preference import Preference

MAX_WEIGHT = 100.0

_EXAMPLE = (
    "--prefer takes balanced, accuracy, latency or size, or weights: --prefer"
    " accuracy=2,latency=1,size=0.5"
)

BALANCED = Preference(accuracy_first=True, name="balanced")
"""The default: accuracy first; of candidates that the images do not tell apart,
the fastest and smallest.
"""

PREFERENCES: Mapping[str, Preference] = {
    "balanced": BALANCED,
    "accuracy": Preference(1.0, 0.0, 0.0, name="accuracy"),
    "latency": Preference(0.0, 1.0, 0.0, name="latency"),
    "size": Preference(0.0, 0.0, 1.0, name="size"),
}


def parse_preference(text: str) -> Preference:
    """Parse a name of :data:`PREFERENCES`,
    or weights such as ``accuracy=2,latency=1,size=0.5`` (missing: 0).

    Raises UsageError: an unknown name or figure, a weight outside 0 to 100, or no weight above 0.
    """
    wanted = text.strip().lower()
    if wanted in PREFERENCES:
        return PREFERENCES[wanted]
    if "=" not in wanted:
        raise UsageError(
            f"--prefer: unknown preference '{text}'{nearest(wanted, PREFERENCES)}", _EXAMPLE
        )
    weights = {"accuracy": 0.0, "latency": 0.0, "size": 0.0}
    for part in wanted.split(","):
        figure, _, number = (piece.strip() for piece in part.partition("="))
        if figure not in weights:
            raise UsageError(
                f"--prefer: unknown figure '{figure}'{nearest(figure, weights)}", _EXAMPLE
            )
        weights[figure] = _parse_weight(figure, number)
    if not any(weights.values()):
        raise UsageError(f"--prefer: '{text}' has no weight above 0", _EXAMPLE)
    return Preference(weights["accuracy"], weights["latency"], weights["size"])


def _parse_weight(figure: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 <= weight <= MAX_WEIGHT:
        raise UsageError(
            f"--prefer: the weight '{text}' of {figure} is not a number from 0 to 100", _EXAMPLE
        )
    return weight
