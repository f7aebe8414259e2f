"""What runs on a machine of the cluster: a job in a child of that machine, its files fetched and sent back."""

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
from typing import Any

from filelock import FileLock

from advisor.core.errors import AdvisorError
from advisor.engine.execution.file_transfer import FOLDER, KEPT, FileRef, swapped
from advisor.isolation import ChildPool, Limits, Pause
from advisor.isolation.pools import POOLS

STALE_S = 2 * 24 * 3600
"""Files of searches that have not touched them for so long are taken away."""

Bundle = Sequence[tuple[int, str, bytes]]
"""Files in order: number of the folder, name, content."""


@dataclass(frozen=True)
class Outcome:
    """What a call returned or raised, and the files that it wrote.

    Attributes:
        value: what it returned.
        error: what it raised, None where it returned.
        files: contents by name.
        peak_bytes: most memory that a child was seen with.
        node: the machine.
    """

    value: Any
    error: AdvisorError | None
    files: Mapping[str, bytes]
    peak_bytes: int
    node: str


def work(
    call: Callable[[tuple[Any, ...]], Any],
    session: str,
    arguments: tuple[Any, ...],
    bundles: Mapping[str, Any],
    fetch: Callable[[Any], Bundle],
) -> Outcome:
    """Call with the arguments' files at hand and return what came of it.

    Args:
        call: takes the arguments with paths.
        session: name of the search's folder here.
        arguments: with slips in place of paths.
        bundles: what stands for each bundle on the way.
        fetch: returns a bundle's files; asked only for what is not here yet.
    """
    folder = spool() / session
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="out-", dir=folder) as name:
        out = Path(name)
        found = {key: _files(folder / key[:24], bundle, fetch) for key, bundle in bundles.items()}

        def path(slip: FileRef) -> Path:
            if slip.bundle in found:
                return found[slip.bundle][int(slip.place)]
            place = (folder if slip.bundle == KEPT else out) / str(slip.place)
            if slip.bundle == FOLDER:
                place.mkdir(exist_ok=True)
            return place

        value, error = None, None
        try:
            value = call(swapped(arguments, lambda slips: [path(slip) for slip in slips], FileRef))
        except AdvisorError as raised:
            error = raised
        files = {str(file.relative_to(out)): file.read_bytes() for file in out.rglob("*") if file.is_file()}
    return Outcome(value, error, files, 0, os.uname().nodename)


def in_child(kind: str, function: str, limits: Limits | None, pause: Pause) -> Callable[[tuple[Any, ...]], Any]:
    """Return what calls a function by name in a child of a kind."""
    pool = _pool(kind, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return lambda arguments: pool.call(function, *arguments, limits=limits, pause=pause)


def peak_bytes(kind: str) -> int:
    """Return the most memory that a child of this process was seen with."""
    return _pool(kind, os.environ.get("CUDA_VISIBLE_DEVICES")).peak_bytes


@functools.cache
def _pool(kind: str, _gpus: str | None) -> ChildPool:
    """One pool a kind (and GPU) for as long as this process lives: imports are paid once."""
    return POOLS[kind](None)


def spool() -> Path:
    """Return the folder of files that came from elsewhere; only this user reads it."""
    folder = Path(tempfile.gettempdir()) / f"advisor-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else")
    return folder


def tidy(session: str) -> None:
    """Take the files of a search away, and those of searches that were killed long ago."""
    for folder in (spool() / session, *_stale()):
        shutil.rmtree(folder, ignore_errors=True)


def _stale() -> Iterator[Path]:
    for folder in spool().iterdir():
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > STALE_S:
                yield folder


def _files(folder: Path, bundle: Any, fetch: Callable[[Any], Bundle]) -> list[Path]:
    """Return the files of a bundle, fetched once a machine; names are kept, as some of the work hangs on them."""
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
