"""When the time limit of a training ends it."""

from types import SimpleNamespace

import pytest

from advisor.training import _loop as loop
from advisor.training._loop import Reserve, Timer
from tests.tables import with_cases


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Seconds of the clock and of this process, which pass where the test says so."""
    clock = SimpleNamespace(wall_s=0.0, cpu_s=0.0)
    reading = SimpleNamespace(monotonic=lambda: clock.wall_s, process_time=lambda: clock.cpu_s)
    monkeypatch.setattr(loop, "time", reading)
    return clock


def pass_second(clock: SimpleNamespace, cpu_s: float) -> None:
    clock.wall_s += 1.0
    clock.cpu_s += cpu_s


@with_cases
def test_a_training_ends_earlier_where_work_takes_longer(clock: SimpleNamespace, cpu_s: float, ends: float) -> None:
    timer = Timer(100.0, Reserve(20.0, wall_s=0.5))
    while not timer.is_over():
        pass_second(clock, cpu_s)
    assert clock.wall_s == pytest.approx(ends, abs=3.0)


def test_the_graph_which_uses_one_core_says_nothing_of_the_steps(clock: SimpleNamespace) -> None:
    timer = Timer(100.0, Reserve(20.0, wall_s=0.5))
    for _ in range(30):
        pass_second(clock, 1.0)
        timer.is_over()
    timer.restart_share()
    assert not timer.is_over(70.0)
