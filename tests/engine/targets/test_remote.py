"""Devices of a search that can be reached, over the real ``adb`` and ``ssh``: measured, or failed with the reason."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import cast

import pytest
import yaml

from advisor.core import Evaluation, LatencyDistribution, Provenance, Quantity, Status
from advisor.core._quantity import SHARES
from advisor.devices import ConnectionSettings, DeviceTarget, MeasurementJob, Timing, find_shipped_profiles
from advisor.devices._connections import protocol
from advisor.devices._profiles import read_profile
from advisor.engine import Progress, StageName, TargetDevice, resolve, run_search
from advisor.engine._targets.device_measurement import measure_over_connection
from tests.builders import evaluation, write_file
from tests.devices.test_adb import PRINTED, TOOL
from tests.makers.phones import Phone
from tests.makers.searches import SMALLEST, Searched
from tests.measurement import small_models
from tests.processes import PATIENCE_S
from tests.tables import with_cases

GPU = {"name": "tflite-gpu", "runtime": "tflite", "accelerator": "gpu", "precisions": ["float32", "float16"]}
HOT = PRINTED.replace("count=50 first=12000 curr=11800", "count=50 first=9000 curr=14900")


def tool_printing(folder: Path, text: str) -> Path:
    """A ``benchmark_model`` that prints what a real one printed."""
    folder.mkdir(exist_ok=True)
    (folder / "printed").write_text(text)
    return write_file(folder / "benchmark_model", TOOL.format(folder=folder))


def place_of(reach: "ConnectionSettings | Bench") -> TargetDevice:
    profile = replace(
        read_profile(find_shipped_profiles() / "raspberry-pi-4.yaml"), connection=cast("ConnectionSettings", reach)
    )
    return TargetDevice("our-pi", profile, DeviceTarget("tflite-cpu-x1", "tflite", "cpu", 1))


def predicted() -> Evaluation:
    latency = Quantity(30.0, "ms", Provenance.PREDICTED, 25.0, 36.0, 0.8)
    memory = Quantity(9e6, "bytes", Provenance.PREDICTED)
    return replace(
        evaluation(), latency=latency, memory=memory, latency_distribution=LatencyDistribution((1.0,) * len(SHARES))
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_file(tmp_path / "small.tflite", small_models.classifier())


@pytest.fixture
def over_adb(phone: Phone, tmp_path: Path) -> TargetDevice:
    (phone.root / "data" / "local" / "tmp").mkdir(parents=True)
    return place_of(ConnectionSettings("adb", phone.serial, benchmark_model=tool_printing(tmp_path / "tool", PRINTED)))


def test_a_phone_tells_latency_memory_and_where_the_operators_ran(over_adb: TargetDevice, model: Path) -> None:
    found = measure_over_connection(predicted(), over_adb, model)
    assert found.status is Status.OK
    assert (found.latency.value, found.latency.provenance) == (11.85, Provenance.MEASURED)
    assert found.latency_p90.value == pytest.approx(11.85 + 1.2816 * 0.31)
    assert (found.memory.value, found.memory.provenance) == (round(46.25 * 2**20), Provenance.MEASURED)
    assert found.remote.delegated == (60, 66)
    assert found.remote.operators[1]["kind"] == "SOFTMAX"
    assert found.latency_distribution is None


@with_cases
def test_rubbish_and_heat_fail(over_adb: TargetDevice, model: Path, tmp_path: Path, printed: str, reason: str) -> None:
    tool_printing(tmp_path / "tool", HOT if printed == "hot" else printed)
    found = measure_over_connection(predicted(), over_adb, model)
    assert (found.status, found.stage) == (Status.FAILED, StageName.TIMING)
    assert reason in found.reason
    assert "30.0 ms" in found.reason


def write_profile(folder: Path, name: str, of: str, **changes: object) -> None:
    profile = yaml.safe_load((find_shipped_profiles() / f"{of}.yaml").read_text(encoding="utf-8"))
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({**profile, "name": name, **changes}), encoding="utf-8")


def write_phone(folder: Path, name: str, serial: str, tool: Path) -> None:
    reached = {"adb": serial, "benchmark_model": str(tool), "cores": "1"}
    write_profile(folder, name, "pixel-4", targets=[GPU], default_target=GPU["name"], connection=reached)


@dataclass(frozen=True)
class Bench:
    """A device that notes when it is asked while it is busy, and waits for another one."""

    label: str
    asked: threading.Barrier
    together: threading.Barrier
    in_cloud: bool = False
    busy: list[str] = field(default_factory=list)
    overlaps: list[str] = field(default_factory=list)

    def connect(self, _accelerator: str) -> "Bench":
        self.asked.wait(PATIENCE_S)
        return self

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        if self.busy:
            self.overlaps.append(self.label)
        self.busy.append(self.label)
        self.together.wait(PATIENCE_S)
        time.sleep(0.05)
        self.busy.pop()
        return (Timing(job.models[0], 1, 1.0, 1, 1.0, 1.0, "test"),)


def test_devices_work_side_by_side_and_one_measurement_at_a_time_each(model: Path) -> None:
    asked, together = threading.Barrier(4), threading.Barrier(2)
    first, second = Bench("first", asked, together), Bench("second", asked, together)
    places = [place_of(device) for device in (first, second, first, second)]
    with ThreadPoolExecutor(len(places)) as threads:
        found = list(threads.map(lambda place: measure_over_connection(predicted(), place, model), places))
    assert [row.remote and row.remote.connection for row in found] == ["first", "second", "first", "second"]
    assert first.overlaps == second.overlaps == []


def test_a_search_over_three_devices_goes_on_where_one_vanishes(
    phone: Phone, second_phone: Phone, own_ssh: None, warm_cache: Path, without_images: Searched, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    assert without_images.code == 3, without_images.err
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(warm_cache))
    monkeypatch.setattr(protocol, "MeasurementJob", partial(MeasurementJob, effort="survey"))  # not for 6 seconds
    for each in (phone, second_phone):
        (each.root / "data" / "local" / "tmp").mkdir(parents=True)
    second_phone.daemon.vanish_on = "--graph="
    folder = tmp_path / "devices"
    folder.mkdir()
    tool = tool_printing(tmp_path / "tool", PRINTED.replace("XNNPack", "Gpu"))
    write_phone(folder, "our-phone", phone.serial, tool)
    write_phone(folder, "our-second", second_phone.serial, tool)
    write_profile(folder, "our-board", "raspberry-pi-4", connection={"ssh": "device", "python": sys.executable})
    devices = {"device": "our-phone,our-second,our-board", "profiles": [str(folder)], "out": str(tmp_path / "runs")}
    options = {"candidates": [SMALLEST], "compressions": ["float32"], "budget": "500ms", "workers": 1, **devices}
    evaluations = run_search(resolve(options), Progress()).run.evaluations()
    rows = {row.configuration.target.device: row for row in evaluations}
    one, other, board = (rows[name] for name in ("our-phone", "our-second", "our-board"))
    assert (one.status, one.latency.value, one.latency.provenance) == (Status.OK, 11.85, Provenance.MEASURED)
    assert one.remote.delegated == (60, 66)
    assert (other.status, other.stage) == (Status.FAILED, StageName.TIMING)
    assert f"adb {second_phone.serial} disconnected" in other.reason
    assert any(text.startswith("taskset 1 ") and "--use_gpu=true" in text for text in phone.daemon.commands)
    assert (board.status, board.latency.provenance) == (Status.OK, Provenance.MEASURED), board.reason
    assert "ai-edge-litert" in board.latency.source
