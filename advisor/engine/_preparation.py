"""Prepare a search before its first job:
find and check the parts of its question, and end in time.

``run_search`` calls ``resolve_question`` before it makes the run folder: what cannot be searched
is an error before anything is spent. A time limit holds here, too, so reading images is ended by
a signal (``end_block_at``).
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from advisor.core import ExitCode, StageError
from advisor.engine._execution import require_executor
from advisor.engine._history.manifest import find_first_cards, keep_thread_counts
from advisor.engine._history.unfinished import continue_command
from advisor.engine._question import Execution, Request
from advisor.engine._scheduling.storage import check_storage
from advisor.engine._search_space import refuse_too_short
from advisor.engine._space.plan import ANSWER_CPU_S, ANSWER_S
from advisor.engine._space.question_images import Say
from advisor.engine._space.resolved import Resolved
from advisor.engine._space.resolving import require_installed, resolve_parts
from advisor.engine._space.weights import find_weights
from advisor.isolation import sweep_folders, waiting_factor
from advisor.store import ArtifactCache, RunFolder

AGAIN_S = 5.0
"""Seconds until the work is ended again, if something caught the first end."""

MOST_ANSWER_SHARE = 0.2
"""Largest share of a time limit for the end of a command that was ended before its first job."""


class OutOfTime(StageError):
    """The time limit ended a search before its first job: exit code 3."""

    exit_code = ExitCode.UNSATISFIED


def make_out_of_time(limit: str, before: str, hint: str) -> OutOfTime:
    """Return the error for a time limit that ended before something, such as "the first job"."""
    return OutOfTime(f"the time limit of {limit} ended before {before}: nothing is known", hint)


def find_end_of_preparation(execution: Execution, started: float) -> float:
    """Return when the work before the first job must end, by the monotonic clock;
    infinite without a limit.

    The end of the command takes its time, too: more of it on a busy machine.
    """
    limit_s = execution.time_limit_s
    if limit_s is None:
        return math.inf
    answer_s = max(ANSWER_S, ANSWER_CPU_S * waiting_factor())
    return started + limit_s - min(answer_s, MOST_ANSWER_SHARE * limit_s)


def require_time(execution: Execution, ends_at: float, run: RunFolder) -> None:
    """Refuse to begin the first job of a run after ``ends_at`` of the monotonic clock.

    Raises:
        OutOfTime: the moment is over.
    """
    if time.monotonic() > ends_at:
        raise make_out_of_time(
            execution.time_limit,
            "the first job",
            f"give it more time: {continue_command(run.path)}",
        )


def resolve_question(
    request: Request, resumed: RunFolder | None, say: Say, started: float
) -> Resolved:
    """Return a question with all its parts, checked:
    what cannot be searched is refused before anything is spent.

    A time limit may read fewer images than the request names, and counts from ``started`` seconds
    of the monotonic clock. A run that is ``resumed`` keeps its cards and thread counts.
    """
    require_installed(request)
    require_executor(request.execution)
    # A cache that cannot be written, and folders of killed searches,
    # are dealt with before the images are read.
    ArtifactCache.require_folder()
    sweep_folders()
    if resumed is None:
        RunFolder.require_parent(request.folder)
        check_storage(request.execution.storage)
    else:
        request = keep_thread_counts(resumed, request)
    # Without images there is nothing to prepare:
    # a limit that is too short is refused with the shortest useful one.
    ends_at = math.inf
    if request.question.data:
        ends_at = find_end_of_preparation(request.execution, started)
    with end_block_at(ends_at, request.execution.time_limit):
        resolved = resolve_parts(request, say)
    # The progress still shows a remark on the images, so it says what comes next.
    say("planning the search")
    if resumed is not None:
        return replace(resolved, cards=find_first_cards(resumed, resolved))
    _refuse_new_run(resolved, say)
    return resolved


def _refuse_new_run(resolved: Resolved, say: Say) -> None:
    """Refuse a search that would fail after its run folder was made."""
    execution = resolved.execution
    if execution.time_limit_s is not None:
        refuse_too_short(resolved)
    if execution.offline:
        # What is not here will not come.
        find_weights(resolved, say)


class _TimeIsOver(BaseException):
    """The time is over. No error, so that nothing on the way takes it for a fault of a file."""


@contextmanager
def end_block_at(ends_at: float, limit: str) -> Iterator[None]:
    """End the block at ``ends_at`` of the monotonic clock with OutOfTime;
    ``limit`` is the limit as a person wrote it.

    Only the main thread can be ended so.
    In others, and on systems without such a timer, the block goes on.
    """
    # Python runs handlers of signals in the main thread only, and refuses to set one elsewhere.
    if math.isinf(ends_at) or threading.current_thread() is not threading.main_thread():
        yield
        return
    if not hasattr(signal, "setitimer"):
        yield
        return

    def end(*_: object) -> None:
        raise _TimeIsOver

    began = time.monotonic()
    handler = signal.signal(signal.SIGALRM, end)
    # With a period, because something on the way may catch the first end.
    left_s, every_s = signal.setitimer(signal.ITIMER_REAL, max(0.001, ends_at - began), AGAIN_S)
    try:
        yield
    except _TimeIsOver:
        raise make_out_of_time(
            limit,
            "the images were read and compared",
            "give it more time, or name fewer images; other programs may keep this machine busy",
        ) from None
    finally:
        # A timer of the caller goes on as if it had never been replaced.
        remaining_s = 0.0
        if left_s:
            remaining_s = max(0.001, left_s - (time.monotonic() - began))
        signal.setitimer(signal.ITIMER_REAL, remaining_s, every_s)
        signal.signal(signal.SIGALRM, handler)
