"""Content-addressed results of stages: the key is the hash of ALL inputs of a stage."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from advisor.core.errors import StageError
from advisor.store.full_disk import full_disk, is_full_disk
from advisor.store.hashing import sha256_json


def cache_root() -> Path:
    """Return the folder of all caches: ``$ADVISOR_CACHE_DIR`` or the user's cache folder."""
    chosen = os.environ.get("ADVISOR_CACHE_DIR")
    return Path(chosen).expanduser() if chosen else user_cache_path("advisor")


class ArtifactCache:
    """Folders of files, one a stage result, made once and never changed.

    Args:
        root: where they live, ``<cache_root()>/artifacts`` by default.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or cache_root() / "artifacts"

    def folder(self, stage: str, inputs: Mapping[str, Any]) -> Path:
        """Return where the result of ``stage`` on ``inputs`` is or would be."""
        return self.root / stage / sha256_json(dict(inputs))

    def has(self, stage: str, inputs: Mapping[str, Any]) -> bool:
        """True where the result is there."""
        return self.folder(stage, inputs).is_dir()

    def get(
        self,
        stage: str,
        inputs: Mapping[str, Any],
        make: Callable[[Path], None],
        waits: Callable[[str], None] = lambda _: None,
    ) -> Path:
        """Return the folder with the stage's result, calling ``make(folder)`` to fill it where it is not there.

        Two processes that want the same result make it once. A ``make`` that raises leaves nothing behind.

        Args:
            stage: name and version of the stage, such as ``convert-1``.
            inputs: every input that the result depends on, as JSON values.
            make: writes the result's files into the folder that it is given.
            waits: told who makes it, such as ``process 123``, where another process is at it.

        Raises:
            StageError: the disk is full.
        """
        folder = self.folder(stage, inputs)
        if folder.is_dir():
            return folder
        try:
            return _filled(folder, make, waits)
        except (OSError, StageError) as error:
            if is_full_disk(error):
                raise full_disk(self.root) from error
            raise


@contextlib.contextmanager
def _held(folder: Path, waits: Callable[[str], None]) -> Iterator[None]:
    """Hold a folder's lock, and leave beside it who does."""
    lock, holder = FileLock(f"{folder}.lock"), Path(f"{folder}.holder")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        with contextlib.suppress(OSError):
            waits(holder.read_text(encoding="ascii"))
        lock.acquire()
    try:
        holder.write_text(f"process {os.getpid()}", encoding="ascii")
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _filled(folder: Path, make: Callable[[Path], None], waits: Callable[[str], None]) -> Path:
    """Fill a folder beside its place, and put it there whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _held(folder, waits):
        if folder.is_dir():
            return folder
        unfinished = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
        try:
            make(unfinished)
            for file in unfinished.iterdir():
                file.chmod(0o444)  # runs hold hard links to these files: an editor must not change them in place
            unfinished.rename(folder)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    return folder
