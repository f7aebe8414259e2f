"""Requests to ``advisor serve``: addresses, forms, uploads, broken HTTP, and damaged run folders behind it."""

import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from urllib.parse import quote, urlsplit

from tests.hostile.attempts import damages
from tests.hostile.damages import BROKEN, Damage
from tests.hostile.surfaces.ground import ACCEPTED, DIED, HANG, INTERNAL, SOON_S, WRONG, Case, Ground
from tests.integrations.serve.test_server import OUT
from tests.run_folders import images, write_run

TEXTS = (*(text[:2000] for text in BROKEN), "\ud800", "%00", "%", "%zz", "..", "<script>", "\r\nX: y", "a" * 9000)
CHANGED, DAMAGED = 250, 3  # Requests with bytes changed; every so many damages of run folders are tried
MARK = b"Hidden7"


def cases(ground: Ground) -> Iterator[Case]:
    """Yield the requests to one server."""
    server = _Server(ground)
    for number, text in enumerate(TEXTS):
        value = quote(text.encode("utf-8", "surrogatepass"))
        for path in (f"?words={value}", f"?sort={value}", f"?state={value}", f"?{value}={value}", f"runs/{value}/",
                     f"compare?before={value}&after={value}", f"assets/{value}", value):  # fmt: skip
            yield f"{path[:20]}, {number}", partial(server.asked, "GET", path)
        for path in ("reevaluate", "photograph") if value else ():  # without a device, all are evaluated
            body = f"device={value}".encode() if number % 2 else text.encode("utf-8", "replace")
            yield f"{path}, {number}", partial(server.asked, "POST", f"runs/RUN/{path}", body)
    for path in OUT:
        yield f"out, {path}", partial(server.asked, "GET", path)
    for method in ("HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "", "G\0T", "é"):
        yield f"method {method!a}", partial(server.asked, method, "")
        yield f"method {method!a} without the token", partial(server.asked, method, "", token="wrong")
    for number in range(CHANGED):
        yield f"changed {number}", partial(server.changed, number)
    for number, (file, label, damage) in enumerate(damages(server.template)):
        if number % DAMAGED == 0:
            yield f"run folder, {file}, {label}", partial(server.damaged, file, damage)


class _Server:
    """A server that starts with its first request."""

    def __init__(self, ground: Ground) -> None:
        self._ground, self._runs = ground, ground.folder / "served"
        self.template = write_run(ground.folder / "template", dataset=images({"cat": 10, "dog": 10})).path
        self._errors = ground.folder / "errors"

    @cached_property
    def _started(self) -> "tuple[subprocess.Popen[bytes], str]":
        self._runs.mkdir(exist_ok=True)
        outside = self._ground.folder / "outside"
        outside.mkdir(exist_ok=True)
        (outside / "secret.txt").write_bytes(MARK)
        shutil.rmtree(self._runs / "link", ignore_errors=True)
        (self._runs / "link").unlink(missing_ok=True)
        (self._runs / "link").symlink_to(outside)
        self._fresh()
        environment = {**os.environ, "ADVISOR_CACHE_DIR": str(self._ground.folder / "cache")}
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "advisor", "serve", "--runs", str(self._runs)],
            stdout=subprocess.PIPE, stderr=self._ground.held.enter_context(self._errors.open("wb")), env=environment,
        )  # fmt: skip
        self._ground.held.callback(process.kill)
        assert process.stdout is not None, "it is a pipe"
        return process, process.stdout.readline().decode().strip()

    def _fresh(self) -> Path:
        run = self._runs / "RUN"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(self.template, run)
        return run

    def asked(self, method: str, path: str, body: bytes = b"", token: str = "") -> Sequence[str]:
        """Send a request as it is written; without the token, nothing is answered."""
        where = urlsplit(self._started[1])
        root = f"/{token}/" if token else where.path
        head = f"{method} {root}{path} HTTP/1.1\r\nHost: {where.netloc}\r\nOrigin: http://{where.netloc}\r\n"
        content = f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
        bad, answer = self._exchanged(content)
        return (*bad, *((ACCEPTED,) if token and answer[9:12] == b"200" else ()))

    def changed(self, number: int) -> Sequence[str]:
        """Send a request with some bytes changed."""
        draw, where = random.Random(number), urlsplit(self._started[1])
        post = f"POST {where.path}runs/RUN/photograph HTTP/1.1\r\nHost: {where.netloc}\r\nOrigin: http://{where.netloc}\r\n"
        get = f"GET {where.path} HTTP/1.1\r\nHost: {where.netloc}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        content = (f"{post}Content-Length: 9\r\nConnection: close\r\n\r\n123456789" if number % 2 else get).encode()
        for _ in range(draw.randint(1, 4)):
            start = draw.randrange(len(content))
            new = draw.choice((b"", b"\r\n", draw.randbytes(3), draw.choice(TEXTS)[:9].encode("utf-8", "replace")))
            content = content[:start] + new + content[start + draw.randrange(4) :]
        bad = self._exchanged(content, whole=False)[0]
        return bad or self.asked("HEAD", "")

    def damaged(self, file: str, damage: Damage) -> Sequence[str]:
        """Damage a document of the run folder, and ask for its pages."""
        self._started  # noqa: B018 - before the damage
        damage(self._fresh() / file)
        found = {bad for path in ("", "runs/RUN/", "compare?before=RUN&after=RUN") for bad in self.asked("GET", path)}
        self._fresh()
        return tuple(found)

    def _exchanged(self, content: bytes, whole: bool = True) -> tuple[Sequence[str], bytes]:
        """Send bytes and read until the server closes; for the rest of a request that is not whole it may wait."""
        process, address = self._started
        said, where, answer = self._errors.stat().st_size, urlsplit(address), b""
        try:
            with socket.create_connection((str(where.hostname), where.port or 0), SOON_S if whole else 0.3) as opened:
                opened.sendall(content)
                while part := opened.recv(1 << 20):
                    answer += part
        except TimeoutError:
            if whole:
                return (HANG,), answer
        except OSError:  # it may close a connection at once
            pass
        if process.poll() is not None:
            del self.__dict__["_started"]
            return (DIED,), answer
        new = self._errors.read_bytes()[said:]
        bad = {
            INTERNAL: answer[9:10] == b"5",
            "traceback": b"Traceback" in new,
            WRONG: MARK in answer or (answer[9:12] == b"200" and b"content-security-policy" not in answer.lower()),
        }
        return [kind for kind, is_bad in bad.items() if is_bad], answer
