"""What a bundle with an image segmenter has, and its masks in colours."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.exporting.shipping import COUNT, LOOKED_AT, TOLERANCES, Found, Page, ShippedModel, Shipping, runners
from advisor.tasks.segmentation.masks import BACKGROUND, IGNORED

if TYPE_CHECKING:
    from advisor.exporting.shipping import Crops

PALETTE = ("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#42d4f4", "#f032e6", "#9a6324")
"""Colours of the classes without the background, which has none; further classes have them again."""


def colours(classes: Sequence[str]) -> dict[str, str]:
    """Return the colour of each class but the background."""
    shown = [name for name in classes if name != BACKGROUND]
    return {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(shown)}


def coloured(labels: NDArray[Any], classes: Sequence[str]) -> bytes:
    """Return classes as a PNG of an indexed image in which background and ignored pixels are transparent."""
    from PIL import Image

    by_name = colours(classes)
    palette = np.zeros((256, 3), np.uint8)
    for place, name in enumerate(classes):
        palette[place] = tuple(bytes.fromhex(by_name.get(name, "#000000")[1:]))
    image, stored = Image.fromarray(labels.astype(np.uint8), "P"), BytesIO()
    image.putpalette(palette.tobytes())
    clear = bytes(0 if place == IGNORED or classes[place : place + 1] == (BACKGROUND,) else 255 for place in range(256))
    image.save(stored, "PNG", optimize=True, transparency=clear)
    return stored.getvalue()


def found(outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
    """Return the classes in a photograph but the background, the largest first, with their shares of the pixels."""
    labels, counts = np.unique(outputs[0].argmax(axis=-1), return_counts=True)
    order = np.argsort(-counts).tolist()
    rows = [Found(model.labels[int(labels[place])], float(counts[place] / counts.sum())) for place in order]
    return tuple(row for row in rows if row.label != BACKGROUND)


def masked(model: ShippedModel, images: Crops) -> tuple[float, list[tuple[int, dict[str, Any]]]]:
    """See :data:`Answering`: the mask as pairs of a class and a number of pixels, row by row.

    The tolerance is the smallest share of pixels of which half contains the difference between two kernels.
    """
    own, other = runners(model, images)
    count = min(len(images), LOOKED_AT)
    masks = [own(place)[0].argmax(axis=-1).reshape(-1) for place in range(count)]
    apart = [float(np.mean(mask != other(place)[0].argmax(axis=-1).reshape(-1))) for place, mask in enumerate(masks)]
    order = sorted(range(count), key=lambda place: -len(np.unique(masks[place])))
    for tolerance in TOLERANCES:
        same = [place for place in order if apart[place] <= tolerance / 2][:COUNT]
        if len(same) == COUNT:
            break
    return tolerance, [(place, {"mask": _pairs(masks[place])}) for place in same]


def _pairs(mask: NDArray[np.int64]) -> list[int]:
    return [number for label, run in groupby(mask.tolist()) for number in (label, len(list(run)))]


SHIPPING = Shipping(
    "tells the class of each pixel", "masks", "segmenter_card.md.j2",
    {"android": "android/Segmenter.kt", "ios": "ios/Segmenter.swift", "python": "python/segment.py"},
    "", masked, page=Page("templates/masks.js", {"palette": PALETTE, "background": BACKGROUND}, __package__),
    package=__package__,
)  # fmt: skip
