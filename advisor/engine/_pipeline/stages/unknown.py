"""Stages that give a finalist one more class, for images of none of the user's classes.

:meth:`.VariantStages.with_unknown` puts them behind the file that ships, and the scorer runs them
when the search has its finalists. ``unknown_jobs.py`` has the work, and ``unknown_score.py`` the
score that tells such images apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from advisor.core import UnknownFacts, parse
from advisor.datasets import InputSpec
from advisor.engine._pipeline import cost
from advisor.engine._pipeline.images import Role
from advisor.engine._pipeline.materials import (
    Artefact,
    Materials,
    Workload,
    list_versions,
    read_result,
)
from advisor.engine._pipeline.stage import (
    MODEL,
    Folders,
    Inputs,
    Job,
    Results,
    Scope,
    Stage,
    StageName,
    reserve_feature_memory,
)
from advisor.engine._pipeline.stages import unknown_jobs
from advisor.engine._pipeline.stages.head import Folds, fold_inputs, out_of_fold
from advisor.store import read_cached_sha256, sha256_json
from advisor.training import LAST_LAYER

ROWS = "rows.npy"

PLAIN_HEAD = unknown_jobs.HeadSpec(LAST_LAYER, 0.03, frozen=False)
"""Head without a class of a network that fine-tuning trained."""

# Raised when equal inputs give another file with the class ``unknown``, or other figures.
UNKNOWN_VERSION = "3"


@dataclass(frozen=True)
class WithUnknown:
    """A classifier with the class ``unknown``,
    and what is known of it without images of other things.
    """

    artefact: Artefact
    facts: UnknownFacts

    @classmethod
    def within(cls, folder: Path) -> WithUnknown:
        """Return what the stage left in its folder."""
        file = folder / MODEL
        facts = parse(UnknownFacts, read_result(folder))
        return cls(Artefact.at(file, read_cached_sha256(file)), facts)


def probe_classifier(
    scope: Scope,
    spec: InputSpec,
    source: Stage[Artefact],
    role: Role,
    cost_s: float,
) -> Stage[Path]:
    """Run a classifier over images and write their features and logits, float32 (N, F + C),
    as ``.npy``.
    """

    def inputs(materials: Materials, results: Results) -> Inputs:
        return {
            "artefact": results[source].sha256,
            "pictures": materials.part(role).fingerprint,
            "view": spec.key,
            **list_versions("ai-edge-litert", "pillow", "numpy"),
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        return partial(
            unknown_jobs.probe,
            results[source].path,
            materials.part(role).paths,
            spec,
            folders.out / ROWS,
        )

    return Stage(
        name=StageName.PROBE,
        scope=scope,
        version="1",
        doing="reading features with",
        after=(source,),
        inputs=inputs,
        job=job,
        read=lambda folder: folder / ROWS,
        cost_s=cost_s,
        reads=lambda materials: materials.part(role),
    )


@dataclass(frozen=True)
class UnknownSources:
    """The stages whose results :func:`with_unknown` needs.

    ``file`` makes the file that ships. Of the compared file on the validation part, ``scored`` are
    probabilities, and ``features`` are features and logits. ``compared`` and ``shipped`` are
    features of these float networks on the images to learn from. The head of ``folds`` says how it
    was chosen; None if fine-tuning trained it further.
    """

    file: Stage[Artefact]
    scored: Stage[Path]
    features: Stage[Path]
    compared: tuple[Stage[Path], ...]
    shipped: tuple[Stage[Path], ...]
    folds: Folds | None

    @property
    def stages(self) -> tuple[Stage[Any], ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((self.file, *self._of_images, *(self.folds or ()))))

    @property
    def _of_images(self) -> tuple[Stage[Path], ...]:
        stages = (self.scored, self.features, *self.compared, *self.shipped)
        return tuple(dict.fromkeys(stages))

    def list_inputs(self, materials: Materials, results: Results) -> Inputs:
        """Return what the result depends on."""
        files = [results[stage] for stage in self._of_images]
        spec = self._choose_head(results)
        roles = (Role.LEARNT, Role.TRAIN, Role.VALIDATION)
        return {
            "artefact": results[self.file].sha256,
            "files": sha256_json(list(map(read_cached_sha256, files))),
            "head": [spec.kind, spec.regularization],
            "classes": materials.require_images().classes,
            "parts": [materials.part(role).fingerprint for role in roles],
            **fold_inputs(self.folds, materials, results),
            **list_versions("numpy", "scipy"),
        }

    def make_job(self, materials: Materials, results: Results, folders: Folders) -> Job:
        """Return the job that adds the class and judges its score."""
        return partial(
            unknown_jobs.add_unknown,
            results[self.file].path,
            results[self.scored],
            results[self.features],
            self._list_learnt_images(materials, results),
            materials.require_images().classes,
            self._choose_head(results),
            folders.model,
            out_of_fold(self.folds, materials, results),
        )

    def _choose_head(self, results: Results) -> unknown_jobs.HeadSpec:
        """Return the kind of head that is fitted without a class, to judge the score."""
        facts = results[self.folds[0]].facts if self.folds else None
        if facts is None:
            return PLAIN_HEAD
        return unknown_jobs.HeadSpec(facts.kind, facts.regularization)

    def _list_learnt_images(
        self, materials: Materials, results: Results
    ) -> unknown_jobs.LearntImages:
        """Return the images to learn the class from, with the files of their features."""
        part = materials.part(Role.LEARNT)
        return unknown_jobs.LearntImages(
            compared=tuple(results[stage] for stage in self.compared),
            shipped=tuple(results[stage] for stage in self.shipped),
            labels=part.labels,
            train=tuple(part.rows_of(materials.part(Role.TRAIN))),
            validation=tuple(part.rows_of(materials.part(Role.VALIDATION))),
        )


def with_unknown(scope: Scope, sources: UnknownSources, workload: Workload) -> Stage[WithUnknown]:
    """Give the file that ships the class ``unknown``,
    and judge its score with each class left out in turn.
    """
    return Stage(
        name=StageName.UNKNOWN,
        scope=scope,
        version=UNKNOWN_VERSION,
        doing="telling unknown images apart with",
        after=sources.stages,
        inputs=sources.list_inputs,
        job=sources.make_job,
        read=WithUnknown.within,
        cost_s=cost.HEAD_S,
        resources=reserve_feature_memory(workload.images[Role.LEARNT]),
    )
