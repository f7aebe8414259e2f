"""Run a call on a machine of the cluster: fetch its files, run it in a child process, return what it wrote."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

from filelock import FileLock

from advisor.core.errors import AdvisorError
from advisor.engine.execution.file_transfer import FOLDER, KEPT, FileRef, swapped
from advisor.isolation import ChildPool, Limits, Pause
from advisor.isolation.pool import POOLS

STALE_S = 2 * 24 * 3600
"""Files that no search has touched for this long are deleted."""

Arguments: TypeAlias = tuple[object, ...]
Bundle: TypeAlias = Sequence[tuple[int, str, bytes]]
"""Files in order: folder number, name, content."""


@dataclass(frozen=True)
class CallResult:
    """What a call returned or raised, and the files that it wrote.

    Attributes:
        value: the returned value.
        error: the raised error, None if the call returned.
        files: contents by name.
        peak_bytes: highest resident memory of any child process on this machine.
        node: name of the machine.
    """

    value: object
    error: AdvisorError | None
    files: Mapping[str, bytes]
    peak_bytes: int
    node: str


def work(
    call: Callable[[Arguments], object],
    session: str,
    arguments: Arguments,
    bundles: Mapping[str, object],
    fetch: Callable[[object], Bundle],
) -> CallResult:
    """Fetch the files of the arguments, run the call, and return its result.

    Args:
        call: takes the arguments with paths.
        session: name of the search's folder on this machine.
        arguments: with file references instead of paths.
        bundles: the handle of each bundle.
        fetch: returns the files of a bundle. It is called only for bundles that are not on this machine yet.
    """
    folder = spool() / session
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="out-", dir=folder) as name:
        out = Path(name)
        found = {key: _files(folder / key[:24], bundle, fetch) for key, bundle in bundles.items()}

        def path(reference: FileRef) -> Path:
            if reference.bundle in found:
                return found[reference.bundle][int(reference.position)]
            local = (folder if reference.bundle == KEPT else out) / str(reference.position)
            if reference.bundle == FOLDER:
                local.mkdir(exist_ok=True)
            return local

        value, error = None, None
        try:
            value = call(cast("Arguments", swapped(arguments, lambda group: [path(each) for each in group], FileRef)))
        except AdvisorError as raised:
            error = raised
        files = {str(file.relative_to(out)): file.read_bytes() for file in out.rglob("*") if file.is_file()}
    return CallResult(value, error, files, 0, os.uname().nodename)


def in_child(kind: str, function: str, limits: Limits | None, pause: Pause) -> Callable[[Arguments], object]:
    """Return a callable that runs a function, given by name, in a child process of this kind."""
    pool = _pool(kind, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return lambda arguments: pool.call(function, *arguments, limits=limits, pause=pause)


def peak_bytes(kind: str) -> int:
    """Return the highest resident memory of any child process of this kind."""
    return _pool(kind, os.environ.get("CUDA_VISIBLE_DEVICES")).peak_bytes


@functools.cache
def _pool(kind: str, _gpus: str | None) -> ChildPool:
    """Return the pool of a kind (and GPU); it lives as long as this process, so that imports are paid once."""
    return POOLS[kind](None)


def spool() -> Path:
    """Return the folder for files from other machines; only this user can read it."""
    folder = Path(tempfile.gettempdir()) / f"advisor-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
    return folder


def tidy(session: str) -> None:
    """Delete the files of a search, and those of searches that were killed long ago."""
    for folder in (spool() / session, *_stale()):
        shutil.rmtree(folder, ignore_errors=True)


def _stale() -> Iterator[Path]:
    for folder in spool().iterdir():
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > STALE_S:
                yield folder


def _files(folder: Path, bundle: object, fetch: Callable[[object], Bundle]) -> list[Path]:
    """Return the files of a bundle, fetched once per machine; file names are kept because some jobs use them."""
    listing = folder / "names"
    with FileLock(f"{folder}.lock"):
        if not listing.is_file():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            names = []
            for number, name, data in fetch(bundle):
                (folder / str(number)).mkdir(exist_ok=True)
                (folder / str(number) / name).write_bytes(data)
                names.append(f"{number}/{name}")
            listing.write_text(json.dumps(names), encoding="ascii")
    names = json.loads(listing.read_text(encoding="ascii"))
    return [folder / name for name in names]
