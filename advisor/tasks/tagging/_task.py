"""The task image tagging: its images, networks, stages and files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core import UsageError, recipe_of
from advisor.tasks._task import HeadOnMaps, TaskFunctions

if TYPE_CHECKING:
    from advisor.catalog import Card
    from advisor.engine import FloatModel, Purpose, Stage, Workload
    from advisor.training import HeadKind, Labels


class Tagging(HeadOnMaps):
    """See :class:`advisor.tasks.Task`."""

    version = "1"
    learnt = "labels"

    @property
    def functions(self) -> TaskFunctions:
        """The functions for images with labels, judged by the order in which scores put them."""
        from advisor.tasks.tagging import _files as files, _images as images
        from advisor.tasks.tagging._shipping import SHIPPING
        from advisor.tasks.tagging._stages import tag

        judge = files.ByPrecision(self.metric)
        return TaskFunctions(images.read, images.check_tags, tag, "scores.npy", lambda _: judge, SHIPPING)

    def recognized(
        self,
        data: Path,
    ) -> str:
        """Return whether tables give images several labels, in words."""
        from advisor.tasks.tagging._tables import list_tags

        try:
            listing = list_tags(data)
        except UsageError:
            return ""
        return "a table of several labels an image" if any(len(row.there) > 1 for row in listing.entries) else ""

    def model(
        self,
        card: Card,
        training: str,
        purpose: Purpose,
        workload: Workload,
    ) -> Stage[FloatModel]:
        """Return the stage that fits a head to the features of the card's backbone, or that trains both."""
        from advisor.tasks.tagging._stages import join_head

        if recipe_of(training).tunes_backbone:
            return super().model(card, training, purpose, workload)
        return join_head(card, training, purpose, workload)

    @property
    def head(self) -> HeadKind:
        """The linear head on the means of maps, with which fine-tuning begins and which it trains further."""
        from advisor.tasks.tagging._network import make_tag_head
        from advisor.training import HeadKind, Hyperparameters

        alone = Hyperparameters(4, learning_rate=1e-2, least_steps=100)
        tuned = Hyperparameters(14, learning_rate=2e-3, backbone_rate=0.2)
        return HeadKind(32, make_tag_head, alone, tuned, replace(tuned, batch_statistics=True))

    def labels(
        self,
        own: Any,
        card: Card,
    ) -> Labels:
        """Return the labels of an image."""
        import numpy as np

        from advisor.tasks.tagging._network import Tags

        return Tags(np.array(own, np.int8))
