"""Run on a node of a Ray cluster: a job or a measurement, and the switch that pauses it.

Ray calls these functions by module and name, so every node needs this version of advisor
(:meth:`.Roster.require_same`). A call fetches its files into the spool of the node, runs in a
child process and returns what it wrote (:func:`run_with_files`).
"""

import contextlib
import functools
import json
import os
import shutil
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from filelock import FileLock

from advisor.core import AdvisorError
from advisor.devices import find_version
from advisor.integrations.ray._file_transfer import (
    FOLDER,
    KEPT,
    Arguments,
    Bundle,
    FileRef,
    replace_paths,
)
from advisor.isolation import CallLimits, ChildPool, Pause, PoolKind
from advisor.version import __version__

LOOKS_EVERY_S = 0.3
"""Seconds between two checks of the switch of a trainer on another machine."""

STOPS = signal.SIGSTOP
"""The signal that pauses a trainer; every other signal lets it continue."""

PACKAGES = ("ai-edge-litert", "numpy", "tensorflow")

STALE_S = 2 * 24 * 3600
"""Files that no search has touched for this long are deleted."""


@dataclass(frozen=True)
class CallResult:
    """Result or error of a call, and the files that it wrote."""

    value: object  #: the returned value
    error: AdvisorError | None  #: the raised error, None if the call returned
    files: Mapping[str, bytes]  #: contents by name
    peak_bytes: int = 0  #: highest resident memory of any child process on this machine
    cpu_s: float = 0.0  #: CPU seconds of the child process


def run_with_files(
    call: Callable[[Arguments], object],
    session: str,
    arguments: Arguments,
    bundles: Mapping[str, object],
    fetch: Callable[[object], Bundle],
) -> CallResult:
    """Fetch the files that the arguments refer to, run the call, and return its result.

    The files lie in the folder of the search. ``fetch`` returns the files of a bundle by its
    handle; bundles that are on this machine are not fetched again.
    """
    folder = open_spool() / session
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="out-", dir=folder) as name:
        out = Path(name)
        files_of_bundle = {}
        for key, bundle in bundles.items():
            files_of_bundle[key] = _fetch_files(folder / key[:24], bundle, fetch)

        def find_path(reference: FileRef) -> Path:
            if reference.bundle in files_of_bundle:
                return files_of_bundle[reference.bundle][int(reference.position)]
            # What stays for the next attempt is not deleted with the results.
            parent = folder if reference.bundle == KEPT else out
            path = parent / str(reference.position)
            if reference.bundle == FOLDER:
                path.mkdir(exist_ok=True)
            return path

        def find_paths(references: Sequence[FileRef]) -> list[Path]:
            return list(map(find_path, references))

        value = None
        error = None
        try:
            local_arguments = replace_paths(arguments, find_paths, FileRef)
            value = call(cast("Arguments", local_arguments))
        # Returned and not raised: Ray would wrap it in an error of another class.
        except AdvisorError as raised:
            error = raised
        files = {}
        for file in out.rglob("*"):
            if file.is_file():
                files[str(file.relative_to(out))] = file.read_bytes()
    return CallResult(value, error, files)


class Switches:
    """An actor that knows which trainers must pause and which of them have paused."""

    def __init__(self) -> None:
        self._wanted: dict[str, bool] = {}
        self._seen: dict[str, bool] = {}

    def want(self, trainer: str, stopped: bool) -> None:
        """Tell a trainer to pause, or to continue."""
        self._wanted[trainer] = stopped

    def look(self, trainer: str, stopped: bool) -> bool:
        """Note whether a trainer is paused, and return whether it must be."""
        self._seen[trainer] = stopped
        return self._wanted.get(trainer, False)

    def drop(self, trainer: str) -> None:
        """Forget a trainer that has finished."""
        self._wanted.pop(trainer, None)
        self._seen.pop(trainer, None)

    def all_followed(self) -> bool:
        """Return True if every trainer has followed its switch."""
        return all(
            stopped == self._wanted.get(trainer, False) for trainer, stopped in self._seen.items()
        )


