"""The agent as a program: one JSON document on standard output, whatever happens."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.isolation import agent
from tests.builders import must_fail, write_file
from tests.devices.requirements import require_onnx
from tests.measurement import small_models

AGENT = Path(agent.__file__)


def run(script: Path, *arguments: object) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run([sys.executable, "-I", str(script), *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def alone(starts_processes: None, model_folder: Path, float_model: Path) -> tuple[int, dict[str, Any], str]:
    """What the agent says that runs alone as one copied file."""
    copy = Path(shutil.copy(AGENT, model_folder / "alone.py"))
    return run(copy, float_model, "--threads", "1,2", "--effort", "survey")


def test_it_runs_alone_as_one_copied_file(alone: tuple[int, dict[str, Any], str]) -> None:
    status, document, _ = alone
    assert status == 0
    assert document["schema_version"] == 1
    assert (document["runtime"], document["runtime_version"]) == ("ai-edge-litert", "2.3.0")
    assert [series["threads"] for series in document["series"]] == [1, 2]


def test_every_run_is_kept_with_both_clocks_at_one_thread(alone: tuple[int, dict[str, Any], str]) -> None:
    _, document, _ = alone
    single, double = document["series"]
    assert len(single["blocks"]) == document["effort"]["blocks"] == 8
    assert sum(len(block["wall_ns"]) for block in single["blocks"]) >= 32
    assert all(len(block["cpu_ns"]) == len(block["wall_ns"]) for block in single["blocks"])
    assert all(block["cpu_ns"] is None for block in double["blocks"])
    # The CPU clock of a virtual machine once stood still for a run of some microseconds.
    assert all(min(block["wall_ns"]) > 0 < sum(block["cpu_ns"]) for block in single["blocks"])


def test_native_noise_does_not_reach_the_document(alone: tuple[int, dict[str, Any], str]) -> None:
    _, document, errors = alone
    assert "XNNPACK" in errors
    assert document["memory"]["private_bytes"] >= document["memory"]["dirty_bytes"] > 0


@pytest.mark.integration
def test_a_truncated_file_is_one_error_in_the_document(tmp_path: Path, float_model: Path) -> None:
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(float_model.read_bytes()[:500])
    status, document, _ = run(AGENT, broken)
    assert status == agent.EXIT_ERROR
    assert document["error"]["kind"] == "load"
    assert "ai-edge-litert 2.3.0 cannot load the file" in document["error"]["message"]


@pytest.mark.integration
def test_an_open_shape_asks_for_a_shape_and_takes_it(tmp_path: Path) -> None:
    path = write_file(tmp_path / "open.tflite", small_models.classifier(open_shape=True))
    status, document, _ = run(AGENT, path, "--effort", "load")
    assert (status, document["error"]["kind"]) == (agent.EXIT_ERROR, "shape")
    assert "--shape" in document["error"]["message"]
    status, document, _ = run(AGENT, path, "--effort", "load", "--shape", "1,32,32,3")
    assert status == 0


@pytest.mark.parametrize("value", ["0", "-1", "1,0", "two", ""])
def test_wrong_thread_counts_are_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["agent.py", "classifier.tflite", f"--threads={value}"])
    ended = must_fail(SystemExit, "", agent.main)
    assert ended.code == 2


@pytest.mark.parametrize("kind", ["f4", "f2", "u1", "i1", "i2"])
def test_inputs_are_varied_repeat_and_use_the_types_range(kind: str) -> None:
    values = agent.input_values((1, 32, 32, 3), kind, "image")
    assert values.dtype == np.dtype(kind)
    assert np.array_equal(values, agent.input_values((1, 32, 32, 3), kind, "image"))
    assert len(np.unique(values)) > 200
    if values.dtype.kind == "f":
        assert abs(values.astype(float)).max() <= 1
        assert (abs(values.astype(float)) > 1e-7).all()
    else:
        span = np.iinfo(values.dtype)
        assert values.max() > span.max * 0.9


def test_an_input_that_holds_no_numbers_is_refused() -> None:
    must_fail(agent.AgentError, "'text' has type", agent.input_values, (1,), "S4", "text")


@pytest.mark.integration
def test_memory_limit_stops_the_process(float_model: Path) -> None:
    arguments = [str(float_model), "--effort", "load", "--memory-limit", "10000000"]
    done = subprocess.run([sys.executable, str(AGENT), *arguments], capture_output=True, text=True)
    assert done.returncode != 0


@pytest.mark.integration
def test_an_onnx_file_is_timed_in_turn_with_a_tflite_file(tmp_path: Path, float_model: Path) -> None:
    require_onnx()
    status, document, _ = run(AGENT, float_model, onnx_file(tmp_path), "--effort", "load")
    assert status == 0, document
    assert [series["runtime"].partition("==")[0] for series in document["series"]] == ["ai-edge-litert", "onnxruntime"]


@pytest.mark.integration
def test_a_damaged_onnx_file_is_named_by_onnx_runtime(tmp_path: Path) -> None:
    require_onnx()
    broken = onnx_file(tmp_path)
    broken.write_bytes(broken.read_bytes()[:-20])
    status, document, _ = run(AGENT, broken, "--effort", "load")
    assert status == agent.EXIT_ERROR
    assert document["error"]["kind"] == "load"
    assert "onnxruntime" in document["error"]["message"]


def onnx_file(model_folder: Path) -> Path:
    """A file of one operator with an open batch dimension."""
    from onnx import TensorProto, helper, save

    image, answer = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [image], [answer])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = model_folder / "relu.onnx"
    save(model, str(path))
    return path
