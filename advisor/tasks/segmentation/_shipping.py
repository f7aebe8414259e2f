"""Say what a bundle of a segmenter has beside the model.

``advisor export`` reads :data:`SHIPPING`: templates of code, the test vectors
(:func:`mask_images`), and what an app shows of an answer (:func:`find_areas`). ``check.py`` of a
bundle reads the vectors: the runs of a mask are a format on disk and stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.datasets import BACKGROUND
from advisor.exporting import (
    VECTOR_CANDIDATES,
    Found,
    Page,
    ShippedModel,
    Shipping,
    choose_vectors,
)
from advisor.tasks._judge import PALETTE
from advisor.tasks.segmentation._drawing import colour_mask

if TYPE_CHECKING:
    from advisor.exporting import Crops


def find_areas(outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
    """Return the classes in a photograph but the background, with their shares of the pixels.

    The largest come first.
    """
    labels, counts = np.unique(outputs[0].argmax(axis=-1), return_counts=True)
    order = np.argsort(-counts).tolist()
    areas = []
    for place in order:
        label = model.labels[int(labels[place])]
        if label != BACKGROUND:
            areas.append(Found(label, float(counts[place] / counts.sum())))
    return tuple(areas)


def mask_images(
    model: ShippedModel, images: Crops
) -> tuple[float, list[tuple[int, dict[str, Any]]]]:
    """See :data:`advisor.exporting._vectors.Answering`: the mask as pairs of a class and a number
    of pixels, row by row.

    Kernels differ by a share of the pixels. Masks of many classes come first.
    """
    tolerance, rows = choose_vectors(
        model,
        images[:VECTOR_CANDIDATES],
        lambda outputs: outputs[0].argmax(axis=-1).reshape(-1),
        lambda one, other: float(np.mean(one != other)),
        lambda mask: len(np.unique(mask)),
    )
    return tolerance, [(place, {"mask": _list_runs(mask)}) for place, mask in rows]


def _list_runs(mask: NDArray[np.int64]) -> list[int]:
    """Return class and length of each run of equal pixels, one after the other."""
    runs = list[int]()
    for label, run in groupby(mask.tolist()):
        runs += (label, len(list(run)))
    return runs


SHIPPING = Shipping(
    does="tells the class of each pixel",
    answers="masks",
    card="segmenter_card.md.j2",
    snippets={
        "android": "android/Segmenter.kt",
        "ios": "ios/Segmenter.swift",
        "python": "python/segment.py",
    },
    answering=mask_images,
    found=find_areas,
    page=Page(
        "templates/masks.js",
        {"palette": PALETTE, "background": BACKGROUND},
        __package__,
        "What does each part of the image show?",
        bars="Share of the pixels",
    ),
    said=lambda answers, _least: ", ".join(answer.label for answer in answers) or "nothing",
    layer=lambda outputs, model: colour_mask(outputs[0].argmax(axis=-1), model.labels),
    package=__package__,
)
