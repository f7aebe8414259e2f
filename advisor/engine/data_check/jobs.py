"""The job of a child process: find wrong labels and cropped copies by features."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

from advisor.core.codec import parse
from advisor.datasets.duplicates import Pair
from advisor.training.labels import Suspect

RESULT = "judgement.json"

SEED = 0
"""Seed of the stages, and of the landmarks of a large set."""


def find_faults(
    parts: Sequence[Path],
    labels: Sequence[int],
    checked: Sequence[int],
    together: Sequence[Sequence[int]],
    paths: Sequence[Path],
    landmarks: int,
    path: Path,
) -> None:
    """Find the likely wrong labels and the cropped copies of a data set, and write them to ``path``.

    Args:
        parts: ``.npy`` files of its features, in order.
        labels: the label of each image.
        checked: indices of the images whose labels are checked.
        together: groups of indices of images that show the same or belong together.
        paths: the images.
        landmarks: most landmarks.
        path: JSON file to write.
    """
    from advisor.datasets.checks.crops import cropped_copies
    from advisor.datasets.duplicates import groups
    from advisor.training.features import joined

    features = joined(parts)
    copies = cropped_copies(features, paths)
    chained = [Pair(first, second, 1.0) for group in together for first, second in pairwise(group)]
    alike = groups([*copies, *chained], len(labels))
    suspects = _suspects(features, labels, checked, alike, landmarks)
    content = {"suspects": [asdict(one) for one in suspects], "copies": [asdict(pair) for pair in copies]}
    path.write_text(json.dumps(content), encoding="utf-8")


def read_faults(path: Path) -> tuple[tuple[Suspect, ...], tuple[Pair, ...]]:
    """Return what :func:`find_faults` wrote.

    Raises:
        KeyError, OSError, TypeError, ValueError: the file is missing or damaged.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    return parse(tuple[Suspect, ...], content["suspects"]), parse(tuple[Pair, ...], content["copies"])


def _suspects(
    features: object,
    labels: Sequence[int],
    checked: Sequence[int],
    alike: Sequence[Sequence[int]],
    landmarks: int,
) -> list[Suspect]:
    """Check some of the images. Their labels are renumbered without gaps, and the results are translated back."""
    import numpy as np

    from advisor.training.labels import left_out, suspects

    array = np.asarray(features)
    names, renumbered = np.unique([labels[index] for index in checked], return_inverse=True)
    position = {index: number for number, index in enumerate(checked)}
    groups = [[position[index] for index in group if index in position] for group in alike]
    together = [group for group in groups if len(group) > 1]
    chosen = array if len(checked) == len(array) else array[np.asarray(checked)]
    probabilities = left_out(chosen, renumbered.tolist(), together, SEED, landmarks)
    return [
        Suspect(checked[one.index], int(names[one.suggested]), one.given, one.better)
        for one in suspects(renumbered.tolist(), probabilities)
    ]
