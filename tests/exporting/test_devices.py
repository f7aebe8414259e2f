from __future__ import annotations

from dataclasses import replace

from advisor.core.evaluation_facts import DeviceFigures
from advisor.exporting.snippets import benchmark_lines, devices_of
from tests.builders import evaluation


def test_without_other_devices_the_own_setting_is_all() -> None:
    ((device, own),) = devices_of(evaluation("one", threads=4)).items()
    assert (device, own.threads, own.provenance) == ("host", 4, "measured")
    assert "--num_threads=4 --use_xnnpack=true" in benchmark_lines(own)[-1]


def test_every_device_that_runs_the_file_has_its_own_line() -> None:
    figures = DeviceFigures(accelerator="npu", runtime="tflite", latency_ms=2.0, provenance="predicted")
    devices = {"phone": figures, "stick": replace(figures, reason="it takes int8 alone")}
    found = devices_of(replace(evaluation("one"), device_figures=devices))
    assert list(found) == ["host", "phone"]
    assert "--use_nnapi=true" in benchmark_lines(found["phone"])[-1]
