"""Declare the stage that reads the places of images, from which heads of labels learn.

``join_head`` (``_stages.py``) asks for it. Its job is `write_places` of
`training/_places.py`, which a child process runs by module and name.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from advisor.catalog import Card
from advisor.engine import (
    Folders,
    Inputs,
    Job,
    Materials,
    Results,
    Role,
    Scope,
    Stage,
    StageName,
    Workload,
    cost,
    cut_stage,
    input_spec,
    list_versions,
)
from advisor.tflite import FEATURES
from advisor.training import label_head

VERSION = "1"  # Raised when equal images and backbones give other places
PLACES = "places.npz"

MOST_TARGETS = 12_000
"""Images times labels up to which places are read; kernels take about 4 CPU ms for each."""

MOST_BYTES = 250_000_000
"""Size of the places of all images up to which they are read; a fit takes five times as much."""

# Of a place of stride 8, with a quarter of one of stride 16: 48 numbers of two bytes.
PLACE_BYTES = 120


def places_stage(card: Card, role: Role, workload: Workload) -> Stage[Path] | None:
    """Return the stage that writes the places of the images with a role; None for too many."""
    images = workload.images[role]
    places = (card.input_size / 8) ** 2
    size_bytes = images * places * PLACE_BYTES
    targets = images * workload.classes
    # A larger set keeps the head without places, which learns from more images.
    if size_bytes > MOST_BYTES or targets > MOST_TARGETS:
        return None
    source = cut_stage(card, FEATURES)

    def inputs(materials: Materials, results: Results) -> Inputs:
        return {
            "backbone": results[source].sha256,
            "pictures": materials.part(role).fingerprint,
            "view": input_spec(card).key,
            **list_versions("ai-edge-litert", "pillow", "numpy"),
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        paths = materials.part(role).paths
        backbone = results[source].path
        return partial(
            label_head.write_places, backbone, paths, input_spec(card), folders.out / PLACES
        )

    return Stage(
        name=StageName.FEATURES,
        scope=Scope(card.name, detail=f"places {role}"),
        version=VERSION,
        doing="reading places of images with",
        after=(source,),
        inputs=inputs,
        job=job,
        read=lambda folder: folder / PLACES,
        cost_s=cost.reading_s(card, images),
        reads=lambda materials: materials.part(role),
    )
