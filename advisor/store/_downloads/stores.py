"""Copy the objects of an ``s3://`` or ``gs://`` address into the cache, to be read as files.

``search``, ``plan``, ``compress`` and ``data check`` call :func:`copy_from_store` with what
``--data`` names, before any other room looks at it. ``object_store.py`` speaks to the store, and
``object_fetch.py`` fetches.

A copy is a result of the cache, named by the names, sizes and versions (ETags) of its objects. So
it never changes, it stays while a process uses it, and an object that changed leads to another
copy, which shares all other files.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock

from advisor.core import (
    UsageError,
    listed,
    plural,
    require_extra,
    show_bytes,
    without_password,
)
from advisor.store._cache import ArtifactCache, cache_root
from advisor.store._downloads.object_fetch import ObjectFetch, Say, part_of_object
from advisor.store._downloads.object_store import STORES, Objects, Store
from advisor.store._limit import limit_bytes

# File of a copy with the names, sizes and versions of its objects.
# No object has this name, as hidden ones are left out.
_RECORD = ".objects.json"
_DEPTHS = ("*", "**")  # Last names of an address that say which folders are the classes
# ``Path`` keeps one of the two slashes of ``s3://``.
_ADDRESS = re.compile(r"(s3|gs):/([a-z0-9][a-z0-9._-]{1,221})(?:/([^?]*))?")


def in_store(path: Path) -> bool:
    """Return whether a path is an address in a store, such as ``s3://bucket/photos``."""
    kind, separator, _ = str(path).partition(":/")
    return bool(separator) and kind in STORES


def copy_from_store(
    path: Path, say: Say, offline: bool = False, cache_size: int | None = None
) -> Path:
    """Return the folder in the cache with the objects of an address; fetch those that are new.

    A path of this machine is returned as it is. ``offline`` opens no connection and returns the
    last copy. ``cache_size`` is the limit of the cache in bytes, None for the usual one.

    Raises:
        UsageError: the address is not valid, names no objects, needs an extra, is refused by the
            store, or names more than the cache or the disk can hold; the store stops several
            times, or an object changes meanwhile.
        StageError: the disk is full.
    """
    if not in_store(path):
        return path
    depth = path.name if path.name in _DEPTHS else ""
    store = _parse_address(path.parent if depth else path)
    copy = _find_last_copy(store) if offline else _make_copy(store, say, cache_size)
    return copy / store.root / depth


def _parse_address(path: Path) -> Store:
    match = _ADDRESS.fullmatch(str(path))
    if match is None:
        raise UsageError(
            f"--data: '{without_password(str(path))}' is no address of a bucket",
            "write for example s3://bucket/photos; credentials come from the environment, not from"
            " the address",
        )
    kind, bucket, below = match.groups()
    place = f"{bucket}/{below}" if below else bucket
    store = Store(kind, place)
    package = STORES[kind].module.partition(".")[0]
    require_extra(
        package,
        "stores",
        f"--data: '{store.show_address()}' is read by {package}, which is not installed",
    )
    return store


def _find_last_copy(store: Store) -> Path:
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


def _make_copy(store: Store, say: Say, cache_size: int | None) -> Path:
    """Return the copy of the objects that the store has now."""
    say(f"listing {store.show_address()}")
    objects, bad = store.list_objects()
    if bad:
        say(
            f"left out {plural(len(bad), 'object')} whose names no file can have, such as"
            f" '{bad[0]}'"
        )

    def fetch_copy(folder: Path) -> None:
        parts = cache_root() / "partial" / store.stage
        parts.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{parts}.lock"):
            store.require_versions(objects)
            _require_space(store, sum(size for size, _ in objects.values()), cache_size)
            earlier = dict(_list_earlier(folder.parent))
            ObjectFetch(store, objects, parts, earlier, say).run(folder)
            _require_unchanged(store, objects, parts)
            (folder / _RECORD).write_text(json.dumps(objects), encoding="utf-8")
            shutil.rmtree(parts, ignore_errors=True)

    inputs = {"objects": {name: list(facts) for name, facts in objects.items()}}
    return ArtifactCache().get(store.stage, inputs, fetch_copy)


def _list_earlier(copies: Path) -> Iterator[tuple[tuple[str, int, str], Path]]:
    """Yield the objects of earlier, undamaged copies with their files."""
    for record in copies.glob(f"[0-9a-f]*/{_RECORD}"):
        if ArtifactCache().has(record.parent):  # with the content that was written
            for name, (size, version) in json.loads(record.read_bytes()).items():
                yield (name, size, version), record.parent / name


def _require_space(store: Store, size: int, cache_size: int | None) -> None:
    most = limit_bytes(cache_root(), cache_size)
    free = shutil.disk_usage(cache_root()).free
    what = f"--data: '{store.show_address()}' has {show_bytes(size)}, and the"
    if size > most:
        hint = f"add --cache-size {size // 10**9 + 1}GB, or name fewer objects"
        raise UsageError(f"{what} limit of the cache is {show_bytes(most)}", hint)
    if size > free:
        hint = "free some space, or set ADVISOR_CACHE_DIR to another disk"
        raise UsageError(f"{what} disk of the cache has {show_bytes(free)} free", hint)


def _require_unchanged(store: Store, objects: Objects, parts: Path) -> None:
    """Refuse objects that changed while they were fetched, and delete what has arrived of them.

    A file could be half of one version and half of the next.
    """
    now, _ = store.list_objects()
    changed = sorted(name for name in {*now, *objects} if now.get(name) != objects.get(name))
    if changed:
        for name in changed:
            if name in objects:
                part_of_object(parts, name, objects[name]).unlink(missing_ok=True)
        what = (
            f"{plural(len(changed), 'object')} of '{store.show_address()}' changed meanwhile:"
            f" {listed(changed, 3)}"
        )
        raise UsageError(f"--data: {what}", "run the command again: all others have arrived")
