"""Object stores on this machine: moto's S3 with faults on demand, and an emulator of Google Cloud Storage."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

SECRET = "Hush4"
KEYS = {
    "AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true",
    "NO_PROXY": "127.0.0.1",
}  # fmt: skip

Answer = tuple[str, list[tuple[str, str]], bytes]  # status, headers, body


@dataclass
class S3:
    """A server of S3. ``fault`` may change the answer to a request, which has method, path and range."""

    url: str = ""
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    fault: Callable[[tuple[str, str, str], Answer], Answer] = lambda _request, answer: answer

    @cached_property
    def client(self) -> Any:
        """What stores objects."""
        import boto3

        return boto3.client("s3", endpoint_url=self.url)

    def put(self, place: str, data: bytes) -> None:
        """Store an object, and make its bucket."""
        bucket, _, key = place.partition("/")
        self.client.create_bucket(Bucket=bucket)
        self.client.put_object(Bucket=bucket, Key=key, Body=data)

    def upload(self, folder: Path, place: str) -> None:
        """Store all files of a folder."""
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.put(f"{place}/{file.relative_to(folder).as_posix()}", file.read_bytes())

    @property
    def fetched(self) -> list[str]:
        """The paths of objects that were asked for since the last look, and forget them."""
        found = [path for method, path, part in self.requests if method == "GET" and part]
        self.requests.clear()
        return found


@contextmanager
def s3_server() -> Iterator[S3]:
    """Serve an empty S3 until the block ends."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    store, inner = S3(), DomainDispatcherApplication(create_backend_app)

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        said: list[Any] = []
        body = b"".join(inner(environ, lambda status, headers, *_: said.append((status, headers))))
        request = (environ["REQUEST_METHOD"], environ["PATH_INFO"], environ.get("HTTP_RANGE", ""))
        store.requests.append(request)
        status, headers, body = store.fault(request, (*said[0], body))
        start_response(status, headers)
        return [body]

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    store.url = f"http://127.0.0.1:{server.port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield store
    finally:
        server.shutdown()
        from moto.backends import get_backend

        for account in get_backend("s3").values():
            for region in account.values():
                region.reset()


@pytest.fixture(scope="session")
def remembered_descriptions() -> Iterator[None]:
    """The process reads each file that describes the services once; clients would read all of them again."""
    loaders = pytest.importorskip("botocore.loaders", reason="s3fs is an extra")
    load = cache(loaders.JSONFileLoader().load_file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loaders.JSONFileLoader, "load_file", lambda _, path: load(path))
        yield


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch, remembered_descriptions: None) -> Iterator[S3]:
    """An S3 that this process and its children reach by the usual variables."""
    pytest.importorskip("s3fs", reason="s3fs is an extra")
    with s3_server() as store:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": store.url}.items():
            monkeypatch.setenv(name, value)
        yield store


@pytest.fixture
def gs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, bytes], None]]:
    """A Google Cloud Storage, and what stores an object in its bucket ``photos``."""
    core = pytest.importorskip("gcsfs.core", reason="gcsfs is an extra")
    from gcp_storage_emulator.server import create_server

    server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="photos")
    server.start()
    host, port = server._api._httpd.server_address[:2]
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{host}:{port}")
    yield core.GCSFileSystem(skip_instance_cache=True).pipe_file
    server.stop()


def cut(answer: Answer) -> Answer:
    """Return an answer that stops half-way through its body."""
    status, headers, body = answer
    kept = [(name, value) for name, value in headers if name.lower() != "content-length"]
    return status, [*kept, ("Content-Length", str(len(body)))], body[: len(body) // 2]


def denied(code: str = "AccessDenied") -> Answer:
    """Return the answer of S3 to a user who may not read."""
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>Access Denied</Message></Error>'.encode()
    return "403 FORBIDDEN", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))], body
