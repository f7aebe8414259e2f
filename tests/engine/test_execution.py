import asyncio
import threading
import time
from collections.abc import Awaitable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, strategies as st

from advisor.engine import Machine
from advisor.engine._execution import call_in_own_thread, count_spare_jobs
from advisor.isolation import MemoryGate, Pause
from advisor.isolation._memory import KEPT_FREE_BYTES
from tests.builders import must_fail
from tests.processes import PATIENCE_S


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run in a thread of its own: a browser test of the same process may keep a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


async def together(*jobs: Awaitable[None]) -> None:
    await asyncio.wait_for(asyncio.gather(*jobs), timeout=PATIENCE_S)


class Watched:
    """Jobs and measurements that note who is at work."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.jobs, self.alone, self.order = machine, 0, 0, list[str]()
        self.helpers, self.training = 0, set[Stoppable]()

    async def job(self, name: str, priority: float = 0.0, turns: int = 2) -> None:
        async with self.machine.core(priority):
            self.jobs += 1
            assert self.alone == 0
            assert self.jobs <= self.machine.cores
            for _ in range(turns):
                await asyncio.sleep(0)
            self.order.append(name)
            self.jobs -= 1

    async def measurement(self, name: str, priority: float = 0.0) -> None:
        async with self.machine.alone(priority):
            self.alone += 1
            assert (self.jobs, self.alone, self.helpers) == (0, 1, 0)
            assert all(pause.stopped for pause in self.training)
            await asyncio.sleep(0)
            self.order.append(name)
            self.alone -= 1

    async def helper(self, name: str, turns: int = 2) -> None:
        async with self.machine.beside():
            self.helpers += 1
            assert self.alone == 0
            for _ in range(turns):
                await asyncio.sleep(0)
            self.order.append(name)
            self.helpers -= 1

    async def train(self, name: str) -> None:
        pause = Stoppable()
        async with self.machine.trainer(pause):
            self.training.add(pause)
            for _ in range(3):
                await asyncio.sleep(0)
            self.training.remove(pause)
            self.order.append(name)


@given(st.integers(1, 3), st.lists(st.tuples(st.sampled_from("mjht"), st.integers(0, 3)), max_size=25))
def test_a_measurement_is_always_alone_and_everything_ends(cores: int, wanted: list[tuple[str, int]]) -> None:
    watched = Watched(Machine(cores))
    kinds = {
        "m": lambda p: watched.measurement("m", p),
        "j": lambda p: watched.job("j", p, turns=p),
        "h": lambda p: watched.helper("h", turns=p),
        "t": lambda _: watched.train("t"),
    }
    run(together(*(kinds[kind](p) for kind, p in wanted)))
    assert len(watched.order) == len(wanted)


def test_a_cancelled_wait_or_helper_gives_its_turn_to_the_next() -> None:
    async def scenario() -> None:
        watched = Watched(Machine(1))
        async with watched.machine.alone():
            helper = asyncio.ensure_future(watched.helper("cancelled"))
            await asyncio.sleep(0)
            helper.cancel()
        first = asyncio.ensure_future(watched.measurement("cancelled"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await together(watched.job("job"), watched.measurement("measured"))
        assert sorted(watched.order) == ["job", "measured"]

    run(scenario())


def test_the_smallest_priority_goes_first() -> None:
    watched = Watched(Machine(1))
    run(together(*(watched.job(str(p), p) for p in (2, 0, 1))))
    assert watched.order == ["0", "1", "2"]


def test_a_few_measurements_wait_for_the_jobs_and_many_go_before_them() -> None:
    few, many = Watched(Machine(1, batch=3)), Watched(Machine(1, batch=3))
    run(together(*(each.measurement("m") for each in (few, many) for _ in range(2))))
    run(together(*(few.job(f"j{i}") for i in range(4)), *(few.measurement("m") for _ in range(2))))
    assert few.order[-2:] == ["m", "m"]
    run(together(*(many.job(f"j{i}") for i in range(4)), *(many.measurement("m") for _ in range(3))))
    assert many.order[-1].startswith("j")
    first = Watched(Machine(1, batch=3))
    run(together(*(first.job(f"j{i}") for i in range(4)), first.measurement("m")))
    assert first.order[-1].startswith("j")


class Stoppable(Pause):
    """Notes what is asked of it in place of a child."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped = False

    def pause(self) -> None:
        self.stopped = True

    def resume(self) -> None:
        self.stopped = False


