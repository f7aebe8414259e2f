"""Read the answers of a segmenter as an app does, and make its test vectors.

``_shipping.py`` names these functions. Photographs and pages show what :func:`find_areas` returns.
``check.py`` of a bundle reads the vectors of :func:`mask_images`: the runs of a mask are a format
on disk and stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.datasets import BACKGROUND
from advisor.reporting import VECTOR_CANDIDATES, Found, ShippedModel, choose_vectors

if TYPE_CHECKING:
    from advisor.reporting import Crops


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
    """See ``Answering`` in ``reporting``: the mask as a flat list of a class, its number of
    pixels, the next class, and so on, row by row.

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
