"""Stages of fine-tuning: its trials, the compared model and the model that ships.

A task asks :func:`finetune_card` for the stage that makes its float file. Trials follow each
other, because each chooses its hyperparameters by the results before; the model that ships goes on
from the compared one. A time limit shortens a training, whose result is then not cached. The words
in the keys ("knobs", "after") stay, and ``FINETUNE_VERSION`` is raised where equal inputs give
another network.
"""

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from advisor.catalog import Card, build_model
from advisor.core import TrainingName
from advisor.engine._pipeline import cost
from advisor.engine._pipeline.images import Role
from advisor.engine._pipeline.materials import (
    FloatModel,
    Materials,
    Purpose,
    Workload,
    input_spec,
    list_versions,
    read_result,
)
from advisor.engine._pipeline.resources import Pool, Resources
from advisor.engine._pipeline.stage import (
    Epochs,
    Folders,
    Inputs,
    Job,
    Results,
    Scope,
    Stage,
    StageName,
    after,
)
from advisor.engine._pipeline.stages.backbone import FeatureSet, feature_stages, identity
from advisor.engine._pipeline.stages.head import TrainedHead, fit_head
from advisor.isolation import CallLimits, PoolKind
from advisor.store import read_cached_sha256, sha256_json
from advisor.tflite import LEVELS_VERSION
from advisor.training import (
    FINETUNE_VERSION,
    FINETUNING,
    WEIGHTS_FILE,
    Finetuning,
    TrainingTime,
    Trials,
    TuningImages,
    epochs_done,
    tune_network,
)

CAPTURED_SHARE = 0.5
"""Share of the training images that fine-tuning changes like a phone's camera,
if robust accuracy counts.
"""

SHIPPING_SHARE = 0.25
"""Share of its first training that the model that ships trains further, in the time that a limit
leaves.
"""

TRAIN_LIMITS = CallLimits(seconds=24 * 3600, memory_bytes=8_000_000_000)
LONG = Resources(Pool.TRAINERS, PoolKind.TRAINERS.expected_bytes, TRAIN_LIMITS, long=True)


def finetune_card(
    card: Card,
    training: str,
    purpose: Purpose,
    workload: Workload,
    scores: str = "",
) -> Stage[FloatModel]:
    """Fine-tune the card on the training part, with early stopping on the validation part.

    The model that ships continues for a few epochs, and learns from the validation part too, or
    from all images. The stage is unsupported for a user's file, which has no Keras graph. With a
    name for ``scores``, that output has a score for each of several labels of an image
    (:attr:`.Part.objects`).
    """
    make_stage = partial(_make_training, card, training, workload=workload, scores=scores)
    trials: tuple[Stage[FloatModel], ...] = ()
    for number in range(workload.question.tune_training):
        scope = Scope(card.name, training, detail=f"trial {number}")
        # The hyperparameters of a trial depend on the results of the earlier ones.
        trials = (*trials, make_stage(scope, trials, None))
    compared = make_stage(Scope(card.name, training, purpose=Purpose.COMPARE), trials, None)
    if purpose is Purpose.COMPARE:
        return compared
    return make_stage(Scope(card.name, training, purpose=purpose), trials, compared)


def training_s(
    card: Card,
    training: str,
    images: int,
    ships: bool = False,
    new_maps: bool = False,
) -> float:
    """Return the rough CPU seconds of one fine-tuning on ``images`` images
    with the recipe's own hyperparameters.

    ``ships``: it continues for the model that ships, with the maps of the compared model,
    or with ``new_maps``.
    """
    recipe = FINETUNING[training].for_images(images)
    # The pass for the features writes the maps of the unchanged images within a time limit,
    # and there a price counts.
    maps = 0
    if recipe.cached and (new_maps or not ships):
        maps = recipe.copies
    epochs = recipe.going_on().epochs if ships else recipe.epochs
    return cost.FINETUNE_START_S + cost.finetuning_s(card, training, images, epochs, maps)


