"""Throttling: a steady slow-down is told, noise is not."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.devices.connections.adb import parse_output
from advisor.devices.connections.host import rising, slowdown, throttling, timings_of_agent
from tests.devices.test_adb import PRINTED


def test_blocks_that_keep_rising_are_throttling() -> None:
    assert throttling([10, 10.5, 11, 12, 13, 14, 15, 15]).startswith("throttled: the last runs took 1.4")


@pytest.mark.parametrize("blocks", [[], [5], [1, 2, 3], [10, 10.1, 9.9, 10, 10.05, 10], [10, 30, 9, 31, 10, 12]])
def test_noise_and_too_few_blocks_are_not(blocks: list[float]) -> None:
    assert throttling(blocks) == ""


def test_a_device_that_speeds_up_is_not() -> None:
    assert throttling([15, 14, 13, 12, 11, 10]) == ""


@given(st.lists(st.floats(1, 1.05), min_size=4, max_size=30))
def test_five_percent_of_noise_never_are(blocks: list[float]) -> None:
    assert throttling(blocks) == ""


@given(st.lists(st.floats(1, 1e3), min_size=2, max_size=20, unique=True))
def test_tau_is_one_for_a_rise_and_minus_one_for_a_fall(values: list[float]) -> None:
    assert rising(sorted(values)) == 1.0
    assert rising(sorted(values, reverse=True)) == -1.0


def test_slowdown_takes_the_medians_of_the_ends() -> None:
    assert slowdown([10, 10, 999, 15, 20, 20]) == 2.0


def series(clock: str) -> dict[str, Any]:
    noise = random.Random(0)
    rows = []
    for block in range(8):
        rising_ns, flat_ns = 1000.0 * (1 + 0.1 * block), 1000.0 + noise.random()
        walls = [rising_ns] * 4
        rows.append({"wall_ns": walls, "cpu_ns": [rising_ns if clock == "rising" else flat_ns] * 4})
    return {"model": "a", "threads": 1, "first_ns": 1, "load_ns": 1, "blocks": rows}


@pytest.mark.parametrize(("clock", "expected"), [("rising", "throttled"), ("flat", "")])
def test_the_agents_blocks_are_judged_by_cpu_time(clock: str, expected: str) -> None:
    (timing,) = timings_of_agent({"series": [series(clock)], "load": {}}, [Path("a.tflite")], ["a"])
    assert timing.throttled.startswith(expected)
    assert bool(timing.throttled) is bool(expected)


@pytest.mark.parametrize(("waited", "expected"), [(0, "throttled"), (None, "throttled"), (600, "")])
def test_of_several_threads_blocks_that_waited_for_a_processor_do_not_count(waited: int | None, expected: str) -> None:
    document = series("rising")
    blocks = [{**row, "cpu_ns": [], "waited_ns": waited, "elapsed_ns": 1000} for row in document["blocks"]]
    (timing,) = timings_of_agent(
        {"series": [{**document, "threads": 2, "blocks": blocks}], "load": {}}, [Path("a.tflite")], ["a"]
    )
    assert timing.throttled[:9] == expected


def test_the_phones_tool_tells_it_by_first_mean_and_last() -> None:
    def throttled(runs: str) -> str:
        return parse_output(PRINTED.replace("count=50 first=12000 curr=11800", runs), Path("a.tflite"), 1).throttled

    assert throttled("count=50 first=12000 curr=11800") == ""
    assert throttled("count=50 first=9000 curr=14900") == "throttled: the last run took 1.66 times as long as the first"
    assert throttled("count=50 first=12000 curr=14900") == ""
