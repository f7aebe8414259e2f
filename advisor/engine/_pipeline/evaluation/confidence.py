"""Choose the temperature and the thresholds of a classifier on validation, verify them on the
hold-out, and score its probabilities by other metrics.

The judge of classifiers (``tasks/classification/``) calls these functions with the ``.npy`` files
that the scoring stages wrote. What they return becomes a part of ``evaluations.jsonl``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.core import ConfidenceFacts, Costs, Guarantees, Mistake, Quantity
from advisor.engine._pipeline.images import Images, Role
from advisor.measurement import (
    OutOfFold,
    Score,
    choose_class_thresholds,
    judge_class_thresholds,
    score_classifier,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

MISTAKES = 24  # Wrong answers of the hold-out that are kept


def choose_thresholds(
    probabilities: Path, images: Images, guarantees: Guarantees, folds: OutOfFold | None = None
) -> ConfidenceFacts:
    """Return temperature and thresholds by the validation part,
    as :func:`.choose_class_thresholds`.

    ``probabilities`` is the ``.npy`` of the compared file, float32 (N, C). The guarantees are
    about as many images as the hold-out has.
    """
    rows = np.load(probabilities, allow_pickle=False)
    labels = np.asarray(images.part(Role.VALIDATION).labels)
    held_out = len(images.part(Role.HOLDOUT).labels)
    groups = images.group_names(Role.VALIDATION)
    return choose_class_thresholds(
        rows, labels, images.classes, guarantees, held_out, folds, groups
    )


def verify_thresholds(
    probabilities: Path, images: Images, chosen: ConfidenceFacts
) -> ConfidenceFacts:
    """Return the figures of the file that ships on the hold-out,
    at the temperature and thresholds that were chosen.

    ``probabilities`` is the ``.npy`` of that file, whose head has the temperature, float32 (N, C).
    """
    rows = np.load(probabilities, allow_pickle=False)
    labels = np.asarray(images.part(Role.HOLDOUT).labels)
    groups = images.group_names(Role.HOLDOUT)
    judged = judge_class_thresholds(rows, labels, images.classes, chosen, groups)
    with_all = replace(judged, mistakes=_list_mistakes(rows, images))
    return replace(with_all, mistakes=with_all.varied_mistakes[:MISTAKES])


def _list_mistakes(rows: NDArray[np.floating[Any]], images: Images) -> tuple[Mistake, ...]:
    """Return the wrong answers on the hold-out, the most probable first."""
    part = images.part(Role.HOLDOUT)
    largest = rows.max(axis=1)
    answers = rows.argmax(axis=1)
    wrong = np.flatnonzero(answers != np.asarray(part.labels))
    most_probable_first = wrong[np.argsort(-largest[wrong], kind="stable")]
    mistakes = []
    for row in most_probable_first:
        path = images.dataset.show_path(part.paths[row])
        answer = int(answers[row])
        probability = float(largest[row])
        label = part.labels[row]
        mistakes.append(Mistake(path, part.hashes[row], label, answer, probability))
    return tuple(mistakes)


def score_metrics(
    probabilities: Path,
    images: Images,
    role: Role,
    costs: Costs | None = None,
    names: Collection[str] = (),
) -> dict[str, Score]:
    """Return those of some metrics that the images with a role allow, by name;
    those of all without names.

    ``probabilities`` is the ``.npy`` of a file, float32 (N, C). That of the file that ships has
    the temperature; answers to the validation part get one that was fitted to other images of it.
    ``costs`` are those of each answer.
    """
    rows = np.load(probabilities, allow_pickle=False)
    labels = np.asarray(images.part(role).labels)
    table = None if costs is None else np.array(costs.of(images.classes))
    groups = images.group_names(role)
    return score_classifier(rows, labels, groups, table, names, calibrate=role is Role.VALIDATION)


def describe_scores(scores: Mapping[str, Score], source: str) -> dict[str, Quantity]:
    """Return metrics in %, by name; each names its source,
    and what it belongs to where the metric does not say it.
    """
    metrics = {}
    for name, score in scores.items():
        described = f"{score.note}, {source}" if score.note else source
        metrics[name] = score.figure.as_percent(score.images or len(score.shares), described)
    return metrics
