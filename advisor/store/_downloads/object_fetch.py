"""Fetch the objects of a store into a folder: resume, retry, and say how long it still takes.

``stores.py`` runs one :class:`ObjectFetch` for each new copy. What has arrived of an object lies
in a file named by its path, size and version, so another run goes on where one was stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from advisor.core import UsageError, show_bytes, show_seconds
from advisor.store._downloads.object_store import Objects, Store, StoreChangedError, describe_error
from advisor.store._files import copy_atomically, sha256_json

CONNECTIONS = 16
"""Objects that are fetched at the same time."""

STEP_BYTES = 8 * 2**20
"""Bytes of an object that are asked for at once; a fetch that broke goes on at such a step."""

ATTEMPTS = 4  # For each step
FIRST_PAUSE_S = 0.5  # Before the second attempt; it doubles with each further one
SAID_EVERY_S = 1.0

Say = Callable[[str], None]


def part_of_object(parts: Path, name: str, facts: tuple[int, str]) -> Path:
    """Return the file that has what has arrived of a version of an object."""
    return parts / sha256_json([name, *facts])


class ObjectFetch:
    """One fetch of objects into a folder: from earlier copies, a stopped fetch, or the store.

    Several threads bring objects at the same time; the counts are under a lock.
    """

    def __init__(
        self,
        store: Store,
        objects: Objects,
        parts: Path,
        earlier: Mapping[tuple[str, int, str], Path],  # files by path, size and version
        say: Say,
    ) -> None:
        self._store = store
        self._objects = objects
        self._parts = parts
        self._earlier = earlier
        self._say = say
        self._total = sum(size for size, _ in objects.values())
        self._done = 0
        self._fetched = 0
        self._began = self._said = time.monotonic()
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def run(self, folder: Path) -> None:
        """Bring all objects; the first error stops the others."""

        def bring_object(name: str) -> None:
            size, version = self._objects[name]
            self._bring_object(folder / name, name, size, version)

        with ThreadPoolExecutor(CONNECTIONS) as pool:
            try:
                # The list takes every result, because an error of a thread is raised only there.
                list(pool.map(bring_object, self._objects))
            except BaseException:
                self._stopped.set()
                raise

    def _bring_object(self, target: Path, name: str, size: int, version: str) -> None:
        if self._stopped.is_set():
            return
        part = self._earlier.get((name, size, version))
        if part is not None:
            self._count(size, fetched=False)
        else:
            part = part_of_object(self._parts, name, (size, version))
            self._fetch_missing(name, size, part)
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_atomically(part, target)

    def _fetch_missing(self, name: str, size: int, part: Path) -> None:
        """Append to its part what is missing of an object."""
        with part.open("ab") as file:
            have = file.tell()
            self._count(have, fetched=False)
            while have < size and not self._stopped.is_set():
                try:
                    data = self._read_step(name, have, size)
                except StoreChangedError as error:
                    part.unlink(missing_ok=True)
                    raise UsageError(
                        f"--data: '{self._store.show_address(name)}' changed meanwhile: {error}",
                        "run the command again: all others have arrived",
                    ) from None
                file.write(data)
                file.flush()
                self._count(len(data))
                have += len(data)

    def _read_step(self, name: str, have: int, size: int) -> bytes:
        """Return the next bytes of an object; UsageError if the store does not give them."""
        why = "it sends nothing"
        end = min(have + STEP_BYTES, size)
        for attempt in range(ATTEMPTS):
            self._stopped.wait(FIRST_PAUSE_S * (2**attempt - 1))
            try:
                data: bytes = self._store.system.cat_file(
                    self._store.name_object(name), start=have, end=end
                )
            except (FileNotFoundError, PermissionError) as error:
                raise self._store.describe_refusal(error, name) from None
            except StoreChangedError:
                raise
            except Exception as error:  # each store has its own errors
                why = describe_error(error)
                continue
            if 0 < len(data) <= end - have:
                return data
        stops = f"it stops after {show_bytes(have)} of {show_bytes(size)}, {ATTEMPTS} times: {why}"
        raise self._store.describe_refusal(Exception(stops), name)

    def _count(self, size: int, fetched: bool = True) -> None:
        """Count bytes that have arrived; say now and then how many, and how long the rest takes.

        Bytes of earlier copies are not ``fetched``: they say nothing about the speed.
        """
        with self._lock:
            self._done += size
            self._fetched += size * fetched
            now = time.monotonic()
            if now - self._said < SAID_EVERY_S or not self._fetched:
                return
            self._said = now
        left = show_seconds((now - self._began) * (self._total - self._done) / self._fetched)
        sizes = f"{show_bytes(self._done)} of {show_bytes(self._total)}"
        self._say(f"fetching {self._store.show_address()}: {sizes}, {left} left")
