"""Adjust the head of a quantized classifier to the features that its own backbone gives: the
stage.

:class:`.VariantStages` puts it behind the compression of int8 classifiers (:func:`can_adjust`).
``adjusting_jobs.py`` has the work. The time of a file does not change.
"""

from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any

from advisor.catalog import Card
from advisor.core import TrainingName, form_of, recipe_of
from advisor.datasets import choose_images
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
from advisor.engine._pipeline.stages.backbone import FeatureSet, feature_stages
from advisor.engine._pipeline.stages.head import TrainedHead, fit_head
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
    recipe = recipe_of(training)
    has_trained_head = bool(workload.images) and recipe.learns and not recipe.quick_head
    linear = workload.question.of_task.linear
    return has_trained_head and linear and form_of(compression).name == "int8"


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
    earlier = compared if refits else None
    work = _Adjusting(card, scope, source, floats, workload, refits, earlier)
    refitted_images = workload.images[Role.LEARNT] if refits else 0
    return Stage(
        name=StageName.ADJUST,
        scope=scope,
        version="1",
        doing="adjusting the head of",
        after=work.list_needed(),
        inputs=work.list_inputs,
        job=work.make_job,
        read=Artefact.within,
        cost_s=_price_s(card, scope.compression, refitted_images, rewrites=earlier is not None),
        reads=lambda materials: materials.part(work.role),
    )


@dataclass(frozen=True)
class _Adjusting:
    """The work of one stage: the head of ``source`` is refitted, or its logits are matched.

    ``earlier`` is the adjusted file of the compared model, whose head may be taken over.
    """

    card: Card
    scope: Scope
    source: Stage[Artefact]
    floats: Stage[FloatModel]
    workload: Workload
    refits: bool
    earlier: Stage[Artefact] | None

    @property
    def role(self) -> Role:
        """The images whose features are read."""
        return Role.ALL if self.scope.purpose == Purpose.ALL else Role.LEARNT

    @cached_property
    def read(self) -> FeatureSet:
        """The features of the float backbone."""
        return feature_stages(self.card, self.role, self.workload.images[self.role])

    @cached_property
    def head(self) -> Stage[TrainedHead]:
        """The head of the compared float file, which says how a head is fitted."""
        return fit_head(self.card, TrainingName.HEAD, self.workload)

    def list_needed(self) -> tuple[Stage[Any], ...]:
        """Return the stages whose results the work needs."""
        to_refit = (*self.read.stages, self.head) if self.refits else ()
        return (self.source, self.floats, *to_refit, *after(self.earlier))

    def list_inputs(self, materials: Materials, results: Results) -> Inputs:
        """Return what the result depends on."""
        inputs: dict[str, object] = {
            "artefact": results[self.source].sha256,
            "floats": results[self.floats].sha256,
            "compared": results[self.earlier].sha256 if self.earlier else "",
            "pictures": [
                materials.part(role).fingerprint
                for role in dict.fromkeys((self.role, Role.LEARNT, Role.TRAIN))
            ],
            "groups": list(materials.part(Role.TRAIN).groups),
            "seed": materials.question.seed,
            "view": input_spec(self.card).key,
            "fit": HEAD_VERSION,
            **list_versions("ai-edge-litert", "pillow", "numpy", "scipy"),
        }
        if self.refits:
            inputs["head"] = asdict(results[self.head].chosen)
            inputs["features"] = self.read.key(materials, results)
        return inputs

    def make_job(self, materials: Materials, results: Results, folders: Folders) -> Job:
        """Return the job that writes the file."""
        images = _choose_head_images(materials, self.scope, self.refits)
        if self.refits:
            images = replace(
                images,
                head=results[self.head].chosen,
                features=self.read.files(results),
                backbone=results[self.read.source].path,
            )
        file = results[self.source]
        return partial(
            adjust_head,
            file.path,
            results[self.floats].path,
            images,
            input_spec(self.card),
            results[self.earlier].path if self.earlier else None,
            file.figures,
            file.notes,
            folders.model,
        )


def _refits(training: str, workload: Workload) -> bool:
    """Return whether the head is fitted again; else its logits are matched."""
    question = workload.question
    if not question.of_task.labelled or question.robust or recipe_of(training).tunes_backbone:
        return False
    images = workload.images[Role.LEARNT]
    return images <= MOST_IMAGES and images * workload.classes <= MOST_TARGETS


def _choose_head_images(materials: Materials, scope: Scope, refits: bool) -> HeadImages:
    """Return the images to run; a pass for the compared file also serves the file that ships,
    of the same backbone.
    """
    images = materials.require_images()
    seed = materials.question.seed
    classes = len(images.classes)
    train = images.part(Role.TRAIN)
    if not refits:
        drawn = choose_images(train.labels, MATCHED_IMAGES, seed)
        paths = tuple(train.paths[place] for place in drawn)
        # Logits of the float file are matched, so no label is needed.
        return HeadImages(paths, labels=(), groups=(), train=(), classes=classes, seed=seed)
    if scope.purpose == Purpose.ALL:
        run = images.part(Role.ALL)
        rows = tuple(range(len(run.paths)))
    else:
        run = images.part(Role.LEARNT)
        rows = tuple(run.rows_of(run if scope.purpose == Purpose.SHIP else train))
    return HeadImages(run.paths, run.labels, run.groups, train=rows, classes=classes, seed=seed)


def _price_s(card: Card, compression: str, refitted_images: int, rewrites: bool) -> float:
    """Return the CPU seconds of one pass of the quantized file, or of both files over some images,
    and of the fit.

    ``rewrites``: the head is known, and is written into the file alone.
    """
    if rewrites:
        return cost.REWRITE_S
    if refitted_images:
        return cost.ADJUST_S + cost.scoring_s(card, compression, refitted_images)
    return sum(cost.scoring_s(card, form, MATCHED_IMAGES) for form in (compression, "float32"))
