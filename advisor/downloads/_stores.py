"""Copy objects of a store (S3, Google Cloud Storage) into the cache,
where all else reads them as files.

A copy is a result of the cache, named by the names, sizes and versions (ETags) of its objects. So
it never changes, it stays while a process uses it, and an object that changed leads to another
copy, which shares all other files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from filelock import FileLock

from advisor.core import (
    UsageError,
    listed,
    nearest,
    plural,
    require_extra,
    show_bytes,
    show_seconds,
    without_password,
)
from advisor.downloads._store_kind import StoreKind
from advisor.store import ArtifactCache, cache_root, copy_atomically, limit_bytes, sha256_json

CONNECTIONS = 16
"""Objects that are fetched at the same time."""

STEP_BYTES = 8 * 2**20
"""Bytes of an object that are asked for at once; a fetch that broke goes on at such a step."""

ATTEMPTS = 4
FIRST_PAUSE_S = 0.5
SAID_EVERY_S = 1.0
_LONGEST_NAME = 255  # Bytes, of most file systems

# Names, sizes and versions in a copy; no object has it, as hidden ones are left out.
_RECORD = ".objects.json"
_DEPTHS = ("*", "**")  # Last names of an address that say which folders are the classes
# A path keeps one slash of two.
_ADDRESS = re.compile(r"(s3|gs):/([a-z0-9][a-z0-9._-]{1,221})(?:/([^?]*))?")
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "STORAGE_EMULATOR_HOST")
# What tells the content of an object, best first.
_VERSIONS = ("ETag", "etag", "generation", "LastModified", "updated")
_DENIED = re.compile(r"credential|forbidden|access ?denied|\b40[13]\b|token", re.IGNORECASE)

Say = Callable[[str], None]
Objects = Mapping[str, tuple[int, str]]
"""Size in bytes and version of each object, by its path in the copy."""

STORES: Mapping[str, StoreKind] = {
    "s3": StoreKind(
        "s3fs",
        "S3FileSystem",
        "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, of a user who may list"
        " and read the bucket; for a public bucket: FSSPEC_S3_ANON=true",
    ),
    "gs": StoreKind(
        "gcsfs.core",
        "GCSFileSystem",
        "set GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login, of a"
        " user who may list and read the bucket; for a public bucket: FSSPEC_GS_TOKEN=anon",
    ),
}
"""The stores that are read, by how their addresses begin."""


def in_store(path: Path) -> bool:
    """Return whether a path is the address of objects in a store, such as
    ``s3://bucket/photos``.
    """
    kind, separator, _ = str(path).partition(":/")
    return bool(separator) and kind in STORES


def copy_from_store(
    path: Path, say: Say, offline: bool = False, cache_size: int | None = None
) -> Path:
    """Return the copy in the cache of what an address names, and fetch what is new;
    return other paths as they are.

    ``offline`` opens no connection and returns the last copy.
    ``cache_size`` is the limit of the cache in bytes, None for the usual.

    Raises:
        UsageError: the address is not valid, names no objects, needs an extra, is refused by the
            store, or names more than the cache or the disk can hold; the store stops several
            times, or an object changes meanwhile.
        StageError: the disk is full.
    """
    if not in_store(path):
        return path
    depth = path.name if path.name in _DEPTHS else ""
    store = _store(path.parent if depth else path)
    copy = _find_last_copy(store) if offline else _make_copy(store, say, cache_size)
    return copy / store.root / depth


class StoreChangedError(Exception):
    """An object has another version than its listing says."""


class ListingError(Exception):
    """A store lists for ever."""


class _Listing:
    """The pages of one listing. A store that repeats how a page goes on,
    or the last key of a page, would never end.
    """

    def __init__(self) -> None:
        self._ends = set[str]()

    def add_page(self, following: object, last_key: object) -> None:
        """Look at how the next page is asked for, and at the last key of one that is not the last;
        ListingError.
        """
        marks = {f"next {following}", f"key {last_key}"}
        if marks & self._ends:
            raise ListingError("it repeats a page of its listing")
        self._ends |= marks


@dataclass(frozen=True)
class _Store:
    """What one address names."""

    kind: str
    place: str  # bucket and path, as fsspec has them

    @property
    def root(self) -> str:
        """The last name of the address, under which a copy has the objects."""
        return self.place.rpartition("/")[2]

    @property
    def stage(self) -> str:
        """The name of the copies in the cache."""
        # Another endpoint is another store, even if its address is the same.
        endpoints = map(os.environ.get, _ENDPOINTS)
        return f"objects-{sha256_json([self.kind, self.place, *endpoints])[:16]}"

    @cached_property
    def system(self) -> Any:
        """The file system of fsspec, with the credentials of the environment;
        its answers are looked at.
        """
        client = STORES[self.kind]
        system = getattr(import_module(client.module), client.name)(skip_instance_cache=True)
        watch = {"s3": self._watch_s3, "gs": self._watch_google}[self.kind]
        watch(system)
        return system

    @cached_property
    def _state(self) -> dict[str, Any]:
        """The listing that is under way;
        of each object, by its name in the store, size and version, and the ETag.
        """
        return {"listing": _Listing(), "objects": {}, "tags": {}}

    def _watch_s3(self, system: Any) -> None:
        events = system.s3.meta.events

        def remember_key(params: Mapping[str, Any], context: dict[str, Any], **_: object) -> None:
            context["object"] = f"{params.get('Bucket')}/{params.get('Key')}"

        def require_version(
            parsed: Mapping[str, Any], context: Mapping[str, Any], **_: object
        ) -> None:
            name = context.get("object")
            if name not in self._state["objects"]:
                return
            size = self._state["objects"][name][0]
            whole = str(parsed.get("ContentRange", "")).rpartition("/")[2]
            tag = parsed.get("ETag")
            # Where the listing has no ETags,
            # the first answer says which version the others must be of.
            if tag and self._state["tags"].setdefault(name, tag).strip('"') != tag.strip('"'):
                raise StoreChangedError("the store sends another version of it")
            if whole.isdecimal() and int(whole) != size:
                raise StoreChangedError(f"the store lists {size} bytes, and has {whole}")

        def look_at_page(parsed: Mapping[str, Any], **_: object) -> None:
            if parsed.get("IsTruncated"):
                rows = parsed.get("Contents") or parsed.get("CommonPrefixes") or [{}]
                last = rows[-1].get("Key") or rows[-1].get("Prefix")
                self._state["listing"].add_page(parsed.get("NextContinuationToken"), last)

        events.register("before-parameter-build.s3.GetObject", remember_key)
        events.register("after-call.s3.GetObject", require_version)
        events.register("after-call.s3.ListObjectsV2", look_at_page)

    def _watch_google(self, system: Any) -> None:
        ask = system._call

        async def look_at_page(*arguments: Any, **options: Any) -> Any:
            answer = await ask(*arguments, **options)
            if isinstance(answer, dict) and answer.get("nextPageToken") is not None:
                rows = answer.get("items") or [{}]
                self._state["listing"].add_page(answer["nextPageToken"], rows[-1].get("name"))
            return answer

        system._call = look_at_page

    def name_object(self, name: str) -> str:
        """Return an object as fsspec names it, by its path in the copy."""
        return f"{self.place.removesuffix(self.root)}{name}"

    def show_address(self, name: str = "") -> str:
        """Return the address for people, or that of one object."""
        return without_password(f"{self.kind}://{self.name_object(name) if name else self.place}")

    def list_objects(self) -> tuple[Objects, Sequence[str]]:
        """Return the objects, and the names that can be no files of a folder;
        hidden ones are left out.

        Raises UsageError if there are none, or the store does not say.
        """
        try:
            self._state["listing"] = _Listing()
            self.system.invalidate_cache()
            listing = self.system.find(self.place, detail=True)
        except Exception as error:  # each store has its own errors
            raise self.describe_refusal(error) from None
        self._state["tags"] = {
            name: facts["ETag"] for name, facts in listing.items() if facts.get("ETag")
        }
        above = len(self.place) - len(self.root)
        files = {}
        for name, facts in listing.items():
            if not name.endswith("/"):
                files[name[above:]] = facts
        folders: set[str] = set()
        for name in files:
            parts = name.split("/")
            folders.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
        objects = {}
        bad = []
        for name, facts in sorted(files.items()):
            parts = name.split("/")
            size = int(facts["size"])
            # A store may have an object `a` beside `a/b`, and a folder cannot.
            if name in folders or size < 0 or not all(map(_is_name, parts)):
                bad.append(name)
            elif not any(part.startswith(".") for part in parts):
                objects[name] = (size, _version(facts))
        if not objects:
            raise self.describe_refusal(FileNotFoundError())
        return objects, bad

    def require_versions(self, objects: Objects) -> None:
        """Refuse other versions of objects than these from now on,
        where the store says which it sends.
        """
        self._state["objects"] = {self.name_object(name): facts for name, facts in objects.items()}
        # Each object has attempts of our own, and those of the package multiply them.
        self.system.retries = 1

    def describe_refusal(self, error: Exception, name: str = "") -> UsageError:
        """Return the error to raise where the store does not give what the address names,
        or one object.
        """
        what = f"--data: '{self.show_address(name)}'"
        kind = type(error).__name__
        said = _describe_error(error)
        if isinstance(error, FileNotFoundError):
            return UsageError(
                f"{what} names no object", f"check the address{self._suggest_nearest()}"
            )
        if isinstance(error, PermissionError) or _DENIED.search(f"{kind} {said}"):
            return UsageError(
                f"{what} is refused by the store: {said}", STORES[self.kind].credentials
            )
        hint = (
            "check the connection, and run the command again: what has arrived is not fetched"
            " again"
        )
        return UsageError(f"{what} cannot be read: {said}", hint)

    def _suggest_nearest(self) -> str:
        with suppress(Exception):  # not everybody may list what is above
            above = self.system.ls(self.place.removesuffix(self.root).rstrip("/"), detail=False)
            return nearest(self.root, [str(path).rstrip("/").rpartition("/")[2] for path in above])
        return ""


def _describe_error(error: Exception) -> str:
    """Return what went wrong with the connection, or what the store says."""
    kind = type(error)
    # The packages of a store are there only where it is read.
    names = {base.__name__ for base in kind.__mro__}
    if isinstance(error, TimeoutError) or any("Timeout" in name for name in names):
        return "no answer in time"
    if "HTTPClientError" in names:
        return "the connection failed"
    if kind.__module__.startswith("aiohttp"):
        return (
            "the answer ends too early" if "Payload" in kind.__name__ else "the connection failed"
        )
    return without_password(" ".join(str(error).split())[:300]) or kind.__name__


def _store(path: Path) -> _Store:
    match = _ADDRESS.fullmatch(str(path))
    if match is None:
        raise UsageError(
            f"--data: '{without_password(str(path))}' is no address of a bucket",
            "write for example s3://bucket/photos; credentials come from the environment, not from"
            " the address",
        )
    kind, bucket, below = match.groups()
    place = f"{bucket}/{below}" if below else bucket
    store = _Store(kind, place)
    package = STORES[kind].module.partition(".")[0]
    require_extra(
        package,
        "stores",
        f"--data: '{store.show_address()}' is read by {package}, which is not installed",
    )
    return store


def _is_name(part: str) -> bool:
    """Return whether a part of the name of an object can be the name of a file or folder."""
    if part in ("", ".", "..") or "\0" in part:
        return False
    return len(part.encode(errors="replace")) <= _LONGEST_NAME


def _version(facts: Mapping[str, Any]) -> str:
    return next((str(facts[name]) for name in _VERSIONS if facts.get(name)), "")


def _find_last_copy(store: _Store) -> Path:
    """Return the copy that was used last; UsageError if there is none."""
    cache = ArtifactCache()
    copies = []
    for record in (cache.root / store.stage).glob(f"*/{_RECORD}"):
        copies.append(record.parent)
    for copy in sorted(copies, key=lambda copy: copy.stat().st_mtime, reverse=True):
        if cache.has(copy):
            return copy
    raise UsageError(
        f"--offline: '{store.show_address()}' is not in the cache",
        "leave --offline out, to fetch it",
    )


def _make_copy(store: _Store, say: Say, cache_size: int | None) -> Path:
    """Return the copy of what the store has now."""
    say(f"listing {store.show_address()}")
    objects, bad = store.list_objects()
    if bad:
        say(
            f"left out {plural(len(bad), 'object')} whose names no file can have, such as"
            f" '{bad[0]}'"
        )

    def make(folder: Path) -> None:
        parts = cache_root() / "partial" / store.stage
        parts.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{parts}.lock"):
            store.require_versions(objects)
            _require_space(store, sum(size for size, _ in objects.values()), cache_size)
            _Fetch(store, objects, parts, dict(_list_earlier(folder.parent)), say).run(folder)
            _require_same(store, objects, parts)
            (folder / _RECORD).write_text(json.dumps(objects), encoding="utf-8")
            shutil.rmtree(parts, ignore_errors=True)

    inputs = {"objects": {name: list(facts) for name, facts in objects.items()}}
    return ArtifactCache().get(store.stage, inputs, make)


def _list_earlier(copies: Path) -> Iterator[tuple[tuple[str, int, str], Path]]:
    """Yield the objects of earlier, undamaged copies with their files."""
    for record in copies.glob(f"[0-9a-f]*/{_RECORD}"):
        if ArtifactCache().has(record.parent):  # with the content that was written
            for name, (size, version) in json.loads(record.read_bytes()).items():
                yield (name, size, version), record.parent / name


def _require_space(store: _Store, size: int, cache_size: int | None) -> None:
    most = limit_bytes(cache_root(), cache_size)
    free = shutil.disk_usage(cache_root()).free
    what = f"--data: '{store.show_address()}' has {show_bytes(size)}, and the"
    if size > most:
        hint = f"add --cache-size {size // 10**9 + 1}GB, or name fewer objects"
        raise UsageError(f"{what} limit of the cache is {show_bytes(most)}", hint)
    if size > free:
        hint = "free some space, or set ADVISOR_CACHE_DIR to another disk"
        raise UsageError(f"{what} disk of the cache has {show_bytes(free)} free", hint)


def _require_same(store: _Store, objects: Objects, parts: Path) -> None:
    """Refuse objects that changed while they were fetched, and delete them:
    a file could be half of one version.
    """
    now, _ = store.list_objects()
    changed = sorted(name for name in {*now, *objects} if now.get(name) != objects.get(name))
    if changed:
        for name in changed:
            if name in objects:
                _part_of(parts, name, objects[name]).unlink(missing_ok=True)
        what = (
            f"{plural(len(changed), 'object')} of '{store.show_address()}' changed meanwhile:"
            f" {listed(changed, 3)}"
        )
        raise UsageError(f"--data: {what}", "run the command again: all others have arrived")


def _part_of(parts: Path, name: str, facts: tuple[int, str]) -> Path:
    """Return the file that has what has arrived of a version of an object."""
    return parts / sha256_json([name, *facts])


class _Fetch:
    """Brings objects into a folder: from earlier copies, from a fetch that was stopped,
    or from the store.
    """

    def __init__(
        self,
        store: _Store,
        objects: Objects,
        parts: Path,
        earlier: Mapping[tuple[str, int, str], Path],
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
            self._bring(folder / name, name, size, version)

        with ThreadPoolExecutor(CONNECTIONS) as pool:
            try:
                # The list takes every result, because an error of a thread is raised only there.
                list(pool.map(bring_object, self._objects))
            except BaseException:
                self._stopped.set()
                raise

    def _bring(self, target: Path, name: str, size: int, version: str) -> None:
        if self._stopped.is_set():
            return
        part = self._earlier.get((name, size, version))
        if part is not None:
            self._count(size, fetched=False)
        else:
            part = _part_of(self._parts, name, (size, version))
            self._fetch(name, size, part)
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_atomically(part, target)

    def _fetch(self, name: str, size: int, part: Path) -> None:
        """Append to its part what is missing of an object."""
        with part.open("ab") as file:
            have = file.tell()
            self._count(have, fetched=False)
            while have < size and not self._stopped.is_set():
                try:
                    data = self._read(name, have, size)
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

    def _read(self, name: str, have: int, size: int) -> bytes:
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
                why = _describe_error(error)
                continue
            if 0 < len(data) <= end - have:
                return data
        stops = f"it stops after {show_bytes(have)} of {show_bytes(size)}, {ATTEMPTS} times: {why}"
        raise self._store.describe_refusal(Exception(stops), name)

    def _count(self, size: int, fetched: bool = True) -> None:
        """Count bytes that are here, and say now and then how much is,
        and how long the rest takes.
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
