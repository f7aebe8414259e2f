"""Run a call on a node of a Ray cluster:
fetch its files, run it in a child process, return what it wrote.
"""

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from filelock import FileLock

from advisor.core import AdvisorError
from advisor.devices import find_version
from advisor.isolation import CallLimits, ChildPool, Pause, map_pools
from advisor.store import sha256_json
from advisor.version import __version__

Item = TypeVar("Item")

_HASH = re.compile(r"[0-9a-f]{64}")

OUT = "out"
FOLDER = "folder"
KEPT = "kept"

LOOKS_EVERY_S = 0.3
"""Seconds between two checks of the switch of a trainer on another machine."""

STOPS = signal.SIGSTOP
"""The signal that pauses a trainer; every other signal lets it continue."""

PACKAGES = ("ai-edge-litert", "numpy", "tensorflow")

STALE_S = 2 * 24 * 3600
"""Files that no search has touched for this long are deleted."""


@dataclass(frozen=True)
class FileRef:
    """Replaces a path in the arguments of a call."""

    #: key of the bundle that contains the file. Other values: ``out`` is a file that the call
    #: writes, ``folder`` is a folder that the call fills, ``kept`` is a file that stays for the
    #: next attempt.
    bundle: str
    #: index of the file in the bundle, or the name of the file or folder to write
    position: int | str


def replace_paths(
    value: object, swap: Callable[[Sequence[Item]], Sequence[object]], kind: type[Item]
) -> object:
    """Return ``value`` with every path or :class:`FileRef` in it replaced;
    return the same object if it has none.

    Tuples, lists, mappings and dataclasses are searched to any depth. ``swap`` returns the
    replacements; it gets the items of one list or tuple together, such as many images.
    """
    if isinstance(value, kind):
        return swap([value])[0]
    if isinstance(value, tuple | list):
        if value and all(isinstance(item, kind) for item in value):
            return type(value)(swap(value))
        items = [replace_paths(item, swap, kind) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return type(value)(items)
    if isinstance(value, Mapping):
        entries = {key: replace_paths(item, swap, kind) for key, item in value.items()}
        if all(entries[key] is item for key, item in value.items()):
            return value
        return entries
    if is_dataclass(value) and not isinstance(value, type):
        old = {}
        for field in fields(value):
            if field.init:
                old[field.name] = getattr(value, field.name)
        new = {name: replace_paths(item, swap, kind) for name, item in old.items()}
        changed = {}
        for name, item in new.items():
            if item is not old[name]:
                changed[name] = item
        return replace(value, **changed) if changed else value
    return value


def bundle_key(paths: Sequence[Path]) -> str:
    """Return the key of a bundle: a hash of its files' names, sizes and modification times."""
    entries = []
    for path in paths:
        facts = path.stat()
        entries.append([str(path), facts.st_size, facts.st_mtime_ns])
    # Not of the contents, which would have to be read for each call.
    return sha256_json(entries)


def find_companions(path: Path) -> list[Path]:
    """Return the other files in a folder that is named by a hash:
    the shards of one model's weights.
    """
    if not _HASH.fullmatch(path.parent.name):
        return []
    others = []
    for file in path.parent.iterdir():
        if file.is_file() and file != path:
            others.append(file)
    return sorted(others)


def read_contents(paths: Sequence[Path]) -> list[tuple[int, str, bytes]]:
    """Return (folder number, file name, content) of each file;
    files of one folder get the same number.
    """
    numbers = dict[Path, int]()
    for path in paths:
        numbers.setdefault(path.parent, len(numbers))
    return [(numbers[path.parent], path.name, path.read_bytes()) for path in paths]


class Outgoing:
    """Packs the arguments of one call, and writes the files that come back.

    ``send`` stores the files of a bundle under its key, and returns a handle for the transfer.
    Paths in ``shared``, a folder that the other machine sees under the same name, stay as they
    are.
    """

    def __init__(self, send: Callable[[str, Sequence[Path]], object], shared: Path | None) -> None:
        self._send = send
        self._shared = shared
        self.bundles: dict[str, object] = {}
        self.written: list[Path] = []

    def pack(self, arguments: object) -> object:
        """Return the arguments with file references,
        and note the bundles to send and the files to expect back.
        """
        return replace_paths(arguments, self._references, Path)

    def _references(self, paths: Sequence[Path]) -> list[object]:
        if self._shared is not None and all(
            path.resolve().is_relative_to(self._shared) for path in paths
        ):
            return list(paths)
        if all(path.is_file() for path in paths):
            files = paths
            if len(paths) == 1:
                files = [*paths, *find_companions(paths[0])]
            key = bundle_key(files)
            if key not in self.bundles:
                self.bundles[key] = self._send(key, files)
            return [FileRef(key, position) for position in range(len(paths))]
        # Of several paths, some exist and are read, and others are written by the call.
        if len(paths) > 1:
            references = list[object]()
            for path in paths:
                references += self._references([path])
            return references
        (path,) = paths
        if path.suffix == ".checkpoints":
            return [FileRef(KEPT, path.name)]
        self.written.append(path)
        return [FileRef(FOLDER if path.is_dir() else OUT, f"{len(self.written) - 1}-{path.name}")]

    def unpack(self, contents: Mapping[str, bytes]) -> None:
        """Write the files that the call made to their paths on this machine;
        a further one comes beside the first.
        """
        targets = {f"{position}-{path.name}": path for position, path in enumerate(self.written)}
        for name, data in contents.items():
            first, _, rest = name.partition("/")
            target = targets[first] if first in targets else self.written[0].with_name(first)
            (target / rest if rest else target).write_bytes(data)


Arguments: TypeAlias = tuple[object, ...]
Bundle: TypeAlias = Sequence[tuple[int, str, bytes]]
"""Files in order: folder number, name, content."""


@dataclass(frozen=True)
class CallResult:
    """Result or error of a call, and the files that it wrote."""

    value: object  #: the returned value
    error: AdvisorError | None  #: the raised error, None if the call returned
    files: Mapping[str, bytes]  #: contents by name
    peak_bytes: int = 0  #: highest resident memory of any child process on this machine
    cpu_s: float = 0.0  #: CPU seconds of the child process


def work(
    call: Callable[[Arguments], object],
    session: str,
    arguments: Arguments,
    bundles: Mapping[str, object],
    fetch: Callable[[object], Bundle],
) -> CallResult:
    """Fetch the files that the arguments refer to into the search's folder, run the call,
    and return its result.

    ``fetch`` returns the files of a bundle by its handle;
    bundles that are on this machine are not fetched again.
    """
    folder = open_spool() / session
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="out-", dir=folder) as name:
        out = Path(name)
        files_of_bundle = {}
        for key, bundle in bundles.items():
            files_of_bundle[key] = _fetch_files(folder / key[:24], bundle, fetch)

        def path(reference: FileRef) -> Path:
            if reference.bundle in files_of_bundle:
                return files_of_bundle[reference.bundle][int(reference.position)]
            local = (folder if reference.bundle == KEPT else out) / str(reference.position)
            if reference.bundle == FOLDER:
                local.mkdir(exist_ok=True)
            return local

        value = None
        error = None
        try:
            local_arguments = replace_paths(
                arguments, lambda references: list(map(path, references)), FileRef
            )
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


