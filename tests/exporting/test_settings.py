from __future__ import annotations

from dataclasses import replace

from advisor.core.evaluation_facts import DeviceFigures
from advisor.exporting.readme import benchmark_lines
from advisor.exporting.settings import settings
from tests.builders import evaluation


def test_without_other_devices_the_own_setting_is_all() -> None:
    (own,) = settings(evaluation("one", threads=4))
    assert (own.device, own.threads, own.provenance) == ("host", 4, "measured")
    assert "--num_threads=4 --use_xnnpack=true" in own.options


def test_every_device_that_runs_the_file_has_its_own_line() -> None:
    figures = DeviceFigures(accelerator="npu", runtime="tflite", latency_ms=2.0, provenance="predicted")
    devices = {"phone": figures, "stick": replace(figures, reason="it takes int8 alone")}
    own, phone = settings(replace(evaluation("one"), device_figures=devices))
    assert own.device == "host"
    assert phone.device == "phone"
    assert "--use_nnapi=true" in benchmark_lines(phone)[-1]
