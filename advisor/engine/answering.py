"""Keep the answer so far: give it again whenever a search has new evaluations."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from advisor.engine.execution.machine import Machine
from advisor.store import RunFolder

_log = logging.getLogger(__name__)

LOOK_S = 0.5
"""Seconds between two looks at the evaluations."""

REST = 20.0
"""Seconds without an answer for each second of CPU time that one took: answers take at most 5 % of one core."""

Answer = Callable[[RunFolder], None]
"""Decides over the evaluations of a run so far, and shows or writes the answer."""


@asynccontextmanager
async def answering(run: RunFolder, answer: Answer, machine: Machine) -> AsyncIterator[None]:
    """Call ``answer`` in a thread, at once and whenever the run has new evaluations; never during a measurement.

    An error of ``answer`` is logged, and does not end the search.
    """
    task = asyncio.ensure_future(_keep_answering(run, answer, machine))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _keep_answering(run: RunFolder, answer: Answer, machine: Machine) -> None:
    seen, first = -1, True
    while True:
        size = run.evaluations_file.stat().st_size if run.evaluations_file.is_file() else 0
        if size != seen:
            seen = size
            async with machine.beside():
                taken_s = await asyncio.to_thread(_timed, answer, run)
            await asyncio.sleep(0.0 if first else REST * taken_s)  # the first one took its imports, too
            first = False
        await asyncio.sleep(LOOK_S)


def _timed(answer: Answer, run: RunFolder) -> float:
    """Call ``answer`` and return the CPU seconds that it took."""
    started = time.thread_time()
    try:
        answer(run)
    except Exception as error:
        _log.warning("the answer so far of '%s' cannot be given: %s: %s", run.path, type(error).__name__, error)
    return time.thread_time() - started
