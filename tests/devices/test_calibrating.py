"""A device at hand measured over a real connection, and its profile kept."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.devices.calibration import calibrate, check_target, keep
from advisor.devices.connections.ssh import SshConnection
from advisor.devices.latency.features import FeatureTable
from advisor.devices.prediction.predictor import CALIBRATED, Predictor
from advisor.devices.profiles import DeviceProfile, DeviceTarget, Profiles, read_profile
from advisor.devices.profiles.host import host_profile
from advisor.devices.profiles.team import folder_of, own_folder
from tests.devices.conftest import SshServer


@pytest.fixture
def board() -> DeviceProfile:
    """This machine under another name."""
    return replace(host_profile(), name="our-board")


@pytest.mark.parametrize(
    "change",
    [{"runtime": "ncnn"}, {"accelerator": "npu"}, {"precisions": ("int8",)}],
)
def test_only_cpu_targets_that_run_float_files_are_calibrated(board: DeviceProfile, change: dict[str, object]) -> None:
    check_target(board, board.target("cpu-x1"))
    other = DeviceTarget(**{**vars(board.target("cpu-x1")), "name": "other", **change})
    with pytest.raises(UsageError, match="our-board:other cannot be calibrated") as refused:
        check_target(replace(board, targets=(*board.targets, other)), other)
    assert "cpu-x1" in refused.value.hint


def test_what_was_measured_is_kept_and_judged(
    board: DeviceProfile, predictor: Predictor, features: FeatureTable, tmp_path: Path
) -> None:
    latency = {"mobilenet_v2_1.0_224": 6.5, "mobilenet_v1_1.0_224": 9.25, "resnet_50_224": 60.0}
    models = list(features.models.values())
    found = keep(board, board.target("cpu-x1"), latency, "ai-edge-litert==2.3.0", predictor, models, tmp_path)
    rows = read_profile(found.path).measurements
    assert {(row.model, row.latency_ms, row.target, row.source_repo) for row in rows} == {
        (name, value, "cpu-x1", CALIBRATED) for name, value in latency.items()
    }
    assert set(found.report.models) == set(latency)
    assert len(found.report.before) == len(found.report.after) == 3


def test_a_shipped_profile_is_copied_and_the_team_s_own_changed_in_place(profiles: Profiles, tmp_path: Path) -> None:
    shipped = profiles["raspberry-pi-4"]
    assert folder_of(shipped) == own_folder()
    assert folder_of(replace(shipped, origin=tmp_path / "raspberry-pi-4.yaml")) == tmp_path


@pytest.mark.slow
def test_a_board_is_calibrated_over_ssh(
    board: DeviceProfile, predictor: Predictor, ssh_server: SshServer, tmp_path: Path
) -> None:
    connection = SshConnection("device", sys.executable, config=ssh_server.config)
    own = replace(board, origin=tmp_path / "our-board.yaml")
    found = calibrate(own, own.target("cpu-x1"), connection, predictor, 1, print)
    assert found.runtime.startswith("ai-edge-litert==")
    assert [row.latency_ms > 0 for row in read_profile(found.path).measurements] == [True]
