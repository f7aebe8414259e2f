"""Runtimes of this machine as devices: measured, never predicted; hard limits of a device leave files out."""

from dataclasses import replace
from pathlib import Path

import pytest

from advisor import devices
from advisor.catalog import Catalogue
from advisor.core import Evaluation, FileFeatures, Provenance, Quantity, StageError, Status, UsageError
from advisor.devices import DeviceProfile, DeviceTarget, local_runtimes, read_features
from advisor.devices._profiles import DeviceLimits
from advisor.engine import DevicePredictor, Machine, Question, Scope, StageName, TargetDevice, resolve
from advisor.engine._pipeline.materials import Artefact, LocalTarget
from advisor.engine._pipeline.rule import Known
from advisor.engine._pipeline.stages import other_runtimes
from advisor.engine._pipeline.stages.other_runtimes import measure_in_runtime
from advisor.engine._pipeline.walker import Walker, Workers, run_coroutine
from advisor.engine._targets.compatibility import explain_rejection, memory_of
from advisor.engine._targets.device_measurement import before_measuring, measure_here
from advisor.engine._targets.device_prediction import (
    CardPredictor,
    LatencyEstimate,
    card_rejection,
    environment_of,
    least_size,
)
from advisor.engine._targets.target_devices import select_targets
from tests.builders import configuration, evaluation
from tests.engine.pipeline.walking import materials
from tests.measurement import small_models
from tests.tables import with_cases

ONNX = "host:onnxruntime"
TARGET = DeviceTarget("tflm", "tflite-micro", "cpu", 1, "", ("float32",))
SENSOR = DeviceProfile("sensor", "Sensor", "microcontroller", "STM32H743", (TARGET,), "tflm")


@pytest.fixture
def unpredictable(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError("nothing is predicted for a runtime of this machine")

    monkeypatch.setattr(devices.Predictor, "load", refuse)


def targets_of(device: str, **options: object) -> tuple[TargetDevice, ...]:
    return select_targets(resolve({"device": device, "threads": [1, 2], **options}).question).devices


def on_onnx() -> TargetDevice:
    return targets_of(ONNX, threads=[1])[0]


def made(form: bytes) -> Evaluation:
    return replace(evaluation(), file_features=read_features(form))


def test_a_runtime_is_measured_at_the_thread_counts_of_the_question_and_a_named_target_as_it_is() -> None:
    assert resolve({"device": f"host:litert,{ONNX},host"}).question.devices == ("host", ONNX)
    assert resolve({"must_run_on": ["host:litert"]}).question.limits.must_run_on == ("host",)
    found = targets_of(ONNX)
    assert [(device.label, device.target.threads) for device in found] == [(ONNX, 2), (ONNX, 1)]
    assert {device.identity.runtime for device in found} <= {"onnxruntime", f"onnxruntime=={found[0].target.version}"}
    assert [device.target.threads for device in targets_of(f"{ONNX}:cpu-x1")] == [1]
    with pytest.raises(UsageError, match=f"--device: unknown device 'host:onxruntime' .did you mean '{ONNX}'"):
        targets_of("host:onxruntime")


def _predictor(question: Question) -> CardPredictor:
    return CardPredictor(select_targets(question), Catalogue.load(), DevicePredictor())


@pytest.mark.usefixtures("unpredictable")
def test_nothing_is_predicted_before_training_and_a_form_that_no_device_runs_is_rejected() -> None:
    question = resolve({"device": f"host,{ONNX}", "budget": "1us"}).question
    found, here = _predictor(question), LatencyEstimate(Quantity(3.0, "ms", Provenance.ESTIMATED), 0.5)
    card = Catalogue.load()["mobilenet_v1_0.25_224"]
    assert found.explain_no_training(configuration(card.name, "float32"), Known(question.limits)) == ""
    assert found.worst_latency(card, "float32", question.limits.latency_ms, here) == here
    question = resolve({"device": ONNX}).question
    candidate = configuration(card.name, "dynamic_int8")
    reason = _predictor(question).explain_no_training(candidate, Known(question.limits))
    assert reason.endswith("not dynamic_int8")


@pytest.mark.usefixtures("unpredictable")
def test_a_file_of_another_form_is_skipped_and_a_new_version_of_the_runtime_is_another_environment() -> None:
    found = before_measuring(made(small_models.dynamic_int8(small_models.classifier())), on_onnx())
    assert (found.status, found.stage, found.latency) == (Status.SKIPPED, StageName.PREDICT, None)
    assert found.configuration.target.device == ONNX
    device = on_onnx()
    newer = replace(device, target=replace(device.target, version="99.0"))
    now, then = environment_of(device, DevicePredictor()), environment_of(newer, DevicePredictor())
    assert environment_of(device, DevicePredictor()) == now != then


@pytest.mark.integration
def test_a_runtime_that_ends_is_a_failed_evaluation_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_arguments: object) -> None:
        raise StageError("the agent returned no measurements: it was killed (SIGKILL)")

    monkeypatch.setattr(other_runtimes, "measure", end)
    file = Artefact(tmp_path / "net.tflite", "0" * 64, 1)
    chrome = LocalTarget("chromium", local_runtimes()["chromium"].profile().targets[0])
    walker = Walker(materials(tmp_path / "cache"), Workers(Machine(1), {}))
    before = evaluation()
    found = run_coroutine(measure_here(walker, before, measure_in_runtime(Scope("net", "head", "int8"), file, chrome)))
    assert (found.status, found.stage) == (Status.FAILED, StageName.RUNTIME)
    assert found.reason.endswith("it was killed (SIGKILL)")
    assert found.configuration == before.configuration


