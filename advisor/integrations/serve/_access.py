"""Accept requests that have the token of this server and come from its pages."""

import asyncio
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

HOST = "127.0.0.1"
REPORT = "report"
READS = ("GET", "HEAD")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; form-action 'none'; frame-ancestors 'self'; base-uri 'none'"
)
"""A report comes from a run folder, maybe of somebody else: its scripts reach nothing outside their own page."""

WAITS_S = 30.0  # Seconds between two looks at a connection; a request of a browser is there at once

HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True)
class Access:
    """The rules of one server."""

    port: int  #: port of the server
    #: the secret that each address begins with. It is in each link instead of in a cookie, because cookies are shared
    #: by all ports of this machine.
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def root(self) -> str:
        """The path that all pages are below."""
        return f"/{self.token}"

    def report(self, run: str) -> str:
        """Return the path of a report before its name. It has a key of its own, because scripts of a page read it."""
        return f"/{REPORT}/{self._report_key(run)}"

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> str:
        """Return why a request is refused; empty if it is not.

        Another ``Host`` is a foreign name that was led to this machine; another ``Origin`` is a foreign page.
        """
        host = headers.get("host", "")
        origin = headers.get("origin")
        if host not in (f"{HOST}:{self.port}", f"localhost:{self.port}"):
            return "This server answers requests to its own address only."
        if origin != f"http://{host}" and not (origin is None and method in READS):
            return "This server takes changes from its own pages only."
        first, *rest = path.removeprefix("/").split("/")
        expected = self.token
        given = first
        if first == REPORT and len(rest) > 1:
            expected = self._report_key(rest[1])
            given = rest[0]
        if not hmac.compare_digest(expected.encode(), given.encode()):
            return "The address lacks the token, or it is of an earlier server. 'advisor serve' prints the address."
        return ""

    def _report_key(self, run: str) -> str:
        return hmac.new(self.token.encode(), run.encode(), "sha256").hexdigest()


class ImpatientConnection(H11Protocol):
    """A connection that is closed if it waits for a request, or for the rest of one, from one look to the next."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look at the connection."""
        super().connection_made(transport)
        self.loop.call_later(WAITS_S, self._look, None)

    def _look(self, last: object) -> None:
        """Close the connection if it waits for the same request as at the last look."""
        waits = self.cycle is None or self.cycle.response_complete
        if waits and self.cycle is last:
            self.transport.close()
        elif not self.transport.is_closing():
            self.loop.call_later(WAITS_S, self._look, self.cycle if waits else self)


class Guard:
    """Refuses requests before they reach the pages, and adds the headers that every answer needs."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        given = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._access.refusal(scope.get("method", ""), scope["path"], given)
        app: ASGIApp = PlainTextResponse(f"{refused}\n", 403) if refused else self._app

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                own_headers = {name for name, _ in message["headers"]}
                more = [
                    (name.encode(), value.encode())
                    for name, value in HEADERS.items()
                    if name.encode() not in own_headers
                ]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        await app(scope, receive, sending)
