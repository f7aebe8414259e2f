"""An earlier run measured in another runtime of this machine, without training."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation, Status
from advisor.core.quantity import Provenance
from advisor.devices.profiles import runtimes
from advisor.devices.profiles.team import known_devices
from advisor.engine.history.loaded_run import load_run
from advisor.engine.history.reevaluation.changes import host_manifest
from advisor.engine.history.reevaluation.reevaluate import Devices, Session
from advisor.engine.history.reevaluation.remeasurement import run_here
from advisor.engine.question import Request
from advisor.engine.targets.target_devices import TargetDevice
from advisor.integrations import microcontroller as micro
from advisor.store import RunFolder
from tests.builders import evaluation, present
from tests.devices.requirements import require_onnx
from tests.measurement import small_models
from tests.requirements import skip_or_fail
from tests.run_folders import write_run

ONNX = "host:onnxruntime"
REQUEST = {"threads": [1], "candidates": ["net"]}


@pytest.fixture
def run(tmp_path: Path, shared_folder: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run on this machine with one real file."""
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(shared_folder / "exports"))
    made = write_run(tmp_path / "runs", [], request=REQUEST, manifest=host_manifest({}))
    made.append(with_file(made, evaluation("net", "float32", threads=1)))
    return made


def with_file(run: RunFolder, row: Evaluation) -> Evaluation:
    content = small_models.classifier()
    path = run.path / "models" / "net-head-float32.tflite"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    artefact = str(path.relative_to(run.path))
    return replace(row, artefact=artefact, artefact_sha256=hashlib.sha256(content).hexdigest())


def no_search(_request: Request) -> RunFolder:
    raise AssertionError("nothing is searched")


@pytest.mark.integration
def test_a_runtime_that_is_added_measures_the_files(run: RunFolder) -> None:
    require_onnx()
    session = Session(Devices.chosen([ONNX], []), no_search)
    found = next(each for each in session.reevaluate(run.path) if each.device == ONNX)
    assert found.causes == (f"the device {ONNX} was added",)
    assert found.run is not None
    (row,) = load_run(found.run).evaluations
    assert row.status is Status.OK, row.reason
    assert (row.configuration.target.device, row.configuration.target.threads) == (ONNX, 1)
    assert present(row.latency).provenance is Provenance.MEASURED
    again = next(each for each in session.reevaluate(run.path) if each.device == ONNX)
    assert again.run == found.run


@pytest.mark.integration
def test_files_for_a_microcontroller_run_here_while_they_are_there(run: RunFolder) -> None:
    if not micro.available():
        skip_or_fail("tflite-micro is not installed")
    profile, target = known_devices().select("stm32h743:tflite-micro-cpu-x1")
    device = TargetDevice("stm32h743", profile, target)
    (here,), loaded = run.evaluations(), load_run(run.path)
    gone = replace(here, artefact="models/gone.tflite")
    found, left = run_here(loaded, [here, gone], device, lambda _text: None)
    assert present(found.memory).source.startswith("TensorFlow Lite Micro")
    assert left == gone


def test_a_missing_package_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "installed_version", lambda _package: "")
    with pytest.raises(UsageError, match=f"{ONNX} needs onnx, onnxruntime, tf2onnx"):
        Devices.chosen([ONNX], [])


def test_a_report_does_not_measure(run: RunFolder) -> None:
    require_onnx()
    with pytest.raises(UsageError, match=f"no measurements with '{ONNX}'") as refused:
        load_run(run.path, {"must_run_on": [ONNX]})
    assert f"--device {ONNX}" in refused.value.hint
