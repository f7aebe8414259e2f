"""Take a handle of TensorFlow Hub as a user's model: resolve it to a SavedModel and check its files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from advisor.catalog.weights.digest import Unavailable
from advisor.catalog.weights.hub import resolved
from advisor.catalog.weights.network.transport import redacted
from advisor.core.errors import UsageError
from advisor.store.files import sha256_file

HASH = "#sha256="
_PARTS = 3
"""Parts of a handle's path that name the card: publisher and collection say little."""


@contextmanager
def on_this_machine(file: str | Path) -> Iterator[tuple[Path, str]]:
    """Yield the path of a model for the block, and its handle with the hash of its files; no handle for a path.

    A handle is an http(s) address. ``HANDLE#sha256=HEX`` is refused if its files have another hash
    (:func:`folder_sha256`).

    Raises:
        UsageError: the handle cannot be resolved, or its files have another hash.
    """
    if not str(file).startswith(("http://", "https://")):
        yield Path(file), ""
        return
    handle, _, wanted = str(file).partition(HASH)
    shown = redacted(handle)
    try:
        with resolved(handle) as found:
            sha256 = folder_sha256(found)
            if wanted and wanted.lower() != sha256:
                raise UsageError(
                    f"{shown}: its files have sha256 {sha256}, expected {wanted}", "check the handle and its version"
                )
            yield found.rename(found.with_name(_name(handle))), f"{shown}{HASH}{sha256}"
    except Unavailable as error:
        raise UsageError(
            f"{error}", "download the SavedModel yourself, unpack it, and add its folder: advisor catalog add FOLDER"
        ) from error


def folder_sha256(folder: Path) -> str:
    """Return the hash of a folder's files: that of the lines ``<sha256>  <relative path>``, sorted by path."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    lines = (f"{sha256_file(folder / path)}  {path}\n" for path in paths)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _name(handle: str) -> str:
    parts = [part for part in urlsplit(handle).path.split("/") if part]
    return re.sub(r"[^A-Za-z0-9_+-]+", "_", "_".join(parts[-_PARTS:])).strip("_+-")[:100] or "model"
