"""``advisor benchmark --device``: over a real SSH server and a real adb, and predicted where nothing is at hand."""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import advisor
from advisor.core import Provenance, StageError, UsageError
from advisor.devices import Connection, DeviceTarget, HostConnection, MeasurementJob, Predictor, Profiles, Timing
from advisor.engine import TargetDevice
from advisor.engine._targets.compatibility import form_rejection
from advisor.measurement import DeviceBenchmark
from advisor.measurement._on_device.benchmark import benchmark_on_device
from tests.builders import interval, write_file
from tests.documents import problems
from tests.measurement import small_models

TARGET = DeviceTarget("litert-cpu-x1", "ai-edge-litert", "cpu")


def none() -> Predictor:
    raise AssertionError("a measurement asks for no prediction")


def measured(profiles: Profiles, connection: Connection, *models: Path, **options: object) -> DeviceBenchmark:
    board = replace(profiles["raspberry-pi-4"], targets=(TARGET,), default_target=TARGET.name)
    return benchmark_on_device(models, board, TARGET, connection, none, effort="load", **options)  # type: ignore[arg-type]


@pytest.mark.integration
def test_a_file_that_cannot_run_fails_alone(agent: Path, model: Path, tmp_path: Path, profiles: Profiles) -> None:
    wrong = write_file(tmp_path / "custom.tflite", small_models.unknown_operator())
    found = measured(profiles, HostConnection(agent), model, wrong)
    good, bad = found.rows
    assert good.latency.value > 0
    assert (bad.latency, bad.status) == (None, "failed")
    assert "unresolved custom op: Nobody" in bad.failure
    assert found.failed == (bad,)


@dataclass(frozen=True)
class Told:
    """A device whose agent's document is as a test wants it."""

    timing: Timing
    label: str = "told"

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        if not self.timing.details:
            raise StageError(f"board does not take {job.models[0].name}: No space left on device")
        return (self.timing,)


@pytest.mark.integration
def test_a_hot_or_full_or_broken_device_says_so_in_the_row(agent: Path, model: Path, profiles: Profiles) -> None:
    (found,) = HostConnection(agent).measure(MeasurementJob((model,), effort="load"))
    for changes, status, reason in (
        ({"throttled": "throttled: 1.4 times as long"}, "throttled", "1.4 times as long"),
        ({"details": {}}, "failed", "No space left on device"),
        ({"details": {**found.details, "load": {"cores": "many"}}}, "failed", "invalid response from the device"),
    ):
        (row,) = measured(profiles, Told(replace(found, **changes)), model).rows
        assert row.status == status
        assert reason in (row.failure or row.reason)


def test_without_a_connection_latency_is_predicted(model: Path, profiles: Profiles, predictor: Predictor) -> None:
    profile, target = profiles.select("raspberry-pi-4")
    found = benchmark_on_device([model], profile, target, None, lambda: predictor)
    (row,) = found.rows
    assert row.latency.provenance is Provenance.PREDICTED
    assert row.status == "predicted"
    low, value, high = interval(row.latency)
    assert low < value < high
    assert (found.connection, row.form) == ("", "float32")


def test_a_form_or_thread_count_of_no_target_is_skipped(model: Path, profiles: Profiles, predictor: Predictor) -> None:
    profile, target = profiles.select("coral-usb")
    found = benchmark_on_device([model], profile, target, None, lambda: predictor)
    assert found.rows[0].failure == "classifier.tflite: tflite-tpu takes int8, not float32"
    assert [told.accelerator.name for _, told in found.delegations] == ["edgetpu"]
    profile, target = profiles.select("raspberry-pi-4")
    with pytest.raises(UsageError, match="other counts cannot be predicted"):
        benchmark_on_device([model], profile, target, None, lambda: predictor, threads=(3,))


def test_a_form_that_a_search_refuses_is_skipped(tmp_path: Path, profiles: Profiles, predictor: Predictor) -> None:
    """An NPU with float32 and int8 does not take their mixture, whoever asks: ``search`` or ``benchmark --device``."""
    model = write_file(tmp_path / "dynamic.tflite", small_models.dynamic_int8(small_models.swish_net()))
    target = replace(TARGET, name="npu", accelerator="npu", precisions=("float32", "int8"))
    board = replace(profiles["raspberry-pi-4"], targets=(target,), default_target=target.name)
    (row,) = benchmark_on_device([model], board, target, None, lambda: predictor).rows
    assert row.latency is None
    assert row.failure == "dynamic.tflite: npu does not compute floats with 8-bit weights"
    refused = form_rejection("dynamic_int8", TargetDevice("board:npu", board, target))
    assert refused == "raspberry-pi-4:npu does not compute floats with 8-bit weights"


def test_what_breaks_a_hard_limit_is_noted(profiles: Profiles, predictor: Predictor, tmp_path: Path) -> None:
    path = write_file(tmp_path / "large.tflite", small_models.swish_net(side=128))
    profile, target = profiles.select("stm32h743")
    remark, limit = benchmark_on_device([path], profile, target, None, lambda: predictor).notes
    assert remark.startswith("stm32h743:stm32cube.ai-cpu-x1: the latencies are those of stm32cube.ai")
    assert limit.startswith("large.tflite: its activations need")


def test_another_runtime_is_not_measured_as_this_one(agent: Path, model: Path, profiles: Profiles) -> None:
    profile, target = profiles.select("raspberry-pi-4:ncnn-cpu-x4")
    with pytest.raises(UsageError, match="runs ncnn, which cannot be measured over a connection"):
        benchmark_on_device([model], profile, target, HostConnection(agent), none)


def test_the_command_measures_over_the_named_connection(own_ssh: None, model: Path, tmp_path: Path) -> None:
    (tmp_path / "board.yaml").write_text(
        "name: board\ntitle: Board\nkind: board\nsoc: Maker\ndefault_target: cpu\n"
        "targets: [{name: cpu, runtime: ai-edge-litert, accelerator: cpu, precisions: [float32]}]\n"
        f"connection: {{ssh: device, python: {sys.executable}}}\n"
    )
    made = advisor.benchmark_device(model, device="board", effort="load", profiles=[tmp_path], threads=(1, 2))
    found = json.loads(json.dumps(made.to_json()))
    assert problems("device_benchmark", found) == []
    assert found["connection"] == "device"
    assert [row["threads"] for row in found["rows"]] == [1, 2]
    assert {row["latency"]["provenance"] for row in found["rows"]} == {"measured"}
