"""Files in several runtimes of this machine, in turn, and in TensorFlow Lite Micro for a microcontroller."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from advisor.core import UsageError, install_extra
from advisor.devices import HostConnection, Predictor, find_shipped_profiles
from advisor.devices._profiles import read_profile
from advisor.integrations import microcontroller as micro
from advisor.measurement import DeviceBenchmark, benchmark_device
from advisor.measurement._on_device.benchmark import benchmark_on_device
from advisor.measurement._on_device.in_runtimes import RuntimeHere, benchmark_in_runtimes
from advisor.reporting import print_device_benchmark
from advisor.tflite import micro_arena, read
from tests.devices.requirements import require_micro, require_onnx
from tests.documents import problems
from tests.measurement import small_models
from tests.tables import with_cases

LITERT = RuntimeHere("host:litert", "ai-edge-litert", HostConnection())
ONNX = RuntimeHere("host:onnxruntime", "onnxruntime", HostConnection())


@pytest.mark.integration
def test_runtimes_take_turns_and_are_compared_with_the_first(tmp_path: Path) -> None:
    require_onnx()
    model = small_models.saved(tmp_path, small_models.classifier(), "small.tflite")
    found = benchmark_in_runtimes([model], [LITERT, ONNX], (1,), "load")
    assert [(row.device, row.runtime.partition("==")[0]) for row in found.rows] == [
        ("host:litert", "ai-edge-litert"),
        ("host:onnxruntime", "onnxruntime"),
    ]
    assert problems("device_benchmark", json.loads(json.dumps(found.to_json()))) == []
    (ratio,) = found.ratios
    assert ratio.low <= ratio.ratio <= ratio.high
    console = Console(width=200, record=True, file=StringIO())
    print_device_benchmark(found, console)
    assert "small.tflite in host:onnxruntime takes" in console.export_text()
    (note,) = found.notes
    assert "the same answer on 32 of 32 inputs" in note


@pytest.mark.integration
def test_a_runtime_that_cannot_run_the_file_is_a_failed_row(tmp_path: Path) -> None:
    require_onnx()
    wrong = small_models.saved(tmp_path, small_models.unknown_operator(), "custom.tflite")
    found = benchmark_in_runtimes([wrong], [LITERT, ONNX], (1,), "load")
    assert [row.failure.partition(":")[0] for row in found.failed] == ["custom.tflite in host"] * 2
    assert "no ONNX export" in found.failed[1].failure


@with_cases
def test_only_runtimes_of_this_machine_are_compared(device: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        benchmark_device([], device, options.get("accelerator", ""), None, (), (1,), "load", lambda _text: None, {})


def benchmarked(*models: Path) -> DeviceBenchmark:
    profile = read_profile(find_shipped_profiles() / "stm32h743.yaml")
    target = profile.target("tflite-micro-cpu-x1")
    return benchmark_on_device(models, profile, target, None, Predictor.load)


@pytest.mark.integration
def test_a_file_that_runs_has_its_arena_and_one_that_does_not_is_failed(int8_model: Path, tmp_path: Path) -> None:
    require_micro()
    unknown = small_models.saved(tmp_path, small_models.dynamic_int8(small_models.classifier()), "unknown.tflite")
    found = benchmarked(int8_model, unknown)
    (note,) = (note for note in found.notes if "runs it in an arena of" in note)
    assert "of 16 outputs none differ from LiteRT's reference kernels" in note
    assert problems("device_benchmark", json.loads(json.dumps(found.to_json()))) == []
    runs, refused = found.rows
    assert runs.arena_bytes == runs.micro.arena_bytes > 14_000
    assert refused.latency is None
    assert "Hybrid models are not supported" in refused.failure or "takes int8" in refused.failure


@pytest.mark.integration
def test_without_the_extra_the_arena_is_computed(int8_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(micro, "available", lambda: False)
    found = benchmarked(int8_model)
    assert found.rows[0].arena_bytes == micro_arena(read(int8_model)).total
    assert any(f"arenas are computed; {install_extra('micro')}" in note for note in found.notes)
