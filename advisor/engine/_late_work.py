"""Run a stage when the search has its answer: in the time that is left, until the user stops it.

The search's own jobs have ended by then. What such a stage makes is an addition to the answer, so
it is given up where it takes too long.
"""

import asyncio
import math
import time
from dataclasses import dataclass
from typing import Any, TypeVar

from advisor.core import StageError
from advisor.engine._pipeline.evaluation.scorer import Scorer
from advisor.engine._pipeline.graph import with_all_before
from advisor.engine._pipeline.lookup import Lookup
from advisor.engine._pipeline.stage import Stage
from advisor.engine._space.question_images import Say
from advisor.store import RunFolder

Result = TypeVar("Result")

TOO_LATE = "there was no time left for it; advisor search --resume continues with it"


@dataclass(frozen=True)
class LateWork:
    """The limits of work after the answer.

    Attributes:
        scorer: runs the stages.
        run: takes the results.
        stopping: is set if the user stops the search.
        until: when the work must end, in seconds of the monotonic clock.
        say: shows what is being done.
    """

    scorer: Scorer
    run: RunFolder
    stopping: asyncio.Event
    until: float
    say: Say

    @property
    def left_s(self) -> float:
        """The seconds that are left."""
        return max(0.0, self.until - time.monotonic())

    def list_missing(self, stage: Stage[Any]) -> list[Stage[Any]]:
        """Return a stage and those that it needs,
        without what this search or an earlier one has made.
        """
        walker = self.scorer.walker
        lookup = Lookup(walker.materials)
        missing = []
        for needed in with_all_before((stage,)):
            if not walker.has(needed) and lookup.find(needed) is None:
                missing.append(needed)
        return missing

    def price_s(self, stage: Stage[Any]) -> float:
        """Return the rough seconds of what is missing for a stage."""
        return sum(missing.cost_s for missing in self.list_missing(stage))

    async def run_stage(self, stage: Stage[Result]) -> Result:
        """Return the result of a stage; StageError if it fails, takes too long,
        or the user stops the search.
        """
        work = asyncio.ensure_future(self.scorer.walker.run(stage))
        # The stage itself does not watch for Ctrl-C.
        # Without this second future, the user would wait for its end.
        stopped = asyncio.ensure_future(self.stopping.wait())
        timeout = None if math.isinf(self.until) else self.left_s
        await asyncio.wait({work, stopped}, timeout=timeout, return_when="FIRST_COMPLETED")
        stopped.cancel()
        if work.done():
            return work.result()
        # The cache takes a result over only when it is whole, so nothing half written stays.
        work.cancel()
        raise StageError(TOO_LATE)
