"""The machine that runs the advisor, as a device."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from advisor.devices.latency.processor import target_vector
from advisor.devices.profiles import host, listing
from advisor.engine.targets.target_devices import TargetDevices
from advisor.isolation.resources import usable_cores

X86 = """\
processor\t: 0
model\t\t: 2
model name\t: AMD EPYC 9B14
cpu MHz\t\t: 2596.096
flags\t\t: fpu sse2 avx2 avx512f
"""
BOARD = "processor\t: 0\nBogoMIPS\t: 108.00\nHardware\t: BCM2835\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n"


def with_cpuinfo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(text)
    monkeypatch.setattr(host, "_CPUINFO", path)
    monkeypatch.setattr(host, "_MAX_FREQUENCY", tmp_path / "none")


def test_an_x86_processor_is_named_with_its_vectors_and_clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_cpuinfo(monkeypatch, tmp_path, X86)
    profile = host.host_profile()
    assert profile.soc == "AMD EPYC 9B14"
    assert (profile.cores[0].core, profile.cores[0].max_mhz) == ("AMD EPYC 9B14 (AVX-512)", 2596)
    vector = target_vector(profile, profile.targets[0], "float32")
    assert vector is not None
    assert vector[:2] == pytest.approx((math.log(32 * 2.596), math.log(2.596)))


def test_a_board_is_named_by_its_hardware(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_cpuinfo(monkeypatch, tmp_path, BOARD)
    assert host.processor_name() == "BCM2835"
    assert host.host_profile().cores[0].max_mhz is None


@pytest.mark.parametrize(("text", "remarks"), [(X86, 0), (BOARD, 1)])
def test_a_processor_that_is_no_known_core_is_said_in_the_profile_and_the_plan(
    text: str, remarks: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_cpuinfo(monkeypatch, tmp_path, text)
    found = TargetDevices(host=True).remarks
    assert found == listing.remarks(host.host_profile())
    assert len(found) == remarks
    assert all("'BCM2835' is not known" in remark for remark in found)
    assert TargetDevices(host=False).remarks == ()


@pytest.mark.integration
def test_a_system_that_states_nothing_still_has_a_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_cpuinfo(monkeypatch, tmp_path, "")
    profile = host.host_profile()
    assert profile.soc
    assert profile.target().threads <= usable_cores()
