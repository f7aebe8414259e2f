"""Declare the stage that calibrates the scores of a detector's float file.

``Detection.model`` asks for it for the file that ships. Names and values of ``inputs`` are the
key of its result in the cache; the "1" in the stage is the version of its job,
:func:`._jobs.calibrate`.
"""

from functools import partial

from advisor.catalog import Card
from advisor.core import FLOAT
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
    VariantStages,
    Workload,
    cost,
)
from advisor.tasks.detection import _jobs as jobs


def calibrate_detector(
    card: Card, training: str, workload: Workload, made: Stage[FloatModel]
) -> Stage[FloatModel]:
    """Fold the calibration of a detector's scores into its float file.

    The boxes that the compared float file finds in the validation part give it.
    """
    scored = VariantStages(card, training, FLOAT, workload).scored

    def inputs(materials: Materials, results: Results) -> Inputs:
        boxes = materials.part(Role.VALIDATION).fingerprint
        return {
            "model": results[made].sha256,
            "scores": results.sha256(scored),
            "boxes": boxes,
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        part = materials.part(Role.VALIDATION)
        images = materials.require_images()
        assert images.boxes is not None, "a search for objects has boxes"
        sizes = [images.boxes.sizes[index][::-1] for index in part.indices]
        true = list(map(list, part.objects))
        classes = len(images.classes)
        return partial(
            jobs.calibrate,
            results[made].path,
            results[scored],
            true,
            sizes,
            classes,
            folders.model,
        )

    return Stage(
        name=StageName.CONFIDENCE,
        scope=Scope(card.name, training, purpose=Purpose.SHIP),
        version="1",
        doing="calibrating the scores of",
        after=(made, scored),
        inputs=inputs,
        job=job,
        read=FloatModel.within,
        cost_s=cost.REWRITE_S,
    )
