"""Choose k of n files for a fleet: the optimum, by branch and bound.

``_answer.py`` calls :func:`choose_files` for one, two and three files. It is pure: a matrix of
values in, places of files out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def choose_files(values: Floats, count: int) -> tuple[int, ...]:
    """Return the ``count`` files with the largest total, ascending:
    the sum over phones of the value of the best file.

    ``values`` (phones, files) says what a phone gets from a file. A file that another one equals
    or beats on every phone is never taken, so there may be fewer files than ``count``.

    The answer is optimal. What a file adds to a set never grows with the set (the sum of maxima is
    submodular). So the total of a set plus the largest gains that single files add to it bounds
    all its extensions; a branch whose bound does not exceed the best total so far is left out. G.
    Cornuejols, M. Fisher, G. Nemhauser, "Location of bank accounts to optimize float", Management
    Science 23 (1977).
    """
    undominated = _find_undominated(values)
    best_columns = _find_best(values[:, undominated], min(count, len(undominated)))
    return tuple(sorted(int(undominated[column]) for column in best_columns))


def total_value(values: Floats, files: tuple[int, ...]) -> float:
    """Return the total of a set of files, see :func:`choose_files`."""
    return float(values[:, list(files)].max(axis=1).sum())


def _find_undominated(values: Floats) -> NDArray[np.intp]:
    """Return the files that no other one beats; of equal ones the first."""
    files = np.arange(values.shape[1])
    undominated = list[int]()
    for file in files:
        not_worse = (values >= values[:, [file]]).all(axis=0)
        not_better = (values <= values[:, [file]]).all(axis=0)
        # Of equal files the first one is taken: the others are equal and behind it.
        dominating = not_worse & (~not_better | (files < file))
        if not dominating.any():
            undominated.append(int(file))
    return np.array(undominated, dtype=np.intp)


def _find_best(values: Floats, count: int) -> tuple[int, ...]:
    """Return the best set; the search begins with the greedy one, which is near the optimum."""
    best = tuple[int, ...]()
    most = -np.inf

    def extend(chosen: tuple[int, ...], reached: Floats, among: NDArray[np.intp]) -> None:
        nonlocal best, most
        value = float(reached.sum())
        left = count - len(chosen)
        gains = np.maximum(values[:, among], reached[:, None]).sum(axis=0) - value
        order = np.argsort(-gains, kind="stable")
        ordered = among[order]
        gains = gains[order]
        for place in range(len(ordered) - left + 1):
            # Gains fall, so no later file reaches more either.
            if value + gains[place : place + left].sum() <= most:
                return
            file = int(ordered[place])
            if left == 1:
                best = (*chosen, file)
                most = value + float(gains[place])
                return
            extend((*chosen, file), np.maximum(reached, values[:, file]), ordered[place + 1 :])

    extend((), np.full(len(values), values.min()), np.arange(values.shape[1]))
    return best
