"""The benchmark of latency prediction."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.devices.latency.table import LatencyTable

PROJECT = Path(__file__).resolve().parents[2]


def test_noise_is_what_neither_device_nor_network_explains(table: LatencyTable) -> None:
    from benchmarks.latency_protocols.protocols import noise

    (one, _) = noise(table, "float32")
    assert one.both < one.offset <= one.raw
    shifted = replace(table, values=table.values + np.arange(len(table.columns))[:, None])
    assert noise(shifted, "float32")[0].offset == pytest.approx(one.offset)


@pytest.mark.integration
def test_an_unknown_part_is_refused() -> None:
    argv = [sys.executable, "-m", "benchmarks", "latency_prediction", "--parts", "npu,spu"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, cwd=PROJECT)
    assert done.returncode == 2
    assert "unknown part spu; there are: npu, slow" in done.stderr
