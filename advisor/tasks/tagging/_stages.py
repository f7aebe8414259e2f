"""The stage of a tagger's float file, and the jobs of its stages, for child processes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from advisor.catalog import Card
from advisor.datasets import InputSpec
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
    cut,
    features,
    versions,
)
from advisor.measurement import Floats, Runner
from advisor.tflite import FEATURES

VERSION = "2"  # Raised when equal features and labels give another head
SCORES = "scores"  # Output of a file: the score of each label, (1, C)


def join_head(card: Card, training: str, purpose: Purpose, workload: Workload) -> Stage[FloatModel]:
    """Fit the head to features of the images, and join it with the backbone."""
    source = cut(card, FEATURES)
    role = purpose.learns
    # The features of the compared head are among those of the head that ships.
    read_role = Role.LEARNT if role is Role.TRAIN else role
    read = features(card, read_role, workload.images[read_role])

    def inputs(materials: Materials, results: Results) -> Inputs:
        part = materials.part(role)
        learnt = {"task": "tags", "pictures": part.fingerprint, "groups": part.groups, "seed": materials.question.seed}
        return {"features": read.key(materials, results), **learnt, **versions("numpy", "scipy")}

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        part = materials.part(role)
        rows = materials.part(read_role).rows_of(part)
        # Without groups, each image is one.
        groups = part.groups or part.indices
        learnt = (rows, part.objects, groups, part.hashes, materials.question.seed)
        return partial(fit_head, results[source].path, read.files(results), *learnt, folders.model)

    return Stage(
        StageName.HEAD,
        Scope(card.name, training, purpose=purpose),
        VERSION,
        "training the head of",
        (source, *read.stages),
        inputs,
        job,
        FloatModel.within,
        cost.head_s(workload.images[role], workload.classes),
    )


def fit_head(
    backbone: Path,
    files: Sequence[Path],
    rows: Sequence[int],
    truth: Sequence[Sequence[int]],
    groups: Sequence[int],
    hashes: Sequence[str],
    seed: int,
    path: Path,
) -> None:
    """Fit a head to rows of features, and write the backbone with it."""
    from advisor.tasks.tagging._head import fit_tag_head
    from advisor.tflite import attach_head, last_width
    from advisor.training import join_parts

    data = backbone.read_bytes()
    values = join_parts(files, np.asarray(rows))
    head = fit_tag_head(values, np.array(truth, np.int8), groups, hashes, seed, last_width(data))
    path.write_bytes(attach_head(data, head.weights, head.bias, SCORES))


class Tagger(Runner[Floats]):
    """A loaded file with a score for each label: one output ``scores``, (1, C)."""

    outputs = (SCORES,)
    kind = "an image tagger"


def tag(
    captured: bool, model: Path, images: Sequence[Path], view: InputSpec, path: Path, _classes: Sequence[str]
) -> None:
    """Run a file over images in a child process, and write the scores, float32 (N, C)."""
    np.save(path, np.stack([np.asarray(row, np.float32) for row in Tagger(model, view).over(images, captured)]))
