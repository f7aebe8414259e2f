"""Score the pick so far on the hold-out while the search goes on.

The search loop asks for it after each result, so that a user who stops a search early reads a
figure of the hold-out too. It decides nothing: the rule and the study never see these figures.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Collection
from typing import Any

from advisor.core import Configuration, Evaluation, Status, recipe_of
from advisor.engine._pipeline.evaluation.scorer import Scorer
from advisor.engine._scheduling.finalists import MORE, score_holdout, share_holdout
from advisor.store import RunFolder

SO_FAR_SHARE = 0.1
"""Most of the time left that the hold-out of a pick so far takes, as a share."""

SO_FAR_IMAGES = 400
"""Images of the hold-out that a pick so far runs on within a time limit. They give its figure to 3
to 5 points, and it may be the pick for a minute alone.
"""

REST = 20.0
"""Seconds of rest after each second of scoring a pick so far,
so that it takes at most 5 % of one core.
"""

FREE_S = 12.0
"""Seconds of scoring without a rest at first, as early picks change."""

YOUNG_S = 3.0
"""Seconds in which the score of a pick gives way to that of a newer pick."""


class PickSoFar:
    """Scores the pick so far on the hold-out while the search goes on,
    so that an early answer has the figure, too.

    The rest of the search does not look at it: bounds and the study leave figures of the hold-out
    out. ``left_s`` returns the seconds until a time limit: where they are few, a part of the
    images gives the figure.
    """

    def __init__(
        self,
        pick: Callable[[], Evaluation | None],
        scorer: Scorer | None,
        run: RunFolder,
        left_s: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self._pick = pick
        self._scorer = scorer
        self._run = run
        self._left_s = left_s
        self._rest_until = 0.0
        self._spent_s = 0.0
        self._scoring: asyncio.Future[None] | None = None
        self._has_scored = False
        self._again: asyncio.TimerHandle | None = None
        # What is being scored, and since when.
        self._file = ""
        self._began = 0.0
        self._failed = set[str]()

    def begin_scoring(self) -> None:
        """Begin to score the pick if it has no figure, unless there was a score a short time ago.

        A score of a former pick that has just begun gives way:
        two heads that end together have one score.
        """
        now = time.monotonic()
        busy = self._scoring is not None and now - self._began > YOUNG_S
        if self._scorer is None or now < self._rest_until or busy:
            return
        file = self._without_figure()
        if file and file != self._file:
            if self._scoring is not None:
                self._scoring.cancel()
            self._file = file
            self._began = now
            self._scoring = asyncio.ensure_future(self._score(file, self._scorer))

    async def wait_for_first(
        self, chosen: Collection[Configuration], stopped: asyncio.Future[Any]
    ) -> None:
        """Wait for the score of the first pick before a fine-tuning,
        which would keep the cores for minutes.

        An end of the search ends the wait.
        """
        tunes = any(recipe_of(configuration.training).tunes_backbone for configuration in chosen)
        if tunes and self._scoring is not None and not self._has_scored:
            await asyncio.wait({self._scoring, stopped}, return_when="FIRST_COMPLETED")

    async def close(self) -> None:
        """Drop a score that is under way; a finalist is scored again."""
        if self._again is not None:
            self._again.cancel()
        if self._scoring is not None:
            self._scoring.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._scoring

    def _without_figure(self) -> str:
        """Return the file of the pick so far if it has no figure and can be scored;
        else an empty text.
        """
        pick = self._pick()
        if (
            pick is None
            or recipe_of(pick.configuration.training).quick_head
            or pick.holdout_accuracy is not None
        ):
            return ""
        if pick.artefact_sha256 in self._failed:
            return ""
        return pick.artefact_sha256 or ""

    async def _score(self, file: str, scorer: Scorer) -> None:
        """Score a file, then ask again: at once if another file is the pick by now, else after a
        rest, because a search may go on for long without a result.
        """
        of_file = []
        for evaluation in self._run.evaluations():
            if evaluation.status is Status.OK and evaluation.artefact_sha256 == file:
                of_file.append(evaluation)
        rows = [row for row in share_holdout(of_file, self._run) if row.holdout_accuracy is None]
        most = scorer.affordable(rows, SO_FAR_SHARE * self._left_s())
        limited = self._left_s() < math.inf
        # Soon the finalists run there: until then a pick needs no figure on a few images.
        if limited and self._has_scored and most < min(SO_FAR_IMAGES, scorer.holdout_images):
            self._scoring = None
            return
        # Else a later run on all images would add little.
        if limited and most >= MORE * SO_FAR_IMAGES:
            most = SO_FAR_IMAGES
        if len(await score_holdout(rows, scorer, self._run, most)) < len(rows):
            self._failed.add(file)
        self._has_scored = True
        ended = time.monotonic()
        self._spent_s += ended - self._began
        rest_s = 0.0
        if not self._without_figure():
            rest_s = REST * (ended - self._began)
        self._scoring = None
        self._file = ""
        self._rest_until = ended + (rest_s if self._spent_s > FREE_S else 0.0)
        self._again = asyncio.get_running_loop().call_later(rest_s, self.begin_scoring)
