"""Read what a run keeps of each image: the answers of its files, as shares in their accuracy.

A decision compares two files image by image, and so do comparisons of runs. The answers are in
``answers/*.npy`` of the run (``RunFolder.keep_answers``): a label for each image (integers), or
its share in the figure (float32). What is missing, damaged or of other images is None, so that
intervals decide instead.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import Answers, Evaluation
from advisor.datasets import SplitPart
from advisor.store import RunFolder

PART_NAMES: Mapping[str, str] = {SplitPart.HOLDOUT: "hold-out", SplitPart.VALIDATION: "validation"}
"""Parts of the images in words. The hold-out comes first: there, the files that ship ran."""

LARGEST_SHARE = 1e6
"""A share that an image can have: it may be the only one of its class among many.
A larger one is damage.
"""


def answers_on_images(run: RunFolder) -> Answers:
    """Return the function that gives the share of each validation image in the accuracy of an
    evaluation, or None.
    """
    labels = read_labels(run, SplitPart.VALIDATION)

    @cache
    def read_file(file: str) -> tuple[float, ...] | None:
        if not file or not labels:
            return None
        return read_shares(run, file, labels)

    return lambda evaluation: read_file(evaluation.answers.compared_by)


def correct_answers(
    run: RunFolder, evaluation: Evaluation, part: str = SplitPart.VALIDATION
) -> tuple[float, ...] | None:
    """Return the share of each image of a part in the accuracy, None if it is not known.

    By top-1 it is 0 or 1. Candidates that were compared under capture conditions saw each image
    several times, so that theirs is the mean over the conditions.
    """
    judged = evaluation.holdout_answers if part == SplitPart.HOLDOUT else evaluation.answers
    labels = read_labels(run, part)
    if not labels or judged is None or not judged.compared_by:
        return None
    return read_shares(run, judged.compared_by, labels)


def read_compared_hashes(run: RunFolder) -> tuple[str, ...]:
    """Return the hashes of the validation images, in order; empty if they are not known."""
    rows = run.read_json("split.json").get(SplitPart.VALIDATION)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return ()
    return tuple(str(row.get("sha256", "")) for row in rows)


def read_image_array(run: RunFolder, name: str) -> NDArray[Any] | None:
    """Return what a run keeps of each image, such as the answers of a file;
    None if it is missing or has changed.
    """
    try:
        # A pipe would never end.
        if not (run.path / name).is_file() or not run.is_unchanged(name):
            return None
        # Refuses a shape that is larger than the file.
        return np.lib.format.open_memmap(run.path / name, mode="r")
    except (OSError, ValueError, OverflowError):
        return None


def read_labels(run: RunFolder, part: str) -> tuple[int, ...]:
    """Return the label of each image of a part; empty if the split is missing or damaged."""
    split = run.read_json("split.json")
    try:
        label_of = {name: label for label, name in enumerate(split["classes"])}
        return tuple(label_of[row["class"]] for row in split[part])
    except (KeyError, TypeError):
        return ()


def read_groups(run: RunFolder, part: str) -> tuple[int, ...]:
    """Return the number of the group of each image of a part, see :class:`.ImageUnits`;
    empty where the images do not come in groups.
    """
    rows = run.read_json("split.json").get(part)
    if not isinstance(rows, list):
        return ()
    groups = []
    for row in rows:
        group = row.get("group") if isinstance(row, dict) else None
        if not isinstance(group, int):
            return ()
        groups.append(group)
    return tuple(groups)


def read_shares(run: RunFolder, file: str, labels: Sequence[int]) -> tuple[float, ...] | None:
    """Return each image's share in the accuracy, None if the file is missing,
    damaged or of other images.

    By top-1 it is the share of correct answers, from the labels in the file;
    by other figures the file has the shares.
    """
    answers = read_image_array(run, file)
    if answers is None:
        return None
    # Shares are floats and labels integers:
    # the type of the array tells which of the two the file holds.
    if answers.dtype == np.float32 and answers.shape == (len(labels),):
        if not (np.abs(answers) <= LARGEST_SHARE).all():
            return None
        return tuple(map(float, answers))
    are_labels = answers.dtype.kind in "iu" and answers.ndim in (1, 2) and answers.size
    if not are_labels or answers.shape[-1] != len(labels):
        return None
    # A second axis has the answers under each capture condition.
    is_right = answers.reshape(-1, len(labels)) == np.asarray(labels)
    return tuple(is_right.mean(axis=0).tolist())
