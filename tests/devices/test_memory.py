"""What a file takes of a device's memory, computed from the file and held against a process that ran it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core.file_features import FileFeatures
from advisor.core.quantity import Provenance
from advisor.devices.connections.host import HostConnection
from advisor.devices.connections.protocol import MeasurementJob
from advisor.devices.latency.features import features_of
from advisor.devices.prediction.memory import RUNTIME_BYTES, predicted_memory
from advisor.tflite.float16 import to_float16
from advisor.tflite.model import read
from tests.builders import present
from tests.measurement import small_models


@pytest.fixture(scope="module")
def found() -> FileFeatures:
    return features_of(read(small_models.classifier()))


def test_a_cpu_holds_activations_weights_and_a_packed_copy(found: FileFeatures) -> None:
    memory = present(predicted_memory(found, "cpu"))
    assert memory.provenance is Provenance.PREDICTED
    assert memory.value > RUNTIME_BYTES + found.arena_bytes + 2 * found.weight_bytes
    assert memory.low is not None
    assert memory.high is not None
    assert memory.low < memory.value < memory.high


def test_halved_weights_are_widened_by_the_kernels(found: FileFeatures) -> None:
    halved = features_of(read(to_float16(small_models.classifier())))
    assert halved.weight_bytes < found.weight_bytes
    assert halved.held_bytes == pytest.approx(2 * halved.weight_bytes, rel=0.1)


def test_a_microcontroller_keeps_weights_in_flash(found: FileFeatures) -> None:
    memory = present(predicted_memory(found, "mcu"))
    assert memory.value == found.arena_bytes
    assert "flash" in memory.source


def test_tensorflow_lite_micro_keeps_more_than_activations(found: FileFeatures) -> None:
    memory = present(predicted_memory(found, "mcu", "tflite-micro"))
    assert memory.value == found.micro_arena_bytes
    assert "tensor arena of TensorFlow Lite Micro" in memory.source
    older = present(predicted_memory(replace(found, micro_arena_bytes=0), "mcu", "tflite-micro"))
    assert older.value == found.arena_bytes


def test_an_accelerator_s_driver_is_not_known(found: FileFeatures) -> None:
    memory = present(predicted_memory(found, "npu"))
    assert memory.value == found.arena_bytes + found.weight_bytes
    assert (memory.low, memory.high) == (None, None)


def test_what_was_kept_before_it_was_read_has_no_figure(found: FileFeatures) -> None:
    assert predicted_memory(replace(found, weight_bytes=0), "cpu") is None


@pytest.mark.integration
def test_what_a_process_took_is_near(found: FileFeatures, agent: Path, model: Path) -> None:
    (timing,) = HostConnection(agent).measure(MeasurementJob((model,), effort="load"))
    memory = present(predicted_memory(found, "cpu"))
    assert timing.memory_bytes is not None
    # A few kilobytes of model: the runtime itself is nearly all of it.
    assert timing.memory_bytes < 3 * memory.value
