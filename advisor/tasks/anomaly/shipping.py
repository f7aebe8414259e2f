"""What a bundle with an anomaly detector has, and its maps in colours."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from advisor.exporting.shipping import COUNT, LOOKED_AT, TOLERANCES, Found, Page, ShippedModel, Shipping, runners
from advisor.tasks.anomaly.images import ANOMALY, GOOD

if TYPE_CHECKING:
    from advisor.exporting.shipping import Crops

HEAT = "heat"  # Output of a file: how unusual each place is, (1, rows, columns, 1); its largest value is the score
LEAST = 0.5  # Score from which on an image is an anomaly
HOT, DIGITS = "#e5342c", 4


def heat_png(heat: NDArray[np.floating[Any]]) -> bytes:
    """Return a map as a PNG of one colour, clear up to half of the least score of an anomaly."""
    pixels, stored = np.zeros((*heat.shape, 4), np.uint8), BytesIO()
    pixels[..., :3] = tuple(bytes.fromhex(HOT[1:]))
    pixels[..., 3] = np.clip((heat - LEAST / 2) / LEAST * 255, 0, 255)
    Image.fromarray(pixels).save(stored, "PNG", optimize=True)
    return stored.getvalue()


def found(outputs: Sequence[Any]) -> tuple[Found, ...]:
    """Return the score of a photograph, by which it shows something unusual."""
    return (Found(ANOMALY, float(outputs[0].max())),)


def marked(model: ShippedModel, images: Crops) -> tuple[float, list[tuple[int, dict[str, Any]]]]:
    """See :data:`Answering`: the values of a map; the tolerance contains twice the difference between two kernels."""
    own, other = runners(model, images)
    count = min(len(images), LOOKED_AT)
    maps = [own(place)[0] for place in range(count)]
    apart = [float(abs(values - other(place)[0]).max()) for place, values in enumerate(maps)]
    for tolerance in TOLERANCES:
        same = [place for place in range(count) if apart[place] <= tolerance / 2][:COUNT]
        if len(same) == COUNT:
            break
    return tolerance, [(place, {"scores": maps[place].reshape(-1).round(DIGITS).tolist()}) for place in same]


SHIPPING = Shipping(
    "finds anomalies in images", "maps", "anomaly_card.md.j2",
    {"android": "android/AnomalyDetector.kt", "ios": "ios/AnomalyDetector.swift", "python": "python/anomaly.py"},
    "", marked, page=Page("templates/heat.js", {"least": LEAST, "hot": HOT, "good": GOOD[0]}, __package__),
    least=LEAST, package=__package__,
)  # fmt: skip
