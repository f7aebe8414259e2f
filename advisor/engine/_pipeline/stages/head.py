"""Stages of a classifier's head: fitted to features of the images, scored, joined with the
backbone.

The head that is compared is fitted to the training part and chosen by cross-validation; the head
that ships is fitted once more, to more images. Fine-tuning and the adjusting of int8 files begin
with them. The words in the keys stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from advisor.catalog import Card
from advisor.core import HeadFacts, NewConditions, StageError, TrainingName, parse, recipe_of
from advisor.engine._pipeline import cost
from advisor.engine._pipeline.images import Role
from advisor.engine._pipeline.materials import (
    FloatModel,
    Materials,
    Purpose,
    Workload,
    list_versions,
    read_result,
)
from advisor.engine._pipeline.stage import (
    Folders,
    Inputs,
    Job,
    Results,
    Scope,
    Stage,
    StageName,
    reserve_feature_memory,
)
from advisor.engine._pipeline.stages import jobs
from advisor.engine._pipeline.stages.backbone import FeatureSet, cut_stage, feature_stages
from advisor.engine._pipeline.stages.figures import PROBABILITIES_FILE
from advisor.measurement import OutOfFold
from advisor.store import read_cached_sha256
from advisor.tflite import FEATURES
from advisor.training import AS_IT_IS, CAPTURED, EXPECTATION_VERSION, HEAD_VERSION

HEAD_FILE = "head.npz"


@dataclass(frozen=True)
class TrainedHead:
    """A trained head: the ``.npz`` with weights and bias, and its hash.

    ``facts`` say how it was chosen; None for a refitted head. ``answers`` is the ``.npy`` of the
    out-of-fold probabilities of the training part; None if they were not kept.
    """

    file: Path
    sha256: str
    facts: HeadFacts | None
    answers: Path | None = None

    @classmethod
    def within(cls, folder: Path) -> TrainedHead:
        """Return the head in a stage's folder."""
        file = folder / HEAD_FILE
        result = read_result(folder)
        answers = folder / jobs.ANSWERS_FILE
        facts = parse(HeadFacts, result) if result else None
        return cls(file, read_cached_sha256(file), facts, answers if answers.is_file() else None)

    @property
    def chosen(self) -> HeadFacts:
        """The choice of the head: kind, penalty, cross-validation.

        Raises:
            StageError: it is a refitted head, which chose nothing.
        """
        if self.facts is None:
            raise StageError(
                f"the head '{self.file}' does not say how it was chosen: it is a refitted one"
            )
        return self.facts


def join_trained_head(
    card: Card, training: str, purpose: Purpose, workload: Workload
) -> Stage[FloatModel]:
    """Join the backbone with a trained head: softmax over the user's classes."""
    source = cut_stage(card, FEATURES)
    if purpose is not Purpose.COMPARE and recipe_of(training).trained_twice:
        head = refit_shipped_head(card, workload, purpose)
    else:
        head = fit_head(card, training, workload)
    return Stage(
        name=StageName.JOIN,
        scope=Scope(card.name, training, purpose=purpose),
        version="1",
        doing="joining",
        after=(source, head),
        inputs=lambda _, results: {"trunk": results[source].sha256, "head": results[head].sha256},
        job=lambda _, results, folders: partial(
            jobs.join_head, results[source].path, results[head].file, folders.model
        ),
        read=FloatModel.within,
        cost_s=cost.REWRITE_S,
    )


