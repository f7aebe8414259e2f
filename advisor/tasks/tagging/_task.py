"""The class behind ``TAGGING``: images, training, judge and bundle of a tagger.

Search, check and export call these methods through :class:`advisor.tasks.Task`. ``scores.npy`` is
a file in the cache.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import TrainingName, UsageError, plural, recipe_of
from advisor.tasks._task import FunctionTask, TaskFunctions

if TYPE_CHECKING:
    from advisor.catalog import Card, OwnFiles
    from advisor.engine import FloatModel, Purpose, Question, Stage, Workload, growth


class Tagging(FunctionTask):
    """See :class:`advisor.tasks.Task`."""

    @property
    def trainings(self) -> tuple[str, ...]:
        """The training recipes: a head on the features of a frozen backbone,
        and fine-tuning on cached maps.
        """
        return (TrainingName.HEAD, TrainingName.FINETUNE_CACHED)

    def own_files(self) -> OwnFiles:
        """Return what is done with users' own taggers."""
        from advisor.tasks.tagging._own import OwnTaggers

        return OwnTaggers()

    @property
    def functions(self) -> TaskFunctions:
        """The functions for images with labels, judged by the order in which scores put them."""
        from advisor.tasks.tagging import _images as images
        from advisor.tasks.tagging._judging import ByPrecision
        from advisor.tasks.tagging._shipping import SHIPPING
        from advisor.tasks.tagging._stages import tag

        def judge(question: Question) -> ByPrecision:
            return ByPrecision(self.metric, self.guess_figure, question.guarantees)

        return TaskFunctions(
            read=images.read,
            check=images.check_tags,
            answer=tag,
            answers="scores.npy",
            judge=judge,
            shipping=SHIPPING,
        )

    def recognize(self, data: Path) -> str:
        """Return whether tables give images several labels, in words."""
        from advisor.datasets import list_label_sets

        try:
            listing = list_label_sets(data)
        except UsageError:
            return ""
        several = sum(len(row.there) > 1 for row in listing.entries)
        return f"{plural(several, 'image')} with several labels" if several else ""

    def growth(self) -> growth.Growth:
        """Return how taggers learn from more images."""
        from advisor.tasks.tagging._growth import TaggerGrowth

        return TaggerGrowth()

    def model(
        self,
        card: Card,
        training: str,
        purpose: Purpose,
        workload: Workload,
    ) -> Stage[FloatModel]:
        """Return the stage that fits a head, fine-tunes the backbone with it,
        or takes a user's own tagger.
        """
        from advisor.tasks.tagging._own import own_tagger
        from advisor.tasks.tagging._stages import join_head
        from advisor.tasks.tagging._thresholds import finetune_tagger

        if card.is_finished:
            return own_tagger(card, training, purpose, workload)
        make = finetune_tagger if recipe_of(training).tunes_backbone else join_head
        return make(card, training, purpose, workload)
