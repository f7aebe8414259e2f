"""Train a head on the maps of a backbone in Keras, from pretrained weights to a float file.

A task with places in its answers names a :class:`HeadKind`; the stage of `tasks/_on_maps`
calls :func:`train` in a child process, first with a frozen backbone, then from the result with
the backbone too.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import StageError
from advisor.datasets import InputSpec
from advisor.training._finetune.network import convert_to_flatbuffer, freeze_layers
from advisor.training._loop import Timer
from advisor.training._on_maps import with_maps
from advisor.training._on_maps.fit import (
    Hyperparameters,
    MakeHead,
    Tell,
    TrainableHead,
    fit,
    tell_nobody,
)
from advisor.training._on_maps.kept import (
    MOST_COPIES,
    LabelledImages,
    keep_maps,
    keep_photographs,
    list_outputs,
)
from advisor.training._on_maps.training_start import WEIGHTS, TrainingStart

if TYPE_CHECKING:
    import keras

    from advisor.training._on_maps.learnt_detector import LearntDetector

FINETUNING = Hyperparameters(epochs=14)
"""Hyperparameters that train head and backbone together.

On BCCD's validation part, with the upper 65 % of MobileNetV2: 14 epochs gave an mAP@0.5 of 89.5 %
and an mAP of 53.3, the head alone 89.2 and 46.4, 8 epochs at half of the rate 88.4 and 49.6.
"""

NEW = TrainingStart()
"""A new head on a frozen backbone, without a time limit."""


@dataclass(frozen=True)
class HeadKind:
    """A kind of head."""

    coarsest: int  # pixels of the input to a cell of the coarsest map that it reads
    make_head: MakeHead  # makes its network, with loss and targets
    hyperparameters: Hyperparameters  # of its training on a frozen backbone
    finetuning: Hyperparameters = FINETUNING  # of head and backbone together
    # The same where all layers learn; None: as where some do.
    finetuning_all: Hyperparameters | None = None
    #: returns the backbone and the head of a detector, for so many classes; None:
    #: a new head on the maps of a backbone.
    begin: Callable[[LearntDetector, int], tuple[keras.Model, TrainableHead]] | None = None

    def choose_hyperparameters(self, share: float) -> Hyperparameters:
        """Return the hyperparameters of training the head and a share of the backbone's layers."""
        if share == 1.0 and self.finetuning_all:
            return self.finetuning_all
        return self.finetuning

    def divide(
        self, build: Callable[[], Any], classes: int, seed: int
    ) -> tuple[keras.Model, TrainableHead]:
        """Return a network's backbone, from an image to its maps, and the head on these maps.

        ``build`` makes what :attr:`begin` takes, or without it a Keras model with the output
        ``features``.
        """
        import keras

        if self.begin:
            # Building the detector draws random numbers too, from the seed of its new layers.
            keras.utils.set_random_seed(seed)
            return self.begin(build(), classes)
        model = build()
        backbone = keras.Model(model.inputs[0], model.output["features"])
        maps = with_maps(backbone, self.coarsest)
        shapes = [tuple(output.shape[1:]) for output in maps.outputs]
        # Just before the head is made: making the backbone draws random numbers too.
        keras.utils.set_random_seed(seed)
        return maps, self.make_head(shapes, classes)


def take_over(head: TrainableHead, file: Path) -> None:
    """Set the weights that a head learnt on other objects; the layers that tell classes stay new.

    Raises StageError if the file is damaged, or of a head of another form.
    """
    new = set(map(id, head.telling))
    try:
        with np.load(file, allow_pickle=False) as arrays:
            learnt = list(arrays.values())
        for weight, values in zip(head.model.weights, learnt, strict=True):
            if id(weight) not in new:
                weight.assign(values)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise StageError(
            f"no training can start from {file.name}: {error}", "leave --start out"
        ) from error


def join_head(maps: keras.Model, head: TrainableHead) -> keras.Model:
    """Return backbone and head in one network, for conversion.

    It goes from one normalised image (1, S, S, 3) to the head's outputs.
    """
    import keras

    image = keras.Input(maps.inputs[0].shape[1:], batch_size=1, name="image")
    maps_of_image = list_outputs(maps(image))
    answers = list_outputs(head.model(maps_of_image))
    return keras.Model(image, head.outputs(answers))


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network."""

    data: bytes  # float ``.tflite`` with the outputs of the head
    head: Sequence[NDArray[np.float32]]  # the weights of the head, in the order of its Keras model
    # The same of a backbone that has learnt too, if a training may go on.
    backbone: Sequence[NDArray[np.float32]] = ()
    out_of_time: bool = False  # epochs are missing

    def write(self, path: Path) -> None:
        """Write the float file, and :data:`.WEIGHTS` beside it."""
        path.write_bytes(self.data)
        for name, arrays in zip(WEIGHTS, (self.head, self.backbone), strict=True):
            if arrays:
                np.savez(path.with_name(name), *arrays)


def train(
    build: Callable[[], Any],
    spec: InputSpec,
    images: LabelledImages[Any],
    classes: int,
    kind: HeadKind,
    seed: int,
    folder: Path,
    start: TrainingStart = NEW,
    tell: Tell = tell_nobody,
) -> Trained:
    """Train a head on the backbone of a network, which is frozen or learns too.

    ``build`` makes the network as :meth:`HeadKind.divide` says; its input is as in ``spec``.
    ``start`` may go on from an earlier training. ``folder`` is for maps, which take up to 2 GB, or
    pixels; the caller removes it. ``tell`` is as of :func:`.fit.fit`. Raises StageError if the
    maps do not fit on disk, an image cannot be read, or the training diverged.
    """
    import keras

    timer = Timer(start.seconds, start.reserve)
    try:
        maps, head = kind.divide(build, classes, seed)
        hyperparameters = kind.hyperparameters
        if start.share:
            hyperparameters = kind.choose_hyperparameters(start.share)
        hyperparameters = replace(hyperparameters, seed=seed)
        if start.goes_on:
            hyperparameters = hyperparameters.going_on()
        head_weights, backbone_weights = start.weights()
        if head_weights:
            head.model.set_weights(head_weights)
        elif start.head_of_others:
            take_over(head, start.head_of_others)
        if start.share:
            freeze_layers(maps, start.share)
            if backbone_weights:
                maps.set_weights(backbone_weights)
            photographs = keep_photographs(images, spec, folder)
            in_time = fit(head, photographs, hyperparameters, maps, tell, timer)
        else:
            copies = min(MOST_COPIES, hyperparameters.epochs // 2)
            maps_on_disk = keep_maps(maps, images, spec, folder, seed, copies)
            in_time = fit(head, maps_on_disk, hyperparameters, tell=tell, timer=timer)
        # A training that went on is the last one, so nothing needs its backbone.
        trained_backbone: Sequence[NDArray[np.float32]] = ()
        if start.share and not start.goes_on:
            trained_backbone = maps.get_weights()
        data = head.complete(convert_to_flatbuffer(join_head(maps, head)))
        return Trained(data, head.model.get_weights(), trained_backbone, out_of_time=not in_time)
    finally:
        keras.backend.clear_session()
