"""A local web server that a command runs until Ctrl-C, for its own pages alone.

The integrations ``serve`` and ``tryout`` run their pages on it. It answers requests that have its
token and come from its pages (``docs/security.md``): a change here changes what a foreign page can
reach. It needs Starlette and uvicorn, of the extra ``serve``.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import uvicorn
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from advisor.core import UsageError, show_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = "127.0.0.1"
READS = ("GET", "HEAD")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:;"
    " connect-src 'self'; frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri"
    " 'none'"
)

CLOSING_S = 2
"""Seconds that open requests have to end."""

# Seconds between two looks at a connection; a request of a browser is there at once.
WAITS_S = 30.0
UPLOAD_S = 60.0  # Seconds in which the body of a request must arrive

HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True)
class LocalServer:
    """The address of one server, the requests that it answers, and how it runs."""

    port: int  #: port of the server
    #: the secret that each address begins with. It is in each link instead of in a cookie, because
    #: cookies are shared by all ports of this machine.
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    command: str = "serve"  #: the command that prints the address
    host: str = LOOPBACK  #: the address of this machine that the server listens at
    scheme: str = "http"  #: ``https`` with a certificate
    #: number of requests after which all others are refused; None for no limit
    most_requests: int | None = None

    @property
    def root(self) -> str:
        """The path that all pages are below."""
        return f"/{self.token}"

    @property
    def address(self) -> str:
        """The address of the first page."""
        return f"{self.scheme}://{self.host}:{self.port}{self.root}/"

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> str:
        """Return why a request is refused; empty if it is not.

        Another ``Host`` is a foreign name that was led to this machine;
        another ``Origin`` is a foreign page.
        """
        host = headers.get("host", "")
        origin = headers.get("origin")
        names = (self.host, "localhost") if self.host == LOOPBACK else (self.host,)
        if host not in [f"{name}:{self.port}" for name in names]:
            return "This server answers requests to its own address only."
        # Browsers leave the origin out of requests that only read.
        reads_only = origin is None and method in READS
        if origin != f"{self.scheme}://{host}" and not reads_only:
            return "This server takes changes from its own pages only."
        expected, actual = self.keys_of(path.removeprefix("/").split("/"))
        # As bytes, because it refuses texts beyond ASCII.
        # Its time does not tell how much of the token is right.
        if not hmac.compare_digest(expected.encode(), actual.encode()):
            return (
                "The address lacks the token, or it is of an earlier server. "
                f"'advisor {self.command}' prints the address."
            )
        return ""

    def keys_of(self, segments: list[str]) -> tuple[str, str]:
        """Return the secret that a path must have, and what it has in its place."""
        return self.token, segments[0]

    def guard(self, app: ASGIApp) -> Guard:
        """Return an application that answers only the requests that this server takes."""
        return Guard(app, self)

    def make_server(self, app: ASGIApp, certificate: Path | None = None) -> uvicorn.Server:
        """Return what runs an application;
        ``certificate`` is a file in PEM with the certificate and its key.
        """
        config = uvicorn.Config(
            app,
            http=ImpatientConnection,
            log_level="warning",
            access_log=False,
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=CLOSING_S,
            ssl_certfile=certificate,
        )
        return uvicorn.Server(config)

    def run(
        self,
        app: ASGIApp,
        listening: socket.socket,
        certificate: Path | None = None,
        limit_s: float | None = None,
    ) -> None:
        """Answer requests until the process is interrupted, or for ``limit_s`` seconds."""
        server = self.make_server(app, certificate)
        timer = threading.Timer(limit_s or 0.0, lambda: setattr(server, "should_exit", True))
        timer.daemon = True
        if limit_s is not None:
            timer.start()
        with contextlib.suppress(KeyboardInterrupt):  # this is how it ends
            server.run(sockets=[listening])
        timer.cancel()

    @staticmethod
    def open_socket(host: str, port: int) -> socket.socket:
        """Return a socket that listens at a port, or at a free one for 0. UsageError:
        the port cannot be used.
        """
        # With its protocol named, asyncio sends each part of an answer at once;
        # else the second one waits for 40 ms.
        opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        # Without this, the system refuses the port of a server
        # that has just ended for about a minute.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((host, port))
            opened.listen()
        except OSError as error:
            opened.close()
            raise UsageError(
                f"--port: {port} cannot be used ({error.strerror})",
                "choose another, or leave --port out for a free one",
            ) from None
        return opened

    @staticmethod
    async def read_body(request: Request, most: int) -> bytes:
        """Return the body of a request. UsageError:
        it has more than ``most`` bytes, or is not complete in time.
        """
        too_large = UsageError(f"the file is larger than {show_bytes(most)}", "give a smaller one")
        # What the header states saves the upload;
        # it may be wrong or missing, so the parts are counted as well.
        if int(request.headers.get("content-length") or 0) > most:
            raise too_large
        parts = []
        size = 0
        try:
            async with asyncio.timeout(UPLOAD_S):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise too_large
                    parts.append(part)
        except (TimeoutError, ClientDisconnect):
            raise UsageError(
                f"the upload was broken off, or took over {UPLOAD_S:.0f} s", "send it again"
            ) from None
        return b"".join(parts)


class ImpatientConnection(H11Protocol):
    """A connection that is closed if it waits for a request, or for the rest of one,
    from one look to the next.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look at the connection."""
        super().connection_made(transport)
        self.loop.call_later(WAITS_S, self._close_if_waiting, None)

    def _close_if_waiting(self, last: object) -> None:
        """Close the connection if it waits for the same request as at the last look."""
        waits = self.cycle is None or self.cycle.response_complete
        if waits and self.cycle is last:
            self.transport.close()
        # During an answer the mark is no request, so the wait for the next one begins anew.
        elif not self.transport.is_closing():
            self.loop.call_later(WAITS_S, self._close_if_waiting, self.cycle if waits else self)


class Guard:
    """Refuses requests before they reach the pages, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, server: LocalServer) -> None:
        self._app = app
        self._server = server
        self._answered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        # This event tells that the server starts or ends. It has no address that could be refused.
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        # Headers are bytes. This encoding reads any of them,
        # so a strange header cannot end the request with an error.
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        status = 403
        refused = self._server.refusal(scope.get("method", ""), scope["path"], headers)
        most = self._server.most_requests
        if not refused and most is not None:
            # Requests without the token do not count: nobody else can use up those of the person.
            self._answered += 1
            if self._answered > most:
                status = 429
                refused = f"This server has answered {most} requests. Start it again."
        app: ASGIApp = PlainTextResponse(f"{refused}\n", status) if refused else self._app

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Reports and workers state a policy of their own,
                # and a browser applies every policy that it gets.
                stated = {name for name, _ in message["headers"]}
                more = []
                for name, value in HEADERS.items():
                    if name.encode() not in stated:
                        more.append((name.encode(), value.encode()))
                message["headers"] = [*message["headers"], *more]
            await send(message)

        await app(scope, receive, send_with_headers)
