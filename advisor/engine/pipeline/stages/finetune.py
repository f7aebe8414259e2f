"""Fine-tuning: the backbone learns too, in Keras; its float file comes from a conversion of its own."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from advisor.catalog.cards import Card
from advisor.core.errors import UnsupportedRecipe
from advisor.engine.pipeline.context import Images, Purpose, versions, view_of
from advisor.engine.pipeline.stages.backbone import Backbones
from advisor.engine.pipeline.stages.runner import Form, StageRunner, read_result, write_result
from advisor.isolation import Pause
from advisor.store.hashing import sha256_file
from advisor.tflite.levels import VERSION as LEVELS_VERSION
from advisor.training.finetune.trials import Trials
from advisor.training.finetune.tuning import FINETUNING, VERSION, WEIGHTS, Finetuning, epochs_done

CAPTURED_SHARE = 0.5
"""Of the training pictures that are changed as a phone's camera may, where robust accuracy counts."""


class Tuning:
    """Fine-tunes cards.

    Args:
        keeper: runs the stages.
        backbones: give weights and features.
    """

    def __init__(self, keeper: StageRunner, backbones: Backbones) -> None:
        self._keeper, self._trunks = keeper, backbones

    async def tuned(self, card: Card, training: str, images: Images, purpose: Purpose) -> Form:
        """The card's float classifier after fine-tuning on the training part; validation says when to stop.

        What ships has learnt for some epochs more, from the validation part too.

        Raises:
            UnsupportedRecipe: the card is a file of the user's own, which Keras does not know.
        """

        async def make() -> Form:
            hyperparameters = await self._keeper.once(
                ("hyperparameters", training, card.name), lambda: self._chosen(card, training, images)
            )
            compared = await self._trained(card, training, images, hyperparameters)
            if purpose is Purpose.COMPARE:
                return compared
            return await self._trained(card, training, images, hyperparameters, compared.path)

        if card.own_file:
            raise UnsupportedRecipe(f"{training} needs the network as a Keras graph, and {card.name} is a file")
        return await self._keeper.once((training, card.name, purpose), make)

    async def _chosen(self, card: Card, training: str, images: Images) -> Finetuning:
        """Return the recipe's own hyperparameters, or the best of the trials on validation."""
        own, count = self._knobs(training), self._keeper.context.question.tune_training
        if not count:
            return own
        trials = Trials(own, own.seed)
        for _ in range(count):
            hyperparameters = trials.ask()
            form = await self._trained(card, training, images, hyperparameters)
            trials.tell(hyperparameters, float(read_result(form.path.parent)["validation_accuracy"]))
        return trials.best

    async def _trained(
        self, card: Card, training: str, images: Images, hyperparameters: Finetuning, after: Path | None = None
    ) -> Form:
        """Train with these hyperparameters; ``after`` is the network that was compared, which goes on as what ships."""
        features = await self._trunks.features(card, images.learnt)
        inputs: dict[str, Any] = {
            **self._trunks.identity(card),
            "features": features.key,
            "train": images.train.fingerprint,
            "validation": images.validation.fingerprint,
            "view": view_of(card).key,
            "hyperparameters": asdict(replace(hyperparameters, seconds=None)),
            "after": sha256_file(after.with_name(WEIGHTS)) if after else "",
            "version": VERSION,
            "levels": LEVELS_VERSION,
            **versions("tensorflow", "keras", "numpy", "pillow"),
        }
        place = {index: row for row, index in enumerate(images.learnt.indices)}
        validation = [place[index] for index in images.validation.indices]
        learnt, weights = images.learnt, self._trunks.file_of(card)

        def train(out: Path, checkpoints: Path, pause: Pause) -> None:
            result = self._keeper.training_on(
                learnt, pause, "finetune", card, weights, features.parts, learnt.paths, learnt.labels, validation,
                hyperparameters, checkpoints, out / "model.tflite", after,
            )  # fmt: skip
            write_result(out, result)

        planned = hyperparameters if after is None else hyperparameters.going_on()
        folder = await self._keeper.trained(
            f"{training}-2", "fine-tuning" if after is None else "fitting what ships of", card, inputs, train,
            lambda folder: epochs_done(folder, planned),
        )  # fmt: skip
        return Form.within(folder)

    def _knobs(self, training: str) -> Finetuning:
        question = self._keeper.context.question
        capture = CAPTURED_SHARE if question.robust else 0.0
        return replace(FINETUNING[training], seed=question.seed, capture=capture)
