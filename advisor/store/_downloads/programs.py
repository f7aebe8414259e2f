"""Fetch a program that its makers publish without a hash, and keep the first copy.

``devices/`` fetches TensorFlow Lite's benchmark for phones so. All later measurements use the
copy, until the user removes it, so that figures which are compared come from one program.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit

from advisor.core import UsageError, show_bytes, without_password
from advisor.store._downloads.delivery import Download, client_for, refuse_offline
from advisor.store._downloads.files import FetchOptions, Unavailable, lock_file
from advisor.store._files import sha256_file, write_atomically
from advisor.store._jsonfile import read_json

MOST_BYTES = 200_000_000
"""A program of more bytes is refused: TensorFlow Lite's tools have up to some 20 MB."""

_FOLDER = "programs"
_RECORD = "source.json"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Program:
    """A program that was fetched, and where it came from."""

    path: Path  #: the file on this machine
    source: str  #: its address, or the mirror
    sha256: str  #: its hash, recorded when it first came
    size_bytes: int  #: its size
    fetched: str  #: day on which it came, ``YYYY-MM-DD``; empty for a file of a mirror folder

    @classmethod
    def fetch(cls, url: str, options: FetchOptions) -> Program:
        """Return the program at ``url``, from the user's mirror, the cache, or the address.

        Its makers replace the program at this address and publish no hash, so nothing but the
        server's certificate tells that it is theirs. The first copy is therefore kept with its
        hash, and used until the user removes it: figures that are compared come from one program.

        Raises:
            UsageError: it can be had nowhere; the message has a line for each place that was
            asked.
        """
        name = url.rsplit("/", 1)[-1]
        if options.mirror_path is not None:
            folder = options.mirror_path
            path = folder if folder.is_file() else folder / name
            if path.name == name and path.is_file():
                return cls(path, f"mirror {folder}", sha256_file(path), path.stat().st_size, "")
        folder = options.cache_root / _FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with lock_file(folder / "lock", options.ends_at):
                return _read_copy(folder) or _fetch_first(name, url, options, folder)
        except Unavailable as error:
            raise UsageError(
                f"{name} is not here and cannot be fetched: {error}",
                f"download {without_password(url)} on a connected machine, and name the file or"
                " its folder: --benchmark-model FILE, --mirror DIR",
            ) from error


def _read_copy(folder: Path) -> Program | None:
    """Return the copy in the cache; None if there is none, or not the file that was recorded."""
    try:
        record = read_json(folder / _RECORD)
    except UsageError:
        return None
    path = folder / folder.name
    if not isinstance(record, dict) or not path.is_file():
        return None
    sha256 = sha256_file(path)
    if sha256 != record.get("sha256"):
        return None
    return Program(
        path, str(record.get("source")), sha256, path.stat().st_size, str(record.get("fetched"))
    )


def _fetch_first(name: str, url: str, options: FetchOptions, folder: Path) -> Program:
    refuse_offline(options)
    mirror = options.mirror_url
    places = [f"{mirror}/{quote(name)}"] if mirror else []
    reasons = []
    for place in (*places, url):
        try:
            return _fetch_from(place, options, folder)
        except Unavailable as error:
            reasons.append(str(error))
    raise Unavailable("; ".join(reasons))


def _fetch_from(url: str, options: FetchOptions, folder: Path) -> Program:
    shown = without_password(url)
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise Unavailable(
            f"{shown}: nothing proves over {parts.scheme} that the program is the right one; use"
            " https"
        )
    part = folder / "partial"
    with client_for(url, ends_at=options.ends_at) as client:
        Download(client, url, part, partial(options.report, folder.name), MOST_BYTES).run()
    size_bytes = part.stat().st_size
    if not size_bytes:
        raise Unavailable(f"{shown}: the file has {show_bytes(0)}")
    path = folder / folder.name
    part.replace(path)
    program = Program(path, shown, sha256_file(path), size_bytes, time.strftime("%Y-%m-%d"))
    record = asdict(program)
    del record["path"]
    # Last: a copy without its record is not used.
    write_atomically(folder / _RECORD, json.dumps(record, indent=2) + "\n")
    return program
