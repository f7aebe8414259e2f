"""Do what a search still can when it has its answer.

The pick gets a file that learns from all images, if ``--ship-on all`` asks for it. Labels are
checked by features that the search has computed, if this costs little.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import Card
from advisor.core import (
    HEAD,
    LOCAL,
    Evaluation,
    OnAllImages,
    ShipOn,
    StageError,
    Status,
    recipe_of,
)
from advisor.engine._data_check import Faults, label_stage
from advisor.engine._decide import decide_run
from advisor.engine._history.label_check import LABELS, CheckedLabels, WrongLabel
from advisor.engine._pipeline.evaluation.scorer import Scorer, artefact_of, scope_of
from advisor.engine._pipeline.graph import VariantStages, with_all_before
from advisor.engine._pipeline.images import Images, Role
from advisor.engine._pipeline.materials import DAMAGED, Purpose
from advisor.engine._pipeline.resources import Pool
from advisor.engine._pipeline.stage import Stage
from advisor.engine._pipeline.walker import Lookup
from advisor.engine._question import Execution
from advisor.engine._space.plan import ANSWER_S
from advisor.engine._space.question_images import Say
from advisor.isolation import map_pools
from advisor.store import RunFolder
from advisor.training import Suspect

Result = TypeVar("Result")
Classes = NDArray[np.int64]

SHARE = 0.05
"""Share of the time of a search, or of its limit, that the check of labels may take."""

BUSY = 4.0
"""Times as long as expected that the check may take:
a busy machine works slowly, and a limit ends it anyway.
"""

MOST_LOST = 0.02
"""Share of right answers that a file that learns from all images may lose on images that it has
learnt from, against the judged file, which has learnt from them too. A larger loss is a fault.
"""

NO_TIME = "there was no time left for it; advisor search --resume continues with it"

_log = logging.getLogger(__name__)


async def when_answered(
    scorer: Scorer | None,
    run: RunFolder,
    stopping: asyncio.Event,
    execution: Execution,
    started: float,
    say: Say,
    answer_s: float = ANSWER_S,
) -> None:
    """Do what a search still can when it has its answer, in the time that a limit leaves;
    nothing without images.

    The search began at ``started`` seconds of the monotonic clock. ``say`` shows what is being
    done. The answer takes ``answer_s`` seconds to write.
    """
    if scorer is None or stopping.is_set():
        return
    limit_s = None
    if execution.time_limit_s is not None:
        limit_s = execution.time_limit_s - answer_s
    if execution.ship_on == ShipOn.ALL:
        until = math.inf if limit_s is None else started + limit_s
        # The file that ships comes before the check of labels:
        # only the user can ask for it, and it may use all that is left.
        await learn_from_all(_Work(scorer, run, stopping, until, say), execution.executor == LOCAL)
    now = time.monotonic()
    spare_s = affordable_s(now - started, limit_s)
    # The price of the check is rough, so it may take BUSY times as long;
    # the limit of the search still ends it.
    limit_ends = math.inf if limit_s is None else started + limit_s
    until = min(now + BUSY * spare_s, limit_ends)
    await check_labels(_Work(scorer, run, stopping, until, say), spare_s)


@dataclass(frozen=True)
class _Work:
    """Work for an answer: what runs its stages, the run, the wish to stop, until when,
    and what shows the work.
    """

    scorer: Scorer
    run: RunFolder
    stopping: asyncio.Event
    until: float  # seconds of the monotonic clock
    say: Say

    @property
    def left_s(self) -> float:
        """The seconds that are left."""
        return max(0.0, self.until - time.monotonic())

    def missing(self, stage: Stage[Any]) -> list[Stage[Any]]:
        """Return a stage and those that it needs,
        without what this search or an earlier one has made.
        """
        walker = self.scorer.walker
        lookup = Lookup(walker.materials)
        unmade = []
        for missing in with_all_before((stage,)):
            if not walker.has(missing) and lookup.find(missing) is None:
                unmade.append(missing)
        return unmade

    def price_s(self, stage: Stage[Any]) -> float:
        """Return the rough seconds of what is missing for a stage."""
        return sum(missing.cost_s for missing in self.missing(stage))

    async def result(self, stage: Stage[Result]) -> Result:
        """Return the result of a stage; StageError if it fails, takes too long,
        or the user stops the search.
        """
        work = asyncio.ensure_future(self.scorer.walker.run(stage))
        # The stage itself does not watch for Ctrl-C.
        # Without this second future, the user would wait for its end.
        stopped = asyncio.ensure_future(self.stopping.wait())
        timeout = None if self.until == math.inf else self.left_s
        await asyncio.wait({work, stopped}, timeout=timeout, return_when="FIRST_COMPLETED")
        stopped.cancel()
        if work.done():
            return work.result()
        # The cache takes a result over only when it is whole, so nothing half written stays.
        work.cancel()
        raise StageError(NO_TIME)


async def check_labels(work: _Work, spare_s: float) -> None:
    """Check the labels of the images outside the hold-out, and write what was found into the run.

    Nothing happens without classes, or if it takes more than ``spare_s``.
    """
    stage = _stage(work.scorer, work.run)
    if stage is None or work.price_s(stage) > spare_s:
        return
    images = work.scorer.walker.materials.require_images()
    learnt = len(images.part(Role.LEARNT).paths)
    work.say("checking the labels of the images")
    try:
        suspects, _ = await work.result(stage)
        work.run.write_json(
            LABELS, asdict(CheckedLabels(stage.scope.card, learnt, wrong_labels(images, suspects)))
        )
    except (StageError, *DAMAGED) as error:  # the answer is there without it
        _log.info("labels were not checked: %s", error)


def _stage(scorer: Scorer, run: RunFolder) -> Stage[Faults] | None:
    """Return the stage of the check;
    None if the images have no classes, or too few images of them.
    """
    materials = scorer.walker.materials
    card = best_features(run.evaluations(), scorer.cards)
    if card is None or not materials.question.of_task.labelled:
        return None
    try:
        return label_stage(card, materials.part(Role.LEARNT))
    except StageError:
        return None


def affordable_s(taken_s: float, limit_s: float | None) -> float:
    """Return the seconds that the check may take after ``taken_s`` of a search;
    0 if a limit leaves no time.
    """
    if limit_s is None:
        return SHARE * taken_s
    return max(0.0, min(SHARE * limit_s, limit_s - taken_s))


def best_features(evaluations: Sequence[Evaluation], cards: Mapping[str, Card]) -> Card | None:
    """Return the card with the most accurate head, else the most accurate network;
    None if nothing was trained.

    The better the features, the fewer right labels of hard images are taken for wrong ones.
    """
    trained = []
    for evaluation in evaluations:
        configuration = evaluation.configuration
        learns = (
            not cards[configuration.card].form and not recipe_of(configuration.training).quick_head
        )
        if evaluation.status is Status.OK and learns:
            trained.append(evaluation)
    ranked = max(
        trained,
        key=lambda evaluation: (
            evaluation.configuration.training == HEAD,
            evaluation.accuracy_percent,
        ),
        default=None,
    )
    return None if ranked is None else cards[ranked.configuration.card]


def wrong_labels(images: Images, suspects: Sequence[Suspect]) -> tuple[WrongLabel, ...]:
    """Return suspects by the paths and classes of their images."""
    part = images.part(Role.LEARNT)
    classes = images.classes
    labels = []
    for suspect in suspects:
        path = images.dataset.show_path(part.paths[suspect.index])
        given = classes[part.labels[suspect.index]]
        suggested = classes[suspect.suggested]
        labels.append(
            WrongLabel(path, given, suggested, round(suspect.given, 4), round(suspect.better, 4))
        )
    return tuple(labels)


async def learn_from_all(work: _Work, trains_here: bool) -> None:
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


async def _make_on_all(work: _Work, pick: Evaluation, trains_here: bool) -> OnAllImages:
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
    with _new_trainers(work) if _trains(work, stages) else contextlib.nullcontext():
        made = await work.result(stages.on_all)
        scope = scope_of(pick)
        # Both files are run on validation images, which both have learnt from.
        # So a difference is a fault of the training.
        seconds = stages.scored.cost_s
        ours = stages.scoring(
            replace(scope, purpose=Purpose.ALL), stages.on_all, Role.VALIDATION, seconds
        )
        theirs = stages.scoring(scope, artefact_of(work.run, pick), Role.VALIDATION, seconds)
        files: list[Path] = [await work.result(stage) for stage in (ours, theirs)]
    classes, judged_classes = (np.load(file, allow_pickle=False).argmax(axis=1) for file in files)
    materials = scorer.walker.materials
    labels = np.asarray(materials.part(Role.VALIDATION).labels)
    _require_as_right(classes, judged_classes, labels)
    path = work.run.keep_artefact(made.path, f"{Path(pick.artefact).stem}-all.tflite")
    return OnAllImages(
        file=str(path.relative_to(work.run.path)),
        sha256=made.sha256,
        size_bytes=made.size_bytes,
        images=len(materials.require_images().part(Role.ALL).paths),
        more=scorer.holdout_images,
        same=float((classes == judged_classes).mean()),
        compared=len(labels),
    )


def _refuse_on_all(work: _Work, stages: VariantStages, trains_here: bool) -> None:
    """Raise StageError if a file that learns from all images cannot be made
    for the pick of these stages.
    """
    scorer = work.scorer
    if not stages.made_here or not scorer.workload.trained_twice(stages.training):
        raise StageError("the pick does not learn from your images")
    if not scorer.holdout_images:
        raise StageError("there is no hold-out, so it has learnt from all images")
    # The file of all images continues the training of the judged one.
    # To train that one anew would give another network.
    if any(
        stage.resources.long and stage.scope.purpose != Purpose.ALL
        for stage in work.missing(stages.on_all)
    ):
        raise StageError("the training that it continues is no longer in the cache")
    if work.price_s(stages.on_all) > work.left_s:
        raise StageError(NO_TIME)
    if _trains(work, stages) and not trains_here:
        raise StageError("a network is trained on all images with --executor local only")


def _trains(work: _Work, stages: VariantStages) -> bool:
    """Return whether a network must still be trained for the file that learns from all images."""
    return any(stage.resources.pool == Pool.TRAINERS for stage in work.missing(stages.on_all))


@contextlib.contextmanager
def _new_trainers(work: _Work) -> Iterator[None]:
    """Start trainers on this machine, where jobs of a cluster do not run:
    the search has ended its own.
    """
    walker = work.scorer.walker
    pool = map_pools()[Pool.TRAINERS](work.run.place(work.run.log_file.name))
    with contextlib.closing(pool):
        # Nothing puts the ended trainers back: no job of the search follows.
        walker.workers = replace(
            walker.workers, pools={**walker.workers.pools, Pool.TRAINERS: pool}
        )
        yield


def _require_as_right(classes: Classes, judged_classes: Classes, labels: Classes) -> None:
    """Raise StageError if the file of all images gives fewer right answers than the judged one,
    beyond chance.

    All three are the classes (images,) of the same images: those of both files, and the labels.
    """
    right, judged_right = ((answers == labels).mean() for answers in (classes, judged_classes))
    # A loss below two deviations of these may be chance.
    differing = int((classes != judged_classes).sum())
    if right < judged_right - max(MOST_LOST, 2.0 * math.sqrt(differing) / len(labels)):
        lost = (
            f"{100 * (judged_right - right):.1f} points fewer right answers on validation images"
        )
        raise StageError(
            f"it went wrong: the file gives {lost}, which both files have learnt from"
        )
