"""The class behind ``SEGMENTATION``: images, training, judge and bundle of a segmenter.

Search, check and export call these methods through :class:`advisor.tasks.Task`. ``version`` is a
part of the key of trained networks in the cache: raise it when equal images and weights give
another network. ``masks.npz`` is a file in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.tasks._task import HeadOnMaps, TaskFunctions

if TYPE_CHECKING:
    from advisor.catalog import Card
    from advisor.training import HeadKind, Labels

STEP_S = 0.06
"""Seconds of a step of the decoder."""

MAP_RUNS = 12.0
"""Seconds of an image's maps, in runs of the card in LiteRT."""

STEP_RUNS = 4.6
STEP_RUNS_ALL = 9.6
"""Seconds for an image of a step of fine-tuning some layers, or all, in runs of the card. With 370
images, MobileNetV2 took 20, 48 (555 steps) and 162 CPU seconds (647 steps) on an AMD EPYC. A step
of all layers takes 1.7 times as long as one of some.
"""


class Segmentation(HeadOnMaps):
    """See :class:`advisor.tasks.Task`."""

    learnt = "masks"
    version = "5"

    @property
    def head(self) -> HeadKind:
        """The decoder that is trained."""
        from advisor.tasks.segmentation._jobs import SCORES
        from advisor.training import HeadKind, Hyperparameters, pixel_decoder

        alone = Hyperparameters(12, batch=8, learning_rate=8e-3, averaging=0.99, least_steps=300)
        tuned = replace(alone, epochs=14, learning_rate=2e-3)
        whole = replace(tuned, epochs=20, backbone_rate=0.2, batch_statistics=True)
        return HeadKind(32, pixel_decoder(self.side, SCORES), alone, tuned, whole)

    def labels(self, mask: Any, card: Card) -> Labels:
        """Return the mask of an image at the side of the network."""
        from advisor.tasks.segmentation._jobs import resize_labels
        from advisor.training import PackedMask

        return PackedMask.of(resize_labels(mask.labels(), (self.side, self.side)))

    def seconds(self, card: Card, images: int, layers: float) -> float:
        """Return the seconds of the maps and of the steps; see :data:`STEP_S`."""
        from advisor.engine import cost

        hyperparameters = self.head.hyperparameters
        if layers:
            hyperparameters = self.head.choose_hyperparameters(layers)
        batch = hyperparameters.batch
        steps = max(hyperparameters.least_steps, hyperparameters.epochs * images / batch)
        runs = MAP_RUNS * images
        if layers:
            runs_of_image = STEP_RUNS_ALL if layers == 1.0 else STEP_RUNS
            runs = runs_of_image * batch * steps
        run_s = cost.rough_latency_ms(card, "float32") / 1e3
        return cost.DETECTOR_START_S + STEP_S * steps + runs * run_s

    def learns_from(
        self, images: Sequence[tuple[Path, Any]], seed: int
    ) -> Sequence[tuple[Path, Any]]:
        """Return all images with more than one class, and half as many of the others."""
        from advisor.tasks.segmentation._images import choose_mixed

        return choose_mixed(images, seed)

    @property
    def functions(self) -> TaskFunctions:
        """The functions for images with masks, judged by the overlap of masks."""
        from advisor.tasks.segmentation import _images as images
        from advisor.tasks.segmentation._jobs import segment
        from advisor.tasks.segmentation._judging import Segmented
        from advisor.tasks.segmentation._shipping import SHIPPING

        judge = Segmented(self.metric)
        return TaskFunctions(
            read=images.read,
            check=images.check_masks,
            answer=segment,
            answers="masks.npz",
            judge=lambda _: judge,
            shipping=SHIPPING,
        )
