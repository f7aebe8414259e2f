"""The first look at a file's speed."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.core.errors import StageError, UsageError
from advisor.measurement.latency.timing import least_cpu_ms


def test_more_work_takes_more_time(int8_model: Path, swish_model: Path) -> None:
    assert 0 < 2 * least_cpu_ms(int8_model) < least_cpu_ms(swish_model)


def test_a_truncated_file_is_one_line(tmp_path: Path, float_model: Path) -> None:
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(float_model.read_bytes()[:400])
    with pytest.raises(StageError, match=r"^broken\.tflite: .*cannot load the file"):
        least_cpu_ms(broken)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no model file"):
        least_cpu_ms(tmp_path / "absent.tflite")
