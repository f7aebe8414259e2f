"""Searches for devices that were not at hand, answered again where a device changed or was added."""

from pathlib import Path

import pytest

from advisor.core import Evaluation
from advisor.devices._profiles.storing import add_profile
from advisor.engine import DevicePredictor, Devices, LoadedRun, TargetDevice
from advisor.engine._history.changes import ENVIRONMENTS, host_manifest
from advisor.engine._targets.device_prediction import environment_of
from advisor.engine._targets.device_rows import select_rows
from advisor.store import RunFolder
from tests.engine.history.with_search import reevaluate
from tests.predictor import own_profile, rows
from tests.run_folders import write_run

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("own_folders")]

KIOSK = "our-kiosk"


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    return own_profile(tmp_path / "devices")


@pytest.fixture
def run(tmp_path: Path, devices: Path) -> RunFolder:
    """A search for this machine and the kiosk."""
    (place,) = TargetDevice.select([KIOSK], [devices], "--device")
    predictor = DevicePredictor()
    manifest = {**host_manifest({}), ENVIRONMENTS: {place.label: environment_of(place, predictor)}}
    found: list[Evaluation] = [*rows(), *predictor.evaluate(rows(), place, 150.0)]
    request = {"budget": "150ms", "device": f"host,{KIOSK}", "profiles": [str(devices)]}
    return write_run(tmp_path / "runs", found, request=request, manifest=manifest)


def test_nothing_is_predicted_again_without_a_change(run: RunFolder, devices: Path, tmp_path: Path) -> None:
    request = {"budget": "150ms", "device": KIOSK, "profiles": [str(devices)]}
    there = select_rows(LoadedRun.load(run.path).evaluations, KIOSK)
    other = write_run(tmp_path / "others", there, request=request, manifest={"versions": {"ai-edge-litert": "1.0.0"}})
    for same in (run, other):
        (found,) = reevaluate(same.path, Devices())
        assert (found.causes, found.run) == ((), None)


def test_a_device_that_changed_is_predicted_again_and_the_rest_stays(run: RunFolder, devices: Path) -> None:
    own_profile(devices, clock=600)
    (found,) = reevaluate(run.path, Devices())
    assert found.causes == (f"the device {KIOSK} was changed",)
    assert found.run is not None
    before, after = LoadedRun.load(run.path), LoadedRun.load(found.run)
    assert after.question.devices == ("host", KIOSK)
    assert select_rows(after.evaluations, "host") == select_rows(before.evaluations, "host")
    assert len(select_rows(after.evaluations, KIOSK)) == len(select_rows(before.evaluations, KIOSK))
    assert set(after.by_device) == {"host", KIOSK}


def test_a_device_that_is_gone_is_remarked_and_the_run_is_answered_as_it_is(run: RunFolder, devices: Path) -> None:
    other = devices / "other.yaml"
    (devices / f"{KIOSK}.yaml").rename(other)
    other.write_text(other.read_text().replace(f"name: {KIOSK}", "name: other"))
    (found,) = reevaluate(run.path, Devices())
    assert any(f"unknown device '{KIOSK}'" in remark for remark in found.remarks)
    assert LoadedRun.load(run.path).decision.pick is not None
    other.unlink()
    (found,) = reevaluate(run.path, Devices())
    assert any("has no device profile" in remark for remark in found.remarks)


def test_a_device_that_was_added_among_the_own_is_picked_up(run: RunFolder, devices: Path, tmp_path: Path) -> None:
    profile = own_profile(tmp_path / "new", "our-tablet") / "our-tablet.yaml"
    profile.write_text(profile.read_text() + "connection: {ssh: nobody@127.0.0.1}\n")
    add_profile(profile)
    found = reevaluate(run.path, Devices.choose([], []))
    assert [result.causes for result in found] == [(), ("the device our-tablet was added",)]
    assert "our-tablet: not measured, its predictions stay: " in found[1].remarks[-1]
