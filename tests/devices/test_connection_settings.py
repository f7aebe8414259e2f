"""How a device is reached, written in its profile: read, refused with file and line, written back, and no secrets."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.devices.connections.settings import ConnectionSettings
from advisor.devices.connections.ssh import SshConnection
from advisor.devices.profiles import read_profile
from advisor.devices.profiles.team import write_profile

BOARD = """\
name: board
title: Board
kind: board
soc: Maker
targets:
- {name: cpu, runtime: ai-edge-litert, accelerator: cpu, precisions: [float32]}
default_target: cpu
"""


def profile_with(folder: Path, connection: str) -> Path:
    path = folder / "board.yaml"
    path.write_text(BOARD + f"connection: {connection}\n")
    return path


def test_a_profile_says_how_its_device_is_reached(tmp_path: Path) -> None:
    path = profile_with(tmp_path, "{ssh: pi@board.local, port: 2222, python: venv/bin/python}")
    reach = read_profile(path).connection
    assert reach == ConnectionSettings(ssh="pi@board.local", port=2222, python="venv/bin/python")
    assert reach.connect() == SshConnection("pi@board.local", "venv/bin/python", 2222)


def test_a_phones_binary_is_one_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = profile_with(tmp_path, "{adb: R58M, benchmark_model: ~/tools/benchmark_model, cores: f0}")
    reach = read_profile(path).connection
    assert reach is not None
    assert reach.benchmark_model == tmp_path / "home" / "tools" / "benchmark_model"


@pytest.mark.parametrize(
    ("connection", "message"),
    [
        ("{ssh: a, adb: b}", "a connection needs either ssh or adb"),
        ("{python: python3}", "a connection needs either ssh or adb"),
        ("{ssh: a, password: secret}", "unknown key 'password'"),
        ("{ssh: a, port: 70000}", "connection.port"),
        ("{adb: a, cores: xyz}", "connection.cores"),
        ("{ssh: a, config: ssh_config}", "unknown key 'config'"),
        ("{ssh: a, identity: id_rsa}", "unknown key 'identity'"),
        ("{ssh: a, proxy: evil}", "unknown key 'proxy'"),
        ("{ssh: '-oProxyCommand=ls'}", "connection.ssh: '-oProxyCommand=ls' is not a valid host"),
        ("{ssh: 'a; ls'}", "connection.ssh: 'a; ls' is not a valid host"),
        ("{ssh: a, python: '-c'}", "connection.python: '-c' is not the path of a Python interpreter"),
        ("{adb: '-a'}", "connection.adb: '-a' is not a valid serial"),
        ("{adb: a, benchmark_model: tools/bm}", "connection.benchmark_model: 'tools/bm' lies beside the profile"),
    ],
)
def test_what_is_wrong_is_refused_with_file_and_line(tmp_path: Path, connection: str, message: str) -> None:
    path = profile_with(tmp_path, connection)
    with pytest.raises(UsageError) as caught:
        read_profile(path)
    assert caught.value.message.startswith(f"{path}:8: ")
    assert message in caught.value.message


def test_a_password_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"board.yaml:8: connection.ssh: the ssh address contains a password"
    ) as caught:
        read_profile(profile_with(tmp_path, "{ssh: 'pi:hunter2@board.local'}"))
    with pytest.raises(UsageError, match="the ssh address contains a password") as told:
        SshConnection("pi:hunter2@board.local")
    assert "hunter2" not in f"{caught.value.message}{caught.value.hint}{told.value.message}{told.value.hint}"


@pytest.mark.integration
def test_a_profile_runs_no_command_of_its_own(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    config = tmp_path / "ssh_config"
    config.write_text(f'Match exec "touch {trap}"\nHost *\n  ProxyCommand touch {trap}\n')
    profile_with(tmp_path, f"{{ssh: board.invalid, config: {config}}}")
    (tmp_path / "model.tflite").write_bytes(b"")
    command = [sys.executable, "-m", "advisor", "benchmark", "model.tflite", "--device", "board", "--profiles", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert not trap.exists()
    assert done.returncode == 2
    assert "unknown key 'config'" in done.stderr


def test_a_connection_survives_writing_and_changes_no_prediction(tmp_path: Path) -> None:
    profile = read_profile(profile_with(tmp_path, "{ssh: pi@board.local, port: 2222}"))
    again = read_profile(write_profile(profile, tmp_path / "kept"))
    assert again.connection == profile.connection
    assert profile.fingerprint() == replace(profile, connection=None).fingerprint()


def test_the_agent_is_not_asked_for_an_accelerator() -> None:
    with pytest.raises(UsageError, match="measures CPU targets only"):
        ConnectionSettings(ssh="board").connect("npu")


@pytest.mark.parametrize(
    "settings", [ConnectionSettings(), ConnectionSettings(ssh="a", adb="b"), ConnectionSettings(ssh="a", here=True)]
)
def test_one_way_must_be_meant(settings: ConnectionSettings) -> None:
    with pytest.raises(UsageError, match="the connection is not clear"):
        settings.connect()
