"""A real web server on this machine that stands for an index, a registry or an official home."""

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from advisor.store._downloads.delivery import contact_server


@dataclass
class Answer:
    """What the server sends for one path.

    ``cut_after``: bytes of the body after which the connection breaks, the first ``cuts`` times. ``refusals``: the
    first so many requests get ``refusal``. ``ranges``: whether a part may be asked for. ``delay_s`` passes first.
    ``versions``: whether an ETag says which content this is. ``raw`` is sent as it is instead, ``raw_part`` to requests
    for a part; then, with ``drip_s``, a byte after each such pause until the client hangs up.
    """

    body: bytes = b""
    status: int = 200
    kind: str = "application/octet-stream"
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    cuts: int = 1
    refusals: int = 0
    refusal: int = 503
    ranges: bool = True
    delay_s: float = 0.0
    versions: bool = True
    raw: bytes = b""
    raw_part: bytes = b""
    drip_s: float = 0.0

    @property
    def version(self) -> str:
        return f'"{hashlib.md5(self.body, usedforsecurity=False).hexdigest()}"' if self.versions else ""


@dataclass
class Shelf:
    """The server: answers by path, and the requests it has seen as (path, headers)."""

    url: str
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def put(self, path: str, answer: Answer | bytes) -> str:
        """Serve ``answer`` at ``path`` and return its address."""
        self.answers[path] = answer if isinstance(answer, Answer) else Answer(answer)
        return self.url + path

    def asked(self, path: str) -> list[dict[str, str]]:
        """The headers of every request for ``path``."""
        return [headers for seen, headers in self.requests if seen == path]


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    """A running server with nothing on it."""
    with serving() as shelf:
        yield shelf


@contextmanager
def serving() -> Iterator[Shelf]:
    """A server in this process until the end of the block. It may get the port of an earlier one, or of none."""
    contact_server.cache_clear()
    server = _Server(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    shelf = Shelf(f"http://127.0.0.1:{server.server_address[1]}")
    server.shelf = shelf  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield shelf
    server.shutdown()
    server.server_close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Clients that hang up are part of these tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        shelf: Shelf = self.server.shelf  # type: ignore[attr-defined]
        shelf.requests.append((self.path, dict(self.headers)))
        answer = shelf.answers.get(self.path, Answer(b"not here", 404))
        time.sleep(answer.delay_s)
        if answer.refusals > 0:
            answer.refusals -= 1
            return self._send(Answer(b"later", answer.refusal), 0)
        raw = answer.raw_part if answer.raw_part and "Range" in self.headers else answer.raw
        if raw:
            return self._send_raw(raw, answer.drip_s)
        start = self._start(answer)
        if start is not None and start >= len(answer.body):
            whole = {"Content-Range": f"bytes */{len(answer.body)}"}
            return self._send(Answer(b"", 416, headers=whole), 0)
        return self._send(answer, start or 0, partial=start is not None)

    def _start(self, answer: Answer) -> int | None:
        wanted = self.headers.get("Range", "")
        same = self.headers.get("If-Range", answer.version) == answer.version
        return int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and answer.ranges and same else None

    def _send_raw(self, raw: bytes, drip_s: float) -> None:
        self.close_connection = True
        self.wfile.write(raw)
        while drip_s:
            self.wfile.write(b"0")
            time.sleep(drip_s)

    def _send(self, answer: Answer, start: int, partial: bool = False) -> None:
        body = answer.body[start:]
        self.send_response(206 if partial else answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(body)))
        if partial:
            self.send_header("Content-Range", f"bytes {start}-{len(answer.body) - 1}/{len(answer.body)}")
        if answer.version and answer.status == 200:
            self.send_header("ETag", answer.version)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if answer.cut_after is not None and answer.cuts > 0:
            answer.cuts -= 1
            self.wfile.write(body[: answer.cut_after])
            self.wfile.flush()
            self.close_connection = True
            return
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""
