"""The stage that learns what is usual in good images."""

from functools import partial

import numpy as np

from advisor.catalog.cards import Card
from advisor.core.errors import UnsupportedRecipe
from advisor.engine.pipeline import cost
from advisor.engine.pipeline.materials import FloatModel, Materials, Part, Purpose, Workload, versions
from advisor.engine.pipeline.stage import Folders, Inputs, Job, Results, Scope, Stage, StageName
from advisor.engine.pipeline.stages.backbone import identity
from advisor.tasks.anomaly.network import learn
from advisor.tasks.on_maps import TRAINING

VERSION = "2"  # Raised when equal images and weights give another file


def learnt(card: Card, training: str, purpose: Purpose, workload: Workload) -> Stage[FloatModel]:
    """Learn from the good images of a part: of the training part to compare cards, of all but the hold-out to ship."""
    role = purpose.learns

    def good(part: Part) -> list[int]:
        return np.flatnonzero(np.array(part.labels) == 0).tolist()

    def inputs(materials: Materials, _results: Results) -> Inputs:
        if card.own_file:
            raise UnsupportedRecipe("a file of your own has no graph whose maps can be learnt; name a network")
        own = {"pictures": materials.part(role).fingerprint, "seed": materials.question.seed}
        return {**identity(materials, card), **own, **versions("tensorflow", "keras", "ai-edge-litert", "pillow")}

    def job(materials: Materials, _results: Results, folders: Folders) -> Job:
        part = materials.part(role)
        rows = good(part)
        groups = [part.groups[row] for row in rows] if part.groups else []
        paths = [part.paths[row] for row in rows]
        return partial(learn, card, materials.weights[card.name], paths, groups, materials.question.seed, folders.model)

    seconds = cost.CONVERT_S * 3 + cost.reading_s(card, workload.images[role])
    return Stage(
        StageName(training), Scope(card.name, training, purpose=purpose), VERSION, "learning what is usual by", (),
        inputs, job, FloatModel.within, seconds, TRAINING, reads=lambda materials: materials.part(role),
    )  # fmt: skip
