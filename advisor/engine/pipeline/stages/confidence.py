"""Stage that calibrates the probabilities of a classifier that ships: the temperature of its logits."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from advisor.engine.pipeline import cost
from advisor.engine.pipeline.images import Role
from advisor.engine.pipeline.materials import MODEL, Artefact, Materials, versions
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stage import Folders, Inputs, Job, Results, Scope, Stage
from advisor.engine.pipeline.stages import jobs
from advisor.engine.pipeline.stages.artefacts import read_artefact
from advisor.store.files import sha256_file

VERSION = "1"
"""Raised when equal scores give another temperature."""


def with_confidence(scope: Scope, source: Stage[Artefact], scored: Stage[Path]) -> Stage[Artefact]:
    """Fold the temperature of a file's logits into its head.

    Args:
        scope: card, training and compression of the file.
        source: the file that ships. Its latency, memory and answers stay as they are.
        scored: the probabilities of the compared file on the validation part, which give the temperature.
    """

    def inputs(materials: Materials, results: Results) -> Inputs:
        return {
            "artefact": results[source].sha256,
            "scores": sha256_file(results[scored]),
            "labels": list(materials.part(Role.VALIDATION).labels),
            **versions("numpy", "scipy"),
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        made, labels = results[source], materials.part(Role.VALIDATION).labels
        return partial(
            jobs.fold_temperature, made.path, results[scored], labels, made.figures, made.notes, folders.out / MODEL
        )

    return Stage(
        StageName.CONFIDENCE, scope, VERSION, "calibrating the probabilities of", (source, scored), inputs, job,
        read_artefact, cost.REWRITE_S,
    )  # fmt: skip
