"""From a card to its backbone, and from the backbone to the features of the pictures."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from advisor.catalog.cards import Card
from advisor.catalog.convert import CONVERT_VERSION
from advisor.catalog.weights.file import WeightsFile
from advisor.core.errors import UnsupportedRecipe
from advisor.datasets.capture import VERSION as CAPTURE_VERSION
from advisor.engine.pipeline.context import Part, versions, view_of
from advisor.engine.pipeline.cost import feature_parts
from advisor.engine.pipeline.stages.runner import (
    Form,
    StageRunner,
    convert_bytes,
    convert_limits,
    read_result,
    write_result,
)
from advisor.store.hashing import sha256_json
from advisor.store.rows import ROWS, add_block
from advisor.tflite.levels import VERSION as LEVELS_VERSION
from advisor.training.capture_augmentation import AS_IT_IS, CaptureAugmentation

_STAGE = "features-3"

NO_FEATURES = (
    "it needs a head of your classes, and its file does not end in one linear layer that a head could replace: "
    "a candidate without --data only"
)


@dataclass(frozen=True)
class Features:
    """The features of pictures.

    Attributes:
        parts: ``.npy`` files whose rows follow each other in the order of the pictures.
        key: hash of everything that they depend on.
    """

    parts: tuple[Path, ...]
    key: str


class Backbones:
    """Converts cards and cuts them.

    Args:
        keeper: runs the stages.
        weights: weights file of each card by name; None for fixed-seed random weights.
    """

    def __init__(self, keeper: StageRunner, weights: Mapping[str, WeightsFile | None]) -> None:
        self._keeper, self._weights = keeper, weights

    def weights_of(self, card: Card) -> str:
        """Where the card's weights came from, empty where it has fixed-seed random ones."""
        weights = self._weights[card.name]
        return weights.source if weights else ""

    def file_of(self, card: Card) -> WeightsFile | None:
        """The file of the card's weights."""
        return self._weights[card.name]

    def identity(self, card: Card) -> dict[str, object]:
        """What the card's graph and its weights are, for the key of a stage."""
        weights = self._weights[card.name]
        return {
            "graph": [card.architecture, card.keywords, card.input_size, card.classes],
            "preprocessing": asdict(card.preprocessing),
            "weights": weights.sha256 if weights else "fixed-seed random",
            "port": weights.port if weights else "",
        }

    async def master(self, card: Card) -> Form:
        """Convert the card to its float file with the outputs ``probabilities`` and ``features``."""

        async def make() -> Form:
            weights = self._weights[card.name]
            inputs = {**self.identity(card), **versions("tensorflow", "keras", "ai-edge-litert")}
            folder = await self._keeper.kept(
                CONVERT_VERSION, "converting", card, inputs,
                lambda out: write_result(out, self._keeper.heavy(
                    "convert", card, weights, out / "model.tflite", limits=convert_limits(card)
                )),
                convert_bytes(card),
            )  # fmt: skip
            return Form.within(folder)

        return await self._keeper.once(("master", card.name), make)

    async def backbone(self, card: Card) -> Form:
        """The card's float file with its pooled features, of all levels, as the only output.

        Raises:
            UnsupportedRecipe: a file of the user's own that ends in something else than one linear layer has none.
        """

        async def make() -> Form:
            master = await self.master(card)
            if card.own_file and not read_result(master.path.parent).get("features", True):
                raise UnsupportedRecipe(NO_FEATURES)
            return await self._cut(card, "features")

        return await self._keeper.once(("backbone", card.name), make)

    async def classifier(self, card: Card) -> Form:
        """The card's float file with its published classifier."""
        return await self._keeper.once(("classifier", card.name), lambda: self._cut(card, "probabilities"))

    async def screen(self, card: Card) -> float:
        """Least CPU time of the card's float backbone at one thread, in ms."""

        async def make() -> float:
            backbone = await self.backbone(card)
            async with self._keeper.core(card):
                return float(await asyncio.to_thread(self._keeper.light, "screen", backbone.path))

        return await self._keeper.once(("screen", card.name), make)

    async def features(self, card: Card, images: Part, seen: CaptureAugmentation = AS_IT_IS) -> Features:
        """Extract the features of pictures, one part a core; ``seen`` says how the pictures are looked at.

        A picture that was seen with this backbone before, in whatever set, is not read again.
        """
        backbone = await self.backbone(card)
        look = self._look(backbone, card, seen)
        names = seen.names(images.hashes, images.paths)
        inputs = {**look, "pictures": sha256_json([name.hex() for name in names])}
        blocks = self._keeper.context.cache.root / _STAGE / f"{sha256_json(look)}.blocks"
        parts, count = feature_parts(len(images.paths)), len(images.paths)
        bounds = [count * part // parts for part in range(parts + 1)]

        async def part(start: int, end: int) -> Path:
            chunk, called = images.between(start, end), names[start:end]
            folder = await self._keeper.kept(
                _STAGE, "reading pictures with", card, {**inputs, "part": [start, end]},
                lambda out: self._keeper.light_on(
                    chunk, "extract", backbone.path, chunk.paths, called, view_of(card), seen, blocks, out
                ),
            )  # fmt: skip
            await asyncio.to_thread(add_block, blocks, folder)
            return folder / ROWS

        found = await asyncio.gather(*(part(*between) for between in pairwise(bounds)))
        return Features(tuple(found), sha256_json(inputs))

    @staticmethod
    def _look(backbone: Form, card: Card, seen: CaptureAugmentation) -> dict[str, Any]:
        """Return everything that a picture's features depend on besides the picture."""
        look: dict[str, Any] = {
            "backbone": backbone.sha256,
            "view": view_of(card).key,
            **versions("ai-edge-litert", "pillow", "numpy"),
        }
        return look if seen == AS_IT_IS else {**look, "seen": seen.key, "conditions": CAPTURE_VERSION}

    async def _cut(self, card: Card, output: str) -> Form:
        master = await self.master(card)
        folder = await self._keeper.kept(
            "cut-2", "cutting", card, {"master": master.sha256, "output": output, "levels": LEVELS_VERSION},
            lambda out: self._keeper.light("cut", master.path, output, out / "model.tflite"),
        )  # fmt: skip
        return Form.within(folder)
