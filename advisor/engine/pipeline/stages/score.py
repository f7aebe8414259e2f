"""What an artefact answers: on the user's pictures, or on the bundled photographs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.catalog.cards import Card
from advisor.compression.calibration import PHOTOGRAPHS_VERSION
from advisor.datasets.capture import VERSION as CAPTURE_VERSION
from advisor.engine.pipeline.context import Part, versions, view_of
from advisor.engine.pipeline.stages.compress import Artefact
from advisor.engine.pipeline.stages.runner import StageRunner, read_result, write_result

_WRITTEN = {"score": "probabilities.npy", "captured": "labels.npy"}
"""The file that each job leaves."""


class Scores:
    """Runs artefacts over pictures.

    Args:
        keeper: runs the stages.
    """

    def __init__(self, keeper: StageRunner) -> None:
        self._keeper = keeper

    async def probabilities(self, card: Card, artefact: Artefact, images: Part) -> Path:
        """Run the artefact over pictures; returns the ``.npy`` of its probabilities."""
        return await self._ran("score", ("score-1", "scoring"), card, artefact, images, {})

    async def captured(self, card: Card, artefact: Artefact, images: Part) -> Path:
        """Run the artefact over pictures under every capture condition; returns the ``.npy`` of its labels (T, N)."""
        drawn = {"names": [path.name for path in images.paths], "conditions": CAPTURE_VERSION}
        return await self._ran("captured", ("capture-1", "trying phone pictures on"), card, artefact, images, drawn)

    async def _ran(
        self, job: str, stage: tuple[str, str], card: Card, artefact: Artefact, images: Part, more: Mapping[str, Any]
    ) -> Path:
        """Return the ``.npy`` that a job writes of what an artefact answers to pictures.

        Args:
            job: function of :mod:`advisor.engine.pipeline.jobs`.
            stage: its name and version, and what it is doing, for the progress.
            card: whose view pictures are seen in.
            artefact: the file that answers.
            images: what it answers to.
            more: what the answers depend on besides.
        """

        async def make() -> Path:
            inputs = {
                "artefact": artefact.sha256,
                "pictures": images.fingerprint,
                "view": view_of(card).key,
                **more,
                **versions("ai-edge-litert", "pillow", "numpy"),
            }
            folder = await self._keeper.kept(
                *stage, card, inputs,
                lambda out: self._keeper.light_on(
                    images, job, artefact.path, images.paths, view_of(card), out / _WRITTEN[job]
                ),
            )  # fmt: skip
            return folder / _WRITTEN[job]

        return await self._keeper.once((job, artefact.sha256, images.fingerprint), make)

    async def answers(self, card: Card, artefact: Artefact) -> list[tuple[int, float]]:
        """The artefact's answers on the bundled photographs, each with its probability."""

        async def make() -> list[tuple[int, float]]:
            inputs = {
                "artefact": artefact.sha256,
                "photographs": PHOTOGRAPHS_VERSION,
                "view": view_of(card).key,
                **versions("ai-edge-litert", "scikit-image", "scikit-learn"),
            }
            seed = self._keeper.context.question.seed + 1
            folder = await self._keeper.kept(
                "answers-2", "comparing", card, inputs,
                lambda out: write_result(out, self._keeper.light("answers", artefact.path, view_of(card), seed)),
            )  # fmt: skip
            return [(int(label), float(probability)) for label, probability in read_result(folder)]

        return await self._keeper.once(("answers", artefact.sha256), make)
