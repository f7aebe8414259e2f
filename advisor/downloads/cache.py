"""Look weights up on this machine: in the user's mirror folder, and in the cache of downloads.

The cache records the SHA-256 of files whose cards have another hash, and checks later downloads against it.
"""

import logging
import re
import shutil
import tempfile
from collections.abc import Callable
from glob import escape
from pathlib import Path

from filelock import FileLock

from advisor.downloads.files import HashMismatch, MemberFile, Unavailable, WeightsFile, WeightSource, check
from advisor.store.files import write_atomically

_log = logging.getLogger(__name__)


class Mirror:
    """A user's folder (files named by hash, by their own name, or a copied cache) or one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, source: WeightSource) -> WeightsFile | None:
        """Return the source's file, checked, with its companions beside it; None if the mirror does not have it.

        Raises:
            Unavailable: it has a file of that name with another hash, or lacks a companion.
        """
        path = self._locate(source.file)
        if path is None:
            return None
        found = check(path, source.file, str(path))
        for member in source.companions:
            beside = path.parent / member.name
            if not beside.is_file():
                raise Unavailable(f"{path.parent} lacks {member.name}, which belongs to {path.name}")
            check(beside, member, str(beside))
        return WeightsFile(path, found, f"mirror {self._path}", source.file.path, source.format, source.port)

    def archive(self, source: WeightSource) -> Path | None:
        """Return the archive that holds the source's file, where the mirror has it by its name."""
        path = self._path if self._path.is_file() else self._path / source.archive
        return path if source.archive and path.name == source.archive and path.is_file() else None

    def holds(self, source: WeightSource) -> bool:
        """Return whether the mirror has a file of the source's name; its hash is checked when it is used."""
        return self._locate(source.file) is not None

    def _locate(self, member: MemberFile) -> Path | None:
        if self._path.is_file():
            named = self._path.name in (member.name, member.sha256)
            return self._path if named else None
        inside = [self._path / member.name]
        sha256 = fully_known(self._path, member).sha256
        if sha256:
            hashed = self._path / sha256
            inside += [hashed, hashed / member.name, self._path / "weights" / sha256 / member.name]
        return next((path for path in inside if path.is_file()), None)


class Cache:
    """``<root>/weights/<sha256>/<name>``: written whole or not at all, by one process at a time."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def find(self, source: WeightSource) -> WeightsFile | None:
        """Return the source's file, checked again, or None. A damaged file is ignored with a warning."""
        folder = self._folder(source)
        if folder is None or not all((folder / member.name).is_file() for member in source.members):
            return None
        try:
            for member in source.members:
                check(folder / member.name, fully_known(self._root, member), str(folder / member.name))
        except HashMismatch as damaged:
            _log.warning("cached weights are damaged and not used: %s", damaged)
            return None
        return _weights(source, folder, "cache")

    def holds(self, source: WeightSource) -> bool:
        """Return whether the source's file was kept here; it is checked again when it is used."""
        folder = self._folder(source)
        return folder is not None and (folder / source.file.name).is_file()

    def find_or_fill(self, source: WeightSource, origin: str, fill: Callable[[Path], None]) -> WeightsFile:
        """Return the source's file; if it is not here, ``fill`` puts every member of the source into an empty folder.

        Of two processes that need it, the second waits and finds it filled. ``origin`` is the place that ``fill`` gets
        it from, in a few words.

        Raises:
            HashMismatch: a member is not the one on the card; nothing is kept.
        """
        locks = self._root / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        with FileLock(locks / f"{source.file.key or source.file.name}.lock"):
            present = self.find(source)
            if present is not None:
                return present
            prefix = f"fetch-{source.file.key or source.file.name}-"
            for left in self._root.glob(f"{escape(prefix)}*"):
                shutil.rmtree(left, ignore_errors=True)  # of a killed process: the lock is ours
            with tempfile.TemporaryDirectory(dir=self._root, prefix=prefix) as folder:
                fill(Path(folder))
                return self._keep(source, Path(folder), origin)

    def _keep(self, source: WeightSource, folder: Path, origin: str) -> WeightsFile:
        """Check the files in ``folder`` and move them into the cache."""
        whats = [f"{member.path} from {origin}" for member in source.members]
        hashes = [check(folder / member.name, member, what) for member, what in zip(source.members, whats, strict=True)]
        for member, sha256, what in zip(source.members, hashes, whats, strict=True):
            _remember(self._root, member, sha256, what)
        target = self._root / "weights" / hashes[0]
        target.mkdir(parents=True, exist_ok=True)
        for member in source.members:
            path = target / member.name
            if path.exists():
                path.replace(path.with_name(f"{path.name}.damaged"))
            (folder / member.name).replace(path)
        return _weights(source, target, origin)

    def _folder(self, source: WeightSource) -> Path | None:
        sha256 = fully_known(self._root, source.file).sha256
        return self._root / "weights" / sha256 if sha256 else None


def _weights(source: WeightSource, folder: Path, origin: str) -> WeightsFile:
    """Return the source's file in its ``folder``, which is named by its hash."""
    return WeightsFile(folder / source.file.name, folder.name, origin, source.file.path, source.format, source.port)


def fully_known(root: Path, member: MemberFile) -> MemberFile:
    """Return ``member`` with its SHA-256, if its card or the cache at ``root`` has it; else as it is.

    Its other hashes are left out then: they say no more.
    """
    if member.sha256 or not member.key:
        return member
    try:
        found = _record(root, member).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return member
    # A damaged record is as good as none: the file is checked by what its card has, and recorded again.
    return MemberFile(member.path, found) if re.fullmatch(r"[0-9a-f]{64}", found) else member


def _remember(root: Path, member: MemberFile, sha256: str, what: str) -> None:
    """Record that ``member`` has the hash ``sha256``, if its card does not say so.

    Raises:
        HashMismatch: it was recorded with another one.
    """
    known = fully_known(root, member).sha256
    if known and known != sha256:
        raise HashMismatch(f"{what}, recorded when it first came", known, sha256)
    if member.sha256 or not member.key:
        return
    path = _record(root, member)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, f"{sha256}\n")


def _record(root: Path, member: MemberFile) -> Path:
    return root / "weights" / "known" / member.key
