"""From a float file to an artefact: one compression recipe, labels and normalisation written into the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from advisor.catalog.cards import Card
from advisor.compression.calibration import PHOTOGRAPHS_VERSION
from advisor.compression.recipes import recipe as find_recipe
from advisor.compression.recipes.base import Rung
from advisor.compression.recipes.inputs import TrainingImages
from advisor.engine.pipeline.context import CALIBRATION_IMAGES, Purpose, versions, view_of
from advisor.engine.pipeline.jobs import More
from advisor.engine.pipeline.stages.runner import WORK_BYTES, Form, StageRunner, read_result, write_result
from advisor.isolation import Limits
from advisor.store.hashing import sha256_file
from advisor.tflite.metadata import Metadata

LEARNING_BYTES = 4_000_000_000
LEARNING_LIMITS = Limits(seconds=3600, memory_bytes=10_000_000_000)
"""Gradients keep every activation of a batch: 16 pictures of MobileNetV2 take some 4 GB with their integer forms."""


@dataclass(frozen=True)
class Artefact:
    """One ``.tflite`` that could ship.

    Attributes:
        path: the file.
        sha256: its hash.
        size_bytes: its size.
        figures: ``arena_bytes``, ``download_bytes`` (deflated) and ``download_zstd_bytes``.
        notes: what the recipe did and found, where it says more than its name.
    """

    path: Path
    sha256: str
    size_bytes: int
    figures: Mapping[str, int]
    notes: Mapping[str, Any] = field(default_factory=dict)


class Compression:
    """Applies compression recipes.

    Args:
        keeper: runs the stages.
    """

    def __init__(self, keeper: StageRunner) -> None:
        self._keeper, self._context = keeper, keeper.context

    async def artefact(
        self,
        card: Card,
        form: Form,
        recipe: str,
        recipe_version: int | str,
        metadata: Metadata,
        stands_in: bool = False,
        purpose: Purpose = Purpose.SHIP,
        decided: Mapping[str, Any] | None = None,
    ) -> Artefact:
        """Compress a float file of the card and write labels and normalisation into the file.

        Args:
            card: the model card.
            form: its float file.
            recipe: name of the recipe.
            recipe_version: of the recipe.
            metadata: labels and normalisation.
            stands_in: random values stand in for the trained ones, see :func:`advisor.engine.pipeline.jobs.compress`.
            purpose: what the form is made for, and so what a recipe that trains may learn from.
            decided: notes of the same recipe on the form that was compared, for the one that ships.
        """

        async def make() -> Artefact:
            calibration, seed = self._calibration_paths(), self._context.question.seed
            more, run = self._more(card, recipe, purpose, decided)
            inputs = {
                "model": form.sha256,
                "recipe": [recipe, recipe_version],
                "calibration": "stands in" if stands_in else self._calibration_key(),
                "view": view_of(card).key,
                "metadata": asdict(metadata),
                **self._more_key(more, purpose),
                **versions("ai-edge-quantizer", "ai-edge-litert", "pillow", "scikit-image"),
            }
            folder = await self._keeper.kept(
                "compress-3", f"compressing to {recipe}", card, inputs,
                lambda out: write_result(out, run(
                    "compress", form.path, recipe, calibration, view_of(card), seed, metadata, out / "model.tflite",
                    stands_in, more,
                )),
                LEARNING_BYTES if find_recipe(recipe).rung >= Rung.TRAINED else WORK_BYTES,
            )  # fmt: skip
            path = folder / "model.tflite"
            figures = dict(read_result(folder))
            notes = figures.pop("notes", {})
            return Artefact(path, sha256_file(path), path.stat().st_size, figures, notes)

        own = purpose.value if find_recipe(recipe).rung >= Rung.SCORED else ""
        return await self._keeper.once(("artefact", form.sha256, recipe, own), make)

    def _more(
        self, card: Card, recipe: str, purpose: Purpose, decided: Mapping[str, Any] | None
    ) -> tuple[More | None, Callable[..., Any]]:
        """Return what a recipe that scores or trains takes besides, and the children that run it."""
        rung, question = find_recipe(recipe).rung, self._context.question
        if rung < Rung.SCORED:
            return None, self._keeper.light
        more = More(self._training_images(card, purpose), question.limits.max_drop_points, decided)
        if rung < Rung.TRAINED:
            return more, self._keeper.light
        return more, partial(self._keeper.learning, limits=LEARNING_LIMITS)

    def _training_images(self, card: Card, purpose: Purpose) -> TrainingImages | None:
        images, view = self._context.images, view_of(card)
        if images is None:
            return None
        compares = purpose is Purpose.COMPARE
        learnt = images.train if compares else images.learnt
        judged = (images.validation.paths, images.validation.labels) if compares else ((), ())
        seed = self._context.question.seed
        return TrainingImages(learnt.paths, learnt.labels, len(images.classes), view, seed, *judged)

    def _more_key(self, more: More | None, purpose: Purpose) -> dict[str, Any]:
        images = self._context.images
        if more is None:
            return {}
        parts = [images.train.fingerprint, images.validation.fingerprint] if images else []
        return {"max_drop": more.max_drop_points, "decided": more.decided, "purpose": purpose, "parts": parts}

    def _calibration_paths(self) -> tuple[Path, ...] | None:
        images = self._context.images
        if images is None:
            return None
        from advisor.compression.calibration import choose

        chosen = choose(images.train.labels, CALIBRATION_IMAGES, self._context.question.seed)
        return tuple(images.train.paths[index] for index in chosen)

    def _calibration_key(self) -> Any:
        seed = self._context.question.seed
        if self._context.images is None:
            return ["photographs", PHOTOGRAPHS_VERSION, seed]
        return [self._context.images.train.fingerprint, CALIBRATION_IMAGES, seed]
