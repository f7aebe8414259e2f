"""Stage that takes a user's own file as it is, and the check that it knows the classes of the images."""

from __future__ import annotations

from functools import partial

from advisor.catalog.cards import Card
from advisor.catalog.labels import published_labels
from advisor.compression.user_model.images import class_order
from advisor.core.errors import UnsupportedRecipe, UsageError
from advisor.engine.pipeline import cost
from advisor.engine.pipeline.images import Images
from advisor.engine.pipeline.materials import Artefact, Materials, Workload
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stage import Folders, Inputs, Job, Results, Scope, Stage
from advisor.engine.pipeline.stages import jobs
from advisor.engine.pipeline.stages.artefacts import read_artefact
from advisor.engine.pipeline.stages.backbone import identity


def taken(card: Card, scope: Scope, workload: Workload) -> Stage[Artefact]:
    """Take a file of fixed form, if it knows the classes of the images. No byte of it changes."""

    def inputs(materials: Materials, _results: Results) -> Inputs:
        if workload.images:
            require_classes(card, materials.require_images())
        return identity(materials, card)

    def job(materials: Materials, _results: Results, folders: Folders) -> Job:
        return partial(jobs.take, materials.weights[card.name], folders.model)

    return Stage(
        StageName.CONVERT, scope, "1", "reading", (), inputs, job, read_artefact, cost.REWRITE_S,
    )  # fmt: skip


def require_classes(card: Card, images: Images) -> None:
    """Check that a user's own file knows every class of the images; it may know more.

    Raises:
        UnsupportedRecipe: it does not; the nearest name is given.
    """
    labels = published_labels(card)
    try:
        class_order(images.classes, labels, len(labels))
    except UsageError as error:
        raise UnsupportedRecipe(f"{error.message}; {error.hint}") from None
