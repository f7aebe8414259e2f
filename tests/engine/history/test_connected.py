"""Files of earlier runs are measured on devices over the real adb, ssh and a cloud's client; who is away keeps them."""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from advisor.core import Evaluation, Status, UsageError
from advisor.devices import ConnectionSettings, MeasurementJob
from advisor.devices._connections import protocol
from advisor.engine import Devices, LoadedRun, Reevaluation
from advisor.engine._history.changes import host_manifest
from advisor.reporting._files import write_at
from advisor.store import RunFolder
from tests.builders import must_fail, present
from tests.devices.test_adb import PRINTED
from tests.engine.history.with_search import reevaluate, reevaluate_all
from tests.engine.targets.test_remote import HOT, tool_printing
from tests.makers.devicefarm import DeviceFarm
from tests.makers.phones import PIXEL_8, Phone, adb, write_facts
from tests.measurement import small_models
from tests.predictor import REQUEST, rows
from tests.run_folders import aged, write_run
from tests.tables import with_cases

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("own_folders")]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run without connections whose small network alone is predicted to meet the budget on the phone."""
    return write_run(tmp_path / "runs", rows(), request={**REQUEST, "offline": True}, manifest=host_manifest({}))


@pytest.fixture
def pixel(phone: Phone, tmp_path: Path) -> Phone:
    """A Pixel 8, and a tool that takes 11.85 ms for every file."""
    write_facts(phone.root, PIXEL_8)
    (phone.root / "data" / "local" / "tmp").mkdir(parents=True)
    tool_printing(tmp_path / "tool", PRINTED)
    return phone


def by_usb(tmp_path: Path, *devices: str, **limits: Any) -> Devices:
    """Return the phone as ``--adb usb`` names it, with the tool of :func:`pixel`."""
    tool = tmp_path / "tool" / "benchmark_model"
    return Devices.choose(devices, [], ConnectionSettings("adb", "usb", benchmark_model=tool), **limits)


def on(results: Sequence[Reevaluation], device: str = "pixel-8") -> Reevaluation:
    return next(result for result in results if result.device == device)


def rows_of(result: Reevaluation) -> tuple[Evaluation, ...]:
    return LoadedRun.load(present(result.run)).evaluations


@with_cases
def test_a_phone_measures_what_may_become_the_pick_and_what_it_does_not_measure_stays(
    run: RunFolder, pixel: Phone, tmp_path: Path, caplog: pytest.LogCaptureFixture, steps: Sequence[Mapping[str, Any]]
) -> None:
    for step in steps:
        caplog.clear()
        adb("disconnect" if step.get("away") else "connect", pixel.serial)
        pixel.daemon.vanish_on = step.get("vanish", "")
        tool_printing(tmp_path / "tool", {"": PRINTED, "hot": HOT}.get(step.get("printed", ""), "no timings"))
        if step.get("old"):
            aged(run)
            next(run.artefacts.glob("mobilenet*")).unlink()
        if step.get("android"):
            facts = (pixel.root / "properties").read_text().replace("[15]", f"[{step['android']}]")
            (pixel.root / "properties").write_text(facts)
        found = on(
            reevaluate(run.path, by_usb(tmp_path, "pixel-8", **step.get("limits", {})), step.get("since", False))
        )
        said = " | ".join((*found.causes, *found.remarks, caplog.text))
        assert [text for text in step.get("says", ()) if text not in said] == []
        assert "lacks" not in step or step["lacks"] not in said
        assert (found.run is not None) == step.get("new", True)
        if "rows" in step:
            latencies = ((row.status.value, present(row.latency).provenance.value) for row in rows_of(found))
            assert [" ".join(latency) for latency in latencies] == step["rows"]
        assert sum("--graph=" in command for command in pixel.daemon.commands) == step.get("timed", 0)


def test_a_measured_pick_and_its_report_say_which_phone_it_was(run: RunFolder, pixel: Phone, tmp_path: Path) -> None:
    child = LoadedRun.load(present(on(reevaluate(run.path, by_usb(tmp_path))).run))
    pick = present(child.decision.pick)
    assert pick.configuration.card == "inception_v3_299", "it was predicted to be too slow"
    assert present(pick.remote).delegated == (60, 66)
    assert present(pick.remote).software.startswith("Android 15, benchmark_model ")
    write_at(child.folder.path)
    source = f"on adb {pixel.serial}, measured on 20"
    assert source in present(pick.latency).source
    assert source in (child.folder.path / "report.html").read_text()


def test_a_phone_is_asked_once_for_all_runs_and_times_a_file_once(run: RunFolder, pixel: Phone, tmp_path: Path) -> None:
    write_run(run.path.parent, rows(), request=REQUEST, name="other", manifest=host_manifest({}))
    damaged = write_run(run.path.parent, rows(), name="damaged", manifest=host_manifest({}))
    (damaged.path / "request.yaml").write_text("budget: [")
    found = list(reevaluate_all(run.path.parent, by_usb(tmp_path, "pixel-8")))
    assert [sum(result.run is not None for result in found), sum(bool(result.error) for result in found)] == [2, 1]
    # Once for what it is, and once more to tell it from the phone of the profile.
    asked = [sum(text in command for command in pixel.daemon.commands) for text in ("--graph=", "getprop")]
    assert asked == [2, 2]


@with_cases
def test_a_connection_that_does_not_fit_is_refused(pixel: Phone, way: str, devices: list[str], words: str) -> None:
    settings = ConnectionSettings(way, "usb" if way == "adb" else "device")
    must_fail(UsageError, words, Devices.choose, devices, [], settings)


def test_a_board_is_measured_over_ssh(own_ssh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MeasurementJob", partial(MeasurementJob, effort="survey"))  # not for 6 seconds
    content, board = small_models.classifier(), "raspberry-pi-4"
    file: dict[str, Any] = {
        "artefact": "artifacts/small.tflite",
        "artefact_sha256": hashlib.sha256(content).hexdigest(),
    }
    run = write_run(tmp_path, [replace(rows()[1], **file)], request=REQUEST, manifest=host_manifest({}))
    (run.artefacts / "small.tflite").write_bytes(content)
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    settings = ConnectionSettings("ssh", "device", python=str(bare))
    found = on(reevaluate(run.path, Devices.choose([board], [], settings)), board)
    assert f"{bare} has no runtime for .tflite files; type there: {bare} -m pip install" in found.remarks[-1]
    assert rows_of(found)[0].status is Status.OK
    settings = replace(settings, python=sys.executable)
    (row,) = rows_of(on(reevaluate(run.path, Devices.choose([board], [], settings)), board))
    assert present(row.remote).software.startswith("ai-edge-litert==")


def test_a_cloud_gets_files_with_leave_alone_and_a_report_has_its_job(run: RunFolder, devicefarm: DeviceFarm) -> None:
    cloud, leave = "devicefarm:Google Pixel 8", {"upload": True, "upload_images": None, "cloud_limit": "1min"}
    found = on(reevaluate(run.path, Devices.choose([cloud], [])), cloud)
    assert f"{cloud}: not measured: nothing is sent to a cloud without --upload" in found.remarks
    assert not devicefarm.files
    # One file: the farm of the tests has one phone, and a real one gives each job another.
    found = on(reevaluate(run.path, Devices.choose([cloud], [], upload=leave, most_files=1)), cloud)
    assert [call for call, _ in devicefarm.calls].count("ScheduleRun") == 1
    write_at(present(found.run))
    assert "; job r-" in (present(found.run) / "report.html").read_text()
