"""Download files: resume after an interruption, retry with growing pauses, and stop at a limit of size or time."""

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import requests

from advisor.downloads.files import Unavailable, redacted
from advisor.downloads.transport import Client, Deadline, Interrupted, announced_bytes

MAX_DOWNLOAD_BYTES = 2 * 2**30
ATTEMPTS = 5
FIRST_PAUSE_S = 0.4
_CHUNK = 2**16
_TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}
_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")
# A strong ETag, or the time of the last change.
_VERSION = re.compile(r'"[\x21\x23-\x7e]{1,200}"|[A-Z][a-z]{2}, [0-9A-Za-z :]{1,40} GMT')

Advance = Callable[[int, int | None], None]


def version_file(target: Path) -> Path:
    """Return the file that says which version on which server the partial file ``target`` is of."""
    return target.with_name(f"{target.name}.version")


@dataclass(frozen=True, slots=True)
class Download:
    """The download of one URL into one file of at most ``most_bytes``; calls ``advance(done, total)``."""

    client: Client
    url: str
    target: Path
    advance: Advance
    most_bytes: int = MAX_DOWNLOAD_BYTES

    def run(self) -> None:
        """Fetch the whole file; continue an earlier, interrupted download of the same version in ``target``.

        Raises:
            Unavailable: refused by the server, too large, too slow, or broken ``ATTEMPTS`` times in a row without
                progress.
        """
        failures = 0
        with self.client.deadline() as deadline:
            while True:
                before = self._have()
                try:
                    return self._attempt(deadline)
                except Interrupted as broken:
                    failures = 1 if self._have() > before else failures + 1
                    if failures >= ATTEMPTS:
                        raise Unavailable(f"{broken}, {failures} times") from broken
                    time.sleep(min(FIRST_PAUSE_S * 2 ** (failures - 1), deadline.left_s))

    def _have(self) -> int:
        """Return how many bytes can be continued."""
        return self.target.stat().st_size if self.target.exists() and self._version() else 0

    def _attempt(self, deadline: Deadline) -> None:
        have = self._have()
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers |= {"Range": f"bytes={have}-", "If-Range": self._version()}
        with self.client.get(self.url, headers, deadline) as response:
            if response.status_code in _TRY_AGAIN:
                raise Interrupted(self._said(f"the server answers {response.status_code}"))
            if response.status_code == 416 and response.headers.get("Content-Range") == f"bytes */{have}":
                return  # nothing is left to send: what is here is all there is, and its hash will tell
            if have and not self._continues(response, have):
                # From the beginning in the next attempt.
                self._forget()
                raise Interrupted(self._said("the server sends another part than was asked for"))
            self._receive(response, have if response.status_code == 206 else 0, deadline)

    def _continues(self, response: requests.Response, have: int) -> bool:
        """Return whether the answer is no part, or the rest of the version that is here."""
        if response.status_code != 206:
            return response.status_code != 416
        found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if found is None or _version_of(response.headers) not in ("", self._version()):
            return False
        first, last, total = (int(place) for place in found.groups())
        return first == have and last == total - 1 and announced_bytes(response) in (None, total - have)

    def _receive(self, response: requests.Response, start: int, deadline: Deadline) -> None:
        if response.status_code == 206 and not start:
            raise Unavailable(self._said("the server sends a part, the whole was asked for"))
        if response.status_code not in (200, 206):
            raise Unavailable(self._said(f"the server answers {response.status_code}"))
        length = announced_bytes(response)
        total = None if length is None else start + length
        if total is not None and total > self.most_bytes:
            raise Unavailable(
                self._said(f"{total} bytes are announced, more than the {self.most_bytes} of such a file")
            )
        if not start:
            self._forget()
        with self.target.open("ab" if start else "wb") as out:
            if not start:
                self._remember(_version_of(response.headers))
            done = start
            # Undecoded: a server that labels an archive's own compression as the line's would break its hash.
            for chunk in response.raw.stream(_CHUNK, decode_content=False):
                done += len(chunk)
                if done > self.most_bytes:
                    self._forget()
                    raise Unavailable(self._said(f"more than the {self.most_bytes} bytes of such a file"))
                out.write(chunk)
                self.advance(done, total)
                deadline.reached(done)
        if total is not None and done < total:
            raise Interrupted(self._said(f"cut off after {done} of {total} bytes"))

    def _said(self, text: str) -> str:
        return f"{redacted(self.url)}: {text}"

    def _version(self) -> str:
        """Return the version that the partial file is of, empty if it is not known or of another address."""
        try:
            address, _, version = version_file(self.target).read_text(encoding="ascii").partition("\n")
        except (OSError, ValueError):
            return ""
        return version if address == self._address() and _VERSION.fullmatch(version) else ""

    def _remember(self, version: str) -> None:
        if version:
            version_file(self.target).write_text(f"{self._address()}\n{version}", encoding="ascii")

    def _forget(self) -> None:
        version_file(self.target).unlink(missing_ok=True)

    def _address(self) -> str:
        return hashlib.sha256(self.url.encode()).hexdigest()  # an address may hold a password


def _version_of(headers: Mapping[str, str]) -> str:
    """Return what identifies the version of a file: its strong ETag, else the time of its last change, else nothing."""
    found = (headers.get(name, "") for name in ("ETag", "Last-Modified"))
    return next((version for version in found if _VERSION.fullmatch(version)), "")
