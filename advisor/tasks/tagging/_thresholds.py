"""Declare the stage that puts thresholds into a tagger which learnt as a whole, and its job.

The validation part chooses the thresholds; a head gets its own while it is fitted
(``_stages.py``). ``Tagging.model`` asks for it for fine-tuned networks and for users' own files.
Names and values of ``inputs`` are the key of the result in the cache; the "1" in the stage is the
version of :func:`fold_thresholds`, which a child process runs by module and name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog import Card
from advisor.core import FLOAT, Guarantees, to_json
from advisor.datasets import class_order
from advisor.engine import (
    FloatModel,
    Folders,
    Inputs,
    Job,
    Materials,
    Purpose,
    Results,
    Role,
    Scope,
    Stage,
    StageName,
    VariantStages,
    Workload,
    cost,
    finetune_card,
    list_versions,
)
from advisor.measurement import label_thresholds
from advisor.tasks.tagging._stages import SCORES, describe_wishes, list_asked, share_of_holdout
from advisor.tflite import read_head, with_head


def finetune_tagger(
    card: Card, training: str, purpose: Purpose, workload: Workload
) -> Stage[FloatModel]:
    """Fine-tune a card; the file that ships has thresholds that validation chose."""
    trained = finetune_card(card, training, purpose, workload, SCORES)
    if purpose is Purpose.COMPARE:
        return trained
    return set_thresholds(card, training, purpose, workload, trained)


@dataclass(frozen=True)
class ScoredImages:
    """Images that thresholds are chosen on, and what is asked of these."""

    scores: Path  # (N, C), in the order of the user's labels
    truth: Sequence[Sequence[int]]
    groups: Sequence[int]
    order: Sequence[int]  # the place of each label among the outputs of the file
    wishes: tuple[Guarantees, ...] = ()
    batch: float = 0.0  # images of the hold-out over these


def set_thresholds(
    card: Card,
    training: str,
    purpose: Purpose,
    workload: Workload,
    trained: Stage[FloatModel],
    labels: Sequence[str] = (),
) -> Stage[FloatModel]:
    """Fold thresholds into a float tagger, by the scores that the compared file gives
    the validation part.

    ``labels`` name its outputs; without them, these are the labels of the images.
    """
    # The file may have learnt the training part, so its scores there would flatter it.
    scored = VariantStages(card, training, FLOAT, workload).scored

    def inputs(materials: Materials, results: Results) -> Inputs:
        part = materials.part(Role.VALIDATION)
        return {
            "model": results[trained].sha256,
            "scores": results.sha256(scored),
            "pictures": part.fingerprint,
            "groups": part.groups,
            **describe_wishes(materials, Role.VALIDATION),
            **list_versions("numpy", "scipy"),
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        part = materials.part(Role.VALIDATION)
        classes = materials.require_images().classes
        outputs = labels or classes
        scored_images = ScoredImages(
            scores=results[scored],
            truth=part.objects,
            # Without groups, each image is one.
            groups=part.groups or part.indices,
            order=class_order(classes, outputs, len(outputs)),
            wishes=list_asked(materials),
            batch=share_of_holdout(materials, Role.VALIDATION),
        )
        return partial(fold_thresholds, results[trained].path, scored_images, folders.model)

    return Stage(
        name=StageName.CONFIDENCE,
        scope=Scope(card.name, training, purpose=purpose),
        version="1",
        doing="choosing thresholds of",
        after=(trained, scored),
        inputs=inputs,
        job=job,
        read=FloatModel.within,
        cost_s=cost.REWRITE_S,
    )


def fold_thresholds(model: Path, images: ScoredImages, path: Path) -> list[dict[str, Any] | None]:
    """Write a float tagger whose labels have the threshold one half.

    Returns what the threshold of each label guarantees, as JSON values.
    """
    scores = np.load(images.scores, allow_pickle=False)
    truth = np.array(images.truth, np.int8)
    thresholds = label_thresholds.choose_thresholds(
        label_thresholds.logits_of(scores), truth, images.groups, images.wishes, images.batch
    )
    data = model.read_bytes()
    weights, bias = read_head(data, model.name)
    # Labels that the images do not have keep their scores.
    slopes = np.ones_like(bias)
    shifts = np.zeros_like(bias)
    slopes[list(images.order)] = thresholds.slope
    shifts[list(images.order)] = thresholds.shift
    rows = np.zeros((1, len(weights)), np.float32)
    # A float head needs no rows of features, and rounds nothing.
    edited = with_head(
        data, weights * slopes, bias * slopes + shifts, rows, lambda kernel, *_: kernel, model.name
    )
    path.write_bytes(edited)
    return [to_json(guarantee) if guarantee else None for guarantee in thresholds.guarantees]
