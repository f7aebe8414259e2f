"""The stages from a card to an artefact, each done once a search and kept for the next one.

Every stage is a function of its inputs, and the hash of ALL of them is its key in the artifact cache: weights,
pictures, recipe and its version, tool versions. A search costs the sum of its stages, never the product of choices.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from advisor.catalog.cards import Card
from advisor.catalog.convert import CONVERT_VERSION
from advisor.catalog.weights.file import WeightsFile
from advisor.compression.calibration import PHOTOGRAPHS_VERSION
from advisor.isolation import Limits
from advisor.search import jobs
from advisor.search.context import CALIBRATION_PICTURES, Context, Pictures, versions, view_of
from advisor.search.plan import FEATURE_PARTS
from advisor.store.hashing import sha256_file, sha256_json
from advisor.tflite.metadata import Metadata
from advisor.training.head import VERSION as HEAD_VERSION

Result = TypeVar("Result")

CONVERT_LIMITS = Limits(seconds=600, memory_bytes=3_000_000_000)
WORK_LIMITS = Limits(seconds=1800, memory_bytes=3_000_000_000)


@dataclass(frozen=True)
class Artefact:
    """One ``.tflite`` that could ship.

    Attributes:
        path: the file.
        sha256: its hash.
        size_bytes: its size.
        figures: ``arena_bytes``, ``download_bytes`` (deflated) and ``download_zstd_bytes``.
    """

    path: Path
    sha256: str
    size_bytes: int
    figures: Mapping[str, int]


@dataclass(frozen=True)
class Form:
    """A float file of a card, the origin of its artefacts."""

    path: Path
    sha256: str


class Stages:
    """The stages of one search; a stage asked for twice runs once. ``spent`` counts the seconds of each stage.

    Args:
        context: what they share.
        weights: weights file of each card by name; None for settled random weights.
        order: card name to its place in the queue for cores.
    """

    def __init__(self, context: Context, weights: Mapping[str, WeightsFile | None], order: Mapping[str, int]) -> None:
        self._context = context
        self._weights = weights
        self._order = order
        self._tasks: dict[tuple[str, ...], asyncio.Task[Any]] = {}
        self.spent: dict[str, float] = {}

    def weights_of(self, card: Card) -> str:
        """Where the card's weights came from, empty where it has settled random ones."""
        weights = self._weights[card.name]
        return weights.source if weights else ""

    async def master(self, card: Card) -> Form:
        """Convert the card to its float file with the outputs ``probabilities`` and ``features``."""

        async def make() -> Form:
            weights = self._weights[card.name]
            inputs = {
                "graph": [card.architecture, card.keywords, card.input_size, card.classes],
                "preprocessing": asdict(card.preprocessing),
                "weights": weights.sha256 if weights else "settled random",
                "port": weights.port if weights else "",
                **versions("tensorflow", "keras", "ai-edge-litert"),
            }
            folder = await self._kept(
                CONVERT_VERSION, "converting", card, inputs,
                lambda out: _write_result(out, self._heavy("convert", card, weights, out / "model.tflite")),
            )  # fmt: skip
            return _form(folder)

        return await self._once(("master", card.name), make)

    async def trunk(self, card: Card) -> Form:
        """The card's float file with its pooled features as the only output."""
        return await self._once(("trunk", card.name), lambda: self._cut(card, "features"))

    async def screen(self, card: Card) -> float:
        """Least CPU time of the card's float trunk at one thread, in ms."""

        async def make() -> float:
            trunk = await self.trunk(card)
            async with self._context.machine.core(self._order[card.name]):
                return float(await asyncio.to_thread(self._light, "screen", trunk.path))

        return await self._once(("screen", card.name), make)

    async def float_form(self, card: Card) -> Form:
        """The card's float classifier: of ImageNet, or of the user's classes with a head trained on their pictures."""

        async def make() -> Form:
            if self._context.pictures is None:
                return await self._cut(card, "probabilities")
            trunk, head = await asyncio.gather(self.trunk(card), self.head(card))
            inputs = {"trunk": trunk.sha256, "head": sha256_file(head / "head.npz")}
            folder = await self._kept(
                "join-1", "joining", card, inputs,
                lambda out: self._light("join", trunk.path, head / "head.npz", out / "model.tflite"),
            )  # fmt: skip
            return _form(folder)

        return await self._once(("float", card.name), make)

    async def head(self, card: Card) -> Path:
        """Train the head on the training part's features; returns the folder with ``head.npz`` and ``result.json``."""

        async def make() -> Path:
            pictures, seed = self._pictures(), self._context.request.seed
            parts, key = await self._features(card)
            inputs = {
                "features": key,
                "pictures": pictures.fingerprint,
                "train": sha256_json(list(pictures.split.train)),
                "seed": seed,
                "head": HEAD_VERSION,
                **versions("scikit-learn", "numpy"),
            }
            arguments = (parts, pictures.split.train, pictures.train_labels, len(pictures.dataset.classes), seed)
            return await self._kept(
                "head-1", "training the head of", card, inputs,
                lambda out: _write_result(out, self._light("train_head", *arguments, out / "head.npz")),
            )  # fmt: skip

        return await self._once(("head", card.name), make)

    async def artefact(self, card: Card, recipe: str, recipe_version: int | str, metadata: Metadata) -> Artefact:
        """Compress the card's float classifier and write labels and normalisation into the file."""

        async def make() -> Artefact:
            form = await self.float_form(card)
            calibration = self._calibration_paths()
            inputs = {
                "model": form.sha256,
                "recipe": [recipe, recipe_version],
                "calibration": self._calibration_key(),
                "view": asdict(view_of(card)),
                "metadata": asdict(metadata),
                **versions("ai-edge-quantizer", "ai-edge-litert", "pillow", "scikit-image"),
            }
            seed = self._context.request.seed
            folder = await self._kept(
                "compress-3", f"compressing to {recipe}", card, inputs,
                lambda out: _write_result(out, self._light(
                    "compress", form.path, recipe, calibration, view_of(card), seed, metadata, out / "model.tflite"
                )),
            )  # fmt: skip
            path = folder / "model.tflite"
            return Artefact(path, sha256_file(path), path.stat().st_size, _read_result(folder))

        return await self._once(("artefact", card.name, recipe), make)

    async def probabilities(self, card: Card, artefact: Artefact) -> Path:
        """Run the artefact over the hold-out; returns the ``.npy`` of its probabilities."""

        async def make() -> Path:
            pictures = self._pictures()
            inputs = {
                "artefact": artefact.sha256,
                "pictures": pictures.holdout_fingerprint,
                "view": asdict(view_of(card)),
                **versions("ai-edge-litert", "pillow", "numpy"),
            }
            folder = await self._kept(
                "score-1", "scoring", card, inputs,
                lambda out: self._light(
                    "score", artefact.path, pictures.holdout_paths, view_of(card), out / "probabilities.npy"
                ),
            )  # fmt: skip
            return folder / "probabilities.npy"

        return await self._once(("score", artefact.sha256), make)

    async def answers(self, card: Card, artefact: Artefact) -> list[tuple[int, float]]:
        """The artefact's answers on the bundled photographs, each with its probability."""

        async def make() -> list[tuple[int, float]]:
            inputs = {
                "artefact": artefact.sha256,
                "photographs": PHOTOGRAPHS_VERSION,
                "view": asdict(view_of(card)),
                **versions("ai-edge-litert", "scikit-image", "scikit-learn"),
            }
            seed = self._context.request.seed + 1
            folder = await self._kept(
                "answers-2", "comparing", card, inputs,
                lambda out: _write_result(out, self._light("answers", artefact.path, view_of(card), seed)),
            )  # fmt: skip
            return [(int(label), float(probability)) for label, probability in _read_result(folder)]

        return await self._once(("answers", artefact.sha256), make)

    async def _features(self, card: Card) -> tuple[list[Path], str]:
        """Extract the features of every picture, one part a core."""
        trunk, pictures = await self.trunk(card), self._pictures()
        paths = pictures.paths
        inputs = {
            "trunk": trunk.sha256,
            "view": asdict(view_of(card)),
            "pictures": sha256_json([picture.sha256 for picture in pictures.dataset.pictures]),
            **versions("ai-edge-litert", "pillow", "numpy"),
        }
        parts = FEATURE_PARTS if len(paths) > 200 else 1
        bounds = [len(paths) * part // parts for part in range(parts + 1)]

        async def part(index: int) -> Path:
            chunk = paths[bounds[index] : bounds[index + 1]]
            folder = await self._kept(
                "features-1", "reading pictures with", card, {**inputs, "part": [index, parts]},
                lambda out: self._light("extract", trunk.path, chunk, view_of(card), out / "features.npy"),
            )  # fmt: skip
            return folder / "features.npy"

        return list(await asyncio.gather(*(part(index) for index in range(parts)))), sha256_json(inputs)

    async def _cut(self, card: Card, output: str) -> Form:
        master = await self.master(card)
        folder = await self._kept(
            "cut-1", "cutting", card, {"master": master.sha256, "output": output},
            lambda out: self._light("cut", master.path, output, out / "model.tflite"),
        )  # fmt: skip
        return _form(folder)

    def _pictures(self) -> Pictures:
        assert self._context.pictures is not None, "this stage is asked for with pictures only"
        return self._context.pictures

    def _calibration_paths(self) -> tuple[Path, ...] | None:
        if self._context.pictures is None:
            return None
        from advisor.compression.calibration import choose

        pictures = self._context.pictures
        chosen = choose(pictures.train_labels, CALIBRATION_PICTURES, self._context.request.seed)
        return tuple(pictures.paths[pictures.split.train[index]] for index in chosen)

    def _calibration_key(self) -> Any:
        seed = self._context.request.seed
        if self._context.pictures is None:
            return ["photographs", PHOTOGRAPHS_VERSION, seed]
        return [self._context.pictures.train_fingerprint, CALIBRATION_PICTURES, seed]

    async def _once(self, key: tuple[str, ...], make: Callable[[], Awaitable[Result]]) -> Result:
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.ensure_future(make())
        return await asyncio.shield(task)

    async def _kept(
        self, stage: str, doing: str, card: Card, inputs: Mapping[str, Any], make: Callable[[Path], None]
    ) -> Path:
        """Return the stage's folder in the cache, taking a core to fill it where it is not there."""
        context = self._context
        if context.cache.has(stage, inputs):
            context.notify(stage, card.name, doing, "cached")
            return context.cache.folder(stage, inputs)
        async with context.machine.core(self._order[card.name]):
            context.notify(stage, card.name, doing, "started")
            start = time.monotonic()
            folder = await asyncio.to_thread(context.cache.get, stage, inputs, make)
            self.spent[stage] = self.spent.get(stage, 0.0) + time.monotonic() - start
            context.notify(stage, card.name, doing, "done")
            return folder

    def _light(self, job: str, *arguments: Any) -> Any:
        return self._context.light.call(f"{jobs.__name__}:{job}", *arguments, limits=WORK_LIMITS)

    def _heavy(self, job: str, *arguments: Any) -> Any:
        return self._context.heavy.call(f"{jobs.__name__}:{job}", *arguments, limits=CONVERT_LIMITS)


def _write_result(folder: Path, value: Any) -> None:
    (folder / "result.json").write_text(json.dumps(value), encoding="utf-8")


def _form(folder: Path) -> Form:
    path = folder / "model.tflite"
    return Form(path, sha256_file(path))


def _read_result(folder: Path) -> Any:
    return json.loads((folder / "result.json").read_text(encoding="utf-8"))
