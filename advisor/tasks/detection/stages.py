"""Stages of a detector: trained from a card and images with boxes, and run over images."""

from functools import partial
from pathlib import Path

from advisor.catalog.cards import Card
from advisor.datasets.images import InputSpec
from advisor.engine.pipeline import cost
from advisor.engine.pipeline.materials import FloatModel, Materials, Role
from advisor.engine.pipeline.stage import (
    Folders,
    Inputs,
    Job,
    Results,
    Scope,
    Source,
    Stage,
    StageName,
)
from advisor.engine.pipeline.stages.backbone import identity, require_classes
from advisor.engine.pipeline.stages.figures import over_images
from advisor.tasks.detection import jobs

DETECTIONS_FILE = "detections.npz"


def own(card: Card) -> Stage[FloatModel]:
    """Take a user's own detector, with its post-processing, if it knows the classes of the images."""

    def inputs(materials: Materials, _results: Results) -> Inputs:
        require_classes(card, materials.require_images())
        return identity(materials, card)

    def job(materials: Materials, _results: Results, folders: Folders) -> Job:
        return partial(jobs.take, card, materials.weights[card.name], folders.model)

    return Stage(
        StageName.CONVERT, Scope(card.name), "1", "reading", (), inputs, job, FloatModel.within, cost.REWRITE_S,
    )  # fmt: skip


def detections(scope: Scope, spec: InputSpec, source: Source, role: Role, cost_s: float) -> Stage[Path]:
    """Run a detector over images and write what it finds; arguments as of :func:`.figures.score`."""

    def own(materials: Materials) -> Inputs:
        return {"classes": materials.require_images().classes}

    return over_images(StageName.SCORE, jobs.detect, DETECTIONS_FILE, scope, spec, source, role, cost_s, own)
