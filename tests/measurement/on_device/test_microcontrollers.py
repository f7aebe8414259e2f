"""``advisor benchmark --device`` of a microcontroller: the files run in TensorFlow Lite Micro on this machine."""

import json
from pathlib import Path

import pytest

from advisor.devices.prediction import device_predictor
from advisor.devices.profiles import read_profile, shipped_profiles
from advisor.integrations import microcontroller as micro
from advisor.measurement.on_device import DeviceBenchmark
from advisor.measurement.on_device.benchmark import benchmark_on_device
from advisor.tflite.arena import micro_arena
from advisor.tflite.model import read
from tests.documents import problems
from tests.measurement import small_models
from tests.requirements import skip_or_fail

pytestmark = pytest.mark.integration


def benchmarked(*models: Path) -> DeviceBenchmark:
    profile = read_profile(shipped_profiles() / "stm32h743.yaml")
    target = profile.target("tflite-micro-cpu-x1")
    return benchmark_on_device(models, profile, target, None, device_predictor)


def test_a_file_that_runs_has_its_arena_and_one_that_does_not_is_failed(int8_model: Path, tmp_path: Path) -> None:
    if not micro.available():
        skip_or_fail("tflite-micro is not installed")
    unknown = tmp_path / "unknown.tflite"
    unknown.write_bytes(small_models.dynamic_int8(small_models.classifier()))
    found = benchmarked(int8_model, unknown)
    assert problems("device_benchmark", json.loads(json.dumps(found.to_json()))) == []
    runs, refused = found.rows
    assert runs.micro is not None
    assert runs.arena_bytes == runs.micro.arena_bytes > 14_000
    assert refused.latency is None
    assert "Hybrid models are not supported" in refused.failure or "takes int8" in refused.failure


def test_the_comparison_with_litert_is_a_note(int8_model: Path) -> None:
    if not micro.available():
        skip_or_fail("tflite-micro is not installed")
    (note,) = (note for note in benchmarked(int8_model).notes if "runs it in an arena of" in note)
    assert "of 16 outputs none differ from LiteRT's reference kernels" in note


def test_without_the_extra_the_arena_is_computed(int8_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(micro, "available", lambda: False)
    found = benchmarked(int8_model)
    assert found.rows[0].arena_bytes == micro_arena(read(int8_model)).total
    assert any("arenas are computed; pip install 'ondevice-advisor[micro]'" in note for note in found.notes)
