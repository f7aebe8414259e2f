"""Speak HTTP as the user's tools are configured: proxies, certificates, credentials, time-outs.

``delivery.py`` and ``origins.py`` ask with a :class:`Client`. Servers are untrusted: each
request has a :class:`Deadline`, bodies have limits, and credentials go to the host alone that they
are for.
"""

from __future__ import annotations

import contextlib
import math
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter

from advisor.core import show_bytes, show_seconds, without_password
from advisor.store._downloads.files import Unavailable

MAX_PAGE_BYTES = 64 * 2**20
MAX_REDIRECTS = 10
SERVER_PATIENCE_S = 60.0
"""The time for a page, and for every ``STEP_BYTES`` of a file."""

STEP_BYTES = 250_000
MAX_DOWNLOAD_S = 3600.0
"""The time for one file from one source, with all attempts."""

_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (requests.exceptions.ConnectTimeout, "no connection within the time-out"),
    (requests.exceptions.ProxyError, "the proxy does not answer"),
    (requests.exceptions.SSLError, "its certificate is not accepted"),
    (requests.exceptions.InvalidHeader, "a header is not valid"),
    (requests.exceptions.Timeout, "no answer within the time-out"),
    (requests.exceptions.ConnectionError, "it cannot be reached"),
    (requests.exceptions.ChunkedEncodingError, "the connection broke"),
    (urllib3.exceptions.HTTPError, "the connection broke"),
)
_BROKEN = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    urllib3.exceptions.HTTPError,
)


def describe_refusal(url: str, status: int) -> str:
    """Return what is wrong with an answer of this status, and how to give a password."""
    wants = ""
    if status == 401:
        wants = " (it wants a password: in its address or ~/.netrc, or HF_TOKEN for Hugging Face)"
    return f"{without_password(url)}: the server answers {status}{wants}"


def read_credentials(urls: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    """Return the ``(host:port, user, password)`` that addresses contain."""
    credentials = []
    for url in urls:
        with contextlib.suppress(ValueError):
            parts = urlsplit(url)
            if parts.username:
                host = parts.netloc.rpartition("@")[2]
                credentials.append((host, unquote(parts.username), unquote(parts.password or "")))
    return tuple(credentials)


class Deadline:
    """The time for one page or one file; when it has passed, its connections are shut down.

    A time-out of a socket is not enough: it starts again with each byte that a slow server sends.
    There are ``patience_s`` for every ``step_bytes``, and ``most_s`` for everything.
    """

    def __init__(self, patience_s: float, most_s: float, step_bytes: int) -> None:
        self._patience_s = patience_s
        self._most_s = most_s
        self._step_bytes = step_bytes
        self._next_bytes = 0
        self._last = time.monotonic() + most_s
        self.extend(0)
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._wait, name="advisor-deadline", daemon=True)

    def __enter__(self) -> Deadline:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for connection in self._connections:
            connection.close()

    @property
    def left_s(self) -> float:
        """Seconds that are left, 0 when the time has passed."""
        return max(0.0, self._end - time.monotonic())

    @property
    def reason(self) -> str:
        """Reason why a request was ended."""
        if self._end >= self._last:
            return f"not done after {show_seconds(self._most_s)}"
        return (
            f"too slow: less than {show_bytes(self._step_bytes)} in"
            f" {show_seconds(self._patience_s)}"
        )

    def extend(self, done_bytes: int) -> None:
        """Start the patience again if another step has arrived."""
        if done_bytes >= self._next_bytes:
            self._next_bytes = done_bytes + self._step_bytes
            self._end = min(time.monotonic() + self._patience_s, self._last)

    def watch(self, connection: socket.socket) -> None:
        """Shut ``connection`` down when the time has passed."""
        with self._lock:
            # A copy: TLS takes the descriptor away from the socket that it is given.
            self._connections.append(connection.dup())
            # The thread may have ended already,
            # and would not see a connection that is made so late.
            if self.left_s == 0:
                self._shut_down()

    def _wait(self) -> None:
        while left := self.left_s:
            if self._over.wait(left):
                return
        with self._lock:
            self._shut_down()

    def _shut_down(self) -> None:
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class WatchedAdapter(HTTPAdapter):
    """Calls ``watch`` with the socket of every new connection, before a byte is sent."""

    def __init__(self, watch: Callable[[socket.socket], None]) -> None:
        self._watch = watch
        super().__init__()

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
        """Return a pool that makes watched connections."""
        pool: Any = super().get_connection_with_tls_context(*args, **kwargs)
        # The pool keeps its class for later connections, which must not be wrapped a second time.
        if not hasattr(pool.ConnectionCls, "watched"):
            watch = self._watch
            kind = pool.ConnectionCls

            class Watched(kind):  # type: ignore[valid-type, misc]
                watched = True

                def _new_conn(self) -> socket.socket:
                    opened: socket.socket = super()._new_conn()
                    watch(opened)
                    return opened

            pool.ConnectionCls = Watched
        return pool


