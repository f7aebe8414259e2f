"""The host's limits."""

from __future__ import annotations

import pytest

from advisor.benchmark import roofline


def test_this_host_computes_and_moves() -> None:
    found = roofline.measure()
    assert found.gflops > 0.1
    assert found.gbytes > 0.1
    assert roofline.measure() is found


def test_attainable_is_bounded_by_memory_then_by_computing() -> None:
    roof = roofline.Roofline(gflops=100, gbytes=20)
    assert roof.ridge == 5
    assert roof.attainable(1) == 20
    assert roof.attainable(5) == pytest.approx(100)
    assert roof.attainable(50) == 100
