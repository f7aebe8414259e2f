"""Stages that find images of things that are none of the classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from advisor.core.codec import parse
from advisor.core.evaluation_facts import UnknownFacts
from advisor.datasets.images import InputSpec
from advisor.engine.pipeline import cost
from advisor.engine.pipeline.images import Role
from advisor.engine.pipeline.materials import MODEL, Artefact, Materials, read_result, versions
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stage import Folders, Inputs, Job, Results, Scope, Stage
from advisor.engine.pipeline.stages import unknown_jobs
from advisor.engine.pipeline.stages.head import TrainedHead
from advisor.store.files import sha256_file, sha256_json
from advisor.training.head.trials import LAST_LAYER

ROWS = "rows.npy"

PLAIN_HEAD = unknown_jobs.HeadSpec(LAST_LAYER, 0.03, frozen=False)
"""Head without a class of a network that fine-tuning trained."""

VERSION = "2"
"""Raised when equal inputs give another file or other figures."""


@dataclass(frozen=True)
class WithUnknown:
    """A classifier with the class ``unknown``, and what is known of it without images of other things."""

    artefact: Artefact
    facts: UnknownFacts

    @classmethod
    def within(cls, folder: Path) -> WithUnknown:
        """Return what the stage left in its folder."""
        file = folder / MODEL
        return cls(Artefact.at(file, sha256_file(file)), parse(UnknownFacts, read_result(folder)))


def probed(scope: Scope, spec: InputSpec, source: Stage[Artefact], role: Role, cost_s: float) -> Stage[Path]:
    """Run a file over images and write their features and logits, float32 (N, F + C), as ``.npy``.

    Args:
        scope: card, training, compression and purpose of the file.
        spec: how images become the file's input.
        source: a classifier.
        role: of the images.
        cost_s: rough seconds.
    """

    def inputs(materials: Materials, results: Results) -> Inputs:
        own = {"artefact": results[source].sha256, "pictures": materials.part(role).fingerprint, "view": spec.key}
        return {**own, **versions("ai-edge-litert", "pillow", "numpy")}

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        return partial(unknown_jobs.probe, results[source].path, materials.part(role).paths, spec, folders.out / ROWS)

    return Stage(
        StageName.PROBE, scope, "1", "reading features with", (source,), inputs, job, lambda folder: folder / ROWS,
        cost_s, reads=lambda materials: materials.part(role),
    )  # fmt: skip


def with_unknown(
    scope: Scope,
    source: Stage[Artefact],
    scored: Stage[Path],
    own: Stage[Path],
    compared: Sequence[Stage[Path]],
    shipped: Sequence[Stage[Path]],
    head: Stage[TrainedHead] | None,
) -> Stage[WithUnknown]:
    """Give the file that ships the class ``unknown``, and judge its score with each class left out in turn.

    Args:
        scope: card, training and compression of the file.
        source: the file.
        scored: probabilities of the compared file on the validation part.
        own: features and logits of the compared file on the validation part.
        compared: features of the float network that is compared on the images to learn from.
        shipped: the same of the float network that ships.
        head: how the head was chosen; None if fine-tuning trained it further.
    """

    def chosen(results: Results) -> unknown_jobs.HeadSpec:
        facts = results[head].facts if head else None
        return unknown_jobs.HeadSpec(facts.kind, facts.regularization) if facts else PLAIN_HEAD

    def inputs(materials: Materials, results: Results) -> Inputs:
        files = [results[each] for each in dict.fromkeys((scored, own, *compared, *shipped))]
        parts = [materials.part(role).fingerprint for role in (Role.LEARNT, Role.TRAIN, Role.VALIDATION)]
        spec = chosen(results)
        return {
            "artefact": results[source].sha256,
            "files": sha256_json([sha256_file(file) for file in files]),
            "head": [spec.kind, spec.regularization],
            "classes": materials.require_images().classes,
            "parts": parts,
            **versions("numpy", "scipy"),
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        part, classes = materials.part(Role.LEARNT), materials.require_images().classes
        learnt = unknown_jobs.LearntImages(
            compared=tuple(results[each] for each in compared),
            shipped=tuple(results[each] for each in shipped),
            labels=part.labels,
            train=tuple(part.rows_of(materials.part(Role.TRAIN))),
            validation=tuple(part.rows_of(materials.part(Role.VALIDATION))),
        )
        return partial(
            unknown_jobs.add_unknown, results[source].path, results[scored], results[own], learnt, classes,
            chosen(results), folders.out / MODEL,
        )  # fmt: skip

    after = tuple(dict.fromkeys((source, scored, own, *compared, *shipped, *((head,) if head else ()))))
    return Stage(
        StageName.UNKNOWN, scope, VERSION, "telling unknown images apart with", after, inputs, job,
        WithUnknown.within, cost.HEAD_S,
    )  # fmt: skip
