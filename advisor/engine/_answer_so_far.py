"""Give the answer so far while a search runs, in a thread beside it.

The search (``_run.py``) holds ``answering`` open while it evaluates. ``answer`` is passed in: it
decides over the evaluations of the run, and shows or writes the reports.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from advisor.engine._execution import Machine
from advisor.store import RunFolder

LOOK_S = 0.5
"""Seconds between two looks at the evaluations."""

REST = 20.0
"""Seconds without an answer for each second of CPU time that one took:
answers take at most 5 % of one core.
"""

MakeAnswer = Callable[[RunFolder], None]
"""Decides over the evaluations of a run so far, and shows or writes the answer."""

_log = logging.getLogger(__name__)


@asynccontextmanager
async def answering(run: RunFolder, answer: MakeAnswer, machine: Machine) -> AsyncIterator[None]:
    """Call ``answer`` in a thread, at once and whenever the run has new evaluations;
    never during a measurement.
    """
    task = asyncio.ensure_future(_keep_answering(run, answer, machine))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _keep_answering(run: RunFolder, answer: MakeAnswer, machine: Machine) -> None:
    answered_bytes = -1
    is_first = True
    while True:
        # Evaluations are appended, so a file of the same size has nothing new.
        size_bytes = 0
        if run.evaluations_file.is_file():
            size_bytes = run.evaluations_file.stat().st_size
        if size_bytes != answered_bytes:
            answered_bytes = size_bytes
            async with machine.beside():
                cpu_s = await asyncio.to_thread(_time_answer, answer, run)
            # The first one took its imports, too.
            await asyncio.sleep(0.0 if is_first else REST * cpu_s)
            is_first = False
        await asyncio.sleep(LOOK_S)


def _time_answer(answer: MakeAnswer, run: RunFolder) -> float:
    """Call ``answer`` and return the CPU seconds that it took."""
    started = time.thread_time()
    try:
        answer(run)
    except Exception as error:  # an answer so far that fails must not end the search
        _log.warning(
            "the answer so far of '%s' cannot be given: %s: %s",
            run.path,
            type(error).__name__,
            error,
        )
    return time.thread_time() - started