def run_job(
    session: str,
    arguments: Arguments,
    bundles: Mapping[str, object],
    kind: str,
    function: str,
    limits: CallLimits | None,
    switches: Any,
    trainer: str,
) -> CallResult:
    """Run a function, given by name, in a child process of this node.

    A job with a ``trainer`` name can be paused.
    """
    pause = Pause()
    watching = _watch_switch(pause, switches, trainer) if trainer else contextlib.nullcontext()
    with watching:
        pool = _open_pool(kind, os.environ.get("CUDA_VISIBLE_DEVICES"))

        def call(local_arguments: Arguments) -> object:
            return pool.call(function, *local_arguments, limits=limits, pause=pause)

        result = run_with_files(call, session, arguments, bundles, _fetch_bundle)
        return replace(result, peak_bytes=pool.peak_bytes, cpu_s=pause.cpu_s)


def run_measurement(
    session: str,
    arguments: Arguments,
    bundles: Mapping[str, object],
    function: Callable[..., object],
) -> CallResult:
    """Call a measuring function on this node, which has the device."""

    def call(local_arguments: Arguments) -> object:
        return function(*local_arguments)

    return run_with_files(call, session, arguments, bundles, _fetch_bundle)


def find_versions() -> dict[str, str]:
    """Return the package versions of this node."""
    return {"advisor": __version__, **{package: find_version(package) for package in PACKAGES}}


def open_spool() -> Path:
    """Return the folder for files from other machines; only this user can read it."""
    folder = Path(tempfile.gettempdir()) / f"advisor-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    # Anybody may write into the folder above, and could have put a link here before.
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
        raise PermissionError(f"{folder} is a link, or belongs to another user")
    return folder


def tidy_spool(session: str) -> None:
    """Delete the files of a search, and those of searches that were killed long ago."""
    for folder in open_spool().iterdir():
        # Another search may have deleted it.
        with contextlib.suppress(OSError):
            if folder.name == session or time.time() - folder.stat().st_mtime > STALE_S:
                shutil.rmtree(folder, ignore_errors=True)


def _fetch_files(folder: Path, bundle: object, fetch: Callable[[object], Bundle]) -> list[Path]:
    """Return the files of a bundle, fetched once per machine.

    They keep their names, because some jobs use them.
    """
    listing = folder / "names"
    # Several jobs of one node may need the same bundle at once.
    with FileLock(f"{folder}.lock"):
        if not listing.is_file():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            names = []
            for number, name, data in fetch(bundle):
                (folder / str(number)).mkdir(exist_ok=True)
                (folder / str(number) / name).write_bytes(data)
                names.append(f"{number}/{name}")
            # Last: a folder without the list belongs to a job that was killed,
            # and is filled again.
            listing.write_text(json.dumps(names), encoding="ascii")
    names = json.loads(listing.read_text(encoding="ascii"))
    return [folder / name for name in names]


@functools.cache
def _open_pool(kind: str, _gpus: str | None) -> ChildPool:
    """Return the pool of a kind (and GPU), which lives as long as this process.

    So imports are paid once.
    """
    return PoolKind(kind).open(None)


def _fetch_bundle(reference: object) -> Bundle:
    import ray

    bundle: Bundle = ray.get(reference)
    return bundle


@contextlib.contextmanager
def _watch_switch(pause: Pause, switches: Any, trainer: str) -> Iterator[None]:
    """Pause and resume the job as its switch says, as long as the job runs."""
    import ray

    over = threading.Event()

    def follow(stopped: bool) -> bool:
        """Follow the switch, report it, and return whether the trainer is paused."""
        wanted = bool(ray.get(switches.look.remote(trainer, stopped)))
        if wanted != stopped:
            if wanted:
                pause.pause()
            else:
                pause.resume()
            # Reported at once, because a measurement waits until every trainer has followed.
            ray.get(switches.look.remote(trainer, wanted))
        return wanted

    def watch(stopped: bool) -> None:
        while not over.wait(LOOKS_EVERY_S):
            stopped = follow(stopped)

    # Report before the job starts, because a measurement waits
    # for every trainer that has reported.
    begins = follow(False)
    thread = threading.Thread(target=watch, args=(begins,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
