"""Do what a search still can when it has its answer.

The search (``_run.py``) calls ``when_answered`` after it has judged the finalists. The pick gets a
file that learns from all images, if ``--ship-on all`` asks for it (``_on_all_images.py``). Labels
are checked by features that the search has computed, if this costs little.
"""

import asyncio
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from advisor.catalog import Card
from advisor.core import LOCAL, Evaluation, ShipOn, StageError, Status, TrainingName, recipe_of
from advisor.engine._history.label_check import LABELS, CheckedLabels, WrongLabel
from advisor.engine._label_faults import Faults, label_stage
from advisor.engine._late_work import LateWork
from advisor.engine._on_all_images import learn_from_all
from advisor.engine._pipeline.evaluation.scorer import Scorer
from advisor.engine._pipeline.images import Images, Role
from advisor.engine._pipeline.materials import DAMAGED
from advisor.engine._pipeline.stage import Stage
from advisor.engine._question import Execution
from advisor.engine._space.plan import ANSWER_S
from advisor.engine._space.question_images import Say
from advisor.store import RunFolder
from advisor.training import Suspect

SHARE = 0.05
"""Share of the time of a search, or of its limit, that the check of labels may take."""

BUSY = 4.0
"""Times as long as expected that the check may take:
a busy machine works slowly, and a limit ends it anyway.
"""

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
    ends_at = math.inf
    if execution.time_limit_s is not None:
        limit_s = execution.time_limit_s - answer_s
        ends_at = started + limit_s
    if execution.ship_on == ShipOn.ALL:
        # The file that ships comes before the check of labels:
        # only the user can ask for it, and it may use all that is left.
        work = LateWork(scorer, run, stopping, ends_at, say)
        await learn_from_all(work, execution.executor == LOCAL)
    now = time.monotonic()
    spare_s = affordable_s(now - started, limit_s)
    # The price of the check is rough, so it may take BUSY times as long;
    # the limit of the search still ends it.
    until = min(now + BUSY * spare_s, ends_at)
    await check_labels(LateWork(scorer, run, stopping, until, say), spare_s)


async def check_labels(work: LateWork, spare_s: float) -> None:
    """Check the labels of the images outside the hold-out, and write what was found into the run.

    Nothing happens without classes, or if it takes more than ``spare_s``.
    """
    stage = _make_stage(work.scorer, work.run)
    if stage is None or work.price_s(stage) > spare_s:
        return
    images = work.scorer.walker.materials.require_images()
    learnt = len(images.part(Role.LEARNT).paths)
    work.say("checking the labels of the images")
    try:
        suspects, _copies = await work.run_stage(stage)
        checked = CheckedLabels(stage.scope.card, learnt, list_wrong_labels(images, suspects))
        work.run.write_json(LABELS, asdict(checked))
    # The answer is complete without it.
    except (StageError, *DAMAGED) as error:
        _log.info("labels were not checked: %s", error)


def _make_stage(scorer: Scorer, run: RunFolder) -> Stage[Faults] | None:
    """Return the stage of the check;
    None if the images have no classes, or too few images of them.
    """
    materials = scorer.walker.materials
    card = find_best_features(run.evaluations(), scorer.cards)
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


def find_best_features(
    evaluations: Sequence[Evaluation], cards: Mapping[str, Card]
) -> Card | None:
    """Return the card with the most accurate head, else the most accurate network;
    None if nothing was trained.

    The better the features, the fewer right labels of hard images are taken for wrong ones.
    """
    trained = []
    for evaluation in evaluations:
        configuration = evaluation.configuration
        # Nothing was trained for a finished file, and a quick head saw a part of the images.
        is_finished = cards[configuration.card].form
        if is_finished or recipe_of(configuration.training).quick_head:
            continue
        if evaluation.status is Status.OK:
            trained.append(evaluation)
    best = max(
        trained,
        key=lambda evaluation: (
            evaluation.configuration.training == TrainingName.HEAD,
            evaluation.accuracy_percent,
        ),
        default=None,
    )
    return None if best is None else cards[best.configuration.card]


def list_wrong_labels(images: Images, suspects: Sequence[Suspect]) -> tuple[WrongLabel, ...]:
    """Return suspects by the paths and classes of their images."""
    part = images.part(Role.LEARNT)
    classes = images.classes
    labels = []
    for suspect in suspects:
        path = images.dataset.show_path(part.paths[suspect.index])
        wrong = WrongLabel(
            path,
            label=classes[part.labels[suspect.index]],
            suggested=classes[suspect.suggested],
            given=round(suspect.given, 4),
            better=round(suspect.better, 4),
        )
        labels.append(wrong)
    return tuple(labels)
