"""Compare two accuracies on the same images by the candidates' answers on each image."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from advisor.core.decision import Tie, tied_by_interval
from advisor.core.evaluation import Evaluation
from advisor.core.statistics import paired
from advisor.datasets.split import VALIDATION
from advisor.store import RunFolder


def tie_on_images(run: RunFolder) -> Tie:
    """Return the function that tells whether two accuracies are tied.

    It compares the answers of both on each image; if these are not known, the two intervals.
    """
    labels = _labels(run)

    @cache
    def correct(file: str) -> tuple[float, ...] | None:
        return _correct(run.path / file, labels) if file and labels else None

    @cache
    def tied(one: str, other: str) -> bool | None:
        first, second = correct(one), correct(other)
        return paired(first, second).spans_zero if first and second else None

    def tie(first: Evaluation, second: Evaluation) -> bool:
        by_image = tied(first.answers.file, second.answers.file)
        return tied_by_interval(first, second) if by_image is None else by_image

    return tie


def correct_answers(run: RunFolder, evaluation: Evaluation) -> tuple[float, ...] | None:
    """Return the share (0-1) of correct answers on each validation image, None if it is not known.

    A share is 0 or 1. Candidates that were compared under capture conditions saw each image several times.
    """
    labels, file = _labels(run), evaluation.answers.file
    return _correct(run.path / file, labels) if labels and file else None


def compared_images(run: RunFolder) -> tuple[str, ...]:
    """Return the hashes of the validation images, in order; empty if they are not known."""
    rows = run.read_json("split.json").get(VALIDATION)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return ()
    return tuple(str(row.get("sha256", "")) for row in rows)


def _labels(run: RunFolder) -> tuple[int, ...]:
    split = run.read_json("split.json")
    try:
        label_of = {name: label for label, name in enumerate(split["classes"])}
        return tuple(label_of[row["class"]] for row in split[VALIDATION])
    except (KeyError, TypeError):
        return ()


def _correct(file: Path, labels: Sequence[int]) -> tuple[float, ...] | None:
    """Return the share of correct answers on each image, None if the file is missing, damaged or of other images."""
    try:
        answers = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if answers.ndim not in (1, 2) or answers.shape[-1] != len(labels) or not answers.size:
        return None
    return tuple((answers.reshape(-1, len(labels)) == np.asarray(labels)).mean(axis=0).tolist())
