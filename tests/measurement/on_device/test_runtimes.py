"""Files in several runtimes of this machine, in turn: a row for each runtime, with the ratio to the first."""

import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from advisor.core.errors import UsageError
from advisor.devices.connections.agent import HostConnection
from advisor.engine.targets.benchmarking import benchmark_device
from advisor.measurement.on_device import DeviceBenchmark
from advisor.measurement.on_device.benchmark import RuntimeHere, benchmark_in_runtimes
from advisor.reporting.benchmark import print_device_benchmark
from tests.devices.requirements import require_onnx
from tests.documents import problems
from tests.measurement import small_models

BOTH = "host:litert,host:onnxruntime"
LITERT = RuntimeHere("host:litert", "ai-edge-litert", HostConnection())
ONNX = RuntimeHere("host:onnxruntime", "onnxruntime", HostConnection())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.tflite"
    path.write_bytes(small_models.classifier())
    return path


@pytest.mark.integration
def test_runtimes_take_turns_and_are_compared_with_the_first(model: Path) -> None:
    require_onnx()
    found = benchmark_in_runtimes([model], [LITERT, ONNX], (1,), "load")
    assert [(row.device, row.runtime.partition("==")[0]) for row in found.rows] == [
        ("host:litert", "ai-edge-litert"),
        ("host:onnxruntime", "onnxruntime"),
    ]
    assert problems("device_benchmark", json.loads(json.dumps(found.to_json()))) == []
    (ratio,) = found.ratios
    assert ratio.low <= ratio.ratio <= ratio.high
    assert "small.tflite in host:onnxruntime takes" in printed(found)
    (note,) = found.notes
    assert "the same answer on 32 of 32 inputs" in note


@pytest.mark.integration
def test_a_runtime_that_cannot_run_the_file_is_a_failed_row(tmp_path: Path) -> None:
    require_onnx()
    wrong = tmp_path / "custom.tflite"
    wrong.write_bytes(small_models.unknown_operator())
    found = benchmark_in_runtimes([wrong], [LITERT, ONNX], (1,), "load")
    assert [row.failure.partition(":")[0] for row in found.failed] == ["custom.tflite in host"] * 2
    assert "no ONNX export" in found.failed[1].failure


@pytest.mark.parametrize(
    ("device", "options", "words"),
    [
        ("host,host:onxruntime", {}, "did you mean 'host:onnxruntime'"),
        ("host:litert,galaxy-s24", {}, "'galaxy-s24' is no runtime of this machine"),
        (BOTH, {"accelerator": "gpu"}, "take no --accelerator"),
    ],
)
def test_only_runtimes_of_this_machine_are_compared(device: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        asked([], device, **options)


def asked(models: Sequence[Path], device: str, accelerator: str = "") -> DeviceBenchmark:
    return benchmark_device(models, device, accelerator, None, (), (1,), "load", lambda _text: None)


def printed(found: DeviceBenchmark) -> str:
    console = Console(width=200, record=True, file=StringIO())
    print_device_benchmark(found, console)
    return console.export_text()
