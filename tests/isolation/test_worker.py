"""One child process under several threads."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from advisor.core.errors import StageError
from advisor.isolation.pool import CallLimits, Worker

pytestmark = pytest.mark.integration

THREADS = 8
CALLS = 40
"""Of each thread, from before the child is dead until after: one call of each seldom meets another's last step."""

ROUNDS = 8


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns as often as they can, so that a race shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def _together(worker: Worker) -> list[BaseException]:
    """Stop a worker from many threads at once, and return what they raised."""
    start, raised = threading.Barrier(THREADS), []

    def stop() -> None:
        start.wait()
        try:
            for _ in range(CALLS):
                worker.stop()
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=stop) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


@pytest.mark.usefixtures("switching")
def test_many_threads_may_stop_one_worker(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "log", {})
    for _ in range(ROUNDS):
        pid = worker.call("os:getpid", limits=CallLimits())
        assert _together(worker) == []
        assert not psutil.pid_exists(pid)


def test_a_call_whose_child_is_stopped_beside_it_fails_as_a_stage(tmp_path: Path) -> None:
    worker, raised = Worker(tmp_path / "log", {}), []
    worker.call("os:getpid", limits=CallLimits())

    def sleep() -> None:
        try:
            worker.call("time:sleep", 60, limits=CallLimits())
        except StageError as error:
            raised.append(error)

    caller = threading.Thread(target=sleep)
    caller.start()
    while caller.is_alive():
        worker.stop()
        caller.join(0.01)
    worker.stop()
    assert [error.message for error in raised] == ["killed by the system (SIGKILL), most likely because memory ran out"]
