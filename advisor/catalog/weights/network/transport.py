"""Speak HTTP as the user's tools are configured: proxies, certificates, credentials and time-outs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import requests
from requests.auth import HTTPBasicAuth

from advisor.catalog.weights.digest import Unavailable

MAX_PAGE_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Transport:
    """The settings of connections.

    ``trusted_hosts`` (``host`` or ``host:port``) are not asked for a valid certificate. ``credentials`` are
    ``(host:port, user, password)``: sent to that host alone.
    """

    proxy: str = ""
    ca_file: str = ""
    client_cert: str = ""
    trusted_hosts: tuple[str, ...] = ()
    connect_timeout_s: float = 15.0
    read_timeout_s: float = 30.0
    credentials: tuple[tuple[str, str, str], ...] = field(default=(), repr=False)
    tokens: tuple[tuple[str, str], ...] = field(default=(), repr=False)


class Client:
    """A session of one transport. Use as a context manager."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._session = requests.Session()
        self._session.headers["User-Agent"] = "advisor"
        if transport.proxy:
            self._session.proxies = {"http": transport.proxy, "https": transport.proxy}
        if transport.client_cert:
            self._session.cert = transport.client_cert

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def get(self, url: str, headers: dict[str, str] | None = None) -> requests.Response:
        """GET ``url`` as a stream; the caller checks the status.

        Raises:
            requests.RequestException: no answer.
        """
        plain, auth = self._authenticated(url)
        return self._session.get(
            plain,
            headers=(headers or {}) | self._token(plain),
            auth=auth,
            verify=self._verify(plain),
            timeout=(self._transport.connect_timeout_s, self._transport.read_timeout_s),
            stream=True,
        )

    def page(self, url: str, accept: str) -> tuple[bytes, requests.Response]:
        """GET the page ``url`` in one of the types of ``accept``; return its body and the answer.

        Raises:
            Unavailable: no answer, an error, or more than ``MAX_PAGE_BYTES``.
        """
        body = bytearray()
        try:
            with self.get(url, {"Accept": accept}) as response:
                if response.status_code != 200:
                    raise Unavailable(f"{redacted(url)}: the server answers {response.status_code}")
                for chunk in response.iter_content(2**16):
                    body += chunk
                    if len(body) > MAX_PAGE_BYTES:
                        raise Unavailable(f"{redacted(url)}: an answer of more than {MAX_PAGE_BYTES} bytes")
        except requests.RequestException as error:
            raise Unavailable(f"{redacted(url)}: {reason(error)}") from error
        return bytes(body), response

    def _authenticated(self, url: str) -> tuple[str, Any]:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        for known, user, password in (*credentials_of([url]), *self._transport.credentials):
            if known == host:
                return urlunsplit(parts._replace(netloc=host)), HTTPBasicAuth(user, password)
        return url, None

    def _token(self, url: str) -> dict[str, str]:
        bare = url.partition(":")[2]
        for prefix, token in self._transport.tokens:
            if bare.startswith(prefix):
                return {"Authorization": f"Bearer {token}"}
        return {}

    def _verify(self, url: str) -> bool | str:
        parts = urlsplit(url)
        if parts.hostname in self._transport.trusted_hosts or parts.netloc in self._transport.trusted_hosts:
            import urllib3

            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            return False
        return self._transport.ca_file or True


@lru_cache(maxsize=256)
def contact(origin: str, transport: Transport) -> str:
    """Return why no server answers at ``origin`` (``scheme://host``); empty if one does.

    Any answer counts, an error page too. Each server is tried once in a process, so that one that is not there costs
    one short wait, not one for each file.
    """
    try:
        with Client(transport) as client:
            client.get(origin).close()
    except requests.RequestException as error:
        return reason(error)
    return ""


def reason(error: Exception) -> str:
    """Return why a request failed, in a few words without addresses of objects or credentials."""
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return "no connection within the time-out"
    if isinstance(error, requests.exceptions.ProxyError):
        return "the proxy does not answer"
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not accepted"
    if isinstance(error, requests.exceptions.Timeout):
        return "no answer within the time-out"
    if isinstance(error, requests.exceptions.ConnectionError):
        text = str(error)
        return "its name is not known" if "resol" in text.lower() else "it cannot be reached"
    return type(error).__name__


def redacted(url: str) -> str:
    """Return ``url`` without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def credentials_of(urls: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    """Return the ``(host:port, user, password)`` written into ``urls``."""
    all_parts = [urlsplit(url) for url in urls]
    return tuple(
        (parts.netloc.rpartition("@")[2], unquote(parts.username), unquote(parts.password or ""))
        for parts in all_parts
        if parts.username
    )
