"""Divide images with several labels so that each part has its share of each label.

K. Sechidis, G. Tsoumakas and I. Vlahavas, "On the Stratification of Multi-Label Data" (2011): the
label with the fewest images left is dealt out first, each image to the part that lacks most images
of it. Here whole groups are dealt out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def deal_out(
    truth: NDArray[np.int8],
    groups: Sequence[int],
    hashes: Sequence[str],
    shares: Sequence[float],
    seed: int,
) -> NDArray[np.int64]:
    """Return the part of each image, (N,), as a place in ``shares``, whose sum is 1.

    ``truth`` is 1 where an image has a label, (N, C). Images with one number in ``groups`` come
    into one part. Equal hashes of files and equal seeds give equal parts.
    """
    _, unit = np.unique(np.asarray(groups), return_inverse=True)
    count = int(unit.max()) + 1
    sizes = np.bincount(unit, minlength=count)
    labels = np.zeros((count, truth.shape[1]))
    np.add.at(labels, unit, truth == 1)
    first = [""] * count
    for place, number in enumerate(unit.tolist()):
        digest = hashlib.sha256(f"{seed}:{hashes[place]}".encode()).hexdigest()
        # The least digest stands for the group, so that the order of its images changes nothing.
        first[number] = min(first[number] or digest, digest)
    # Large groups come first: what is left is then small enough to fill the parts evenly.
    waiting = sorted(range(count), key=lambda number: (-sizes[number], first[number]))
    wanted = np.outer(shares, labels.sum(axis=0))
    room = np.asarray(shares, float) * len(unit)
    part = np.zeros(count, np.int64)
    while waiting:
        left = (labels[waiting] > 0).sum(axis=0)
        # A label of which nothing is left is not the rarest one.
        rarest = int(np.where(left > 0, left, count + 1).argmin())
        chosen = []
        for number in waiting:
            if not left.any() or labels[number, rarest]:
                chosen.append(number)
        dealt = set(chosen)
        for number in chosen:
            lack = wanted[:, rarest] if left.any() else room
            # Rounded, because equal needs differ in their last digits,
            # and the room must decide between them.
            place = max(
                range(len(shares)), key=lambda side: (round(float(lack[side]), 9), room[side])
            )
            part[number] = place
            wanted[place] -= labels[number]
            room[place] -= sizes[number]
        waiting = [number for number in waiting if number not in dealt]
    return part[unit]
