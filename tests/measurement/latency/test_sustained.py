"""First against last, from windows of a run without a rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.core.errors import StageError
from advisor.measurement.latency.findings import Sustained, Window, sustain


def made(medians: list[float], seconds: float = 300.0) -> Sustained:
    step = seconds / len(medians)
    windows = tuple(Window(index * step, 10, median) for index, median in enumerate(medians))
    return Sustained(1, seconds, "CPU time", min(60.0, seconds / 5), windows, 0.0)


def test_the_last_minute_is_held_against_the_first() -> None:
    found = made([2.0] * 6 + [3.0] * 18 + [4.0] * 6)
    assert (found.first_ms, found.last_ms, found.ratio) == (2.0, 4.0, 2.0)
    assert found.sentence.startswith("slows down by 100% in a long run: 2.00 ms in the first 60 s")


def test_a_steady_file_keeps_its_speed() -> None:
    assert made([2.0] * 29 + [2.06]).sentence.startswith("keeps its speed")


def test_a_short_time_compares_its_fifths() -> None:
    found = made([1.0] * 6 + [5.0] * 18 + [2.0] * 6, seconds=10.0)
    assert (found.span_s, found.first_ms, found.last_ms) == (2.0, 1.0, 2.0)


@pytest.mark.integration
def test_windows_cover_the_time(float_model: Path) -> None:
    found = sustain(float_model, 2, 0.5, windows=5)
    assert found.clock == "wall time"
    assert len(found.windows) == 5
    assert [row.start_s for row in found.windows] == sorted(row.start_s for row in found.windows)
    assert all(row.runs > 0 and row.median_ms > 0 for row in found.windows)


@pytest.mark.integration
def test_a_file_that_cannot_run_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"nothing")
    with pytest.raises(StageError, match=r"broken\.tflite"):
        sustain(broken, 1, 0.1)
