"""A phone that was just attached gets a profile with its first timings, over the real adb."""

from pathlib import Path

import pytest

import advisor
from advisor import devices
from advisor.core import UsageError
from advisor.devices._phone import NETWORK
from tests.builders import must_fail, present, write_file
from tests.makers.phones import PIXEL_8, Phone, write_facts

PRINTED = (Path(__file__).parent / "adb_printed.txt").read_text(encoding="utf-8")
ON_GPU = PRINTED.replace(
    "60 out of 66 node(s) with delegate (TfLiteXNNPack", "58 out of 66 node(s) with delegate (TfLiteGpu"
)
FELL_BACK = (
    f"{ON_GPU.replace('Gpu', 'Nnapi')}\nERROR: Restored original execution plan after delegate application failure."
)
TOOL = """\
#!/bin/sh
case "$*" in *use_gpu=true*) cat {0}/gpu;; *use_nnapi=true*) cat {0}/npu;; *) cat {0}/cpu;; esac
"""


def test_an_attached_phone_is_added_with_what_each_unit_ran(
    phone: Phone, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The NPU takes operators and then falls back, as on phones without a driver. A file needs no profile."""
    monkeypatch.setenv("ADVISOR_CONFIG_DIR", str(tmp_path / "settings"))
    write_facts(phone.root, PIXEL_8)
    for unit, text in (("cpu", PRINTED), ("gpu", ON_GPU), ("npu", FELL_BACK)):
        (tmp_path / unit).write_text(text)
    tool = write_file(tmp_path / "benchmark_model", TOOL.format(tmp_path))
    benchmark = advisor.benchmark_device(model, adb="usb", benchmark_model=tool, accelerator="gpu")
    assert (benchmark.device, present(benchmark.rows[0].latency).value) == ("pixel-8", 11.85)
    added = devices.add_phone(benchmark_model=tool)
    rows = [(timing.target, timing.form, timing.latency_ms, timing.placement) for timing in added.timings]
    assert rows == [
        ("tflite-cpu-x4", "float32", 11.85, ""),
        ("tflite-cpu-x4", "int8", 11.85, ""),
        ("tflite-gpu", "float32", 11.85, "58 of 66 operators ran on the GPU"),
        ("tflite-npu", "int8", None, ""),
    ]
    assert "did not run on the NPU" in added.timings[-1].failure
    profile = devices.show("pixel-8")
    assert present(profile.connection).address == phone.serial
    targets = [target.name for target in profile.targets]
    assert targets == ["tflite-cpu-x1", "tflite-cpu-x2", "tflite-cpu-x4", "tflite-gpu"]
    assert {(row.target, row.model, row.precision) for row in profile.measurements} == {
        (target, NETWORK, form) for target, form, latency_ms, _ in rows if latency_ms
    }
    profile_path = added.device.path
    profile_path.write_text(profile_path.read_text().replace(phone.serial, "R58M12ABCDE"))
    must_fail(UsageError, "it is not this phone", devices.add_phone, benchmark_model=tool)
