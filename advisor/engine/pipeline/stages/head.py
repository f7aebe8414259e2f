"""The head: trained on the features of the pictures, and joined to the backbone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from advisor.catalog.cards import Card
from advisor.core.training import HEAD_SUBSET
from advisor.engine.pipeline.context import Images, Part, Purpose, versions
from advisor.engine.pipeline.stages.backbone import Backbones, Features
from advisor.engine.pipeline.stages.runner import Form, StageRunner, read_result, write_result
from advisor.store.hashing import sha256_file
from advisor.training.capture_augmentation import AS_IT_IS, CAPTURED
from advisor.training.head.train import VERSION as HEAD_VERSION


class Heads:
    """Trains heads and joins them.

    Args:
        keeper: runs the stages.
        backbones: give backbone and features.
    """

    def __init__(self, keeper: StageRunner, backbones: Backbones) -> None:
        self._keeper, self._trunks = keeper, backbones

    async def joined(self, card: Card, images: Images, purpose: Purpose) -> Form:
        """The card's float classifier of the user's classes."""
        trained = partial(self.head, card, images, purpose)
        return await self._keeper.once(("join", card.name, purpose), lambda: self._join(card, trained))

    async def first_look(self, card: Card, images: Images) -> Form:
        """The same with a head that learnt from some of the pictures."""

        trained = partial(self._trained, card, images, images.subset, images.subset)
        return await self._keeper.once(("join", card.name, HEAD_SUBSET), lambda: self._join(card, trained))

    async def _join(self, card: Card, trained: Callable[[], Awaitable[Path]]) -> Form:
        backbone, head = await asyncio.gather(self._trunks.backbone(card), trained())
        inputs = {"backbone": backbone.sha256, "head": sha256_file(head / "head.npz")}
        folder = await self._keeper.kept(
            "join-1", "joining", card, inputs,
            lambda out: self._keeper.light("join", backbone.path, head / "head.npz", out / "model.tflite"),
        )  # fmt: skip
        return Form.within(folder)

    async def head(self, card: Card, images: Images, purpose: Purpose) -> Path:
        """Train the head; returns the folder with ``head.npz`` and, for ``COMPARE``, ``result.json``.

        The head that ships has the penalty that the training part chose, so that it is the same recipe as the one that
        validation judges, fitted to more pictures.
        """
        if purpose is Purpose.COMPARE:
            make = partial(self._trained, card, images, images.learnt, images.train)
        else:
            make = partial(self._refitted, card, images)
        return await self._keeper.once(("head", card.name, purpose), make)

    async def _trained(self, card: Card, images: Images, read: Part, train: Part) -> Path:
        """Choose the penalty and fit on ``train``, of which ``read`` has the features."""
        looks = await self._looks(card, read)
        place = {index: row for row, index in enumerate(read.indices)}
        rows, seed = [place[index] for index in train.indices], self._keeper.context.question.seed
        inputs = {**self._inputs(looks), "train": train.fingerprint, "seed": seed}
        arguments = ([look.parts for look in looks], rows, train.labels, len(images.classes), seed)
        return await self._keeper.kept(
            "head-2", "training the head of", card, inputs,
            lambda out: write_result(out, self._keeper.light("train_head", *arguments, out / "head.npz")),
        )  # fmt: skip

    async def _refitted(self, card: Card, images: Images) -> Path:
        trained = await self.head(card, images, Purpose.COMPARE)
        looks = await self._looks(card, images.learnt)
        strength = float(read_result(trained)["regularization"])
        inputs = {**self._inputs(looks), "regularization": strength}
        arguments = ([look.parts for look in looks], images.learnt.labels, len(images.classes), strength)
        return await self._keeper.kept(
            "refit-1", "fitting the head that ships of", card, inputs,
            lambda out: self._keeper.light("refit_head", *arguments, out / "head.npz"),
        )  # fmt: skip

    async def _looks(self, card: Card, read: Part) -> list[Features]:
        """Return the features of pictures; where robust accuracy counts, also as phones may take them."""
        seen = [AS_IT_IS, *(CAPTURED if self._keeper.context.question.robust else ())]
        return list(await asyncio.gather(*(self._trunks.features(card, read, each) for each in seen)))

    @staticmethod
    def _inputs(looks: Sequence[Features]) -> dict[str, object]:
        keys = [look.key for look in looks]
        return {"features": keys, "head": HEAD_VERSION, **versions("scikit-learn", "numpy")}
