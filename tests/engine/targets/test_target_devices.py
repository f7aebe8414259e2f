"""Hard limits of a device: what does not fit is left out with the reason, whatever its latency."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation
from advisor.core.file_features import FileFeatures
from advisor.core.quantity import Provenance
from advisor.devices.latency.features import features_of
from advisor.devices.profiles import DeviceLimits, DeviceProfile, DeviceTarget
from advisor.engine.question import resolve
from advisor.engine.targets.device_prediction import card_rejection, least_size
from advisor.engine.targets.target_devices import TargetDevice, memory_of, rejection, select_targets
from advisor.tflite.model import read
from tests.builders import evaluation
from tests.measurement import small_models

TARGET = DeviceTarget("tflm", "tflite-micro", "cpu", 1, "", ("float32",))
SENSOR = DeviceProfile("sensor", "Sensor", "microcontroller", "STM32H743", (TARGET,), "tflm")


@pytest.fixture(scope="module")
def graph() -> FileFeatures:
    return features_of(read(small_models.classifier()))


@pytest.fixture
def row(graph: FileFeatures) -> Evaluation:
    return replace(evaluation(size=300_000), file_features=graph)


def place(**changes: object) -> TargetDevice:
    return TargetDevice("sensor", replace(SENSOR, **changes), TARGET)  # type: ignore[arg-type]


def test_what_fits_is_left_in(row: Evaluation) -> None:
    limits = DeviceLimits(arena_bytes=10**6, flash_bytes=10**6, package_bytes=10**6)
    assert rejection(row, place(limits=limits, memory_bytes=10**9)) == ""


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (DeviceLimits(arena_bytes=100), "its tensor arena takes"),
        (DeviceLimits(flash_bytes=200_000), "do not fit into the 200.0 kB of sensor"),
        (DeviceLimits(package_bytes=100_000), "do not fit into the 100.0 kB of sensor"),
    ],
)
def test_arena_flash_and_package_are_hard_limits(row: Evaluation, limits: DeviceLimits, reason: str) -> None:
    assert reason in rejection(row, place(limits=limits))


def test_more_than_all_of_the_memory_is_a_rejection(row: Evaluation) -> None:
    board = replace(SENSOR, kind="board")
    where = TargetDevice("board", replace(board, memory_bytes=1_000_000), TARGET)
    assert "of memory, board has 1.0 MB in total" in rejection(row, where)
    assert rejection(row, TargetDevice("board", replace(board, memory_bytes=10**9), TARGET)) == ""


def test_a_microcontroller_s_memory_is_the_arena(row: Evaluation, graph: FileFeatures) -> None:
    memory = memory_of(row, place())
    assert memory is not None
    assert (memory.value, memory.provenance) == (graph.micro_arena_bytes, Provenance.PREDICTED)


def test_another_runtime_s_arena_holds_the_activations_alone(row: Evaluation, graph: FileFeatures) -> None:
    other = replace(TARGET, runtime="stm32cube.ai")
    where = TargetDevice("sensor", replace(SENSOR, limits=DeviceLimits(arena_bytes=100)), other)
    memory = memory_of(row, where)
    assert memory is not None
    assert memory.value == graph.arena_bytes
    assert "its activations take" in rejection(row, where)


def test_of_a_file_that_was_not_read_nothing_is_said() -> None:
    assert memory_of(evaluation(), place()) is None


def test_a_folder_of_profiles_that_is_not_there_is_refused_for_this_machine_too() -> None:
    with pytest.raises(UsageError, match="--profiles: 'no/such' is not a folder"):
        select_targets(resolve({"profiles": ["no/such"]}).question)


def flash(size_bytes: int | None = 2 * 2**20) -> TargetDevice:
    """Return a sensor that takes int8, with flash of this size."""
    target = replace(TARGET, precisions=("int8",))
    return TargetDevice(
        "sensor", replace(SENSOR, targets=(target,), limits=DeviceLimits(flash_bytes=size_bytes)), target
    )


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        ("mobilenet_v1_0.25_224", ""),
        ("resnet_50_224", "its file has at least 22.3 MB, sensor has room for 2.1 MB: not trained"),
    ],
)
def test_a_card_that_cannot_fit_into_the_flash_is_not_trained(card: str, reason: str) -> None:
    assert card_rejection(load_catalogue()[card], "int8", flash()) == reason


def test_the_form_is_checked_first() -> None:
    assert "takes int8, not float32" in card_rejection(load_catalogue()["resnet_50_224"], "float32", flash())


def test_without_a_limit_every_size_fits() -> None:
    free = flash(None)
    assert card_rejection(load_catalogue()["resnet_50_224"], "int8", free) == ""


def test_a_head_of_the_user_s_classes_is_smaller() -> None:
    card = load_catalogue()["shufflenet_v2_0.5_224"]
    assert least_size(card, "int8", new_head=True) < 0.3 * least_size(card, "int8", new_head=False)