class Interrupted(Unavailable):
    """The connection broke; another attempt can succeed."""


@dataclass(frozen=True, slots=True)
class Transport:
    """The settings of connections.

    ``trusted_hosts`` (``host`` or ``host:port``) are not asked for a valid certificate.
    ``credentials`` are ``(host:port, user, password)``: sent to that host alone.
    """

    proxy: str = ""
    ca_file: str = ""
    client_cert: str = ""
    trusted_hosts: tuple[str, ...] = ()
    connect_timeout_s: float = 15.0
    read_timeout_s: float = 30.0
    credentials: tuple[tuple[str, str, str], ...] = field(default=(), repr=False)
    tokens: tuple[tuple[str, str], ...] = field(default=(), repr=False)


class _Session(requests.Session):
    """A session that leaves redirects to the client, as requests reads their bodies whole."""

    def resolve_redirects(self, *_: object, **__: object) -> Iterator[requests.Response]:
        return iter(())


class Client:
    """A session of one transport; of one thread at a time. Use as a context manager."""

    def __init__(self, transport: Transport, ends_at: float = math.inf) -> None:
        self._transport = transport
        self._ends_at = ends_at  # seconds of the monotonic clock
        self._deadline: Deadline | None = None
        self._session = _Session()
        self._session.headers["User-Agent"] = "advisor"
        self._session.cert = transport.client_cert or None
        for scheme in ("http", "https"):
            self._session.mount(f"{scheme}://", WatchedAdapter(self._watch))
            if transport.proxy:
                self._session.proxies[scheme] = transport.proxy

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def deadline(self) -> Deadline:
        """Return the time for one page or file; longer if pip is configured for a long time-out.

        It ends with the client's time in any case.
        """
        # Several files share the time of their client,
        # so the last one cannot use an hour of its own.
        most_s = min(MAX_DOWNLOAD_S, max(0.0, self._ends_at - time.monotonic()))
        return Deadline(
            max(SERVER_PATIENCE_S, 2 * self._transport.read_timeout_s), most_s, STEP_BYTES
        )

    @contextmanager
    def get(
        self,
        url: str,
        headers: Mapping[str, str],
        deadline: Deadline,
        follow: bool = True,
    ) -> Iterator[requests.Response]:
        """GET ``url`` as a stream for the block, which checks the status; ``follow`` redirects.

        Raises:
            Interrupted: no answer, or the connection broke, also while the block read from it.
            Unavailable: the time has passed, or the answer is not valid.
        """
        if deadline is not self._deadline:
            # A connection that is kept open is watched by the deadline that it began with.
            self._session.close()
            self._deadline = deadline
        try:
            with self._answer(url, headers, follow) as response:
                yield response
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            if isinstance(error, _BROKEN) and deadline.left_s:
                raise Interrupted(f"{without_password(url)}: {describe_failure(error)}") from error
            why = deadline.reason if isinstance(error, _BROKEN) else describe_failure(error)
            raise Unavailable(f"{without_password(url)}: {why}") from error
        # Without an announced length, a connection that was shut down looks like the end.
        if not deadline.left_s:
            raise Unavailable(f"{without_password(url)}: {deadline.reason}")

    def page(self, url: str, accept: str) -> tuple[bytes, requests.Response]:
        """GET a page in one of the types of ``accept``; return its body and the answer."""
        body = bytearray()
        with self.deadline() as deadline, self.get(url, {"Accept": accept}, deadline) as response:
            if response.status_code != 200:
                raise Unavailable(describe_refusal(url, response.status_code))
            chunks = response.iter_content(2**16)
            size = read_announced_bytes(response) or 0
            while size <= MAX_PAGE_BYTES and (chunk := next(chunks, b"")):
                body += chunk
                size = len(body)
            if size > MAX_PAGE_BYTES:
                raise Unavailable(
                    f"{without_password(url)}: an answer of more than {MAX_PAGE_BYTES} bytes"
                )
        return bytes(body), response

    def _watch(self, connection: socket.socket) -> None:
        if self._deadline is not None:
            self._deadline.watch(connection)

    def _answer(self, url: str, headers: Mapping[str, str], follow: bool) -> requests.Response:
        """Return the answer after redirects; each host gets its own credentials alone.

        The bodies of redirects are not read.
        """
        current_url = url
        for _ in range(MAX_REDIRECTS + 1):
            response = self._send_request(current_url, headers)
            if not (follow and response.is_redirect):
                return response
            response.close()
            try:
                target = self._session.get_redirect_target(response) or ""
            except UnicodeDecodeError:
                address = without_password(current_url)
                raise Unavailable(
                    f"{address}: redirects to an address that is not UTF-8"
                ) from None
            current_url = _resolve_redirect(current_url, target)
        raise Unavailable(f"{without_password(url)}: more than {MAX_REDIRECTS} redirects")

    def _send_request(self, url: str, headers: Mapping[str, str]) -> requests.Response:
        parts = urlsplit(url)
        known = self._transport
        host = parts.netloc.rpartition("@")[2]
        logins = *reversed(known.credentials), *read_credentials([url])
        auth = {place: (user, password) for place, user, password in logins}.get(host)
        parts = parts._replace(netloc=host) if auth else parts
        bare = urlunsplit(parts._replace(scheme=""))
        token = next((token for prefix, token in known.tokens if bare.startswith(prefix)), "")
        headers = {**headers, **({"Authorization": f"Bearer {token}"} if token else {})}
        verify: bool | str = known.ca_file or True
        if parts.hostname in known.trusted_hosts or parts.netloc in known.trusted_hosts:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            verify = False
        timeout = known.connect_timeout_s, known.read_timeout_s
        try:
            response = self._session.get(
                urlunsplit(parts),
                headers=headers,
                auth=auth,
                verify=verify,
                timeout=timeout,
                stream=True,
            )
        except requests.exceptions.InvalidHeader:
            raise
        except (ValueError, urllib3.exceptions.LocationValueError) as error:
            raise Unavailable(f"{without_password(url)}: not a valid address") from error
        raw: Any = response.raw
        update = raw._update_chunk_length

        # A chunk of a negative size breaks the connection; -1 would be read without a limit.
        def update_checked() -> None:
            update()
            if raw.chunk_left < 0:
                raise urllib3.exceptions.ProtocolError("a chunk of a negative size")

        raw._update_chunk_length = update_checked
        return response


