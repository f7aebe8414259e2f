"""The server on its port, as the command starts it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.serving.server import serve


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"--port: {port} cannot be used .Address already in use") as refused:
            serve(tmp_path, port, print)
    assert "free one" in refused.value.hint


@pytest.mark.integration
@pytest.mark.usefixtures("starts_processes")
def test_the_command_answers_until_it_is_interrupted(tmp_path: Path) -> None:
    import httpx2

    command = [sys.executable, "-m", "advisor", "serve", "--runs", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert httpx2.get(address).status_code == 200
        assert httpx2.get(f"{address[:-4]}/").status_code == 403
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


@pytest.mark.integration
@pytest.mark.usefixtures("starts_processes")
def test_a_program_reads_the_address_from_a_document(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "advisor", "serve", "--runs", str(tmp_path), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=60)[0]
    document = json.loads("".join(lines))
    assert (document["schema_version"], rest) == (1, "")
    assert document["address"].startswith("http://127.0.0.1:")


@pytest.mark.integration
@pytest.mark.usefixtures("starts_processes")
def test_a_missing_folder_is_a_usage_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "advisor", "serve", "--runs", str(tmp_path / "nothing")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is not a folder" in done.stderr
