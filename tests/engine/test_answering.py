"""The answer so far of a search, whenever it has new evaluations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from advisor.engine import answering as module
from advisor.engine.answering import Answer, answering
from advisor.engine.execution.machine import Machine
from advisor.store import RunFolder
from tests.builders import evaluation
from tests.processes import PATIENCE_S
from tests.run_folders import write_run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setattr(module, "LOOK_S", 0.005)
    return write_run(tmp_path)


def during(run: RunFolder, answer: Answer, work: Callable[[Machine], Coroutine[Any, Any, None]]) -> None:
    """Do the work of a search in a loop of its own, with answers beside it."""
    machine = Machine(1)

    async def search() -> None:
        async with answering(run, answer, machine):
            await asyncio.wait_for(work(machine), timeout=PATIENCE_S)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, search()).result()


async def until(seen: Callable[[], bool]) -> None:
    while not seen():
        await asyncio.sleep(0.005)


def test_there_is_one_at_once_and_one_for_each_change(run: RunFolder) -> None:
    seen: list[int] = []

    async def work(_machine: Machine) -> None:
        await until(lambda: len(seen) == 1)
        await asyncio.sleep(0.1)
        run.append(evaluation("another"))
        await until(lambda: len(seen) == 2)

    during(run, lambda folder: seen.append(len(folder.evaluations())), work)
    assert seen == [3, 4]


def test_no_answer_is_given_during_a_measurement(run: RunFolder) -> None:
    seen: list[int] = []

    async def work(machine: Machine) -> None:
        await until(lambda: len(seen) == 1)
        async with machine.alone():
            run.append(evaluation("another"))
            await asyncio.sleep(0.1)
            assert len(seen) == 1
        await until(lambda: len(seen) == 2)

    during(run, lambda folder: seen.append(len(folder.evaluations())), work)


def test_answers_rest_twenty_times_as_long_as_they_take_but_for_the_first(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks, slept = iter((0.0, 0.5, 0.5, 1.5)), list[float]()
    sleep = asyncio.sleep
    monkeypatch.setattr(module, "time", SimpleNamespace(thread_time=lambda: next(ticks)))

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0.005)

    monkeypatch.setattr(module, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": noted}))

    async def work(_machine: Machine) -> None:
        while len(slept) < 2:
            await sleep(0.005)
        assert slept[0] == 0.0
        run.append(evaluation("another"))
        while max(slept) < 1.0:
            await sleep(0.005)

    during(run, lambda _folder: None, work)
    assert max(slept) == 20.0


def test_an_error_is_logged_and_the_search_goes_on(run: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    called: list[RunFolder] = []

    def broken(folder: RunFolder) -> None:
        called.append(folder)
        raise OSError("no space left on device")

    async def work(_machine: Machine) -> None:
        await until(lambda: len(called) == 1)
        run.append(evaluation("another"))
        await until(lambda: len(called) == 2)

    with caplog.at_level(logging.WARNING):
        during(run, broken, work)
    assert "OSError: no space left on device" in caplog.text
