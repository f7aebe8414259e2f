"""A device at hand measured over a real connection, and its profile kept."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.devices.calibration import calibrate, check_target, with_measurements
from advisor.devices.calibration_report import calibration_report, expected_error
from advisor.devices.connections.ssh import SshConnection
from advisor.devices.kernels.timing import design
from advisor.devices.latency.features import FeatureTable
from advisor.devices.prediction.predictor import CALIBRATED, Predictor
from advisor.devices.profiles import DeviceProfile, DeviceTarget, Profiles, read_profile
from advisor.devices.profiles.host import host_profile
from advisor.devices.profiles.team import folder_of, own_folder, write_profile
from tests.devices.conftest import SshServer


@pytest.fixture
def board() -> DeviceProfile:
    """This machine under another name."""
    return replace(host_profile(), name="our-board")


@pytest.mark.parametrize(
    "change",
    [{"runtime": "ncnn"}, {"accelerator": "npu"}, {"precisions": ("int16x8",)}],
)
def test_only_cpu_targets_that_run_float_or_int8_files_are_calibrated(
    board: DeviceProfile, change: dict[str, object]
) -> None:
    check_target(board, board.target("cpu-x1"))
    other = DeviceTarget(**{**vars(board.target("cpu-x1")), "name": "other", **change})
    with pytest.raises(UsageError, match="our-board:other cannot be calibrated") as refused:
        check_target(replace(board, targets=(*board.targets, other)), other)
    assert "cpu-x1" in refused.value.hint


def test_what_was_measured_is_kept_and_judged(
    board: DeviceProfile, predictor: Predictor, features: FeatureTable, tmp_path: Path
) -> None:
    floats = {"mobilenet_v2_1.0_224": 6.5, "mobilenet_v1_1.0_224": 10.0, "resnet_50_224": 75.0}
    names = tuple(floats)
    latency = {
        (name, form): ms / (2 if form == "int8" else 1) for name, ms in floats.items() for form in ("float32", "int8")
    }
    target, models = board.target("cpu-x1"), list(features.models.values())
    after = with_measurements(board, target, latency)
    rows = read_profile(write_profile(after, tmp_path)).measurements
    assert {(row.model, row.precision, row.latency_ms, row.target, row.source_repo) for row in rows} == {
        (*key, value, "cpu-x1", CALIBRATED) for key, value in latency.items()
    }
    for form in ("float32", "int8"):
        report = calibration_report(predictor, board, after, target, models, form)
        assert set(report.models) == set(names)
        assert len(report.before) == len(report.after) == 3
        assert report.expected_after < report.expected_before


def test_an_error_is_expected_only_of_models_that_are_predicted(
    board: DeviceProfile, predictor: Predictor, features: FeatureTable
) -> None:
    target, model = board.target("cpu-x1"), features.models["mobilenet_v2_1.0_224"]
    after = with_measurements(board, target, {(model.name, "float32"): 6.5})
    assert 0 < expected_error(predictor, board, target, "float32", [model]) < 2
    assert math.isnan(expected_error(predictor, after, target, "float32", [model]))


def test_a_shipped_profile_is_copied_and_the_team_s_own_changed_in_place(profiles: Profiles, tmp_path: Path) -> None:
    shipped = profiles["raspberry-pi-4"]
    assert folder_of(shipped) == own_folder()
    assert folder_of(replace(shipped, origin=tmp_path / "raspberry-pi-4.yaml")) == tmp_path


@pytest.mark.slow
def test_a_board_is_calibrated_over_ssh(
    board: DeviceProfile, predictor: Predictor, ssh_server: SshServer, tmp_path: Path
) -> None:
    connection = SshConnection("device", sys.executable, program=ssh_server.client)
    own = replace(board, origin=tmp_path / "our-board.yaml")
    told: list[str] = []
    found = calibrate(own, own.target("cpu-x1"), connection, predictor, 1, told.append, kernels=True)
    assert found.runtime.startswith("ai-edge-litert==")
    kept = read_profile(found.path)
    assert [(row.precision, row.latency_ms > 0) for row in kept.measurements] == [("float32", True), ("int8", True)]
    assert {kernel.form for kernel in kept.kernels} == {"float32", "int8"}
    assert len(kept.kernels) + len(found.left_out) == 2 * len(design())
    assert [report.form for report in found.reports] == ["float32", "int8"]
    assert any(line.startswith("int8: expected median error") for line in told)