@pytest.fixture(scope="module")
def graph() -> FileFeatures:
    return read_features(small_models.classifier())


@pytest.fixture
def row(graph: FileFeatures) -> Evaluation:
    return replace(evaluation(size=300_000), file_features=graph)


def place(**changes: object) -> TargetDevice:
    return TargetDevice("sensor", replace(SENSOR, **changes), TARGET)  # type: ignore[arg-type]


@with_cases
def test_arena_flash_and_package_are_hard_limits(row: Evaluation, limits: dict[str, int], reason: str) -> None:
    assert reason in explain_rejection(row, place(limits=DeviceLimits(**limits)))
    board = replace(SENSOR, kind="board", memory_bytes=1_000_000)
    assert "of memory, sensor has 1.0 MB in total" in explain_rejection(row, TargetDevice("sensor", board, TARGET))
    enough = DeviceLimits(arena_bytes=10**6, flash_bytes=10**6, package_bytes=10**6)
    assert explain_rejection(row, place(limits=enough, memory_bytes=10**9)) == ""


def test_a_microcontroller_s_memory_is_the_arena(row: Evaluation, graph: FileFeatures) -> None:
    memory = memory_of(row, place())
    assert memory_of(evaluation(), place()) is None, "its file was not read"
    assert (memory.value, memory.provenance) == (graph.micro_arena_bytes, Provenance.PREDICTED)
    other = replace(TARGET, runtime="stm32cube.ai")
    where = TargetDevice("sensor", replace(SENSOR, limits=DeviceLimits(arena_bytes=100)), other)
    assert memory_of(row, where).value == graph.arena_bytes, "the activations alone"
    assert "its activations take" in explain_rejection(row, where)


def test_a_folder_of_profiles_that_is_not_there_is_refused_for_this_machine_too() -> None:
    with pytest.raises(UsageError, match="--profiles: 'no/such' is not a folder"):
        select_targets(resolve({"profiles": ["no/such"]}).question)


def flash(size_bytes: int | None = 2 * 2**20) -> TargetDevice:
    """Return a sensor that takes int8, with flash of this size."""
    target = replace(TARGET, precisions=("int8",))
    return TargetDevice(
        "sensor", replace(SENSOR, targets=(target,), limits=DeviceLimits(flash_bytes=size_bytes)), target
    )


def test_a_card_that_cannot_fit_into_the_flash_is_not_trained_and_its_form_is_checked_first() -> None:
    small, large = (Catalogue.load()[name] for name in ("mobilenet_v1_0.25_224", "resnet_50_224"))
    assert card_rejection(small, "int8", flash()) == card_rejection(large, "int8", flash(None)) == ""
    too_large = "its file has at least 22.3 MB, sensor has room for 2.1 MB: not trained"
    assert card_rejection(large, "int8", flash()) == too_large
    assert "takes int8, not float32" in card_rejection(large, "float32", flash())
    many_classes = Catalogue.load()["shufflenet_v2_0.5_224"]
    assert least_size(many_classes, "int8", new_head=True) < 0.3 * least_size(many_classes, "int8", new_head=False)
