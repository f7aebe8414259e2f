"""Tasks whose networks learn from the maps of a card's backbone:
the stage that trains one, and the job of a head.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from advisor.catalog import Card
from advisor.core import HEAD, UnsupportedRecipe, recipe_of
from advisor.datasets import CAPTURE_VERSION, InputSpec
from advisor.engine import (
    FloatModel,
    Folders,
    Inputs,
    Job,
    Materials,
    Pool,
    Purpose,
    Resources,
    Results,
    Role,
    Scope,
    Source,
    Stage,
    StageName,
    Workload,
    identity,
    list_versions,
    over_images,
)
from advisor.isolation import CallLimits
from advisor.store import write_atomically

if TYPE_CHECKING:
    from advisor.core import WeightsFile
    from advisor.tasks._task import HeadOnMaps, OnMaps, TaskFunctions
    from advisor.training import TrainingStart

GOING_ON = 0.55
"""Seconds of the training that goes on, over those of the same images from the start."""

# In the folder of checkpoints: epochs done, all epochs, and the share of the seconds.
EPOCHS = "epochs.json"

TRAINING = Resources(
    Pool.TRAINERS, 3_000_000_000, CallLimits(seconds=3 * 3600, memory_bytes=8_000_000_000)
)


def train_on_maps(
    card: Card, training: str, purpose: Purpose, workload: Workload
) -> Stage[FloatModel]:
    """Train a network of the task on the card's frozen backbone, or fine-tune both.

    The compared one learns from the training part; fine-tuning starts from the compared head. The
    one that ships goes on from the compared one, with everything but the hold-out, if the task's
    networks can.
    """
    role = purpose.learns
    recipe = recipe_of(training)
    task = cast("OnMaps", workload.question.of_task)
    layers = recipe.layers if recipe.tunes_backbone else 0.0
    goes_on = task.goes_on and purpose is not Purpose.COMPARE
    earlier = None
    if goes_on or layers:
        earlier = train_on_maps(card, training if goes_on else HEAD, Purpose.COMPARE, workload)

    def inputs(materials: Materials, results: Results) -> Inputs:
        if card.own_file:
            why = (
                f"a file of your own has no graph that {task.learnt} can be trained on; name a"
                " network"
            )
            raise UnsupportedRecipe(why)
        part = materials.part(role)
        facts = {"pictures": part.fingerprint, "seed": materials.question.seed, "task": task.name}
        packages = list_versions("tensorflow", "keras", "ai-edge-litert", "pillow", "numpy")
        start = (
            {"earlier": results[earlier].sha256, "share": layers, "goes_on": goes_on}
            if earlier
            else {}
        )
        return {**identity(materials, card), **facts, **start, **packages}

    scope = Scope(card.name, training, purpose=purpose)
    # The compared network shares its time limit with the one that ships,
    # which still has to go on from it.
    to_come = None
    if purpose is not Purpose.ALL:
        to_come = 0.0 if goes_on else GOING_ON

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        from advisor.training import TrainingStart

        seconds = materials.limit_s(scope, to_come)
        budget = None if seconds is None else materials.budget_training(scope.card, scope.training)
        reserve = budget.reserve if budget else None
        start = TrainingStart(
            results[earlier].path if earlier else None, layers, goes_on, seconds, reserve
        )
        return task.job(card, materials, materials.part(role), folders, start)

    which = "the final network" if purpose is Purpose.SHIP else "the network"
    seconds = task.seconds(card, workload.images[role], layers) * (GOING_ON if goes_on else 1.0)
    # A network that its time limit ended early is not kept:
    # a search with more time goes on from its checkpoints.
    keep_if = (lambda result: not result["out_of_time"]) if task.goes_on else None
    return Stage(
        name=StageName(training),
        scope=scope,
        version=task.version,
        doing=f"{'fine-tuning' if layers else 'training'} {which} of",
        after=(earlier,) if earlier else (),
        inputs=inputs,
        job=job,
        read=FloatModel.within,
        cost_s=seconds,
        resources=TRAINING,
        reads=lambda materials: materials.part(role),
        epochs=lambda _materials, _results: epochs_done,
        keep_if=keep_if,
    )


def epochs_done(checkpoints: Path) -> tuple[int, int, float] | None:
    """Return how far a training is, see :data:`.stage.Epochs`;
    None before its first epoch, and where it has none.
    """
    try:
        done, epochs, share = json.loads((checkpoints / EPOCHS).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return None
    return done, epochs, share


class _Progress:
    """Writes how far a training is; its maps, before the first epoch, count too."""

    def __init__(self, checkpoints: Path) -> None:
        checkpoints.mkdir(parents=True, exist_ok=True)
        self._file = checkpoints / EPOCHS
        self._began = time.monotonic()
        self._first = 0.0
        self._file.unlink(missing_ok=True)  # of a training that was ended

    def __call__(self, done: int, epochs: int) -> None:
        now = time.monotonic()
        if not done:
            self._first = now
            return
        left_s = (epochs - done) * (now - self._first) / done
        row = done, epochs, (now - self._began) / (now - self._began + left_s)
        # The search reads this file from another process while the training writes it.
        write_atomically(self._file, json.dumps(row))


def answer_images(
    functions: TaskFunctions,
    scope: Scope,
    spec: InputSpec,
    source: Source,
    role: Role,
    cost_s: float,
    captured: bool = False,
) -> Stage[Path]:
    """Run a file over images, as they are or under capture conditions;
    arguments as of :func:`.over_images`.
    """

    def inputs(materials: Materials) -> Inputs:
        classes = {"classes": materials.require_images().classes}
        names = [path.name for path in materials.part(role).paths] if captured else []
        return {**classes, "names": names, "conditions": CAPTURE_VERSION} if captured else classes

    name = StageName.CAPTURE if captured else StageName.SCORE
    return over_images(
        name,
        partial(functions.answer, captured),
        functions.answers,
        scope,
        spec,
        source,
        role,
        cost_s,
        inputs,
    )


def train(
    card: Card,
    weights: WeightsFile | None,
    images: Sequence[tuple[Path, Any]],
    classes: int,
    task: str,
    seed: int,
    path: Path,
    checkpoints: Path,
    start: TrainingStart,
) -> dict[str, bool]:
    """Train a card's network, see :func:`.on_maps.train.train`, write it,
    and return whether its time was over.

    ``task`` gives the kind of head, and makes labels of what comes with each image. The folder
    ``checkpoints`` takes :data:`EPOCHS`.
    """
    from advisor.core import TASKS
    from advisor.training import LabelledImages, train as train_head

    functions = cast("HeadOnMaps", TASKS[task])
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        some = functions.learns_from(images, seed)
        learnt = LabelledImages(
            [image for image, _ in some], [functions.labels(truth, card) for _, truth in some]
        )
        tell = _Progress(checkpoints)
        trained = train_head(
            card,
            weights,
            learnt,
            classes,
            functions.head_of(card),
            seed,
            Path(folder),
            start,
            tell,
        )
    trained.write(path)
    return {"out_of_time": trained.out_of_time}
