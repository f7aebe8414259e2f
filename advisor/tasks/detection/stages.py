"""Stages of a detector: trained from a card and images with boxes, and run over images."""

from functools import partial
from pathlib import Path

from advisor.catalog.cards import Card
from advisor.core.errors import UnsupportedRecipe
from advisor.core.training import HEAD, recipe_of
from advisor.datasets.images import InputSpec
from advisor.engine.pipeline import cost
from advisor.engine.pipeline.materials import FloatModel, Materials, Purpose, Role, Workload, versions
from advisor.engine.pipeline.stage import (
    Folders,
    Inputs,
    Job,
    Pool,
    Resources,
    Results,
    Scope,
    Source,
    Stage,
    StageName,
)
from advisor.engine.pipeline.stages.backbone import identity, require_classes
from advisor.engine.pipeline.stages.figures import over_images
from advisor.isolation import CallLimits
from advisor.tasks.detection import jobs

DETECTIONS_FILE = "detections.npz"
VERSION = "6"  # Raised when equal images and weights give another detector

TRAINING = Resources(Pool.TRAINERS, 3_000_000_000, CallLimits(seconds=3 * 3600, memory_bytes=8_000_000_000))


def detector(card: Card, training: str, purpose: Purpose, workload: Workload) -> Stage[FloatModel]:
    """Train the head of the task on the card's frozen backbone, or fine-tune both.

    The compared one learns from the training part, the one that ships from everything but the hold-out. Fine-tuning
    starts from the compared head. A user's own detector is taken as it is.
    """
    if card.as_it_is:
        return _own(card)
    role, recipe = purpose.learns, recipe_of(training)
    head = detector(card, HEAD, Purpose.COMPARE, workload) if recipe.tunes_backbone else None

    def inputs(materials: Materials, results: Results) -> Inputs:
        if card.own_file:
            raise UnsupportedRecipe("a file of your own has no graph that boxes can be trained on; name a network")
        part = materials.part(role)
        own = {"pictures": part.fingerprint, "seed": materials.question.seed, "task": workload.question.task}
        packages = versions("tensorflow", "keras", "ai-edge-litert", "pillow", "numpy")
        start = {"head": results[head].sha256, "share": recipe.layers} if head else {}
        return {**identity(materials, card), **own, **start, **packages}

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        part, classes = materials.part(role), len(materials.require_images().classes)
        return partial(
            jobs.train, card, materials.weights[card.name], tuple(zip(part.paths, part.objects, strict=True)), classes,
            workload.question.task, materials.question.seed, folders.model,
            (results[head].path, recipe.layers) if head else None,
        )  # fmt: skip

    scope = Scope(card.name, training, purpose=purpose)
    seconds = cost.detector_s(card, workload.images[role], tuning=head is not None)
    return Stage(
        StageName(training), scope, VERSION, f"{'fine-tuning' if head else 'training'} the detector of",
        (head,) if head else (), inputs, job, FloatModel.within, seconds, TRAINING,
        reads=lambda materials: materials.part(role),
    )  # fmt: skip


def _own(card: Card) -> Stage[FloatModel]:
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
