"""Make a second file of the pick that learns from all images (``--ship-on all``).

``when_answered`` (``_afterwards.py``) calls it at the end of a search. The file has learnt from
the hold-out too, so nothing can judge it: the judged file keeps every figure, and both are
compared on images that both know. The outcome is a row of ``evaluations.jsonl``
(:class:`~advisor.core.OnAllImages`), whose fields and reasons reports and exports read.
"""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.core import Evaluation, OnAllImages, StageError
from advisor.engine._decide import decide_run
from advisor.engine._late_work import TOO_LATE, LateWork
from advisor.engine._pipeline.evaluation.scorer import artefact_of, scope_of
from advisor.engine._pipeline.graph import VariantStages
from advisor.engine._pipeline.images import Role
from advisor.engine._pipeline.materials import DAMAGED, Purpose
from advisor.engine._pipeline.resources import Pool
from advisor.engine._pipeline.stage import Stage
from advisor.isolation import PoolKind

Classes = NDArray[np.int64]

MOST_LOST = 0.02
"""Share of right answers that a file that learns from all images may lose on images that it has
learnt from, against the judged file, which has learnt from them too. A larger loss is a fault.
"""


async def learn_from_all(work: LateWork, trains_here: bool) -> None:
    """Make the file of the pick that learns from all images, and name it beside the judged file.

    The judged file keeps every figure. ``trains_here``: jobs run on this machine, where a network
    can be trained after the search has ended its other trainings.
    """
    run = work.run
    question = work.scorer.walker.materials.question
    pick = decide_run(run, run.evaluations(), question).decision.pick
    if pick is None or not pick.artefact or (pick.on_all is not None and pick.on_all.file):
        return
    try:
        outcome = await _make_on_all(work, pick, trains_here)
    except StageError as error:
        outcome = OnAllImages(reason=error.message)
    except DAMAGED as error:
        outcome = OnAllImages(reason=f"the file cannot be read or kept ({error})")
    for evaluation in run.evaluations():
        # One file has a row for each number of threads and each device, and all of them show it.
        if evaluation.artefact_sha256 == pick.artefact_sha256:
            run.append(replace(evaluation, on_all=outcome))


async def _make_on_all(work: LateWork, pick: Evaluation, trains_here: bool) -> OnAllImages:
    """Return the file; StageError says why it cannot be made, or must not ship."""
    scorer = work.scorer
    stages = VariantStages(
        scorer.cards[pick.configuration.card],
        pick.configuration.training,
        pick.configuration.compression,
        scorer.workload,
    )
    _refuse_on_all(work, stages, trains_here)
    work.say("making the file that learns from all images")
    trainers: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if _needs_training(work, stages):
        trainers = _start_trainers(work)
    with trainers:
        artefact = await work.run_stage(stages.on_all)
        scope = scope_of(pick)
        scope_on_all = replace(scope, purpose=Purpose.ALL)
        # Both files are run on validation images, which both have learnt from.
        # So a difference is a fault of the training.
        cost_s = stages.scored.cost_s
        scoring = stages.scoring(scope_on_all, stages.on_all, Role.VALIDATION, cost_s)
        classes = await _read_classes(work, scoring)
        scoring = stages.scoring(scope, artefact_of(work.run, pick), Role.VALIDATION, cost_s)
        judged_classes = await _read_classes(work, scoring)
    materials = scorer.walker.materials
    labels = np.asarray(materials.part(Role.VALIDATION).labels)
    _require_as_right(classes, judged_classes, labels)
    path = work.run.keep_artefact(artefact.path, f"{Path(pick.artefact).stem}-all.tflite")
    return OnAllImages(
        file=str(path.relative_to(work.run.path)),
        sha256=artefact.sha256,
        size_bytes=artefact.size_bytes,
        images=len(materials.require_images().part(Role.ALL).paths),
        more=scorer.holdout_images,
        same=float((classes == judged_classes).mean()),
        compared=len(labels),
    )


async def _read_classes(work: LateWork, scoring: Stage[Path]) -> Classes:
    """Return the class that a file answers to each image, (images,), by the stage that runs it."""
    file: Path = await work.run_stage(scoring)
    classes: Classes = np.load(file, allow_pickle=False).argmax(axis=1)
    return classes


def _refuse_on_all(work: LateWork, stages: VariantStages, trains_here: bool) -> None:
    """Raise StageError if a file that learns from all images cannot be made for the pick of
    these stages.
    """
    scorer = work.scorer
    if not stages.made_here or not scorer.workload.trained_twice(stages.training):
        raise StageError("the pick does not learn from your images")
    if not scorer.holdout_images:
        raise StageError("there is no hold-out, so it has learnt from all images")
    # The file of all images continues the training of the judged one.
    # To train that one anew would give another network.
    for stage in work.list_missing(stages.on_all):
        if stage.resources.long and stage.scope.purpose != Purpose.ALL:
            raise StageError("the training that it continues is no longer in the cache")
    if work.price_s(stages.on_all) > work.left_s:
        raise StageError(TOO_LATE)
    if _needs_training(work, stages) and not trains_here:
        raise StageError("a network is trained on all images with --executor local only")


def _needs_training(work: LateWork, stages: VariantStages) -> bool:
    """Return whether a network must still be trained for the file that learns from all images."""
    missing = work.list_missing(stages.on_all)
    return any(stage.resources.pool == Pool.TRAINERS for stage in missing)


@contextlib.contextmanager
def _start_trainers(work: LateWork) -> Iterator[None]:
    """Start trainers on this machine, where jobs of a cluster do not run:
    the search has ended its own.
    """
    walker = work.scorer.walker
    pool = PoolKind.TRAINERS.open(work.run.place(work.run.log_file.name))
    with contextlib.closing(pool):
        # Nothing puts the ended trainers back: no job of the search follows.
        pools = {**walker.workers.pools, Pool.TRAINERS: pool}
        walker.workers = replace(walker.workers, pools=pools)
        yield


def _require_as_right(classes: Classes, judged_classes: Classes, labels: Classes) -> None:
    """Raise StageError if the file of all images gives fewer right answers, beyond chance.

    All three are the classes (images,) of the same images: those of both files, and the labels.
    """
    right = (classes == labels).mean()
    judged_right = (judged_classes == labels).mean()
    # A loss below two deviations of the images that differ may be chance.
    differing = int((classes != judged_classes).sum())
    if right < judged_right - max(MOST_LOST, 2.0 * math.sqrt(differing) / len(labels)):
        points = 100 * (judged_right - right)
        raise StageError(
            f"it went wrong: the file gives {points:.1f} points fewer right answers on validation"
            " images, which both files have learnt from"
        )
