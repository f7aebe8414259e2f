"""Artefacts for a microcontroller, checked by the real interpreter of TensorFlow Lite Micro."""

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core import Provenance, Status, install_extra
from advisor.devices import DeviceProfile, DeviceTarget
from advisor.devices._profiles import DeviceLimits
from advisor.engine import TargetDevice
from advisor.engine._targets.device_measurement import with_arena
from advisor.engine._targets.target_devices import remark_of
from advisor.integrations import microcontroller as micro
from tests.builders import evaluation
from tests.devices.requirements import require_micro
from tests.measurement import small_models

TARGET = DeviceTarget("tflm", "tflite-micro", "cpu", 1, "", ("int8",))
SENSOR = DeviceProfile(
    "sensor", "Sensor", "microcontroller", "STM32H743", (TARGET,), "tflm", limits=DeviceLimits(10**6)
)
DEVICE = TargetDevice("sensor", SENSOR, TARGET)


@pytest.mark.integration
def test_the_measured_arena_is_the_memory_and_what_the_device_cannot_run_is_skipped(tmp_path: Path) -> None:
    require_micro()
    model = small_models.saved(tmp_path, small_models.quantized(small_models.classifier(), tmp_path, 32))
    measured = micro.check(model)
    found = with_arena(evaluation(), DEVICE, measured)
    assert found.status is Status.OK
    assert found.memory.provenance is Provenance.MEASURED
    assert "TensorFlow Lite Micro" in found.memory.source
    assert found.memory.value < 16_000
    tight = replace(DEVICE, profile=replace(SENSOR, limits=DeviceLimits(arena_bytes=10_000)))
    found = with_arena(evaluation(), tight, measured)
    assert found.status is Status.SKIPPED
    assert "its tensor arena takes 14.9 kB, sensor has room for 10.0 kB" in found.reason
    model.write_bytes(small_models.unknown_operator())
    found = with_arena(evaluation(), DEVICE, micro.check(model))
    assert found.status is Status.SKIPPED
    assert found.reason.endswith("has no CUSTOM:Nobody")


def test_without_the_extra_arenas_are_computed_and_a_remark_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert replace(DEVICE, target=replace(TARGET, runtime="stm32cube.ai")).local is None
    monkeypatch.setattr(micro, "available", lambda: False)
    assert DEVICE.local is None
    assert f"arenas are computed; {install_extra('micro')}" in remark_of(DEVICE)
