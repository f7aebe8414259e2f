"""A file runs on a device of AI Hub by its real client, against a server of its protocol."""

from pathlib import Path

import pytest
from PIL import Image

import advisor
from advisor import devices
from advisor.core import Provenance, UsageError
from tests.builders import must_fail
from tests.makers.aihub import TOKEN, AiHub
from tests.tables import with_cases

pytestmark = pytest.mark.integration  # the client asks uname for the name of the system

DEVICE = "aihub:Samsung Galaxy S24"


def test_a_file_is_sent_as_it_is_and_timed(aihub: AiHub, float_model: Path) -> None:
    benchmark = advisor.benchmark_device(float_model, device=f"{DEVICE}:tflite-npu", upload=True)
    (row,) = benchmark.rows
    assert row.latency is not None
    assert (row.latency.value, row.memory_bytes, row.load_ms, row.first_ms) == (0.41, 7_000_000, 5.0, 0.9)
    assert row.reason.startswith("2 of 3 operators ran on the NPU, 1 on the CPU; job j0 of 20")
    assert aihub.files == {"m0": float_model.read_bytes()}
    assert aihub.jobs["j0"].options == "--compute_unit npu"


def test_nothing_is_sent_without_leave(aihub: AiHub, float_model: Path) -> None:
    with pytest.raises(UsageError, match=rf"1 file of .* \({float_model.stat().st_size:,} bytes\) would be sent"):
        advisor.benchmark_device(float_model, device=DEVICE)
    with pytest.raises(UsageError, match="upload_images needs upload"):
        advisor.benchmark_device(float_model, device=DEVICE, upload_images=float_model.parent)
    assert not aihub.files


@pytest.mark.parametrize(("noise", "said"), [(0.0, "12 of 12 images"), (9.0, "4 of 12 images")])
def test_answers_are_compared(aihub: AiHub, brightness_model: Path, tmp_path: Path, noise: float, said: str) -> None:
    for number in range(12):
        Image.new("RGB", (8, 8), ("red", "green", "blue")[number % 3]).save(tmp_path / f"{number}.png")
    aihub.noise = noise
    benchmark = advisor.benchmark_device(
        brightness_model, device=f"{DEVICE}:tflite-cpu-x4", threads=[1, 2], upload=True, upload_images=tmp_path
    )
    assert [row.threads for row in benchmark.rows] == [1, 2]
    assert all(said in row.reason for row in benchmark.rows)
    assert "number_of_threads=2" in aihub.jobs["j1"].options + aihub.jobs["j0"].options


@with_cases
def test_a_cloud_that_fails_leaves_the_prediction(
    aihub: AiHub, float_model: Path, capsys: pytest.CaptureFixture[str], state: dict[str, object], said: str
) -> None:
    for name, value in state.items():
        setattr(aihub, name, value)
    (row,) = advisor.benchmark_device(float_model, device=f"{DEVICE}:tflite-npu", upload=True, cloud_limit="1s").rows
    assert (row.latency and row.latency.provenance) is Provenance.PREDICTED
    assert row.reason.startswith("not measured: ")
    assert said in row.reason
    assert TOKEN not in repr(row) + "".join(capsys.readouterr())


def test_devices_are_listed_and_the_nearest_is_named(aihub: AiHub) -> None:
    (phone,) = devices.list_devices(cloud="aihub")
    assert (phone.name, phone.soc) == (DEVICE, "Qualcomm Snapdragon 8 Gen 3")
    must_fail(UsageError, "did you mean 'Samsung Galaxy S24'", devices.show, "aihub:Galaxy S24 Plus")


def test_without_a_token_its_place_is_named(aihub: AiHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QAIHUB_CLIENT_INI", str(tmp_path / "none.ini"))
    assert "qai-hub configure" in must_fail(UsageError, "none.ini not", devices.show, "aihub:Our Phone").hint
