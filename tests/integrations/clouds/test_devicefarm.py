"""A file runs on a phone of AWS Device Farm by its real client, against a server of its protocol and the real adb."""

import zipfile
from io import BytesIO
from pathlib import Path
from unittest.mock import Mock

import pytest
from PIL import Image

import advisor
from advisor import devices
from advisor.core import Provenance, UsageError
from advisor.devices import ConnectionSettings, load_known_devices
from advisor.integrations.clouds._cloud import Cloud, CloudConnection, Outcome, RunFigures
from advisor.measurement._on_device.benchmark import benchmark_on_device
from tests.builders import must_fail
from tests.makers.devicefarm import SECRET, DeviceFarm
from tests.tables import with_cases

pytestmark = pytest.mark.integration  # it starts adb

DEVICE = "devicefarm:Google Pixel 8"


def test_a_file_is_sent_as_it_is_and_timed(devicefarm: DeviceFarm, float_model: Path, tmp_path: Path) -> None:
    benchmark = advisor.benchmark_device(float_model, device=f"{DEVICE}:tflite-cpu-x4", threads=[4], upload=True)
    (row,) = benchmark.rows
    assert row.latency is not None
    assert (row.latency.value, row.load_ms, row.first_ms) == (11.85, 17.187, 35.123)
    assert row.reason.startswith("job r-1 of 20")
    assert "--num_threads=4" in (tmp_path / "called").read_text()
    with zipfile.ZipFile(BytesIO(devicefarm.files[0])) as package:
        assert package.read("model.tflite") == float_model.read_bytes()
    (run,) = (asked for call, asked in devicefarm.calls if call == "ScheduleRun")
    (chosen,) = run["deviceSelectionConfiguration"]["filters"]
    assert [arn[-16:] for arn in chosen["values"]] == ["Google Pixel 8 0", "Google Pixel 8 1"]
    assert not list((devicefarm.phone.root / "data" / "local" / "tmp").iterdir()), "the phone is left as it was"


def test_nothing_is_sent_without_leave_and_no_image_ever(
    devicefarm: DeviceFarm, brightness_model: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="1 file of .* would be sent to AWS Device Farm"):
        advisor.benchmark_device(brightness_model, device=DEVICE)
    Image.new("RGB", (8, 8)).save(tmp_path / "0.png")
    (row,) = advisor.benchmark_device(brightness_model, device=DEVICE, upload=True, upload_images=tmp_path).rows
    assert "answers no images" in row.reason
    assert not devicefarm.files


@with_cases
def test_a_farm_that_fails_leaves_the_prediction(
    devicefarm: DeviceFarm, float_model: Path, capsys: pytest.CaptureFixture[str], state: dict[str, object], said: str
) -> None:
    for name, value in state.items():
        setattr(devicefarm, name, value)
    (row,) = advisor.benchmark_device(float_model, device=f"{DEVICE}:tflite-npu", upload=True, cloud_limit="1s").rows
    assert (row.latency and row.latency.provenance) is Provenance.PREDICTED
    assert row.reason.startswith("not measured: ")
    assert said in row.reason
    assert SECRET not in repr(row) + "".join(capsys.readouterr())


def test_devices_are_listed_and_the_nearest_is_named(devicefarm: DeviceFarm) -> None:
    assert [phone.name for phone in devices.list_devices(cloud="devicefarm")] == [DEVICE]
    must_fail(UsageError, "did you mean 'Google Pixel 8'", devices.show, "devicefarm:Google Pixel 9")


def test_without_keys_their_place_is_named(devicefarm: DeviceFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "none")
    assert "aws configure" in must_fail(UsageError, "profile .none. could", devices.show, "devicefarm:Our Phone").hint


def test_a_farm_that_says_nothing_is_not_waited_for(devicefarm: DeviceFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.devices._connections.clouds.ASK_S", 0.0)
    refused = must_fail(UsageError, "AWS Device Farm did not answer within 0 s", devices.show, "devicefarm:Our Phone")
    assert "advisor devices add our-phone.yaml" in refused.hint


def test_what_came_is_kept_where_another_job_waits_for_a_device(float_model: Path) -> None:
    client, told = Mock(fetch=Mock(return_value=Outcome(RunFigures(1.0, 1.5, 10, 1.2), 5.0, None, ()))), list[str]()
    client.submit = Mock(side_effect=lambda order: f"j{order.threads}")
    client.ask_state = Mock(side_effect=lambda job: "pending device" if job == "j2" else "")
    options = {"upload": True, "upload_images": None, "cloud_limit": "1s"}
    settings = ConnectionSettings("devicefarm", "Pixel 4").allow_upload(options)
    connection = CloudConnection(Cloud("A cloud", lambda: client), settings, "cpu")
    profile, target = load_known_devices().select("pixel-4:tflite-cpu-x4")
    seen = benchmark_on_device([float_model], profile, target, connection, Mock(), (1, 2), "quick", told.append, True)
    assert [row.latency is not None for row in seen.rows] == [True, False]
    assert any("the job j2 is in state 'pending device'; waiting at most 1 s for it" in line for line in told)
    assert client.submit.call_count == 2, "the job that waits is not sent again"
