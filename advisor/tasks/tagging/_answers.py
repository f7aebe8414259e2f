"""Read the answers of a tagger as an app does.

``_shipping.py`` names :func:`find_tags`. Photographs and pages show what it returns. Test vectors
are those of a classifier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.reporting import Found, ShippedModel


def find_tags(outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
    """Return the labels of a photograph that reach the threshold, the highest score first."""
    (row,) = outputs
    surest = sorted(zip(model.labels, row.tolist(), strict=True), key=lambda pair: -pair[1])
    tags = []
    for label, score in surest:
        if score >= model.thresholds.least(label):
            tags.append(Found(label, score))
    return tuple(tags)