@pytest.mark.parametrize("kind", ["training", "job", "spare"])
def test_a_measurement_stops_training_and_jobs_that_can_be_paused_and_lets_them_go_on(kind: str) -> None:
    machine, pause, seen = Machine(2 if kind == "training" else 1, spare_jobs=1), Stoppable(), list[tuple[str, bool]]()
    held = {"training": machine.trainer(pause), "job": machine.core(pause=pause), "spare": machine.spare(pause)}
    over = asyncio.Event()

    async def work() -> None:
        async with held[kind]:
            await over.wait()
            seen.append(("worked", pause.stopped))

    async def measure() -> None:
        await asyncio.sleep(0.01)
        async with machine.alone():
            seen.append(("measured", pause.stopped))
        await asyncio.sleep(0.01)
        seen.append(("after", pause.stopped))
        over.set()

    run(together(work(), measure()))
    assert seen == [("measured", True), ("after", False), ("worked", False)]


def test_spare_work_takes_no_core_begins_stopped_beside_a_measurement_and_waits_for_its_like() -> None:
    machine, seen = Machine(1, spare_jobs=1), list[str]()

    async def use_spare_time(name: str) -> None:
        pause = Stoppable()
        async with machine.spare(pause):
            seen.append(f"{name} {'stopped' if pause.stopped else 'runs'}")
            await asyncio.sleep(0.01)

    async def measure() -> None:
        async with machine.alone():
            await together(use_spare_time("first"))
        async with machine.core():
            await together(use_spare_time("second"), use_spare_time("third"))

    run(together(measure()))
    assert seen == ["first stopped", "second runs", "third runs"]


@pytest.mark.parametrize(
    ("cores", "quota", "workers", "jobs"), [(2, None, 2, 2), (4, None, 2, 0), (2, 2.0, 2, 0), (1, None, 1, 0)]
)
def test_spare_work_takes_neither_a_core_that_is_not_given_nor_a_part_of_a_quota(
    monkeypatch: pytest.MonkeyPatch, cores: int, quota: float | None, workers: int, jobs: int
) -> None:
    monkeypatch.setattr("advisor.engine._execution.usable_cores", lambda: cores)
    monkeypatch.setattr("advisor.engine._execution.read_quota_cores", lambda: quota)
    assert count_spare_jobs(workers) == jobs


def test_jobs_go_before_training_and_training_waits_for_a_core() -> None:
    machine, order = Machine(1), list[str]()

    async def job() -> None:
        async with machine.core(5):
            order.append("job")

    async def train() -> None:
        async with machine.trainer(Stoppable()):
            order.append("training")

    run(together(train(), job(), job()))
    assert order == ["job", "job", "training"]
    assert (machine.trainings, Machine(3, separate_measurements=True).trainings) == (1, 3)


def test_a_job_waits_for_memory_and_begins_when_there_is_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.engine._execution.LOOK_AGAIN_S", 0.01)
    free = [KEPT_FREE_BYTES + 100]
    machine, seen = Machine(2, memory_gate=MemoryGate(lambda: free[0])), list[str]()
    began = asyncio.Event()

    async def small() -> None:
        async with machine.core(0, 50):
            await asyncio.sleep(0.05)
            seen.append("small")
            free[0] += 1000
            await began.wait()
            seen.append("small ends")

    told: list[str] = []

    async def large() -> None:
        async with machine.core(1, 500, waits=told.append):
            seen.append("large")
            began.set()

    run(together(small(), large()))
    assert seen == ["small", "large", "small ends"]
    assert set(told) == {"500 B of free memory"}


def test_measurements_apart_run_beside_jobs_one_at_a_time() -> None:
    machine, seen, over = Machine(1, separate_measurements=True), list[str](), asyncio.Event()

    async def job() -> None:
        async with machine.core():
            await over.wait()
            seen.append("job")

    async def measure(name: str) -> None:
        async with machine.alone():
            seen.append(f"{name} begins")
            await asyncio.sleep(0.01)
            seen.append(f"{name} ends")
        if name == "second":
            over.set()

    run(together(job(), measure("first"), measure("second")))
    assert seen == ["first begins", "first ends", "second begins", "second ends", "job"]


def test_a_call_that_nobody_needs_any_more_does_not_hold_up_the_end() -> None:
    left = threading.Event()

    async def ended_early() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(call_in_own_thread(left.wait, PATIENCE_S), timeout=0.05)

    began = time.monotonic()
    asyncio.run(ended_early())
    assert time.monotonic() - began < PATIENCE_S
    left.set()
    assert asyncio.run(call_in_own_thread(divmod, 7, 2)) == (3, 1)
    must_fail(ZeroDivisionError, "", asyncio.run, call_in_own_thread(divmod, 7, 0))
