"""A coroutine is run from code that is not asynchronous."""

from __future__ import annotations

import asyncio
import threading

import pytest

from advisor.isolation.coroutine import run_coroutine


async def _thread_after(seconds: float) -> threading.Thread:
    await asyncio.sleep(seconds)
    return threading.current_thread()


async def _failing() -> None:
    raise ValueError("refused")


def test_the_result_comes_from_another_thread() -> None:
    assert run_coroutine(_thread_after(0.0)) is not threading.current_thread()


def test_it_runs_where_an_event_loop_runs_already() -> None:
    async def inside() -> threading.Thread:
        return run_coroutine(_thread_after(0.0))

    assert asyncio.run(inside()) is not threading.current_thread()


def test_the_coroutine_s_error_is_raised() -> None:
    with pytest.raises(ValueError, match="refused"):
        run_coroutine(_failing())
