"""The class behind ``ANOMALY``: images, training, judge and bundle of an anomaly detector.

Search, check and export call these methods through :class:`advisor.tasks.Task`. ``version`` is a
part of the key of trained networks in the cache: raise it when equal images and weights give
another network. ``heats.npz`` is a file in the cache.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from advisor.core import TrainingName
from advisor.tasks._task import OnMaps, TaskFunctions

if TYPE_CHECKING:
    from advisor.catalog import Card
    from advisor.engine import Folders, Job, Materials, Part


class Anomaly(OnMaps):
    """See :class:`advisor.tasks.Task`."""

    learnt = "distances"
    version = "8"

    @property
    def trainings(self) -> tuple[str, ...]:
        """The only training recipe: what is usual is learnt from the maps of a frozen backbone."""
        return (TrainingName.HEAD,)

    @property
    def functions(self) -> TaskFunctions:
        """The functions for good images, which are learnt from, and faulty ones,
        which judge by AUROC.
        """
        from advisor.tasks.anomaly import _images as images
        from advisor.tasks.anomaly._jobs import mark
        from advisor.tasks.anomaly._judging import ByAuroc
        from advisor.tasks.anomaly._shipping import SHIPPING

        judge = ByAuroc(self.metric)
        return TaskFunctions(
            read=images.read,
            check=images.check_faults,
            answer=mark,
            answers="heats.npz",
            judge=lambda _: judge,
            shipping=SHIPPING,
        )

    def seconds(self, card: Card, images: int, layers: float) -> float:
        """Return the seconds of the maps and of two conversions."""
        from advisor.engine import cost

        return cost.CONVERT_S * 3 + cost.reading_s(card, images)

    def job(self, card: Card, materials: Materials, part: Part, to: Folders, start: object) -> Job:
        """Return the job that learns what is usual in the good images of a part."""
        from advisor.catalog import build_model
        from advisor.engine import input_spec
        from advisor.tasks.anomaly._jobs import HEAT
        from advisor.training import learn_usual

        rows = zip(part.paths, part.groups or part.indices, part.labels, strict=True)
        images = [(path, group) for path, group, label in rows if not label]
        build = partial(build_model, card, materials.weights[card.name])
        seed = materials.question.seed
        return partial(learn_usual, build, input_spec(card), images, seed, to.model, HEAT)