def read_announced_bytes(response: requests.Response) -> int | None:
    """Return the length that the server announces, or None; ``Unavailable`` if it is none."""
    length = response.headers.get("Content-Length")
    if length is None or response.raw.chunked:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", length):
        raise Unavailable(
            f"{without_password(response.url)}: the server announces a length of '{length[:40]}'"
        )
    return int(length)


def _resolve_redirect(url: str, target: str) -> str:
    """Return the address to which ``url`` redirects; ``Unavailable`` if it may not.

    It must be a web address, and one with encryption if ``url`` has it.
    """
    source = f"{without_password(url)}: redirects"
    try:
        address = urljoin(url, target)
        parts = urlsplit(address)
    except ValueError:
        raise Unavailable(f"{source} to '{target[:80]}', which is not a valid address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Unavailable(
            f"{source} to '{without_password(address)[:80]}', which is not a web address"
        )
    if parts.scheme == "http" and urlsplit(url).scheme == "https":
        raise Unavailable(
            f"{source} from https to '{without_password(address)[:80]}', without encryption"
        )
    return address


def describe_failure(error: Exception) -> str:
    """Return why a request failed, in a few words without addresses of objects or credentials."""
    if "resol" in str(error).lower() and type(error) is requests.exceptions.ConnectionError:
        return "no network or no such server"
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    return type(error).__name__
