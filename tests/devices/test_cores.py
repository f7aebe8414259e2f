"""Processor cores: their names, what they compute in a cycle, and what a runtime uses of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from advisor.core.errors import UsageError
from advisor.devices.latency.processor import arithmetic, running_cores, target_vector
from advisor.devices.profiles import Cluster, DeviceProfile, DeviceTarget, Profiles, listing, read_profile
from advisor.devices.profiles.cores import Core, core_named, core_remarks, find_core, read_cores

PUBLISHED = ("llvm", "cpufp", "vfpbench", "guide", "zchrissirhcz/pixel", "stackoverflow", "AnandTech")

PROFILE = """name: own
title: Own board
kind: board
soc: Maker M9
cores:
- {core: Cortex-A72, count: 2, max_mhz: 1800}
- {core: CORE, count: 4, max_mhz: 1800}
targets: [{name: tflite-cpu-x4, runtime: ai-edge-litert, accelerator: cpu, threads: 4, precisions: [float32]}]
default_target: tflite-cpu-x4
"""


def device(core: str, runtime: str = "ai-edge-litert", mhz: int | None = 2000, threads: int = 4) -> DeviceProfile:
    target = DeviceTarget("cpu", runtime, "cpu", threads)
    return DeviceProfile("own", "Own", "board", "M9", (target,), "cpu", cores=(Cluster(core, 4, mhz),))


def vector(profile: DeviceProfile, precision: str = "float32") -> tuple[float, ...]:
    found = target_vector(profile, profile.target(), precision)
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["Cortex-A72", "cortex-a72", "Cortex A72", "CORTEX_A72", "Maker X1 (A72)"])
def test_one_core_has_many_spellings(name: str) -> None:
    assert core_named(name).name == "Cortex-A72"


def test_an_unknown_core_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(UsageError, match=r"unknown core 'Cortex-A74' \(nearest: Cortex-A7.*\)"):
        core_named("Cortex-A74")
    assert find_core("Cortex-A74") is None


def test_a_profile_with_an_unknown_core_is_refused_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(PROFILE.replace("CORE", "Cortex A53"))
    assert read_profile(path).cores[1].core == "Cortex A53"
    path.write_text(PROFILE.replace("CORE", "Cortex-A530"))
    with pytest.raises(UsageError, match=r"own.yaml:7: .*unknown core 'Cortex-A530' \(nearest: Cortex-A53"):
        read_profile(path)


def test_every_core_names_a_publication_or_says_what_it_assumes() -> None:
    for core in set(read_cores().values()):
        assert core.assumed or any(name in core.source for name in PUBLISHED), core.name
        assert "macs" in core.assumed or not core.source.startswith("as the"), core.name


def test_an_assumed_figure_is_said(profiles: Profiles) -> None:
    (remark,) = core_remarks(["Cortex-A35", "Cortex-A53", "cortex a53"])
    assert remark == "Cortex-A35: macs not looked up: an assumption from the family"
    assert listing.remarks(profiles["stm32mp257f-dk2"]) == (remark,)
    assert listing.remarks(profiles["raspberry-pi-4"]) == ()


def test_the_assumed_clock_of_a_core_lies_among_those_of_the_shipped_profiles(profiles: Profiles) -> None:
    clocks: dict[Core, list[int]] = {}
    for cluster in (cluster for profile in profiles.values() if profile.origin for cluster in profile.cores):
        clocks.setdefault(core_named(cluster.core), []).append(cluster.max_mhz or 0)
    assert {core.name for core, mhz in clocks.items() if not min(mhz) <= core.mhz <= max(mhz)} == set()


def test_every_shipped_profile_uses_known_cores(profiles: Profiles) -> None:
    shipped = [profile for profile in profiles.values() if profile.origin]
    assert all(find_core(cluster.core) for profile in shipped for cluster in profile.cores)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A: {macs: 4, mhz: 1000, source: s}\nB: {macs: 4, mhz: 1000, source: s, names: [a]}\n", "'a' is listed twice"),
        ("A: {macs: 0, mhz: 1000, source: s}\n", "greater than 0"),
        ("A: {macs: 4, mhz: 1000}\n", "Field required"),
        ("A: {macs: 4, mhz: 1000, source: s, assumed: [width]}\n", "'macs'"),
    ],
)
def test_a_damaged_list_of_cores_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "cores.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=rf"cores.yaml:\d: .*{message}"):
        read_cores(path)


def test_litert_computes_floats_at_half_the_rate_of_ncnn_where_the_core_has_16_bit_floats() -> None:
    new, old = (np.exp(vector(device(core, "ncnn"))[0] - vector(device(core))[0]) for core in ("A76", "A72"))
    assert new == pytest.approx(2)
    assert old == pytest.approx(1)


def test_integers_gain_from_a_dot_product() -> None:
    gains = [np.exp(vector(device(c), "int8")[0] - vector(device(c))[0]) for c in ("A72", "A76", "A710", "ARM1176")]
    assert gains == pytest.approx([2, 4, 8, 1])
    assert arithmetic("ai-edge-litert", "float16") == "float16"


def test_a_core_without_a_clock_gets_its_usual_one() -> None:
    assert vector(device("A53", mhz=None)) == vector(device("A53", mhz=1500))


def test_little_cores_run_where_the_target_says_so(profiles: Profiles) -> None:
    profile = profiles["orange-pi-5"]
    names = [
        {core.name for core, _ in running_cores(profile, profile.target(t))}
        for t in ("ncnn-cpu-x4", "ncnn-cpu-x4-little")
    ]
    assert names == [{"Cortex-A76"}, {"Cortex-A55"}]


def test_an_unknown_processor_or_number_of_threads_has_no_speed(profiles: Profiles) -> None:
    unknown = device("Maker X1")
    assert target_vector(unknown, unknown.target(), "float32") is None
    target = DeviceTarget("onnxruntime-cpu-x1-unstated-threads", "onnxruntime", "cpu")
    assert target_vector(device("A53"), target, "int8") is None
