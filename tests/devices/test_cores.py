"""Cores of processors, what a file takes of the memory of a device, and how far releases of a runtime are apart."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.core import FileFeatures, Provenance, UsageError
from advisor.devices import (
    Cluster,
    DeviceProfile,
    DeviceTarget,
    HostConnection,
    MeasurementJob,
    Profiles,
    read_features,
)
from advisor.devices._latency.base import fit_base
from advisor.devices._latency.model import estimate_latencies, queries_of_known
from advisor.devices._latency.posterior import posterior_of
from advisor.devices._latency.table import LatencyTable, arithmetic_of, count_releases, running_cores, target_vector
from advisor.devices._memory import RUNTIME_BYTES, predict_memory
from advisor.devices._profiles import listing, read_profile
from advisor.devices._profiles.cores import core_named, core_remarks, read_cores
from advisor.tflite import indirection_bytes, read, to_float16
from benchmarks.latency_protocols.validation import hide
from tests.builders import interval, must_fail, present, write_file
from tests.devices.test_latency import made_table
from tests.measurement import small_models
from tests.tables import with_cases

PROFILE = (Path(__file__).parent / "own_board.yaml").read_text(encoding="utf-8")
NONE = np.array([], dtype=np.intp)
TFLITE, MICRO = (DeviceTarget("any", runtime, "cpu") for runtime in ("tflite", "tflite-micro"))
FASTER = np.linspace(-0.5, -0.1, 24)
"""What the later release gains on each network (log)."""


def device(core: str, runtime: str = "ai-edge-litert", mhz: int | None = 2000, threads: int = 4) -> DeviceProfile:
    target = DeviceTarget("cpu", runtime, "cpu", threads)
    return DeviceProfile("own", "Own", "board", "M9", (target,), "cpu", cores=(Cluster(core, 4, mhz),))


def vector(profile: DeviceProfile, precision: str = "float32") -> tuple[float, ...]:
    return present(target_vector(profile, profile.target(), precision))


@pytest.mark.parametrize("name", ["Cortex-A72", "cortex-a72", "Cortex A72", "CORTEX_A72", "Maker X1 (A72)"])
def test_one_core_has_many_spellings(name: str) -> None:
    assert core_named(name).name == "Cortex-A72"


def test_a_profile_with_an_unknown_core_is_refused_at_its_line(tmp_path: Path) -> None:
    path = write_file(tmp_path / "own.yaml", PROFILE.replace("CORE", "Cortex A53"))
    assert read_profile(path).cores[1].core == "Cortex A53"
    path.write_text(PROFILE.replace("CORE", "Cortex-A530"))
    must_fail(UsageError, r"own.yaml:7: .*unknown core 'Cortex-A530' \(nearest: Cortex-A53", read_profile, path)


def test_an_assumed_figure_is_said(profiles: Profiles) -> None:
    (remark,) = core_remarks(["Cortex-A35", "Cortex-A53", "cortex a53"])
    assert remark == "Cortex-A35: macs not looked up: an assumption from the family"
    assert listing.list_remarks(profiles["stm32mp257f-dk2"]) == (remark,)
    assert listing.list_remarks(profiles["raspberry-pi-4"]) == ()


@with_cases
def test_a_damaged_list_of_cores_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = write_file(tmp_path / "cores.yaml", text)
    must_fail(UsageError, rf"cores.yaml:\d: .*{message}", read_cores, path)


def test_the_rate_of_ncnn_is_twice_that_of_litert_with_16_bit_floats_and_integers_gain_from_a_dot_product() -> None:
    new, old = (np.exp(vector(device(core, "ncnn"))[0] - vector(device(core))[0]) for core in ("A76", "A72"))
    assert new == pytest.approx(2)
    assert old == pytest.approx(1)
    gains = [np.exp(vector(device(c), "int8")[0] - vector(device(c))[0]) for c in ("A72", "A76", "A710", "ARM1176")]
    assert gains == pytest.approx([2, 4, 8, 1])
    assert arithmetic_of("ai-edge-litert", "float16") == "float16"


def test_little_cores_run_where_the_target_says_so(profiles: Profiles) -> None:
    profile = profiles["orange-pi-5"]
    running = [running_cores(profile, profile.target(f"ncnn-cpu-x4{end}")) for end in ("", "-little")]
    assert [{core.name for core, _ in cores} for cores in running] == [{"Cortex-A76"}, {"Cortex-A55"}]


def test_a_core_without_a_clock_has_its_usual_speed_and_an_unknown_processor_none(profiles: Profiles) -> None:
    assert vector(device("A53", mhz=None)) == vector(device("A53", mhz=1500))
    unknown = device("Maker X1")
    assert target_vector(unknown, unknown.target(), "float32") is None
    target = DeviceTarget("onnxruntime-cpu-x1-unstated-threads", "onnxruntime", "cpu")
    assert target_vector(device("A53"), target, "int8") is None


@pytest.fixture(scope="module")
def found() -> FileFeatures:
    return read_features(read(small_models.classifier()))


def test_a_cpu_holds_activations_weights_and_a_packed_copy(found: FileFeatures) -> None:
    memory = present(predict_memory(found, "cpu", TFLITE))
    assert memory.provenance is Provenance.PREDICTED
    assert memory.value > RUNTIME_BYTES + found.arena_bytes + 2 * found.weight_bytes
    low, value, high = interval(memory)
    assert low < value < high


def test_halved_weights_are_widened_by_the_kernels(found: FileFeatures) -> None:
    halved = read_features(read(to_float16(small_models.classifier())))
    assert halved.weight_bytes < found.weight_bytes
    packed = halved.held_bytes - indirection_bytes(read(small_models.classifier()).subgraphs[0])
    assert packed == pytest.approx(2 * halved.weight_bytes, rel=0.1)


def test_a_microcontroller_keeps_weights_in_flash_and_its_runtime_more_than_arenas(found: FileFeatures) -> None:
    memory = present(predict_memory(found, "mcu", TFLITE))
    assert memory.value == found.arena_bytes
    assert "flash" in memory.source
    memory = present(predict_memory(found, "mcu", MICRO))
    assert memory.value == found.micro_arena_bytes
    assert "tensor arena of TensorFlow Lite Micro" in memory.source
    assert present(predict_memory(replace(found, micro_arena_bytes=0), "mcu", MICRO)).value == found.arena_bytes


def test_of_an_accelerator_s_driver_and_weights_that_nobody_read_no_memory_is_known(found: FileFeatures) -> None:
    memory = present(predict_memory(found, "npu", TFLITE))
    assert memory.value == found.arena_bytes + found.weight_bytes
    assert (memory.low, memory.high) == (None, None)
    assert predict_memory(replace(found, weight_bytes=0), "cpu", TFLITE) is None


@pytest.mark.integration
def test_what_a_process_took_is_near(found: FileFeatures, agent: Path, model: Path) -> None:
    (timing,) = HostConnection(agent).measure(MeasurementJob((model,), effort="load"))
    memory = present(predict_memory(found, "cpu", TFLITE))
    # A few kilobytes of model: the runtime itself is nearly all of it.
    assert present(timing.memory_bytes) < 3 * memory.value


@pytest.fixture(scope="module")
def releases() -> LatencyTable:
    """Twelve devices with an early release; the first eight with a later one, too. They are the last columns."""
    table = made_table()
    early = tuple(replace(c, version="1.20.0") for c in table.columns)
    late = tuple(replace(c, target="cpu-late", version="1.25.0") for c in table.columns[:8])
    values = fit_base(table).filled
    return replace(table, columns=(*early, *late), values=np.vstack([values, values[:8] + FASTER]))


@with_cases
def test_the_distance_is_in_minor_releases(one: str, other: str, steps: int) -> None:
    assert count_releases(one, other) == count_releases(other, one) == steps


def test_the_next_release_is_predicted_network_by_network(releases: LatencyTable) -> None:
    index = len(releases.columns) - 1
    shown, _ = hide(releases, [index])
    posterior = posterior_of(fit_base(shown), releases.columns[index], NONE, np.zeros(0))
    found = estimate_latencies(posterior, queries_of_known(posterior.base, np.arange(24)))
    assert posterior.likeness == "release"
    assert np.abs(found.mean - releases.values[index]).max() < 0.05
    assert np.abs(releases.values[7] - releases.values[index]).max() > 0.4


def test_a_release_that_nobody_ran_is_the_last_one_with_a_wide_interval(releases: LatencyTable) -> None:
    base = fit_base(releases)
    column = releases.columns[-1]
    deviations = []
    for version in ("1.26.0", "1.45.0"):
        later = replace(column, target="cpu-later", version=version)
        posterior = posterior_of(base, later, NONE, np.zeros(0))
        found = estimate_latencies(posterior, queries_of_known(posterior.base, np.arange(24)))
        assert np.abs(found.mean - releases.values[-1]).max() < 0.1
        deviations.append(float(np.median(found.deviation)))
    assert deviations[0] < deviations[1]
