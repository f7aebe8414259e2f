"""Score a finalist's file from the run on the hold-out: on unchanged images, and under capture conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from advisor.catalog.cards import Card
from advisor.core.evaluation import Evaluation
from advisor.datasets.split import HOLDOUT
from advisor.engine.pipeline import cost
from advisor.engine.pipeline.evaluation import accuracy
from advisor.engine.pipeline.images import Role
from advisor.engine.pipeline.stage import Artefact, Scope, input_spec
from advisor.engine.pipeline.stages.figures import capture, score
from advisor.engine.pipeline.walker import Walker
from advisor.store import RunFolder


class FinalistScorer:
    """Scores finalists.

    Args:
        walker: runs the stages; its materials contain images.
        cards: by name.
        run: contains the files, and stores their answers.
    """

    def __init__(self, walker: Walker, cards: Mapping[str, Card], run: RunFolder) -> None:
        self._walker, self._cards, self._run = walker, cards, run

    async def hold_out(self, evaluation: Evaluation) -> Evaluation:
        """Return a finalist with the accuracy of its file on the hold-out.

        Raises:
            StageAborted: the file cannot be run.
        """
        images, artefact = self._walker.materials.require_images(), self._artefact(evaluation)
        part = images.part(Role.HOLDOUT)
        card, scope = self._cards[evaluation.configuration.card], scope_of(evaluation)
        seconds = cost.scoring_s(card, scope.compression, len(part.paths))
        stage = score(scope, input_spec(card), artefact, Role.HOLDOUT, seconds)
        answers = accuracy.read_answers(await self._walker.run(stage))
        right = [answer == label for answer, label in zip(answers, part.labels, strict=True)]
        kept = self._run.keep_answers(f"{HOLDOUT}-{artefact.path.stem}", answers)
        return replace(
            evaluation,
            holdout_accuracy=accuracy.share_of(right, accuracy.HELD_OUT),
            holdout_answers=accuracy.per_class(answers, part.labels, images.classes, kept),
        )

    async def capture(self, evaluation: Evaluation) -> Evaluation:
        """Return a finalist with the accuracy of its file on the hold-out under capture conditions.

        Raises:
            StageAborted: the file cannot be run.
        """
        part = self._walker.materials.require_images().part(Role.CAPTURED)
        card, scope = self._cards[evaluation.configuration.card], scope_of(evaluation)
        seconds = cost.judging_s(card, len(part.paths))
        stage = capture(scope, input_spec(card), self._artefact(evaluation), Role.CAPTURED, seconds)
        labels = accuracy.read_labels(await self._walker.run(stage))
        verdict = accuracy.robust(labels, labels, part.labels, accuracy.CAPTURED_HOLDOUT)
        found = replace(verdict.capture, holdout=verdict.accuracy, plain=evaluation.capture.plain)
        return replace(evaluation, capture=found)

    def _artefact(self, evaluation: Evaluation) -> Artefact:
        return Artefact.at(self._run.path / evaluation.artefact, evaluation.artefact_sha256)


def scope_of(evaluation: Evaluation) -> Scope:
    """Return the scope of the stages of an evaluation's file."""
    configuration = evaluation.configuration
    return Scope(configuration.card, configuration.training, configuration.compression)
