"""The page of prediction results is of the shipped measurements, and says what its stored rows say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.devices.latency.table import LatencyTable

PROJECT = Path(__file__).resolve().parents[2]
RESULTS = PROJECT / "benchmarks" / "results"


@pytest.fixture
def kept() -> Any:
    return json.loads((RESULTS / "latency_prediction.json").read_text(encoding="utf-8"))


def test_the_kept_figures_are_of_the_shipped_measurements(kept: Any, table: LatencyTable) -> None:
    assert kept["data"] == table.fingerprint()


def test_the_page_says_what_was_kept(kept: Any) -> None:
    from benchmarks.latency_prediction import PARTS
    from benchmarks.latency_protocols.page import markdown

    rows = [row for part in PARTS for row in kept[part].get("rows", ())]
    page = markdown(rows, kept)
    assert page == (RESULTS / "latency_prediction.md").read_text(encoding="utf-8")
    assert "| new silicon, NPU w8a8 | k=5, chosen of all | within +-10 % |" in page


def test_noise_is_what_neither_device_nor_network_explains(table: LatencyTable) -> None:
    from benchmarks.latency_protocols.protocols import noise

    (one, _) = noise(table, "float32")
    assert one.both < one.offset <= one.raw
    shifted = table.with_values(table.values + np.arange(len(table.columns))[:, None])
    assert noise(shifted, "float32")[0].offset == pytest.approx(one.offset)


def test_an_unknown_part_is_refused() -> None:
    argv = [sys.executable, "-m", "benchmarks", "latency_prediction", "--parts", "npu,spu"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, cwd=PROJECT)
    assert done.returncode == 2
    assert "unknown part spu; there are: npu, slow" in done.stderr
