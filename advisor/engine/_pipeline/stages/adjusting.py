"""The stage that adjusts the head of a quantized classifier
to the features that its own backbone gives.
"""

from dataclasses import asdict, replace
from functools import partial

from advisor.catalog import Card
from advisor.compression import choose_images
from advisor.core import HEAD, form_of, recipe_of
from advisor.engine._pipeline import cost
from advisor.engine._pipeline.images import Role
from advisor.engine._pipeline.materials import (
    Artefact,
    FloatModel,
    Materials,
    Purpose,
    Workload,
    input_spec,
    list_versions,
)
from advisor.engine._pipeline.stage import (
    Folders,
    Inputs,
    Job,
    Results,
    Scope,
    Stage,
    StageName,
    after,
)
from advisor.engine._pipeline.stages.adjusting_jobs import MATCHED_IMAGES, HeadImages, adjust_head
from advisor.engine._pipeline.stages.backbone import feature_stages
from advisor.engine._pipeline.stages.head import fit_head
from advisor.training import HEAD_VERSION

MOST_IMAGES = 3000
"""Images that a head is refitted to, at most.
Of larger sets, some are enough to match the float file's logits.
"""

MOST_TARGETS = 100_000
"""Images times classes up to which a head is refitted. On 81 classes of groceries a refit took 83
CPU seconds, more than all else of a head; matched logits take a tenth of that and lose a point.
"""


def can_adjust(training: str, compression: str, workload: Workload) -> bool:
    """Return whether the head of such a file is adjusted:
    8-bit activations shift the features of a classifier.

    The kernels of 16-bit activations take seconds an image here, and lose nothing.
    """
    learns = recipe_of(training).learns and not recipe_of(training).quick_head
    linear = workload.question.of_task.linear
    return bool(workload.images) and learns and linear and form_of(compression).name == "int8"


def replace_head(
    card: Card,
    scope: Scope,
    source: Stage[Artefact],
    floats: Stage[FloatModel],
    workload: Workload,
    compared: Stage[Artefact] | None = None,
) -> Stage[Artefact]:
    """Replace the head of a quantized file by one that fits the features that the file computes,
    if it is better.

    On a backbone that stays as it is, the head is fitted again, as for the ``floats``. A
    fine-tuned backbone fits its training images too well for that, a large set takes too long, and
    a head that learnt from changed images would forget them: there the head is changed so that its
    logits are those of the float file. ``compared`` is the adjusted file of the compared model;
    None for that file itself, and for one that learns from all images.
    """
    refits = _refits(scope.training, workload)
    role = Role.ALL if scope.purpose == Purpose.ALL else Role.LEARNT
    read = feature_stages(card, role, workload.images[role])
    head = fit_head(card, HEAD, workload)
    earlier = compared if refits else None

    def inputs(materials: Materials, results: Results) -> Inputs:
        of_head: dict[str, object] = {}
        if refits:
            of_head = {
                "head": asdict(results[head].chosen),
                "features": read.key(materials, results),
            }
        return {
            "artefact": results[source].sha256,
            "floats": results[floats].sha256,
            "compared": results[earlier].sha256 if earlier else "",
            "pictures": [
                materials.part(role).fingerprint
                for role in dict.fromkeys((role, Role.LEARNT, Role.TRAIN))
            ],
            "groups": list(materials.part(Role.TRAIN).groups),
            "seed": materials.question.seed,
            "view": input_spec(card).key,
            "fit": HEAD_VERSION,
            **of_head,
            **list_versions("ai-edge-litert", "pillow", "numpy", "scipy"),
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        images = _images(materials, scope, refits)
        if refits:
            backbone = results[read.source].path
            images = replace(
                images, head=results[head].chosen, features=read.files(results), backbone=backbone
            )
        file = results[source]
        files = (
            file.path,
            results[floats].path,
            images,
            input_spec(card),
            results[earlier].path if earlier else None,
        )
        return partial(adjust_head, *files, file.figures, file.notes, folders.model)

    refitted = workload.images[Role.LEARNT] if refits else 0
    return Stage(
        name=StageName.ADJUST,
        scope=scope,
        version="1",
        doing="adjusting the head of",
        after=(source, floats, *((*read.stages, head) if refits else ()), *after(earlier)),
        inputs=inputs,
        job=job,
        read=Artefact.within,
        cost_s=_seconds(card, scope.compression, refitted, rewrites=earlier is not None),
        reads=lambda materials: materials.part(role),
    )


def _refits(training: str, workload: Workload) -> bool:
    question = workload.question
    plain = (
        question.of_task.labelled
        and not recipe_of(training).tunes_backbone
        and not question.robust
    )
    images = workload.images[Role.LEARNT]
    return plain and images <= MOST_IMAGES and images * workload.classes <= MOST_TARGETS


def _images(materials: Materials, scope: Scope, refits: bool) -> HeadImages:
    """Return the images to run; a pass for the compared file also serves the file that ships,
    of the same backbone.
    """
    every = materials.require_images()
    seed = materials.question.seed
    classes = len(every.classes)
    train = every.part(Role.TRAIN)
    learnt = every.part(Role.LEARNT)
    if refits and scope.purpose == Purpose.ALL:
        whole = every.part(Role.ALL)
        every_row = tuple(range(len(whole.paths)))
        return HeadImages(whole.paths, whole.labels, whole.groups, every_row, classes, seed)
    if refits:
        chosen = learnt if scope.purpose == Purpose.SHIP else train
        rows = learnt.rows_of(chosen)
        return HeadImages(learnt.paths, learnt.labels, learnt.groups, tuple(rows), classes, seed)
    drawn = choose_images(train.labels, MATCHED_IMAGES, seed)
    return HeadImages(tuple(train.paths[place] for place in drawn), (), (), (), classes, seed)


def _seconds(card: Card, compression: str, refitted: int, rewrites: bool) -> float:
    """Return the seconds of one pass of the quantized file, or of both files over some images,
    and of the fit.

    ``rewrites``: the head is known, and is written into the file alone.
    """
    if rewrites:
        return cost.REWRITE_S
    if refitted:
        return cost.ADJUST_S + cost.scoring_s(card, compression, refitted)
    return sum(cost.scoring_s(card, form, MATCHED_IMAGES) for form in (compression, "float32"))
