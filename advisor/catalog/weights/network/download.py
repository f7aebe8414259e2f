"""Download files: resume after an interruption, retry with growing pauses, and stop at a size limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import requests
import urllib3

from advisor.catalog.weights.digest import Unavailable
from advisor.catalog.weights.network.transport import Client, reason, redacted

MAX_DOWNLOAD_BYTES = 2 * 2**30
ATTEMPTS = 5
FIRST_PAUSE_S = 0.4
_CHUNK = 2**18
_TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}

Advance = Callable[[int, int | None], None]


class _Interrupted(Exception):
    """The connection broke; the bytes so far are kept, and the download can continue."""


@dataclass(frozen=True, slots=True)
class Download:
    """The download of one URL into one file; calls ``advance(done, total)``."""

    client: Client
    url: str
    target: Path
    advance: Advance

    def run(self) -> None:
        """Fetch the whole file; continue an earlier, interrupted download in ``target``.

        Raises:
            Unavailable: refused by the server, too large, or broken ``ATTEMPTS`` times in a row without progress.
        """
        failures = 0
        while True:
            before = self._have()
            try:
                return self._attempt()
            except _Interrupted as broken:
                failures = 1 if self._have() > before else failures + 1
                if failures >= ATTEMPTS:
                    raise Unavailable(f"{redacted(self.url)}: {broken}, {failures} times") from broken
                time.sleep(FIRST_PAUSE_S * 2 ** (failures - 1))

    def _have(self) -> int:
        return self.target.stat().st_size if self.target.exists() else 0

    def _attempt(self) -> None:
        have = self._have()
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        try:
            with self.client.get(self.url, headers) as response:
                self._receive(response, have)
        except (requests.ConnectionError, requests.Timeout) as error:
            raise _Interrupted(reason(error)) from error
        except urllib3.exceptions.HTTPError as error:
            raise _Interrupted("the connection broke") from error
        except requests.RequestException as error:
            raise Unavailable(f"{redacted(self.url)}: {reason(error)}") from error

    def _receive(self, response: requests.Response, have: int) -> None:
        if response.status_code == 416 and have:
            return  # nothing is left to send: what is here is all there is, and its hash will tell
        if response.status_code in _TRY_AGAIN:
            raise _Interrupted(f"the server answers {response.status_code}")
        if response.status_code not in (200, 206):
            raise Unavailable(f"{redacted(self.url)}: the server answers {response.status_code}")
        start = have if response.status_code == 206 else 0
        if start and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise Unavailable(f"{redacted(self.url)}: the server sends another part than was asked for")
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdecimal() else None
        if total is not None and total > MAX_DOWNLOAD_BYTES:
            raise Unavailable(f"{redacted(self.url)}: {total} bytes are announced, too many for a file of weights")
        self._write(response, start, total)

    def _write(self, response: requests.Response, start: int, total: int | None) -> None:
        done = start
        with self.target.open("ab" if start else "wb") as out:
            # Undecoded: a server that labels an archive's own compression as the line's would break its hash.
            for chunk in response.raw.stream(_CHUNK, decode_content=False):
                done += len(chunk)
                if done > MAX_DOWNLOAD_BYTES:
                    raise Unavailable(f"{redacted(self.url)}: more than {MAX_DOWNLOAD_BYTES} bytes")
                out.write(chunk)
                self.advance(done, total)
        if total is not None and done < total:
            raise _Interrupted(f"cut off after {done} of {total} bytes")
