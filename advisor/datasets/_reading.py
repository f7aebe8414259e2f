"""Call a function for many untrusted files, a few at a time, in child processes with limits.

Decoders of images are native libraries: a damaged file can crash them, and a small one can claim
much memory. The survey, masks and thumbnails use :func:`read_each` with a function's name as
``module:function``: such a function must stay where its name says.
"""

from __future__ import annotations

import atexit
import math
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from advisor.core import StageError
from advisor.datasets._image_files import ignore_warnings
from advisor.isolation import IN_CHILD, CallLimits, ChildPool, usable_cores

BLOCK = 16  # Files that a child reads in one call
IN_FLIGHT = 64  # Files that are read ahead, which limits the memory
MOST_BYTES = 3_000_000_000
LIMITS = CallLimits(seconds=600.0, memory_bytes=MOST_BYTES)
LIMITS_OF_ONE = CallLimits(seconds=60.0, memory_bytes=MOST_BYTES)


@dataclass(frozen=True)
class ReaderFailure:
    """A file at which a child crashed or exceeded a limit."""

    reason: str


def read_each(function: str, items: Sequence[Any]) -> Iterator[Any]:
    """Yield the result of ``module:function`` for each item in order, from child processes.

    About :data:`IN_FLIGHT` items are read ahead, in whole blocks. Where a child crashed or
    exceeded a limit, the result is a :class:`ReaderFailure`. A process that is a child reads
    itself: it has limits of its own.
    """
    read = call_each if os.environ.get(IN_CHILD) else _read_in_child
    cores = usable_cores()
    # Rounded up, so that a few items give each core one block.
    size = min(BLOCK, max(1, math.ceil(len(items) / cores)))
    waiting: deque[Future[list[Any]]] = deque()
    threads = ThreadPoolExecutor(max_workers=cores)
    try:
        with ignore_warnings():
            for start in range(0, len(items), size):
                waiting.append(threads.submit(read, function, items[start : start + size]))
                if len(waiting) * size >= IN_FLIGHT:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
    finally:
        # Where the reading is ended, what is read ahead is not.
        threads.shutdown(wait=False, cancel_futures=True)


def call_each(function: str, items: Sequence[Any]) -> list[Any]:
    """Return the results of ``module:function`` for some items."""
    module, _, name = function.partition(":")
    read = getattr(import_module(module), name)
    with ignore_warnings():
        return list(map(read, items))


def call_in_folder(folder: str, function: str, items: Sequence[Any]) -> list[Any]:
    """Call in a child, with paths that count from the current folder of its parent.

    That may have changed since the child began.
    """
    os.chdir(folder)
    return call_each(function, items)


def _read_in_child(function: str, items: Sequence[Any]) -> list[Any]:
    """Return the results of a child; if it fails at several items, each is tried alone."""
    limits = LIMITS if len(items) > 1 else LIMITS_OF_ONE
    try:
        results = _start_readers(os.getpid()).call(
            f"{__name__}:call_in_folder", str(Path.cwd()), function, list(items), limits=limits
        )
    except StageError as error:
        if len(items) == 1:
            return [ReaderFailure(f"its reader {error.message}")]
        single_results: list[Any] = []
        # Which of the files ended the child is not known.
        for item in items:
            single_results += _read_in_child(function, [item])
        return single_results
    return list(results)


@cache
def _start_readers(process: int) -> ChildPool:
    """Return the children of this process; a fork has its own."""
    pool = ChildPool(Path(os.devnull), most_bytes=MOST_BYTES)

    def close() -> None:
        if os.getpid() == process:
            pool.close()

    atexit.register(close)
    return pool
