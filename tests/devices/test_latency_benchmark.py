"""The benchmark of latency prediction."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.devices.latency.table import LatencyTable
from benchmarks.latency_protocols.regimes import effective_number

PROJECT = Path(__file__).resolve().parents[2]


def test_noise_is_what_neither_device_nor_network_explains(table: LatencyTable) -> None:
    from benchmarks.latency_protocols.protocols import noise

    (one, _) = noise(table, "float32")
    assert one.both < one.offset <= one.raw
    shifted = replace(table, values=table.values + np.arange(len(table.columns))[:, None])
    assert noise(shifted, "float32")[0].offset == pytest.approx(one.offset)


def test_the_page_names_the_parts_that_earlier_measurements_made() -> None:
    from benchmarks.latency_prediction import OUT, STORED
    from benchmarks.latency_protocols.page import markdown

    kept = json.loads((OUT / STORED).read_text(encoding="utf-8"))
    rows = [row for part in kept["made_on"] for row in kept[part].get("rows", ())]
    current = {**kept, "made_on": dict.fromkeys(kept["made_on"], kept["data"])}
    assert "Made before" not in markdown(rows, current)
    older = {**current, "made_on": {**current["made_on"], "npu": "other", "cpu": "other"}}
    assert "**Made before the measurements last changed: npu, cpu.**" in markdown(rows, older)


def test_errors_that_are_equal_on_one_silicon_count_once_and_unrelated_ones_each() -> None:
    random = np.random.default_rng(0)
    groups = [f"s{i // 20}" for i in range(200)]
    assert effective_number(np.repeat(random.normal(size=10), 20), groups) == pytest.approx(10, rel=0.01)
    assert effective_number(random.normal(size=200), groups) > 100
    assert effective_number(random.normal(size=200), ["s0"] * 200) == 1


def test_unrelated_errors_of_one_size_on_each_silicon_count_as_alike() -> None:
    random = np.random.default_rng(0)
    sizes = np.repeat(np.exp(random.normal(0, 2, 10)), 20)
    assert effective_number(sizes * random.choice([-1, 1], 200), [f"s{i // 20}" for i in range(200)]) < 15


@pytest.mark.integration
def test_an_unknown_part_is_refused() -> None:
    argv = [sys.executable, "-m", "benchmarks", "latency_prediction", "--parts", "npu,spu"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, cwd=PROJECT)
    assert done.returncode == 2
    assert "unknown part spu; there are: npu, slow" in done.stderr
