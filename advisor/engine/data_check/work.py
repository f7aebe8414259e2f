"""The work of a judgement, as a child process does it: features in, suspects and copies out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

from advisor.datasets.duplicates import Pair
from advisor.training.labels.wrong_labels import Suspect

RESULT = "judgement.json"


def judge(
    parts: Sequence[Path],
    labels: Sequence[int],
    judged: Sequence[int],
    together: Sequence[Sequence[int]],
    paths: Sequence[Path],
    seed: int,
    landmarks: int,
    path: Path,
) -> None:
    """Write the likely wrong labels and the cropped copies of a data set.

    Args:
        parts: ``.npy`` files of its features, one after the other.
        labels: the label of each picture.
        judged: indices of the pictures whose labels are judged.
        together: groups of indices that show the same or belong together.
        paths: the pictures.
        seed: draws the landmarks of a large set.
        landmarks: most of them.
        path: where to.
    """
    from advisor.datasets.checks.crops import cropped_copies
    from advisor.datasets.duplicates import groups
    from advisor.training.features import joined

    features = joined(parts)
    copies = cropped_copies(features, paths)
    chained = [Pair(first, second, 1.0) for group in together for first, second in pairwise(group)]
    alike = groups([*copies, *chained], len(labels))
    suspects = _suspects(features, labels, judged, alike, seed, landmarks)
    content = {"suspects": [asdict(one) for one in suspects], "copies": [asdict(pair) for pair in copies]}
    path.write_text(json.dumps(content), encoding="utf-8")


def read(path: Path) -> tuple[tuple[Suspect, ...], tuple[Pair, ...]]:
    """Return what :func:`judge` wrote."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return tuple(Suspect(**row) for row in content["suspects"]), tuple(Pair(**row) for row in content["copies"])


def _suspects(
    features: object,
    labels: Sequence[int],
    judged: Sequence[int],
    alike: Sequence[Sequence[int]],
    seed: int,
    landmarks: int,
) -> list[Suspect]:
    """Judge a part of the pictures, whose labels are renumbered without gaps for it, and translate back."""
    import numpy as np

    from advisor.training.labels.out_of_sample import left_out
    from advisor.training.labels.wrong_labels import suspects

    array = np.asarray(features)
    names, renumbered = np.unique([labels[index] for index in judged], return_inverse=True)
    place = {index: number for number, index in enumerate(judged)}
    groups = [[place[index] for index in group if index in place] for group in alike]
    together = [group for group in groups if len(group) > 1]
    chosen = array if len(judged) == len(array) else array[np.asarray(judged)]
    probabilities = left_out(chosen, renumbered.tolist(), together, seed, landmarks)
    return [
        Suspect(judged[one.index], int(names[one.suggested]), one.given, one.better)
        for one in suspects(renumbered.tolist(), probabilities)
    ]