@dataclass(frozen=True)
class _Training:
    """One fine-tuning: a trial, the compared model, or the model that ships,
    which follows the compared one.
    """

    card: Card
    training: str
    scope: Scope
    trials: tuple[Stage[FloatModel], ...]
    compared: Stage[FloatModel] | None
    workload: Workload
    scores: str

    @property
    def is_best(self) -> bool:
        """True for a model with the best hyperparameters of all trials; False for a trial."""
        return not self.scope.detail

    @property
    def role(self) -> Role:
        """The images that it learns from."""
        return _learns_from(self.scope, self.workload.images)[0]

    @property
    def train_images(self) -> int:
        """The number of images that its hyperparameters are chosen for."""
        return _learns_from(self.scope, self.workload.images)[1]

    @cached_property
    def read(self) -> FeatureSet:
        """The features of its images."""
        return feature_stages(self.card, self.role, self.workload.images[self.role])

    @cached_property
    def head(self) -> Stage[TrainedHead] | None:
        """The head that it begins with; None for labels, where it fits one."""
        return None if self.scores else fit_head(self.card, TrainingName.HEAD, self.workload)

    @property
    def values(self) -> Finetuning:
        """The hyperparameters of the recipe."""
        recipe = FINETUNING[self.training]
        return recipe.for_labels() if self.scores else recipe

    def choose_hyperparameters(self, materials: Materials, results: Results) -> Finetuning:
        """Return its hyperparameters: by the trials before, for its number of images."""
        capture = CAPTURED_SHARE if materials.question.robust else 0.0
        values = replace(self.values, seed=materials.question.seed, capture=capture)
        models = [results[trial] for trial in self.trials]
        chosen = choose_hyperparameters(values, models, self.is_best)
        return chosen.for_images(self.train_images)

    def list_inputs(self, materials: Materials, results: Results) -> Inputs:
        """Return what the result depends on."""
        # A training for labels fits its own head, which the name of the output stands for.
        head: object = self.scores
        if self.head:
            head = [results[self.head].sha256, results[self.head].chosen.kind]
        weights_before = ""
        if self.compared:
            weights_file = results[self.compared].path.with_name(WEIGHTS_FILE)
            weights_before = read_cached_sha256(weights_file)
        # Images to learn from are the training part and validation, which is named beside it.
        role = Role.TRAIN if self.role is Role.LEARNT else self.role
        return {
            **identity(materials, self.card),
            "features": self.read.key(materials, results),
            "head": head,
            "train": materials.part(role).fingerprint,
            "validation": materials.part(Role.VALIDATION).fingerprint,
            "groups": list(materials.part(self.role).groups),
            "view": input_spec(self.card).key,
            "knobs": asdict(self.choose_hyperparameters(materials, results)),
            "after": weights_before,
            "version": FINETUNE_VERSION,
            "levels": LEVELS_VERSION,
            **list_versions("tensorflow", "keras", "numpy", "pillow"),
        }

    def make_job(self, materials: Materials, results: Results, folders: Folders) -> Job:
        """Return the job that trains, or ships the compared model if no time is left for more."""
        before = results[self.compared] if self.compared else None
        limit_s = materials.limit_s(self.scope, self._count_to_come())
        # A compared model that ran out of time has used what a limit leaves:
        # further epochs have none.
        if before and limit_s is not None:
            outcome = read_result(before.path.parent)
            if outcome["out_of_time"]:
                return partial(ship_as_compared, before.path, outcome, folders.model)
        images = self._list_images(materials, results)
        chosen = self.choose_hyperparameters(materials, results)
        time = TrainingTime()
        # Trials have chosen the hyperparameters already;
        # a limit shortens only those that nothing has chosen.
        if not self.trials:
            chosen, time = _fit_to_limit(chosen, before, materials, self.scope)
        planned = _plan_hyperparameters(chosen, before, len(images.validation), limit_s)
        own_maps = None
        if self.is_best:
            own_maps = _maps_folder(self.list_inputs(materials, results), folders)
        return partial(
            tune_network,
            partial(build_model, self.card, materials.weights[self.card.name]),
            input_spec(self.card),
            images,
            planned,
            folders.checkpoints,
            folders.model,
            before.path if before else None,
            own_maps,
            time,
        )

    def _list_images(self, materials: Materials, results: Results) -> TuningImages:
        """Return the images with their features, and the head to begin with."""
        learnt = materials.part(self.role)
        first_head = None
        if self.head:
            first_head = (results[self.head].file, results[self.head].chosen)
        return TuningImages(
            features=self.read.files(results),
            images=learnt.paths,
            labels=learnt.objects if self.scores else learnt.labels,
            validation=learnt.rows_of(materials.part(Role.VALIDATION)),
            groups=learnt.groups,
            head=first_head,
            scores=self.scores,
        )

    def make_epochs(self, materials: Materials, results: Results) -> Epochs:
        """Return what reads the progress of the job."""
        planned = self.choose_hyperparameters(materials, results)
        if self.compared:
            planned = planned.going_on()
        return partial(epochs_done, hyperparameters=planned)

    def _count_to_come(self) -> float | None:
        """Return how many trainings follow within the time limit; None where another limit
        holds.
        """
        if self.role is Role.ALL:
            return None
        if self.compared:
            return 0.0
        further = 0
        if not self.is_best:
            further = self.workload.question.tune_training - len(self.trials) - 1
        return further + SHIPPING_SHARE

    def compute_cost_s(self) -> float:
        """Return its rough CPU seconds: nothing for a compared model that is the best of the
        trials.
        """
        ships = self.compared is not None
        if self.is_best and self.trials and not ships:
            return 0.0
        images = self.workload.images[self.role] if ships else self.train_images
        return training_s(self.card, self.training, images, ships, self.role is Role.ALL)


