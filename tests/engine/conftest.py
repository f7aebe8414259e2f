"""Searches that several tests look at, done once a test session with real weights and real measurements."""

import pytest

from advisor.measurement.latency import timing


@pytest.fixture(autouse=True)
def no_second_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, each file would be timed twice."""
    monkeypatch.setitem(timing.measure.__kwdefaults__, "retry", False)
