"""Run a coroutine from code that is not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def run_coroutine(work: Coroutine[object, object, Result]) -> Result:
    """Run a coroutine in a new thread and return its result.

    The calling thread may have a running event loop, as in a notebook. An interrupt reaches the caller at once.

    Raises:
        BaseException: the coroutine raised it.
    """
    result: Future[Result] = Future()

    def run() -> None:
        try:
            result.set_result(asyncio.run(work))
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, name="advisor-coroutine", daemon=True).start()
    return result.result()
