"""The task image tagging: its images, networks, stages and files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import HEAD, UsageError
from advisor.tasks._task import FunctionTask, TaskFunctions

if TYPE_CHECKING:
    from advisor.catalog import Card
    from advisor.engine import FloatModel, Purpose, Stage, Workload


class Tagging(FunctionTask):
    """See :class:`advisor.tasks.Task`."""

    @property
    def trainings(self) -> tuple[str, ...]:
        """The only training recipe: a head is fitted to the features of a frozen backbone."""
        return (HEAD,)

    @property
    def functions(self) -> TaskFunctions:
        """The functions for images with labels, judged by the order in which scores put them."""
        from advisor.tasks.tagging import _files as files, _images as images
        from advisor.tasks.tagging._shipping import SHIPPING
        from advisor.tasks.tagging._stages import tag

        judge = files.ByPrecision(self.metric)
        return TaskFunctions(images.read, images.check_tags, tag, "scores.npy", lambda _: judge, SHIPPING)

    def recognize(self, data: Path) -> str:
        """Return whether tables give images several labels, in words."""
        from advisor.datasets import list_label_sets

        try:
            listing = list_label_sets(data)
        except UsageError:
            return ""
        return "a table of several labels an image" if any(len(row.there) > 1 for row in listing.entries) else ""

    def model(self, card: Card, training: str, purpose: Purpose, workload: Workload) -> Stage[FloatModel]:
        """Return the stage that fits a head to the features of the card's backbone."""
        from advisor.tasks.tagging._stages import join_head

        return join_head(card, training, purpose, workload)
