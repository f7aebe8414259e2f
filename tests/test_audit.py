"""The audit of pinned dependencies: the real pip-audit against advisory databases of this machine."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.builders import write_file
from tests.tables import read_table
from tools import audit

pytestmark = pytest.mark.integration

ADVISORY = read_table(__file__, "advisory.yaml")


class Advisories(BaseHTTPRequestHandler):
    """Answers OSV's query: one package has a vulnerability."""

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = [ADVISORY] if query["package"]["name"] == "known-bad" else []
        body = json.dumps({"vulns": known} if known else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def database() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Advisories)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1/query"
    server.shutdown()
    server.server_close()


def pinned(folder: Path, *names: str) -> Path:
    return write_file(folder / "locks.txt", "".join(f"{name}==1.0 --hash=sha256:{'0' * 64}\n" for name in names))


def test_a_known_vulnerability_is_named_with_its_fix_and_dependencies_without_one_pass(
    tmp_path: Path, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.main(["--osv-url", database], pinned(tmp_path, "fine", "known-bad")) == 1
    said = capsys.readouterr()
    assert said.err == "known-bad 1.0: PYSEC-0000-1 (fixed in 1.2)\n"
    assert said.out == "audit: 2 dependencies, known vulnerabilities: 1\n"
    assert audit.main(["--osv-url", database], pinned(tmp_path, "fine")) == 0
    assert capsys.readouterr().out == "audit: 1 dependencies, known vulnerabilities: 0\n"


def test_a_database_that_cannot_be_reached_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main(["--osv-url", "http://127.0.0.1:9/v1/query"], pinned(tmp_path, "fine")) == 0
    assert capsys.readouterr().out == "audit: not done, because no advisory database can be reached\n"


def test_an_audit_that_fails_is_no_clean_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main([], tmp_path / "missing.txt") == 1
    assert "pip-audit failed" in capsys.readouterr().err
