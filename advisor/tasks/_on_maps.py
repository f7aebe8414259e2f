"""Declare the stages of tasks whose networks learn from the maps of a card's backbone.

:class:`.OnMaps` asks for :func:`train_on_maps` and :func:`answer_images`. The search calls the job
:func:`train` in a child process, by module and name. Names and values of ``inputs`` are keys of
the cache; each task raises its ``version`` when equal inputs give another network.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from advisor.catalog import Card, build_detector, build_model
from advisor.core import TrainingName, UnsupportedRecipe, recipe_of
from advisor.datasets import CAPTURE_VERSION, InputSpec
from advisor.engine import (
    EpochFile,
    FloatModel,
    Folders,
    Inputs,
    Job,
    Materials,
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
    input_spec,
    list_versions,
    over_images,
)

if TYPE_CHECKING:
    from advisor.core import WeightsFile
    from advisor.tasks._task import HeadOnMaps, OnMaps, TaskFunctions
    from advisor.training import HeadKind, TrainingStart

GOING_ON = 0.55
"""Seconds of the training that goes on, over those of the same images from the start."""

TRAINING = Resources.of_training(3_000_000_000, most_bytes=8_000_000_000)


@dataclass(frozen=True)
class MapTraining:
    """The training of one network on the maps of a card's backbone, as a stage needs it."""

    card: Card
    task: OnMaps
    training: str  # name of the training recipe
    purpose: Purpose
    layers: float  # share of the backbone's layers that are fine-tuned; 0 if it is frozen
    goes_on: bool  # it goes on from the compared network, with more images
    earlier: Stage[FloatModel] | None  # the network that it starts from

    @property
    def scope(self) -> Scope:
        """The scope of the stage."""
        return Scope(self.card.name, self.training, purpose=self.purpose)

    @property
    def role(self) -> Role:
        """The images that it learns from."""
        return self.purpose.learns

    @property
    def subject(self) -> str:
        """The work in words of progress, before the card's name."""
        verb = "fine-tuning" if self.layers else "training"
        network = "the final network" if self.purpose is Purpose.SHIP else "the network"
        return f"{verb} {network} of"

    def inputs(self, materials: Materials, results: Results) -> Inputs:
        """Return what the network depends on: its key in the cache."""
        if self.card.own_file:
            raise UnsupportedRecipe(
                f"a file of your own has no graph that {self.task.learnt} can be trained on; name"
                " a network"
            )
        start: dict[str, object] = {}
        if self.earlier:
            start = {
                "earlier": results[self.earlier].sha256,
                "share": self.layers,
                "goes_on": self.goes_on,
            }
        elif sha256 := materials.hash_earlier_head(self.card):
            start = {"start": sha256}
        return {
            **identity(materials, self.card),
            "pictures": materials.part(self.role).fingerprint,
            "seed": materials.question.seed,
            "task": self.task.name,
            **start,
            **list_versions("tensorflow", "keras", "ai-edge-litert", "pillow", "numpy"),
        }

    def make_job(self, materials: Materials, results: Results, folders: Folders) -> Job:
        """Return the training, with its start and its part of the time limit."""
        from advisor.training import TrainingStart

        # The compared network shares its time limit with the one that ships,
        # which still has to go on from it.
        to_come = None
        if self.purpose is not Purpose.ALL:
            to_come = 0.0 if self.goes_on else GOING_ON
        seconds = materials.limit_s(self.scope, to_come)
        reserve = None
        if seconds is not None:
            budget = materials.budget_training(self.card.name, self.training)
            reserve = budget.reserve if budget else None
        if self.earlier:
            earlier_path = results[self.earlier].path
            start = TrainingStart(earlier_path, self.layers, self.goes_on, seconds, reserve)
        else:
            head = materials.find_earlier_head(self.card)
            start = TrainingStart(seconds=seconds, reserve=reserve, head_of_others=head)
        return self.task.job(self.card, materials, materials.part(self.role), folders, start)


def train_on_maps(
    card: Card, training: str, purpose: Purpose, workload: Workload
) -> Stage[FloatModel]:
    """Train a network of the task on the card's frozen backbone, or fine-tune both.

    The compared one learns from the training part; fine-tuning starts from the compared head.
    The one that ships goes on from the compared one, with everything but the hold-out, if the
    task's networks can.
    """
    recipe = recipe_of(training)
    task = cast("OnMaps", workload.question.of_task)
    layers = recipe.layers if recipe.tunes_backbone else 0.0
    goes_on = task.goes_on and purpose is not Purpose.COMPARE
    earlier = None
    if goes_on:
        earlier = train_on_maps(card, training, Purpose.COMPARE, workload)
    elif layers:
        earlier = train_on_maps(card, TrainingName.HEAD, Purpose.COMPARE, workload)
    network = MapTraining(card, task, training, purpose, layers, goes_on, earlier)
    seconds = task.seconds(card, workload.images[network.role], layers)
    # A network that its time limit ended early is not kept:
    # a search with more time goes on from its checkpoints.
    keep_if = (lambda result: not result["out_of_time"]) if task.goes_on else None
    return Stage(
        name=StageName(training),
        scope=network.scope,
        version=task.version,
        doing=network.subject,
        after=(earlier,) if earlier else (),
        inputs=network.inputs,
        job=network.make_job,
        read=FloatModel.within,
        cost_s=seconds * (GOING_ON if goes_on else 1.0),
        resources=TRAINING,
        reads=lambda materials: materials.part(network.role),
        epochs=lambda _materials, _results: EpochFile.read,
        keep_if=keep_if,
    )


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

    def list_further_inputs(materials: Materials) -> Inputs:
        classes = {"classes": materials.require_images().classes}
        if not captured:
            return classes
        # The name of an image seeds the noise of its conditions.
        names = [path.name for path in materials.part(role).paths]
        return {**classes, "names": names, "conditions": CAPTURE_VERSION}

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
        list_further_inputs,
    )


def find_builder(card: Card, weights: WeightsFile | None, kind: HeadKind) -> Callable[[], object]:
    """Return what builds the network of a card that a training with this kind of head divides."""
    build: Callable[..., object] = build_detector if kind.begin else build_model
    return partial(build, card, weights)


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
    """Train a card's network and write it; return whether its time limit ended the training.

    See :func:`._on_maps.train.train`. ``task`` gives the kind of head, and makes labels of what
    comes with each image. The folder ``checkpoints`` takes the :class:`EpochFile`.
    """
    from advisor.core import TASKS
    from advisor.training import LabelledImages, train as train_head

    functions = cast("HeadOnMaps", TASKS[task])
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        paths = []
        labels = []
        for image, truth in functions.learns_from(images, seed):
            paths.append(image)
            labels.append(functions.labels(truth, card))
        kind = functions.head_of(card)
        trained = train_head(
            find_builder(card, weights, kind),
            input_spec(card),
            LabelledImages(paths, labels),
            classes,
            kind,
            seed,
            Path(folder),
            start,
            EpochFile(checkpoints),
        )
    trained.write(path)
    return {"out_of_time": trained.out_of_time}
