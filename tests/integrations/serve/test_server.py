"""The server on its port, as the command starts it."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from advisor.cli import _server as server
from advisor.integrations.serve import COMMAND, _command as command
from tests.builders import present
from tests.processes import PATIENCE_S
from tests.run_folders import write_run
from tests.tables import read_table

OUT = read_table(__file__, "texts.yaml")["paths_out"]
"""Paths that would lead out of the folder."""


def answer(address: str, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    """Return status and text of the answer to a request that is sent as it is written."""
    where = urlsplit(address)
    connection = http.client.HTTPConnection(where.netloc, timeout=PATIENCE_S)
    connection.putrequest(method, path, skip_host="host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    given = connection.getresponse()
    return given.status, given.read().decode()


def test_no_path_of_a_real_server_leads_out(address: str, runs: Path, tmp_path: Path) -> None:
    outside = write_run(tmp_path / "elsewhere").path.rename(tmp_path / "outside")
    (outside / "request.yaml").write_text("secret: 1\n", encoding="utf-8")
    (outside / "secret.txt").write_text("secret", encoding="utf-8")
    (runs / "link").symlink_to(outside)
    write_run(runs)
    root = urlsplit(address).path
    assert answer(address, root)[0] == 200
    for path in OUT:
        status, text = answer(address, root + path)
        assert (status in (400, 403, 404), "secret" in text) == (True, False), path


def test_a_real_server_refuses_foreign_names_and_changes(address: str) -> None:
    root, own = urlsplit(address).path, urlsplit(address).netloc
    port = own.split(":")[1]
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "127.0.0.1", "127.0.0.1:1", ""):
        status, text = answer(address, root, host=host)
        assert (status, "own address" in text or not text.strip()) == (403, True), host
    for origin in ("http://evil.example", "null", "file://", "http://127.0.0.1:1", f"https://{own}"):
        assert answer(address, f"{root}runs/a/reevaluate", "POST", origin=origin)[0] == 403
        assert answer(address, root, origin=origin)[0] == 403
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert answer(address, "/runs/a/reevaluate", method, origin=f"http://{own}")[0] == 403


@pytest.mark.integration
def test_the_command_answers_until_interrupted_and_gives_its_address(starts_processes: None, tmp_path: Path) -> None:
    import httpx2

    command = [sys.executable, "-m", "advisor", "serve", "--runs", str(tmp_path), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        document = json.loads("".join(present(process.stdout).readline() for _ in range(4)))
        address = document["address"]
        assert address.startswith("http://127.0.0.1:")
        assert httpx2.get(address, timeout=PATIENCE_S).status_code == 200  # it takes signals from here on
        assert httpx2.get(f"{address[:-4]}/", timeout=PATIENCE_S).status_code == 403
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=PATIENCE_S)[0]
    assert (process.returncode, document["schema_version"], rest) == (0, 1, "")


def test_people_read_its_address_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "start", lambda _runs, _port, tell: tell("http://127.0.0.1:8000/token/"))
    COMMAND.run(as_json=False, port=0, show=False)
    assert capsys.readouterr().out == "http://127.0.0.1:8000/token/\n"


def test_connections_that_only_wait_are_closed(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, root = urlsplit(address), urlsplit(address).path
    with monkeypatch.context() as patch:  # the request in the end has as long as a busy machine needs
        patch.setattr(server, "WAITS_S", 0.2)
        for sent in ("", f"GET {root} HTTP/1.1\r\nHost: {where.netloc}\r\nX: "):
            with socket.create_connection((str(where.hostname), where.port or 0), PATIENCE_S) as opened:
                opened.sendall(sent.encode())
                assert opened.recv(1) == b""
    assert answer(address, root)[0] == 200


def test_an_upload_that_is_broken_off_leaves_no_traceback(
    address: str, runs: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "UPLOAD_S", 0.2)
    where, path = urlsplit(address), f"{urlsplit(address).path}runs/{write_run(runs).path.name}/photograph"
    head = f"POST {path} HTTP/1.1\r\nHost: {where.netloc}\r\nOrigin: http://{where.netloc}\r\n"
    head += "Connection: close\r\nContent-Length: 99\r\n\r\n"
    with socket.create_connection((str(where.hostname), where.port or 0), PATIENCE_S) as opened:
        opened.sendall(f"{head}half".encode())
        assert "the upload was broken off, or took over 0\u00a0s".encode() in opened.makefile("rb").read()
    with socket.create_connection((str(where.hostname), where.port or 0), PATIENCE_S) as opened:
        opened.sendall(f"{head}half".encode())
    assert answer(address, urlsplit(address).path)[0] == 200
    time.sleep(0.3)  # longer than an upload may take
    assert "Traceback" not in caplog.text
    assert not caplog.records
