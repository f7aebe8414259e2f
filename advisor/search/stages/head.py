"""The head: trained on the features of the pictures, and joined to the trunk."""

from __future__ import annotations

import asyncio
from pathlib import Path

from advisor.catalog.cards import Card
from advisor.search.context import Pictures, versions
from advisor.search.stages.keeper import Form, Keeper, write_result
from advisor.search.stages.trunk import Trunks
from advisor.store.hashing import sha256_file, sha256_json
from advisor.training.head import VERSION as HEAD_VERSION


class Heads:
    """Trains heads and joins them.

    Args:
        keeper: runs the stages.
        trunks: give trunk and features.
    """

    def __init__(self, keeper: Keeper, trunks: Trunks) -> None:
        self._keeper, self._trunks = keeper, trunks

    async def joined(self, card: Card, pictures: Pictures) -> Form:
        """The card's float classifier of the user's classes."""

        async def make() -> Form:
            trunk, head = await asyncio.gather(self._trunks.trunk(card), self.head(card, pictures))
            inputs = {"trunk": trunk.sha256, "head": sha256_file(head / "head.npz")}
            folder = await self._keeper.kept(
                "join-1", "joining", card, inputs,
                lambda out: self._keeper.light("join", trunk.path, head / "head.npz", out / "model.tflite"),
            )  # fmt: skip
            return Form.within(folder)

        return await self._keeper.once(("join", card.name), make)

    async def head(self, card: Card, pictures: Pictures) -> Path:
        """Train the head on the training part's features; returns the folder with ``head.npz`` and ``result.json``."""

        async def make() -> Path:
            seed = self._keeper.context.request.seed
            features = await self._trunks.features(card, pictures)
            inputs = {
                "features": features.key,
                "pictures": pictures.fingerprint,
                "train": sha256_json(list(pictures.split.train)),
                "seed": seed,
                "head": HEAD_VERSION,
                **versions("scikit-learn", "numpy"),
            }
            classes = len(pictures.dataset.classes)
            arguments = (features.parts, pictures.split.train, pictures.train_labels, classes, seed)
            return await self._keeper.kept(
                "head-1", "training the head of", card, inputs,
                lambda out: write_result(out, self._keeper.light("train_head", *arguments, out / "head.npz")),
            )  # fmt: skip

        return await self._keeper.once(("head", card.name), make)
