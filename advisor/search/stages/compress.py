"""From a float file to an artefact: one compression recipe, labels and normalisation written into the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from advisor.catalog.cards import Card
from advisor.compression.calibration import PHOTOGRAPHS_VERSION
from advisor.search.context import CALIBRATION_PICTURES, versions, view_of
from advisor.search.stages.keeper import Form, Keeper, read_result, write_result
from advisor.store.hashing import sha256_file
from advisor.tflite.metadata import Metadata


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


class Compression:
    """Applies compression recipes.

    Args:
        keeper: runs the stages.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper, self._context = keeper, keeper.context

    async def artefact(
        self,
        card: Card,
        form: Form,
        recipe: str,
        recipe_version: int | str,
        metadata: Metadata,
        stands_in: bool = False,
    ) -> Artefact:
        """Compress a float file of the card and write labels and normalisation into the file.

        Args:
            card: the model card.
            form: its float file.
            recipe: name of the recipe.
            recipe_version: of the recipe.
            metadata: labels and normalisation.
            stands_in: random values stand in for the trained ones, see :func:`advisor.search.jobs.compress`.
        """

        async def make() -> Artefact:
            calibration, seed = self._calibration_paths(), self._context.request.seed
            inputs = {
                "model": form.sha256,
                "recipe": [recipe, recipe_version],
                "calibration": "stands in" if stands_in else self._calibration_key(),
                "view": asdict(view_of(card)),
                "metadata": asdict(metadata),
                **versions("ai-edge-quantizer", "ai-edge-litert", "pillow", "scikit-image"),
            }
            folder = await self._keeper.kept(
                "compress-3", f"compressing to {recipe}", card, inputs,
                lambda out: write_result(out, self._keeper.light(
                    "compress", form.path, recipe, calibration, view_of(card), seed, metadata, out / "model.tflite",
                    stands_in,
                )),
            )  # fmt: skip
            path = folder / "model.tflite"
            return Artefact(path, sha256_file(path), path.stat().st_size, read_result(folder))

        return await self._keeper.once(("artefact", form.sha256, recipe), make)

    def _calibration_paths(self) -> tuple[Path, ...] | None:
        pictures = self._context.pictures
        if pictures is None:
            return None
        from advisor.compression.calibration import choose

        chosen = choose(pictures.train.labels, CALIBRATION_PICTURES, self._context.request.seed)
        return tuple(pictures.train.paths[index] for index in chosen)

    def _calibration_key(self) -> Any:
        seed = self._context.request.seed
        if self._context.pictures is None:
            return ["photographs", PHOTOGRAPHS_VERSION, seed]
        return [self._context.pictures.train.fingerprint, CALIBRATION_PICTURES, seed]
