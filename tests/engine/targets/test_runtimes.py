"""Runtimes of this machine as devices of a question: selected with its thread counts, measured, never predicted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.errors import StageError, UsageError
from advisor.core.evaluation import Evaluation, Status
from advisor.core.quantity import Provenance, Quantity
from advisor.devices.latency.features import features_of
from advisor.devices.profiles.runtimes import local_runtimes
from advisor.engine.execution.machine import Machine
from advisor.engine.pipeline.materials import Artefact, LocalTarget
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.rule import Known
from advisor.engine.pipeline.stage import Scope
from advisor.engine.pipeline.stages import other_runtimes_jobs
from advisor.engine.pipeline.stages.other_runtimes import measured_in
from advisor.engine.pipeline.walker import Walker, Workers
from advisor.engine.question import Question, resolve
from advisor.engine.targets import device_prediction
from advisor.engine.targets.device_prediction import LatencyEstimate, Prefilter, before_measuring, environment_of
from advisor.engine.targets.multi_device import measured_here
from advisor.engine.targets.target_devices import TargetDevice, select_targets
from advisor.isolation.coroutine import run_coroutine
from advisor.tflite.model import read
from tests.builders import configuration, evaluation
from tests.engine.pipeline.walking import materials
from tests.measurement import small_models

ONNX = "host:onnxruntime"


@pytest.fixture
def unpredictable(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError("nothing is predicted for a runtime of this machine")

    monkeypatch.setattr(device_prediction, "DevicePredictor", refuse)


def targets_of(device: str, **options: object) -> tuple[TargetDevice, ...]:
    return select_targets(resolve({"device": device, "threads": [1, 2], **options}).question).devices


def on_onnx() -> TargetDevice:
    return targets_of(ONNX, threads=[1])[0]


def made(form: bytes) -> Evaluation:
    return replace(evaluation(), file_features=features_of(read(form)))


def test_litert_is_this_machine_itself() -> None:
    assert resolve({"device": f"host:litert,{ONNX},host"}).question.devices == ("host", ONNX)
    assert resolve({"must_run_on": ["host:litert"]}).question.limits.must_run_on == ("host",)


def test_a_runtime_is_measured_at_the_thread_counts_of_the_question() -> None:
    found = targets_of(ONNX)
    assert [(device.label, device.target.threads) for device in found] == [(ONNX, 2), (ONNX, 1)]
    assert {device.identity.runtime.partition("==")[0] for device in found} == {"onnxruntime"}


def test_a_named_target_is_measured_as_it_is() -> None:
    assert [device.target.threads for device in targets_of(f"{ONNX}:cpu-x1")] == [1]


def test_an_unknown_runtime_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=f"--device: unknown device 'host:onxruntime' .did you mean '{ONNX}'"):
        targets_of("host:onxruntime")


def _prefilter(question: Question) -> Prefilter:
    return Prefilter(select_targets(question), question.limits, load_catalogue())


@pytest.mark.usefixtures("unpredictable")
def test_nothing_is_predicted_before_training() -> None:
    question = resolve({"device": f"host,{ONNX}", "budget": "1us"}).question
    found, here = _prefilter(question), LatencyEstimate(_ms(3.0), 0.5)
    card = load_catalogue()["mobilenet_v1_0.25_224"]
    assert found.reason(configuration(card.name, "float32"), Known(question.limits)) == ""
    assert found.worst_latency(card, "float32", here) == here


@pytest.mark.usefixtures("unpredictable")
def test_a_form_that_no_device_runs_is_rejected_before_training() -> None:
    question = resolve({"device": ONNX}).question
    reason = _prefilter(question).reason(configuration("mobilenet_v1_0.25_224", "dynamic_int8"), Known(question.limits))
    assert reason.endswith("not dynamic_int8")


def test_a_file_of_another_form_is_skipped() -> None:
    found = before_measuring(made(small_models.dynamic_int8(small_models.classifier())), on_onnx())
    assert (found.status, found.stage, found.latency) == (Status.SKIPPED, StageName.PREDICT, None)
    assert found.configuration.target.device == ONNX


def test_a_new_version_of_the_runtime_is_another_environment() -> None:
    device = on_onnx()
    newer = replace(device, target=replace(device.target, version="99.0"))
    assert environment_of(device, unexpected) == environment_of(device, unexpected) != environment_of(newer, unexpected)


def unexpected() -> device_prediction.DevicePredictor:
    raise AssertionError("nothing is predicted for a runtime of this machine")


def _ms(value: float) -> Quantity:
    return Quantity(value, "ms", Provenance.ESTIMATED)


@pytest.mark.integration
def test_a_runtime_that_ends_is_a_failed_evaluation_and_no_failed_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_arguments: object) -> None:
        raise StageError("the agent returned no measurements: it was killed (SIGKILL)")

    monkeypatch.setattr(other_runtimes_jobs, "measure", end)
    file = Artefact(tmp_path / "net.tflite", "0" * 64, 1)
    chrome = LocalTarget("chromium", local_runtimes()["chromium"].profile().targets[0])
    walker = Walker(materials(tmp_path / "cache"), Workers(Machine(1), {}))
    before = evaluation()
    found = run_coroutine(measured_here(walker, before, measured_in(Scope("net", "head", "int8"), file, chrome)))
    assert (found.status, found.stage) == (Status.FAILED, StageName.RUNTIME)
    assert found.reason.endswith("it was killed (SIGKILL)")
    assert found.configuration == before.configuration
