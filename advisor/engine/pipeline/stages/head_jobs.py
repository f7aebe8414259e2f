"""Jobs of a head's stages: functions for child processes, from paths and values to files and values."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from advisor.core.codec import to_json
from advisor.core.evaluation_facts import HeadFacts

ANSWERS_FILE = "answers.npy"
"""Out-of-fold answers of a head, beside it."""

MOST_ANSWERS = 10_000_000
"""Probabilities in that file, at most: a set with more of them has enough validation images."""


def train_head(
    backbone: Path,
    feature_files: Sequence[Sequence[Path]],
    train: Sequence[int],
    labels: Sequence[int],
    groups: Sequence[int],
    classes: int,
    seed: int,
    path: Path,
) -> dict[str, Any]:
    """Train the head, write it as ``.npz`` with its out-of-fold answers beside it, and return its facts.

    Args:
        backbone: the feature model.
        feature_files: parts of the features, first of the unchanged images, then of the augmented ones.
        train: rows to learn from.
        labels: the classes of these rows.
        groups: their groups; empty if each is a group.
        classes: number of classes.
        seed: of the folds.
        path: where to write.
    """
    from advisor.tflite.levels import last_width
    from advisor.training.features import joined
    from advisor.training.head import train_head as fit

    features, *views = [joined(parts, np.asarray(train)) for parts in feature_files]
    head = fit(features, labels, classes, seed, views, groups, last_width(backbone.read_bytes()))
    np.savez(path, weights=head.weights, bias=head.bias)
    if head.answers is not None and head.answers.size <= MOST_ANSWERS:
        np.save(path.with_name(ANSWERS_FILE), head.answers)
    return to_json(head.facts)


def expect(features: Sequence[Path], labels: Sequence[int], validation: Sequence[int], grouped: bool) -> dict[str, Any]:
    """Estimate what to expect on images of another occasion; see :func:`advisor.training.expectation.expect`.

    Args:
        features: parts of the features.
        labels: the class of each row.
        validation: rows of the validation part.
        grouped: the split found groups.
    """
    from advisor.training.expectation import expect as estimate
    from advisor.training.features import joined

    return asdict(estimate(joined(features), labels, validation, grouped))


def refit_head(
    backbone: Path,
    feature_files: Sequence[Sequence[Path]],
    labels: Sequence[int],
    classes: int,
    chosen: HeadFacts,
    path: Path,
) -> None:
    """Fit the chosen kind of head to all rows and write it as ``.npz``; see :func:`train_head` for arguments."""
    from advisor.tflite.levels import last_width
    from advisor.training.features import joined
    from advisor.training.head import fit_head

    features, *views = [joined(parts) for parts in feature_files]
    last = last_width(backbone.read_bytes())
    weights, bias = fit_head(features, labels, classes, chosen.regularization, views, chosen.kind, last)
    np.savez(path, weights=weights, bias=bias)


def join(backbone: Path, head: Path, path: Path) -> None:
    """Write the backbone with the trained head behind it: softmax over the user's classes."""
    from advisor.tflite.levels import attach_head

    arrays = np.load(head, allow_pickle=False)
    path.write_bytes(attach_head(backbone.read_bytes(), arrays["weights"], arrays["bias"]))


def score_head(features: Sequence[Path], rows: Sequence[int], head: Path, path: Path) -> None:
    """Apply a head to features and write the probabilities, float32 (N, C), as ``.npy``, as :func:`score` does.

    Args:
        features: parts of the features.
        rows: the images to score, among the rows of the features.
        head: ``.npz`` of :func:`train_head`.
        path: where to write.
    """
    from scipy.special import softmax

    from advisor.training.features import joined

    arrays = np.load(head, allow_pickle=False)
    logits = joined(features, np.asarray(rows)) @ arrays["weights"] + arrays["bias"]
    np.save(path, softmax(logits, axis=1).astype(np.float32))
