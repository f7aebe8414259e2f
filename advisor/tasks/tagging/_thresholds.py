"""The thresholds of a tagger that has learnt as a whole: the validation part chooses them."""

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
from advisor.store import read_cached_sha256
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
    """Fold thresholds into a float tagger,
    by the scores that the compared file gives the validation part.

    ``labels`` are the meaning of its outputs; none for the labels of the images.
    """
    # The file may have learnt the training part, so its scores there would flatter it.
    scored = VariantStages(card, training, FLOAT, workload).scored

    def inputs(materials: Materials, results: Results) -> Inputs:
        part = materials.part(Role.VALIDATION)
        of_images = {
            "scores": read_cached_sha256(results[scored]),
            "pictures": part.fingerprint,
            "groups": part.groups,
        }
        asked = describe_wishes(materials, Role.VALIDATION)
        return {
            "model": results[trained].sha256,
            **of_images,
            **asked,
            **list_versions("numpy", "scipy"),
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        part = materials.part(Role.VALIDATION)
        classes = materials.require_images().classes
        order = class_order(classes, labels or classes, len(labels or classes))
        batch = share_of_holdout(materials, Role.VALIDATION)
        # Without groups, each image is one.
        groups = part.groups or part.indices
        known = ScoredImages(
            results[scored], part.objects, groups, order, list_asked(materials), batch
        )
        return partial(fold_thresholds, results[trained].path, known, folders.model)

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


def fold_thresholds(model: Path, known: ScoredImages, path: Path) -> list[dict[str, Any] | None]:
    """Write a float tagger whose labels have the threshold one half,
    and return what each threshold guarantees.
    """
    scores = np.load(known.scores, allow_pickle=False)
    truth = np.array(known.truth, np.int8)
    thresholds = label_thresholds.choose_thresholds(
        label_thresholds.logits_of(scores), truth, known.groups, known.wishes, known.batch
    )
    data = model.read_bytes()
    weights, bias = read_head(data, model.name)
    # Labels that the images do not have keep their scores.
    slopes = np.ones_like(bias)
    shifts = np.zeros_like(bias)
    slopes[list(known.order)] = thresholds.slope
    shifts[list(known.order)] = thresholds.shift
    rows = np.zeros((1, len(weights)), np.float32)
    # A float head needs no rows of features, and rounds nothing.
    edited = with_head(
        data, weights * slopes, bias * slopes + shifts, rows, lambda kernel, *_: kernel, model.name
    )
    path.write_bytes(edited)
    return [to_json(guarantee) if guarantee else None for guarantee in thresholds.guarantees]