def fit_head(card: Card, training: str, workload: Workload) -> Stage[TrainedHead]:
    """Choose kind and penalty of the head by cross-validation and fit it to the training part,
    or to a subset of it.
    """
    source = cut_stage(card, FEATURES)
    # The features of all images to learn from serve the head that ships, too; a quick head reads
    # only its own images.
    if recipe_of(training).quick_head:
        train = Role.SUBSET
        read = _list_feature_sets(card, Role.SUBSET, workload, training)
    else:
        train = Role.TRAIN
        read = _list_feature_sets(card, Role.LEARNT, workload)

    def inputs(materials: Materials, results: Results) -> Inputs:
        part = materials.part(train)
        return {
            **_list_head_inputs(read, materials, results),
            "train": part.fingerprint,
            "groups": part.groups,
            "seed": materials.question.seed,
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        images = materials.require_images()
        part = images.part(train)
        return partial(
            jobs.train_head,
            results[source].path,
            [feature_set.files(results) for feature_set in read],
            images.part(read[0].role).rows_of(part),
            part.labels,
            part.groups,
            len(images.classes),
            materials.question.seed,
            folders.out / HEAD_FILE,
        )

    return Stage(
        name=StageName.HEAD,
        scope=Scope(card.name, training),
        version="5",
        doing="training the head of",
        after=(source, *_list_stages(read)),
        inputs=inputs,
        job=job,
        read=TrainedHead.within,
        cost_s=cost.head_s(workload.images[train], workload.classes),
        resources=reserve_feature_memory(len(read) * workload.images[train]),
    )


def score_float(card: Card, scope: Scope, workload: Workload) -> Stage[Path]:
    """Score the float file with the compared head on the validation part,
    from the features that LiteRT computed.

    The file has the same backbone and head, so it is not run again.
    """
    head = fit_head(card, scope.training, workload)
    read = feature_stages(card, Role.LEARNT, workload.images[Role.LEARNT])

    def inputs(materials: Materials, results: Results) -> Inputs:
        return {
            "features": read.key(materials, results),
            "head": results[head].sha256,
            "pictures": materials.part(Role.VALIDATION).fingerprint,
            **list_versions("scipy", "numpy"),
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        rows = materials.part(Role.LEARNT).rows_of(materials.part(Role.VALIDATION))
        path = folders.out / PROBABILITIES_FILE
        return partial(jobs.score_head, read.files(results), rows, results[head].file, path)

    return Stage(
        name=StageName.SCORE,
        scope=replace(scope, detail="from features"),
        version="1",
        doing="scoring",
        after=(head, *read.stages),
        inputs=inputs,
        job=job,
        read=lambda folder: folder / PROBABILITIES_FILE,
        cost_s=cost.REWRITE_S,
    )


def expect_robustness(card: Card, workload: Workload) -> Stage[NewConditions]:
    """Estimate from the card's features which share of right answers stays right
    on images of another occasion.
    """
    read = feature_stages(card, Role.LEARNT, workload.images[Role.LEARNT])

    def inputs(materials: Materials, results: Results) -> Inputs:
        return {
            Role.LEARNT.value: materials.part(Role.LEARNT).fingerprint,
            Role.VALIDATION.value: materials.part(Role.VALIDATION).fingerprint,
            "features": read.key(materials, results),
            "grouped": bool(materials.require_images().grouping.of),
            "version": EXPECTATION_VERSION,
            **list_versions("scipy", "numpy"),
        }

    def job(materials: Materials, results: Results, _folders: Folders) -> Job:
        part = materials.part(Role.LEARNT)
        grouped = bool(materials.require_images().grouping.of)
        validation = part.rows_of(materials.part(Role.VALIDATION))
        return partial(
            jobs.estimate_new_conditions, read.files(results), part.labels, validation, grouped
        )

    return Stage(
        name=StageName.EXPECTATION,
        scope=Scope(card.name),
        version="1",
        doing="estimating new conditions for",
        after=read.stages,
        inputs=inputs,
        job=job,
        read=lambda folder: parse(NewConditions, read_result(folder)),
        cost_s=cost.EXPECTATION_S,
        resources=reserve_feature_memory(workload.images[Role.LEARNT]),
    )


def refit_shipped_head(
    card: Card, workload: Workload, purpose: Purpose = Purpose.SHIP
) -> Stage[TrainedHead]:
    """Fit the head that ships, of the kind chosen on the training part:
    to all images outside the hold-out, or to all.

    It uses the same recipe as the head that validation scores, on more images.
    """
    source = cut_stage(card, FEATURES)
    compared = fit_head(card, TrainingName.HEAD, workload)
    role = purpose.learns
    read = _list_feature_sets(card, role, workload)

    def inputs(materials: Materials, results: Results) -> Inputs:
        facts = results[compared].chosen
        return {
            **_list_head_inputs(read, materials, results),
            "kind": facts.kind,
            "regularization": facts.regularization,
            "pictures": materials.part(role).fingerprint,
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        images = materials.require_images()
        return partial(
            jobs.refit_head,
            results[source].path,
            [feature_set.files(results) for feature_set in read],
            images.part(role).labels,
            len(images.classes),
            results[compared].chosen,
            folders.out / HEAD_FILE,
        )

    scope = Scope(card.name, TrainingName.HEAD, purpose=purpose if purpose is Purpose.ALL else "")
    return Stage(
        name=StageName.REFIT,
        scope=scope,
        version="2",
        doing="fitting the final head of",
        after=(source, compared, *_list_stages(read)),
        inputs=inputs,
        job=job,
        read=TrainedHead.within,
        cost_s=cost.REFIT_S,
        resources=reserve_feature_memory(len(read) * workload.images[role]),
    )


def _list_feature_sets(
    card: Card, role: Role, workload: Workload, training: str = ""
) -> tuple[FeatureSet, ...]:
    """Return the features of images;
    if robust accuracy counts, also those of images changed like a phone's camera.
    """
    augmentations = [AS_IT_IS]
    if workload.question.robust:
        augmentations += CAPTURED
    count = workload.images[role]
    return tuple(
        feature_stages(card, role, count, augmentation, training) for augmentation in augmentations
    )


def _list_stages(read: Sequence[FeatureSet]) -> tuple[Stage[Any], ...]:
    stages = list[Stage[Any]]()
    for feature_set in read:
        stages += feature_set.stages
    return tuple(dict.fromkeys(stages))


def _list_head_inputs(
    read: Sequence[FeatureSet], materials: Materials, results: Results
) -> dict[str, object]:
    keys = [feature_set.key(materials, results) for feature_set in read]
    return {"features": keys, "head": HEAD_VERSION, **list_versions("numpy")}


Folds = tuple[Stage[TrainedHead], Stage[Path]]
"""The stages that fit a float head and run its file on the validation part."""


def out_of_fold(folds: Folds | None, materials: Materials, results: Results) -> OutOfFold | None:
    """Return the answers of a float head out of fold; None if there are none."""
    if folds is None:
        return None
    head, scored = folds
    answers = results[head].answers
    if not answers:
        return None
    return OutOfFold(answers, materials.part(Role.TRAIN).labels, results[scored])


def fold_inputs(folds: Folds | None, materials: Materials, results: Results) -> Inputs:
    """Return what a temperature depends on beside a file's probabilities."""
    answers = out_of_fold(folds, materials, results)
    if answers is None:
        return {}
    hashes = [read_cached_sha256(answers.answers), read_cached_sha256(answers.floats)]
    return {"folds": [*hashes, materials.part(Role.TRAIN).fingerprint]}
