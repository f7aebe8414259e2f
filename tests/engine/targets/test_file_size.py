"""The least size of a card's file, against the flash of a device, before anything is trained."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.devices.profiles import DeviceLimits, DeviceProfile, DeviceTarget
from advisor.engine.targets.file_size import card_rejection, least_size
from advisor.engine.targets.target_devices import TargetDevice

TARGET = DeviceTarget("tflm", "tflite-micro", "cpu", 1, "", ("int8",))
SENSOR = DeviceProfile(
    "sensor", "Sensor", "microcontroller", "STM32H743", (TARGET,), "tflm", limits=DeviceLimits(flash_bytes=2 * 2**20)
)
DEVICE = TargetDevice("sensor", SENSOR, TARGET)


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        ("mobilenet_v1_0.25_224", ""),
        ("resnet_50_224", "its file has at least 22.3 MB, sensor has room for 2.1 MB: not trained"),
    ],
)
def test_a_card_that_cannot_fit_into_the_flash_is_not_trained(card: str, reason: str) -> None:
    assert card_rejection(load_catalogue()[card], "int8", DEVICE) == reason


def test_the_form_is_checked_first() -> None:
    assert "takes int8, not float32" in card_rejection(load_catalogue()["resnet_50_224"], "float32", DEVICE)


def test_without_a_limit_every_size_fits() -> None:
    free = replace(DEVICE, profile=replace(SENSOR, limits=DeviceLimits()))
    assert card_rejection(load_catalogue()["resnet_50_224"], "int8", free) == ""


def test_a_head_of_the_user_s_classes_is_smaller() -> None:
    card = load_catalogue()["shufflenet_v2_0.5_224"]
    assert least_size(card, "int8", new_head=True) < 0.3 * least_size(card, "int8", new_head=False)
