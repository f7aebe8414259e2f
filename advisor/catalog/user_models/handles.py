"""Bring a user's model to this machine: a handle of TensorFlow Hub, or a name of ``timm`` or ``torchvision``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from advisor.catalog.user_models.model_packages import exported, is_source
from advisor.catalog.weights.digest import Unavailable
from advisor.catalog.weights.hub import resolved
from advisor.catalog.weights.network.transport import redacted
from advisor.core.errors import UsageError
from advisor.store.files import sha256_file
from advisor.tflite.metadata import Metadata

HASH = "#sha256="
_PARTS = 3
"""Parts of a handle's path that name the card: publisher and collection say little."""


@dataclass(frozen=True)
class LocalModel:
    """A model on this machine.

    Attributes:
        path: its file or folder.
        origin: where it came from, for the card's note; empty for a path.
        metadata: labels, normalisation and licence that its package states; None without a package.
        top1: published ImageNet accuracy in percent that its package states.
    """

    path: Path
    origin: str = ""
    metadata: Metadata | None = None
    top1: float | None = None


@contextmanager
def local_source(file: str | Path, size: int | None = None) -> Iterator[LocalModel]:
    """Yield a model for the block: a path as it is, or what a handle or a package's name stands for.

    A handle is an http(s) address; its origin has the hash of its files. ``HANDLE#sha256=HEX`` is refused if they have
    another hash (:func:`folder_sha256`). A package's name is ``timm:NAME`` or ``torchvision:NAME``.

    Args:
        file: the path, handle or name.
        size: side of the input in pixels of a package's model; by default the package's own.

    Raises:
        UsageError: the handle or name cannot be resolved, or the files have another hash.
    """
    if is_source(str(file)):
        with exported(str(file), size) as one:
            yield LocalModel(one.file, one.origin, one.metadata, one.top1)
        return
    if not str(file).startswith(("http://", "https://")):
        yield LocalModel(Path(file))
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
            yield LocalModel(found.rename(found.with_name(_name(handle))), f"{shown}{HASH}{sha256}")
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
