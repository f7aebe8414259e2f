"""A browser of this machine as a device of a question: its files are measured and judged like those of the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.core.evaluation import Status
from advisor.core.quantity import Provenance
from advisor.devices.browser.packages import LITERT, ONNXRUNTIME
from advisor.engine.question import resolve
from advisor.engine.targets.device_prediction import before_measuring
from advisor.engine.targets.measuring import measured_over_connection, prepared_for
from advisor.engine.targets.target_devices import TargetDevice, select_targets
from tests.browsers import chromium, require_runtime
from tests.builders import evaluation
from tests.devices.requirements import require_onnx
from tests.measurement import small_models

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def browser() -> None:
    chromium()
    require_runtime(LITERT)


def targets_of(device: str) -> tuple[TargetDevice, ...]:
    return select_targets(resolve({"device": device, "threads": [1, 2]}).question).devices


def test_it_is_measured_at_the_thread_counts_of_the_question_with_litert() -> None:
    found = targets_of("chromium")
    assert [(device.label, device.target.threads) for device in found] == [("chromium", 2), ("chromium", 1)]
    assert {device.identity.runtime for device in found} == {"litert-web==2.5.3"}
    assert found[1].target.name == "litert-wasm"


def test_a_named_target_is_measured_as_it_is() -> None:
    (found,) = targets_of("chromium:onnxruntime-wasm")
    assert (found.identity.runtime, found.target.threads) == ("onnxruntime-web==1.30.0", 1)


@pytest.mark.parametrize("name", ["chromium:litert-wasm", "chromium:onnxruntime-wasm"])
def test_a_file_is_measured_with_an_interval(tmp_path: Path, name: str) -> None:
    if "onnx" in name:
        require_onnx()
        require_runtime(ONNXRUNTIME)
    model = tmp_path / "small.tflite"
    model.write_bytes(small_models.classifier())
    (device,) = targets_of(name)
    before = before_measuring(evaluation(), device)
    assert prepared_for(before, device, model) == before
    found = measured_over_connection(before, device, model, "load")
    assert found.status is Status.OK, found.reason
    assert found.latency is not None
    assert found.latency.provenance is Provenance.MEASURED
    assert found.latency.low is not None
    assert " in Chromium " in found.latency.source
    assert found.remote is not None
    assert (found.remote.page_bytes or 0) > 9_000_000


@pytest.mark.slow
def test_webgpu_without_a_gpu_gives_no_speed(tmp_path: Path) -> None:
    model = tmp_path / "small.tflite"
    model.write_bytes(small_models.classifier())
    (device,) = targets_of("chromium:litert-webgpu")
    found = measured_over_connection(before_measuring(evaluation(), device), device, model, "load")
    if found.status is Status.OK:
        pytest.skip("this machine's browser has a GPU")
    assert "WebGPU" in found.reason


def test_a_file_that_the_browser_cannot_run_fails_with_its_operator(tmp_path: Path) -> None:
    model = tmp_path / "custom.tflite"
    model.write_bytes(small_models.unknown_operator())
    (device,) = targets_of("chromium:litert-wasm")
    found = measured_over_connection(before_measuring(evaluation(), device), device, model, "load")
    assert found.status is Status.FAILED
    assert "unresolved custom op: Nobody" in found.reason
