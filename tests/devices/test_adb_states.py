"""What is said of a phone that adb lists, but that cannot be used."""

import os
from pathlib import Path

import pytest

from advisor.core import UsageError
from advisor.devices import MeasurementJob
from advisor.devices._connections.adb import AdbConnection, states_of

SERIAL = "R58M12ABCDE"
NO_PERMISSIONS = "no permissions (missing udev rules? user is in the plugdev group); see [http://developer.android.com]"


@pytest.mark.parametrize("remarks", ["", " product:husky model:Pixel_8_Pro device:husky transport_id:1"])
def test_the_state_is_what_stands_before_remarks(remarks: str) -> None:
    text = f"* daemon started successfully\nList of devices attached\n{SERIAL}\tdevice{remarks}\n\n"
    assert states_of(text) == {SERIAL: "device"}


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
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    tool = tmp_path / "benchmark_model"
    tool.write_text("")
    with pytest.raises(UsageError) as refused:
        AdbConnection(SERIAL, tool).measure(MeasurementJob((tool,)))
    assert message in refused.value.message
    assert hint in refused.value.hint
