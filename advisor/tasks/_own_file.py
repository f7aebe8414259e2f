"""Declare the stage that takes a user's own file, for tasks that do not train such files.

Detection and tagging ask for it (:func:`take_own_file`). The search calls :func:`write_own_file`
in a child process, by module and name. The "1" in the stage is its version in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import StageError
from advisor.engine import (
    FloatModel,
    Folders,
    Inputs,
    Job,
    Materials,
    Results,
    Scope,
    Stage,
    StageName,
    cost,
    identity,
    require_classes,
)

if TYPE_CHECKING:
    from advisor.catalog import Card
    from advisor.core import WeightsFile

# From a file and its name to the file with named outputs.
NameOutputs = Callable[[bytes, str], bytes]


def take_own_file(card: Card, name_outputs: NameOutputs) -> Stage[FloatModel]:
    """Take a user's own float file, with named outputs, if it knows the classes of the images."""

    def inputs(materials: Materials, _results: Results) -> Inputs:
        # Such a file is not trained, so a class that it lacks would never be found.
        require_classes(card, materials.require_images())
        return identity(materials, card)

    def job(materials: Materials, _results: Results, folders: Folders) -> Job:
        return partial(
            write_own_file, card, materials.weights[card.name], name_outputs, folders.model
        )

    return Stage(
        name=StageName.CONVERT,
        scope=Scope(card.name),
        version="1",
        doing="reading",
        after=(),
        inputs=inputs,
        job=job,
        read=FloatModel.within,
        cost_s=cost.REWRITE_S,
    )


def write_own_file(
    card: Card, weights: WeightsFile | None, name_outputs: NameOutputs, path: Path
) -> None:
    """Write a user's own file as the float file of its card, its outputs named."""
    if weights is None:
        raise StageError(f"{card.name} is a file of your own, and the file is not available")
    path.write_bytes(name_outputs(weights.path.read_bytes(), card.name))
