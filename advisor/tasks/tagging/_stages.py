"""Declare the stage that fits a tagger's head, and the jobs that fit it and that run a tagger.

``Tagging.model`` asks for :func:`join_head`. The search calls the jobs :func:`fit_head` and
:func:`tag` in child processes, by module and name. Names and values of ``inputs`` are the key of
the head in the cache: raise :data:`VERSION` when equal inputs give another head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog import Card
from advisor.core import Guarantees, to_json
from advisor.datasets import InputSpec, class_order
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
    Workload,
    cost,
    cut_stage,
    feature_stages,
    list_versions,
)
from advisor.measurement import Floats, Runner, label_thresholds
from advisor.tasks.tagging._places import places_stage
from advisor.tflite import FEATURES, Metadata, dequantize

VERSION = "4"  # Raised when equal features and labels give another head
# CPU seconds of the kernels of places for each image of 224 pixels and label
KERNELS_S = 0.004
SCORES = "scores"  # Output of a file: the score of each label, (1, C)


@dataclass(frozen=True)
class LearntTags:
    """The images that a head learns, and what is asked of its thresholds."""

    rows: Sequence[int]  # their places among the features
    truth: Sequence[Sequence[int]]
    groups: Sequence[int]
    hashes: Sequence[str]
    seed: int
    wishes: tuple[Guarantees, ...] = ()  # of each label; empty if nothing is asked
    batch: float = 0.0  # images of the hold-out over theirs
    places: Path | None = None  # the maps of places, whose images are those of the features


def join_head(
    card: Card, training: str, purpose: Purpose, workload: Workload
) -> Stage[FloatModel]:
    """Fit the head to features of the images, and join it with the backbone."""
    source = cut_stage(card, FEATURES)
    role = purpose.learns
    # The features of the compared head are among those of the head that ships.
    read_role = Role.LEARNT if role is Role.TRAIN else role
    features = feature_stages(card, read_role, workload.images[read_role])
    places = places_stage(card, read_role, workload)
    needed = (places,) if places else ()

    def inputs(materials: Materials, results: Results) -> Inputs:
        part = materials.part(role)
        return {
            "features": features.key(materials, results),
            "places": results.sha256(places) if places else "",
            "task": "tags",
            "pictures": part.fingerprint,
            "groups": part.groups,
            "seed": materials.question.seed,
            **describe_wishes(materials, role),
            **list_versions("numpy", "scipy"),
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        part = materials.part(role)
        learnt = LearntTags(
            rows=materials.part(read_role).rows_of(part),
            truth=part.objects,
            # Without groups, each image is one.
            groups=part.groups or part.indices,
            hashes=part.hashes,
            seed=materials.question.seed,
            wishes=list_asked(materials),
            batch=share_of_holdout(materials, role),
            places=results[places] if places else None,
        )
        return partial(
            fit_head, results[source].path, features.files(results), learnt, folders.model
        )

    return Stage(
        name=StageName.HEAD,
        scope=Scope(card.name, training, purpose=purpose),
        version=VERSION,
        doing="training the head of",
        after=(source, *features.stages, *needed),
        inputs=inputs,
        job=job,
        read=FloatModel.within,
        cost_s=_price_s(card, workload, role, reads_places=places is not None),
    )


def _price_s(card: Card, workload: Workload, role: Role, reads_places: bool) -> float:
    """Return the CPU seconds of fitting a head, and kernels if it reads places."""
    images = workload.images[role]
    seconds = cost.head_s(images, workload.classes)
    if reads_places:
        # A map has as many places more as the image has pixels.
        larger = (card.input_size / 224) ** 2
        seconds += KERNELS_S * images * workload.classes * larger
    return seconds


def describe_wishes(materials: Materials, role: Role) -> Inputs:
    """Return what names the wishes for thresholds in the key of a stage.

    Without a wish, the key is that of a head without guarantees,
    so that earlier results are found.
    """
    wishes = list_asked(materials)
    if not wishes:
        return {}
    shares = [[wish.precision.plain, wish.recall.plain] for wish in wishes]
    return {"wishes": shares, "batch": share_of_holdout(materials, role)}


def list_asked(materials: Materials) -> tuple[Guarantees, ...]:
    """Return what is asked of each label; empty if nothing is asked."""
    asked = materials.question.guarantees
    if not asked.options:
        return ()
    return label_thresholds.list_wishes(asked, materials.require_images().classes)


def share_of_holdout(materials: Materials, role: Role) -> float:
    """Return the number of images of the hold-out over those with a role."""
    return len(materials.part(Role.HOLDOUT).paths) / len(materials.part(role).paths)


def fit_head(
    backbone: Path, files: Sequence[Path], learnt: LearntTags, path: Path
) -> list[dict[str, Any] | None]:
    """Fit a head to rows of features and write the backbone with it.

    Returns what the threshold of each label guarantees, as JSON values.
    """
    from advisor.tflite import attach_head, last_width
    from advisor.training import join_parts, label_head

    data = backbone.read_bytes()
    rows = np.asarray(learnt.rows)
    head = label_head.fit_label_head(
        join_parts(files, rows),
        np.array(learnt.truth, np.int8),
        learnt.groups,
        learnt.hashes,
        learnt.seed,
        last_width(data),
        learnt.wishes,
        learnt.batch,
        label_head.read_places(learnt.places, rows) if learnt.places else (),
    )
    # A head that reads no places leaves the backbone as it is.
    if head.kernels:
        data = label_head.with_places(data, head.kernels)
    path.write_bytes(attach_head(data, head.weights, head.bias, SCORES))
    return [to_json(guarantee) if guarantee else None for guarantee in head.guarantees]


class Tagger(Runner[Floats]):
    """A loaded file with a score for each label: one output ``scores``, (1, C)."""

    outputs = (SCORES,)
    kind = "an image tagger"

    def read(self, outputs: Mapping[str, Any]) -> Floats:
        """Return the scores, (C,); a file of the user may give them as whole numbers."""
        scores: Floats = dequantize(outputs[SCORES], self._run.get_output_details()[SCORES])[0]
        return scores


def tag(
    captured: bool,
    model: Path,
    images: Sequence[Path],
    view: InputSpec,
    path: Path,
    classes: Sequence[str],
) -> None:
    """Run a file over images and write the scores of the user's labels, float32 (N, C).

    The images are taken as they are, or under capture conditions (``captured``, which the stage
    states first). A file of the user may have more labels, in another order.
    """
    answers = Tagger(model, view).over(images, captured)
    rows = np.stack([np.asarray(row, np.float32) for row in answers])
    metadata = Metadata.read(model.read_bytes(), model.name)
    if metadata and metadata.labels and list(metadata.labels) != list(classes):
        order = class_order(classes, metadata.labels, rows.shape[1])
        rows = rows[:, list(order)]
    np.save(path, rows)
