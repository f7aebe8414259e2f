"""What a finalist's file, as kept in the run, answers on the hold-out: on it as it is, and as phones take pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from advisor.catalog.cards import Card
from advisor.core.evaluation import Evaluation
from advisor.datasets.split import HOLDOUT
from advisor.engine.pipeline import accuracy
from advisor.engine.pipeline.context import Context, Images
from advisor.engine.pipeline.stages import Artefact, Stages
from advisor.store import RunFolder


class Judge:
    """Judges finalists.

    Args:
        context: the search, with pictures.
        stages: run files over pictures.
        cards: by name.
        run: holds the files, and takes their answers.
    """

    def __init__(self, context: Context, stages: Stages, cards: Mapping[str, Card], run: RunFolder) -> None:
        self._context, self._stages, self._cards, self._run = context, stages, cards, run

    async def hold_out(self, evaluation: Evaluation) -> Evaluation:
        """Return a finalist with what its artefact, as kept in the run, answers on the hold-out."""
        images, card, artefact = self._finalist(evaluation)
        path, part = artefact.path, images.holdout
        answers = accuracy.read_answers(await self._stages.scores.probabilities(card, artefact, part))
        right = [answer == label for answer, label in zip(answers, part.labels, strict=True)]
        kept = self._run.keep_answers(f"{HOLDOUT}-{path.stem}", answers)
        return replace(
            evaluation,
            holdout_accuracy=accuracy.share_of(right, accuracy.HELD_OUT),
            holdout_answers=accuracy.per_class(answers, part.labels, images.classes, kept),
        )

    async def capture(self, evaluation: Evaluation) -> Evaluation:
        """Return a finalist with what its artefact answers on the hold-out as phones take pictures."""
        images, card, artefact = self._finalist(evaluation)
        labels = accuracy.read_labels(await self._stages.scores.captured(card, artefact, images.captured))
        verdict = accuracy.robust(labels, labels, images.captured.labels, accuracy.CAPTURED_HOLDOUT)
        found = replace(verdict.capture, holdout=verdict.accuracy, plain=evaluation.capture.plain)
        return replace(evaluation, capture=found)

    def _finalist(self, evaluation: Evaluation) -> tuple[Images, Card, Artefact]:
        images = self._context.images
        assert images is not None, "finalists are judged where there are pictures"
        path = self._run.path / evaluation.artefact
        artefact = Artefact(path, evaluation.artefact_sha256, path.stat().st_size, {})
        return images, self._cards[evaluation.configuration.card], artefact
