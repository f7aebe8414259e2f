"""Find an archive on a package index: HTTP(S) (HTML or JSON), a folder in its layout, or a folder of files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from advisor.catalog.cards import WeightSource
from advisor.catalog.weights.digest import HashMismatch, Unavailable
from advisor.catalog.weights.network.tool_config import PackageIndex
from advisor.catalog.weights.network.transport import Client, redacted

_MOST_REASONS = 2


@dataclass(frozen=True, slots=True)
class _Entry:
    filename: str
    url: str
    sha256: str


def find_archive(index: PackageIndex, client: Client, source: WeightSource, local_only: bool) -> Path | str:
    """Return the address of the source's archive on the first index that lists it, or the file where it is local.

    Raises:
        Unavailable: no index lists it; every index and its reason is named.
    """
    reasons: list[str] = []
    for page in _pages(index, source.package):
        if local_only and not _is_local(page):
            reasons.append(f"{redacted(page)}: not asked: offline")
            continue
        try:
            return _pick(page, _entries(page, client, source.package), source)
        except Unavailable as error:
            reasons.append(str(error))
    raise Unavailable(_joined(reasons) or "pip is configured without an index (no-index)")


def _joined(reasons: list[str]) -> str:
    more = len(reasons) - _MOST_REASONS
    return "; ".join([*reasons[:_MOST_REASONS], *([f"and {more} more places"] if more > 0 else [])])


def _pages(index: PackageIndex, package: str) -> Iterator[str]:
    name = re.sub(r"[-_.]+", "-", package).lower()  # PEP 503's normal form
    for root in index.indexes:
        yield f"{root.rstrip('/')}/{name}/"
    yield from index.links


def _pick(page: str, entries: list[_Entry], source: WeightSource) -> Path | str:
    wrong: _Entry | None = None
    for entry in entries:
        named = entry.filename == source.archive
        if entry.sha256 == source.archive_sha256 or (named and not entry.sha256):
            return _path(entry.url) if _is_local(entry.url) else entry.url
        wrong = entry if named else wrong
    if wrong is not None:
        raise HashMismatch(f"{wrong.filename} on {redacted(page)}", source.archive_sha256, wrong.sha256)
    raise Unavailable(f"{redacted(page)}: {source.archive or source.label} is not listed")


def _entries(page: str, client: Client, package: str) -> list[_Entry]:
    if not _is_local(page):
        return _remote_entries(page, client, package)
    path = _path(page)
    if (path / "index.html").is_file():
        path = path / "index.html"
    if path.is_file():
        return _parsed(path.read_bytes(), path.as_uri(), package, is_json=False)
    if path.is_dir():
        return [_Entry(file.name, str(file), "") for file in sorted(path.iterdir()) if file.is_file()]
    raise Unavailable(f"{page}: no such folder")


def _remote_entries(page: str, client: Client, package: str) -> list[_Entry]:
    from pypi_simple import ACCEPT_ANY

    body, response = client.page(page, ACCEPT_ANY)
    # The address after redirects: relative links start from it.
    return _parsed(body, response.url, package, "json" in response.headers.get("Content-Type", ""))


def _parsed(body: bytes, base: str, package: str, is_json: bool) -> list[_Entry]:
    from pypi_simple import ProjectPage, UnsupportedRepoVersionError

    try:
        if is_json:
            page = ProjectPage.from_json_data(json.loads(body), base)
        else:
            page = ProjectPage.from_html(package, body, base)
    except (ValueError, KeyError, RecursionError, UnsupportedRepoVersionError) as error:
        raise Unavailable(f"{redacted(base)}: not an index page ({type(error).__name__})") from error
    return [_Entry(file.filename, file.url, file.digests.get("sha256", "").lower()) for file in page.packages]


def _is_local(place: str) -> bool:
    return urlsplit(place).scheme not in ("http", "https")


def _path(place: str) -> Path:
    parts = urlsplit(place)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else Path(unquote(place)).expanduser()
