"""Work with single files, whatever they hold, so that a kill or a second process damages none.

In this order: find shipped data; write and copy files; walk folders; hash files and the results of
the cache; report a full disk; make the folder of ``--to``. The names of hash files are those in
caches on the disks of users.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

from advisor.core import StageError, UsageError, show_bytes
from advisor.store._yamlfile import read_bytes

_log = logging.getLogger(__name__)

_CODES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_MESSAGES = re.compile(
    r"no space left on device|disk quota exceeded|file too large|\d+ requested and \d+ written",
    re.IGNORECASE,
)
"""Messages of the system, and of numpy for an array that it could not write completely."""

# Names of files that are found by the hash of what they hold.
_HASHED = re.compile(r"[0-9a-f]{32}")
# Name of a temporary file, with the process that writes it.
_UNFINISHED = re.compile(r"\..+-(\d{1,9})-[0-9a-z_]+")

MOST_LEVELS = 100  # Folders in one another; each costs a level of recursion

_PACKAGE = Path(__file__).resolve().parents[1]


def shipped_folder(name: str) -> Path:
    """Return a folder of shipped data: in an installed package, or beside it in a checkout.

    What is made from the code lies below ``build`` in a checkout, and may be missing there.
    """
    installed = _PACKAGE / "_data" / name
    if installed.is_dir():
        return installed
    beside = _PACKAGE.parent / name
    if beside.is_dir():
        return beside
    return _PACKAGE.parent / "build" / name


def write_atomically(path: Path, content: str | bytes, most: int = 0) -> None:
    """Write a file so that a reader sees either the old or the new content; text is UTF-8.

    If it cannot be written (OSError), it has the old content, and no temporary file is left. Of
    the files beside it that have a hash for a name, as it has, at most ``most`` stay, the newest
    ones; 0 for all.
    """
    unfinished = path.with_name(f".{path.name}-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        with unfinished.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    if most:
        _remove_oldest(path.parent, path.suffix, most)


def _remove_oldest(folder: Path, suffix: str, most: int) -> None:
    """Remove the oldest files of a folder that have a hash for a name, but for ``most`` of them.

    Other files stay, and so does everything in a folder that is a link:
    its owner may keep it elsewhere.
    """
    if folder.is_symlink():
        return
    files = [file for file in folder.glob(f"*{suffix}") if _HASHED.fullmatch(file.stem)]
    newest = sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)
    for file in newest[most:]:
        file.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Remove temporary files of :func:`write_atomically` that ended processes have left."""
    for file in folder.iterdir():
        left = _UNFINISHED.fullmatch(file.name)
        if left and not psutil.pid_exists(int(left[1])):
            file.unlink(missing_ok=True)


def copy_atomically(source: Path, target: Path) -> None:
    """Copy a file, as a hard link if possible; a reader sees the old content, none or all."""
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


def walk_folder(
    root: Path, onerror: Callable[[OSError], None] | None = None, followlinks: bool = False
) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield each folder with its folders and files as ``os.walk``, the outer ones first.

    Raises UsageError if more than :data:`MOST_LEVELS` folders lie in one another: Python could not
    follow thousands.
    """
    above = len(root.parts)
    for place, folders, files in os.walk(root, onerror=onerror, followlinks=followlinks):
        folder = Path(place)
        if len(folder.parts) - above > MOST_LEVELS:
            raise UsageError(
                f"'{root}' has more than {MOST_LEVELS} folders in one another",
                "remove them, or move their files up",
            )
        yield folder, folders, files


def files_below(root: Path) -> list[Path]:
    """Return the files anywhere below a folder, sorted; folders behind links are left out."""
    paths: list[Path] = []
    for place, _, names in walk_folder(root):
        paths += [place / name for name in names]
    return sorted(filter(Path.is_file, paths))


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _find_hashes_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.sha256")


def write_hashes(folder: Path, place: Path) -> None:
    """Write the hash of each file of a result beside ``place``, where it is or will be.

    Python writes bytecode later, and links are no files of the result.
    """
    hashes = {}
    for file in folder.rglob("*"):
        if file.is_symlink() or file.parent.name == "__pycache__":
            continue
        if file.is_file():
            hashes[str(file.relative_to(folder))] = sha256_file(file)
    if _find_hashes_file(place).is_dir() and not _find_hashes_file(place).is_symlink():
        shutil.rmtree(_find_hashes_file(place))
    write_atomically(_find_hashes_file(place), json.dumps(hashes, indent=0, sort_keys=True))


def find_changed_file(folder: Path) -> Path | None:
    """Return a file of a cached result that is not as it was written; None for none.

    The result of an older version has no hashes, and counts as unchanged.
    """
    hashes = _find_hashes_file(folder)
    if not hashes.exists():
        return None
    try:
        for name, sha256 in json.loads(read_bytes(hashes)).items():
            file = folder / str(name)
            if not file.is_file() or sha256_file(file) != sha256:
                return file
    except (UsageError, OSError, ValueError, AttributeError, TypeError, RecursionError):
        return hashes
    return None


def is_unchanged(folder: Path) -> bool:
    """Return whether a cached result is there as it was written; log a changed file.

    The result of an older version gets its hashes here: making all results again would cost hours.
    """
    if not folder.is_dir():
        return False
    changed = find_changed_file(folder)
    if changed is not None:
        _log.warning("%s has changed since it was cached: the result is made again", changed)
        return False
    if not _find_hashes_file(folder).exists():
        # A full disk, or a cache that is read only.
        with contextlib.suppress(OSError):
            write_hashes(folder, folder)
    with contextlib.suppress(OSError):
        os.utime(folder)  # the least recently used result goes first
    return True


def read_cached_sha256(file: Path) -> str:
    """Return the SHA-256 of a file of a result, as it was written to the cache, or computed."""
    try:
        return str(json.loads(read_bytes(_find_hashes_file(file.parent)))[file.name])
    except (UsageError, ValueError, LookupError, TypeError, RecursionError):
        return sha256_file(file)


def sha256_json(value: object) -> str:
    """Return the SHA-256 of a JSON value; the order of keys does not matter."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def is_full_disk(error: BaseException) -> bool:
    """Return True if an error says that the disk is full, or that a file must not grow."""
    return (isinstance(error, OSError) and error.errno in _CODES) or bool(
        _MESSAGES.search(str(error))
    )


def full_disk_error(path: Path) -> StageError:
    """Return the error to raise if the disk was full while writing to ``path``."""
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())
    free = show_bytes(shutil.disk_usage(existing).free)
    return StageError(
        f"the disk is full: cannot write '{path}' ({free} free)",
        "free some space, or set ADVISOR_CACHE_DIR to another disk; then continue with search"
        " --resume",
    )


def ensure_output_dir(folder: Path, names: Sequence[str], force: bool) -> None:
    """Make the folder that ``--to`` names for files with these names.

    UsageError if it cannot be made, or it contains such files and ``force`` is not set.
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
            f"--to: the folder '{folder}' cannot be made ({error.strerror or error})",
            "choose another folder",
        ) from None
