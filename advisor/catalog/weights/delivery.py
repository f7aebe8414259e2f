"""Download an address and check its files: the part that all network sources share."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from filelock import FileLock

from advisor.catalog.cards import MemberFile, WeightSource
from advisor.catalog.weights.archive import extract_member
from advisor.catalog.weights.digest import HashMismatch, Unavailable, check
from advisor.catalog.weights.network.download import MAX_DOWNLOAD_BYTES, Download, version_file
from advisor.catalog.weights.network.tool_config import package_index
from advisor.catalog.weights.network.transport import Client, Transport, contact, redacted
from advisor.catalog.weights.options import FetchOptions

CONNECT_TIMEOUT_S = 3.0


def fetch_file(client: Client, url: str, wanted: MemberFile, target: Path, options: FetchOptions) -> None:
    """Fetch ``url`` into ``target`` and check it; an interrupted download is continued by the next call.

    Raises:
        Unavailable: the download failed, or is another file than ``wanted``.
    """
    part = options.cache_root / "partial" / wanted.key
    part.parent.mkdir(parents=True, exist_ok=True)
    # Two cards may want two members of one archive at the same time.
    with FileLock(part.with_name(f"{wanted.key}.lock")):
        _fetch_alone(client, url, wanted, part, options)
        part.replace(target)
        version_file(part).unlink(missing_ok=True)


def _fetch_alone(client: Client, url: str, wanted: MemberFile, part: Path, options: FetchOptions) -> None:
    continued = part.exists()
    most_bytes = wanted.size_bytes or MAX_DOWNLOAD_BYTES
    Download(client, url, part, partial(options.report, wanted.name), most_bytes).run()
    try:
        check(part, wanted, redacted(url))
    except HashMismatch:
        # The file is kept for inspection; the next call starts again.
        part.replace(part.with_name(f"{wanted.key}.rejected"))
        if not continued:
            raise
        _fetch_alone(client, url, wanted, part, options)


def fetch_archive(client: Client, url: str, source: WeightSource, folder: Path, options: FetchOptions) -> None:
    """Fetch the source's archive from ``url`` and put its members into ``folder``.

    Without a hash of its own the archive is only unpacked, within bounds: then every member must have one.

    Raises:
        Unavailable: the download failed, is another archive, or lacks a member.
    """
    archive = folder / "archive"
    if source.package_file.checkable:
        fetch_file(client, url, source.package_file, archive, options)
    else:
        require_hashes(source)
        Download(client, url, archive, partial(options.report, source.file.name)).run()
    unpack(archive, source, folder)
    archive.unlink()


def unpack(archive: Path, source: WeightSource, folder: Path) -> None:
    """Put the source's members of ``archive`` into ``folder``, each under its base name."""
    for member in source.members:
        extract_member(archive, member.path, folder / member.name, member.size_bytes)


def require_hashes(source: WeightSource) -> None:
    """Raise an error for files without a hash, which cannot be checked.

    Raises:
        Unavailable: the card has no hash of one of them.
    """
    for member in source.members:
        if not member.checkable:
            raise Unavailable("its hash is not known, so it is taken from a user's mirror folder only")


def refuse_offline(options: FetchOptions) -> None:
    """Raise an error if the network is not allowed.

    Raises:
        Unavailable: the user asked for no network.
    """
    if options.offline:
        raise Unavailable("not asked: offline")


def home_transport(tokens: tuple[tuple[str, str], ...] = ()) -> Transport:
    """Return how to reach any server: a proxy and a company's certificates hold for all, credentials for one alone."""
    known = package_index().transport
    return Transport(
        known.proxy,
        known.ca_file,
        known.client_cert,
        known.trusted_hosts,
        connect_timeout_s=CONNECT_TIMEOUT_S,
        tokens=tokens,
    )


def client_for(url: str, tokens: tuple[tuple[str, str], ...] = ()) -> Client:
    """Return a client for the server of ``url``.

    Raises:
        Unavailable: the server did not answer, now or earlier in this process.
    """
    parts, transport = urlsplit(url), home_transport(tokens)
    closed = contact(f"{parts.scheme}://{parts.netloc}", transport)
    if closed:
        raise Unavailable(closed)
    return Client(transport)