def job(
    session: str,
    arguments: Arguments,
    bundles: Mapping[str, object],
    kind: str,
    function: str,
    limits: CallLimits | None,
    switches: Any,
    trainer: str,
) -> CallResult:
    """Run a function, given by name, in a child process of this node;
    a job with a ``trainer`` name can be paused.
    """
    pause = Pause()
    with _watch_switch(pause, switches, trainer) if trainer else contextlib.nullcontext():
        pool = _pool(kind, os.environ.get("CUDA_VISIBLE_DEVICES"))

        def call(local_arguments: Arguments) -> object:
            return pool.call(function, *local_arguments, limits=limits, pause=pause)

        result = work(call, session, arguments, bundles, _fetch)
        return replace(result, peak_bytes=pool.peak_bytes, cpu_s=pause.cpu_s)


def measurement(
    session: str,
    arguments: Arguments,
    bundles: Mapping[str, object],
    function: Callable[..., object],
) -> CallResult:
    """Call a measuring function on this node, which has the device."""
    return work(
        lambda local_arguments: function(*local_arguments), session, arguments, bundles, _fetch
    )


def versions() -> dict[str, str]:
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
    """Return the files of a bundle, fetched once per machine;
    file names are kept because some jobs use them.
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
def _pool(kind: str, _gpus: str | None) -> ChildPool:
    """Return the pool of a kind (and GPU);
    it lives as long as this process, so that imports are paid once.
    """
    return map_pools()[kind](None)


def _fetch(reference: object) -> Bundle:
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
            (pause.pause if wanted else pause.resume)()
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
