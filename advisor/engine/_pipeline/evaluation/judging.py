"""Expect the seconds of running a file over the hold-out and of judging its answers.

A search tells :class:`JudgingPace` of each file that ran over images and of each judgement. Its
time limit reserves the seconds that this expects, and the scorer asks over how many images it can
still judge. Nothing of it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from advisor.catalog import Card
from advisor.engine._pipeline import cost
from advisor.engine._pipeline.stage import StageName
from advisor.engine._pipeline.stage_events import EventKind, StageEvent

FEWEST_JUDGED = 8
"""Images of the hold-out that a file runs on at least, however little time is left:
fewer tell nothing.
"""


class JudgingPace:
    """The seconds of the hold-out on this machine,
    by the files that ran over images and the answers that were judged.

    ``paced`` is what scoring took in earlier searches over its rough price, both in CPU seconds.
    ``judging_s`` are the rough CPU seconds of turning the answers to one image into figures.
    ``slowdown`` returns the wall seconds of a CPU second of jobs now.
    """

    def __init__(
        self,
        paced: float = 1.0,
        judging_s: float = 0.0,
        slowdown: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self._paced = paced
        self._rough_judging_s = judging_s
        self._slowdown = slowdown
        # CPU seconds of an image by card and recipe.
        self._image_s: dict[tuple[str, str], float] = {}
        self._price_s = 0.0
        self._cpu_s = 0.0
        self._judged = 0
        self._judged_s = 0.0

    def note(self, event: StageEvent, images: int) -> None:
        """Record that a file ran over so many images."""
        stage = event.stage
        has_run = event.kind is EventKind.DONE and stage.name is StageName.SCORE
        if not has_run or not images:
            return
        file = stage.scope.card, stage.scope.compression
        self._image_s[file] = max(self._image_s.get(file, 0.0), event.cpu_s / images)
        self._price_s += stage.cost_s
        self._cpu_s += event.cpu_s

    def note_judged(self, images: int, cpu_s: float) -> None:
        """Record that the answers to so many images became figures."""
        self._judged += images
        self._judged_s += cpu_s

    def has_run(self, card: Card) -> bool:
        """Return whether a file of a card has run over images."""
        return any(name == card.name for name, _ in self._image_s)

    def seconds(self, card: Card, recipe: str, images: int) -> float:
        """Return the wall seconds in which one core runs a file over images and judges its
        answers.
        """
        start_s = self._speed * cost.READ_START_S
        return self._slowdown() * (start_s + images * self._expect_image_s(card, recipe))

    def images_in(self, seconds: float, files: Sequence[tuple[Card, str]], cores: int) -> int:
        """Return over how many images each of some files, of a card and a recipe,
        runs in so many wall seconds.
        """
        side_by_side = min(len(files), cores)
        start_s = sum(self.seconds(card, recipe, 0) for card, recipe in files) / side_by_side
        images_cpu_s = sum(self._expect_image_s(card, recipe) for card, recipe in files)
        image_s = self._slowdown() * images_cpu_s / side_by_side
        return max(0, int((seconds - start_s) / image_s))

    @property
    def _speed(self) -> float:
        """CPU seconds of running files over their rough price."""
        return self._cpu_s / self._price_s if self._price_s and self._cpu_s else self._paced

    def _expect_image_s(self, card: Card, recipe: str) -> float:
        """Return the CPU seconds of running a file over an image and judging its answer."""
        if self._judged:
            judging_s = self._judged_s / self._judged
        else:
            judging_s = self._speed * self._rough_judging_s
        image_s = self._image_s.get((card.name, recipe))
        if image_s is None:
            rough_s = cost.READ_IMAGE_S + cost.rough_latency_ms(card, recipe) / 1e3
            of_card = [
                spent_s for (name, _), spent_s in self._image_s.items() if name == card.name
            ]
            # Of a form that has not run yet, the slowest file of the card tells most.
            image_s = max(of_card, default=self._speed * rough_s)
        return image_s + judging_s