def _make_training(
    card: Card,
    training: str,
    scope: Scope,
    trials: tuple[Stage[FloatModel], ...],
    compared: Stage[FloatModel] | None,
    workload: Workload,
    scores: str,
) -> Stage[FloatModel]:
    """Return the stage of one fine-tuning."""
    work = _Training(card, training, scope, trials, compared, workload, scores)
    role = work.role
    unsupported = ""
    if card.is_finished:
        unsupported = f"{card.name} is taken as it is: {training} would change it"
    return Stage(
        name=StageName(training),
        scope=scope,
        version="2",
        doing="final fine-tuning of" if compared else "fine-tuning",
        after=(*work.read.stages, *after(work.head), *trials, *after(compared)),
        inputs=work.list_inputs,
        job=work.make_job,
        read=FloatModel.within,
        cost_s=work.compute_cost_s(),
        resources=LONG,
        reads=lambda materials: materials.part(role),
        unsupported=unsupported,
        epochs=work.make_epochs,
        keep_if=lambda result: not result["shortened"],
        shortens=True,
    )


def _maps_folder(inputs: Inputs, folders: Folders) -> Path:
    """Return the folder with the maps of the compared model, which the model that ships uses."""
    same = {**inputs, "after": ""}
    return folders.checkpoints.with_name(f"maps-{sha256_json(same)}.checkpoints")


def was_shortened(model: FloatModel) -> bool:
    """Return whether a time limit ended, shortened or fitted the training of a model;
    False for one without.
    """
    result = read_result(model.path.parent)
    return isinstance(result, dict) and bool(result.get("shortened") or result.get("out_of_time"))


def _fit_to_limit(
    values: Finetuning, compared: FloatModel | None, materials: Materials, scope: Scope
) -> tuple[Finetuning, TrainingTime]:
    """Return the hyperparameters of a training within a time limit,
    and what the limit means for it.

    The model that ships trains the layers of the ``compared`` one, whose maps it reads.
    """
    budget = materials.budget_training(scope.card, scope.training)
    reserve = budget.reserve if budget else None
    if compared is not None:
        result = read_result(compared.path.parent)
        trained = result.get("trained", values.trained)
        same_layers = replace(values, trained=trained, judged_copies=trained == values.trained)
        return same_layers, TrainingTime(fitted=bool(result.get("shortened")), reserve=reserve)
    if scope.purpose != Purpose.COMPARE or budget is None:
        return values, TrainingTime()
    fitted = values.shorten_to(budget.share)
    return fitted, TrainingTime(budget.alone_s, fitted != values, reserve)


def _learns_from(scope: Scope, counts: Mapping[Role, int]) -> tuple[Role, int]:
    """Return the images of a fine-tuning, and how many of them are not for validation.

    Of a large set, it learns from some (:data:`.images.TUNED_IMAGES`).
    """
    if scope.purpose == Purpose.ALL:
        return Role.ALL, counts[Role.TRAIN]
    if counts.get(Role.TUNED, counts[Role.LEARNT]) < counts[Role.LEARNT]:
        return Role.TUNED, counts[Role.TUNED] - counts[Role.VALIDATION]
    return Role.LEARNT, counts[Role.TRAIN]


def _plan_hyperparameters(
    values: Finetuning, compared: FloatModel | None, judged: int, seconds: float | None
) -> Finetuning:
    """Return the hyperparameters within a time limit; without extra epochs if every epoch of the
    compared network was worse than its start, by two standard errors of an accuracy on so many
    images.
    """
    planned = replace(values, seconds=seconds)
    if compared is None:
        return planned
    outcome: dict[str, Any] = read_result(compared.path.parent)
    accuracies = [row["validation_accuracy"] for row in outcome["history"]]
    best = float(max(accuracies, default=1.0))
    standard_error = math.sqrt(best * (1.0 - best) / max(1, judged))
    harmed = best + 2.0 * standard_error < outcome.get("start_accuracy", 0.0)
    return replace(planned, more_epochs=0.0) if harmed else planned


def choose_hyperparameters(
    values: Finetuning, trials: Sequence[FloatModel], best: bool
) -> Finetuning:
    """Return the hyperparameters after a number of trials:
    the best ones so far, or those to try next.

    The study is replayed from the trials' results,
    so that equal results give equal hyperparameters.
    """
    if best and not trials:
        return values
    study = Trials(values, values.seed)
    for trial in trials:
        outcome = read_result(trial.path.parent)
        study.tell(study.ask(), float(outcome["validation_accuracy"]))
    return study.best if best else study.ask()


def ship_as_compared(compared: Path, result: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """Write the compared classifier and its weights as those that ship; return its result."""
    shutil.copyfile(compared, path)
    shutil.copyfile(compared.with_name(WEIGHTS_FILE), path.with_name(WEIGHTS_FILE))
    return result
