"""What is said of a phone that adb lists, but that cannot be used."""

import os
from pathlib import Path

import pytest

from advisor.core import UsageError
from advisor.devices import MeasurementJob
from advisor.devices._connections.adb import AdbConnection, states_of
from tests.requirements import shared_case

SERIAL = "R58M12ABCDE"
NO_PERMISSIONS = "no permissions (missing udev rules? user is in the plugdev group); see [http://developer.android.com]"


@pytest.mark.parametrize(
    ("listed", "state"),
    [
        ("device", "device"),
        ("device product:husky model:Pixel_8_Pro device:husky transport_id:1", "device"),
        (NO_PERMISSIONS, "no permissions"),
        ("unauthorized", "unauthorized"),
        ("offline", "offline"),
    ],
)
def test_the_state_is_what_stands_before_remarks(listed: str, state: str) -> None:
    text = f"* daemon started successfully\nList of devices attached\n{SERIAL}\t{listed}\n\n"
    assert states_of(text) == {SERIAL: state}


@pytest.mark.parametrize(
    ("listed", "message", "hint"),
    [
        (NO_PERMISSIONS, "may not be used by this user: 'no permissions'", "add a udev rule"),
        ("unauthorized", "does not allow debugging", "allow debugging on its screen"),
        ("authorizing", "is being asked for permission", "allow debugging on its screen"),
        ("offline", "does not answer", "adb reconnect offline"),
        ("recovery", "runs its recovery system", "adb reboot"),
        ("sideload", "waits for an update", "adb reboot"),
        ("of another kind", "is in the state 'of another kind'", "plug it in again"),
    ],
)
def test_each_state_has_a_message_and_a_remedy(
    starts_processes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: str, message: str, hint: str
) -> None:
    program = tmp_path / "adb"
    program.write_text(f"#!/bin/sh\nprintf 'List of devices attached\\n{SERIAL}\\t{listed}\\n'\n")
    assert_refused(program, monkeypatch, message, hint)


def test_the_answer_of_a_real_machine_without_permissions_is_understood(
    starts_processes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = shared_case("adb_no_permissions.sh")
    program = tmp_path / "adb"
    program.write_text(case.read_text())
    assert_refused(program, monkeypatch, "'no permissions'", "udev rule")


def assert_refused(program: Path, monkeypatch: pytest.MonkeyPatch, message: str, hint: str) -> None:
    """Check what is said when this program is adb."""
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    tool = program.with_name("benchmark_model")
    tool.write_text("")
    with pytest.raises(UsageError) as refused:
        AdbConnection(SERIAL, tool).measure(MeasurementJob((tool,)))
    assert message in refused.value.message
    assert hint in refused.value.hint
