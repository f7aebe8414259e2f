"""Find shipped data, write files atomically, hash them, and report a full disk or a folder that cannot be used."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import psutil

from advisor.core.errors import StageError, UsageError
from advisor.core.units import show_bytes

_CODES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_MESSAGES = re.compile(
    r"no space left on device|disk quota exceeded|file too large|\d+ requested and \d+ written", re.IGNORECASE
)
"""Messages of the system, and of numpy for an array that it could not write completely."""

UNREADABLE_ZIP = (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError)
"""Errors of :mod:`zipfile` for a file that is damaged, encrypted or compressed by an unknown method."""

_UNFINISHED = re.compile(r"\..+-(\d{1,9})-[0-9a-z_]+")
"""Name of a temporary file, with the process that writes it."""

_PACKAGE = Path(__file__).resolve().parents[1]


def shipped_folder(name: str) -> Path:
    """Return a folder of shipped data: inside an installed package, next to the package in a checkout."""
    installed = _PACKAGE / "_data" / name
    if installed.is_dir():
        return installed
    beside = _PACKAGE.parent / name
    return beside if beside.is_dir() else _PACKAGE.parent / "docs" / name


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader sees either the old or the new content; text is UTF-8.

    Raises:
        OSError: the file cannot be written. It then has the old content, and no temporary file is left.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-{os.getpid()}-", dir=path.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        unfinished.chmod(0o644)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Remove the temporary files of :func:`write_atomically` in a folder that were left by processes that are gone."""
    for file in folder.iterdir():
        left = _UNFINISHED.fullmatch(file.name)
        if left and not psutil.pid_exists(int(left[1])):
            file.unlink(missing_ok=True)


def copy_atomically(source: Path, target: Path) -> None:
    """Copy a file, as a hard link if possible, so that a reader sees the old content, nothing, or all of it.

    Raises:
        OSError: the file cannot be written; no temporary file is left.
    """
    unfinished = target.with_name(f".{target.name}-{os.getpid()}-{threading.get_ident():x}")
    unfinished.unlink(missing_ok=True)  # of a killed process with the same id
    try:
        try:
            os.link(source, unfinished)
        except OSError:
            shutil.copyfile(source, unfinished)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_json(value: object) -> str:
    """Return the SHA-256 of a JSON value; the order of keys does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def is_full_disk(error: BaseException) -> bool:
    """Return True if an error says that the disk is full, or that a file must not become larger."""
    return (isinstance(error, OSError) and error.errno in _CODES) or bool(_MESSAGES.search(str(error)))


def full_disk(path: Path) -> StageError:
    """Return the error to raise if the disk was full while writing to ``path``."""
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())
    free = show_bytes(shutil.disk_usage(existing).free)
    return StageError(
        f"the disk is full: cannot write '{path}' ({free} free)",
        "free some space, or set ADVISOR_CACHE_DIR to another disk; then continue with search --resume",
    )


def ensure_output_dir(folder: Path, names: Sequence[str], force: bool) -> None:
    """Make the folder that ``--to`` names for files with these names.

    Raises:
        UsageError: it cannot be made, or it contains such files and ``force`` is not set.
    """
    present = [name for name in names if (folder / name).exists()]
    if present and not force:
        raise UsageError(
            f"--to: '{folder}' already contains {', '.join(present)}",
            "choose another folder, or add --force to replace",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--to: the folder '{folder}' cannot be made ({error.strerror or error})", "choose another folder"
        ) from None
