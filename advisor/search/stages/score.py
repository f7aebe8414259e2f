"""What an artefact answers: on the user's pictures, or on the bundled photographs."""

from __future__ import annotations

from pathlib import Path

from advisor.catalog.cards import Card
from advisor.compression.calibration import PHOTOGRAPHS_VERSION
from advisor.datasets.capture import VERSION as CAPTURE_VERSION
from advisor.search.context import Part, versions, view_of
from advisor.search.stages.compress import Artefact
from advisor.search.stages.keeper import Keeper, read_result, write_result


class Scores:
    """Runs artefacts over pictures.

    Args:
        keeper: runs the stages.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    async def probabilities(self, card: Card, artefact: Artefact, pictures: Part) -> Path:
        """Run the artefact over pictures; returns the ``.npy`` of its probabilities."""

        async def make() -> Path:
            inputs = {
                "artefact": artefact.sha256,
                "pictures": pictures.fingerprint,
                "view": view_of(card).key,
                **versions("ai-edge-litert", "pillow", "numpy"),
            }
            folder = await self._keeper.kept(
                "score-1", "scoring", card, inputs,
                lambda out: self._keeper.light_on(
                    pictures, "score", artefact.path, pictures.paths, view_of(card), out / "probabilities.npy"
                ),
            )  # fmt: skip
            return folder / "probabilities.npy"

        return await self._keeper.once(("score", artefact.sha256, pictures.fingerprint), make)

    async def captured(self, card: Card, artefact: Artefact, pictures: Part) -> Path:
        """Run the artefact over pictures under every capture condition; returns the ``.npy`` of its labels (T, N)."""

        async def make() -> Path:
            inputs = {
                "artefact": artefact.sha256,
                "pictures": pictures.fingerprint,
                "names": [path.name for path in pictures.paths],
                "conditions": CAPTURE_VERSION,
                "view": view_of(card).key,
                **versions("ai-edge-litert", "pillow", "numpy"),
            }
            folder = await self._keeper.kept(
                "capture-1", "trying phone pictures on", card, inputs,
                lambda out: self._keeper.light_on(
                    pictures, "captured", artefact.path, pictures.paths, view_of(card), out / "labels.npy"
                ),
            )  # fmt: skip
            return folder / "labels.npy"

        return await self._keeper.once(("capture", artefact.sha256, pictures.fingerprint), make)

    async def answers(self, card: Card, artefact: Artefact) -> list[tuple[int, float]]:
        """The artefact's answers on the bundled photographs, each with its probability."""

        async def make() -> list[tuple[int, float]]:
            inputs = {
                "artefact": artefact.sha256,
                "photographs": PHOTOGRAPHS_VERSION,
                "view": view_of(card).key,
                **versions("ai-edge-litert", "scikit-image", "scikit-learn"),
            }
            seed = self._keeper.context.request.seed + 1
            folder = await self._keeper.kept(
                "answers-2", "comparing", card, inputs,
                lambda out: write_result(out, self._keeper.light("answers", artefact.path, view_of(card), seed)),
            )  # fmt: skip
            return [(int(label), float(probability)) for label, probability in read_result(folder)]

        return await self._keeper.once(("answers", artefact.sha256), make)
