"""What the terminal shows of a calibration."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.devices.calibration import Calibrated
from advisor.devices.calibration_report import CalibrationReport
from advisor.devices.profiles.host import host_profile
from advisor.devices.profiles.kernels import Kernel
from advisor.reporting.devices_table import print_calibrated, print_device
from advisor.tflite.work import Work

BOARD = replace(host_profile(), name="our-board", kernels=(Kernel("cpu-x1", "int8", Work("ADD", 4, 4, read=32), 1.5),))


def test_a_target_says_how_many_kernels_were_timed_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_device(BOARD)
    lines = [line for line in capsys.readouterr().out.splitlines() if "0 measured" in line]
    assert ["1 kernel timed" in line for line in lines] == ["cpu-x1:" in line for line in lines]
    assert any("cpu-x1:" in line for line in lines)


def test_a_calibration_shows_each_form_the_expected_errors_and_what_was_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    latency = {("small", "float32"): 6.5, ("small", "int8"): 2.5}
    reports = (
        CalibrationReport("float32", ("small",), (0.5,), (), 0.3, 0.1),
        CalibrationReport("int8", ("small",), (-0.25,), (), 0.4, math.nan),
    )
    target = BOARD.target("cpu-x1")
    found = Calibrated(BOARD, target, latency, "tflite", reports, Path("a.yaml"), ("ADD 4 x 4, int8: too long",))
    print_calibrated(found)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "our-board:cpu-x1, measured with tflite"
    assert [line.split() for line in lines[1:7:4]] == [["float32"], ["int8"]]
    assert "predicted +50% before" in lines[2]
    assert lines[4] == "  expected median error of models that were not measured: 30% before, 10% after"
    assert "predicted -25% before" in lines[6]
    assert lines[8:] == ["1 kernel timed, 1 left out", "  left out: ADD 4 x 4, int8: too long", "kept in a.yaml"]


def test_a_measurement_that_contradicts_the_others_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    profile = replace(host_profile(), name="our-board")
    report = CalibrationReport("float32", ("small",), (3.0,), (), math.nan, math.nan, {"small": 2.0})
    latency = {("small", "float32"): 8.0}
    print_calibrated(Calibrated(profile, profile.target("cpu-x1"), latency, "tflite", (report,), Path("a.yaml")))
    lines = capsys.readouterr().out.splitlines()
    assert "  small contradicts the others, which expect 2.00 ms: measure it again" in lines
