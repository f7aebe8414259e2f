"""Send the files among the arguments of a call to another machine, and write those that come back.

The executor packs a call with :class:`Outgoing`: paths become a :class:`FileRef`, and their files
travel in bundles. ``_node.py`` puts paths of the node in their places. Both sides have the same
version of advisor, so nothing of this is a format that must stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TypeAlias, TypeVar

from advisor.store import sha256_json

Item = TypeVar("Item")

_HASH = re.compile(r"[0-9a-f]{64}")

OUT = "out"
FOLDER = "folder"
KEPT = "kept"

Arguments: TypeAlias = tuple[object, ...]
Bundle: TypeAlias = Sequence[tuple[int, str, bytes]]
"""Files in order: folder number, name, content."""


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
    """Return ``value`` with every item of a ``kind`` in it replaced, paths or :class:`FileRef`.

    A value without such an item is returned as the same object.

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
        # A named tuple takes its fields one by one.
        make = getattr(type(value), "_make", type(value))
        return make(items)
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
    """Return the other files in a folder that is named by a hash: shards of a model's weights."""
    if not _HASH.fullmatch(path.parent.name):
        return []
    others = []
    for file in path.parent.iterdir():
        if file.is_file() and file != path:
            others.append(file)
    return sorted(others)


def read_contents(paths: Sequence[Path]) -> list[tuple[int, str, bytes]]:
    """Return folder number, name and content of each file; one folder has one number."""
    numbers = dict[Path, int]()
    for path in paths:
        numbers.setdefault(path.parent, len(numbers))
    return [(numbers[path.parent], path.name, path.read_bytes()) for path in paths]


class Outgoing:
    """Packs the arguments of one call, and writes the files that come back.

    ``send`` stores the files of a bundle under its key, and returns a handle for the
    transfer. Paths in ``shared``, a folder that the other machine sees under the same name,
    stay as they are.
    """

    def __init__(self, send: Callable[[str, Sequence[Path]], object], shared: Path | None) -> None:
        self._send = send
        self._shared = shared
        self.bundles: dict[str, object] = {}
        self.written: list[Path] = []

    def pack(self, arguments: object) -> object:
        """Return the arguments with file references.

        Notes the bundles to send and the files to expect back.
        """
        return replace_paths(arguments, self._make_references, Path)

    def _make_references(self, paths: Sequence[Path]) -> list[object]:
        if self._shared is not None:
            shared = self._shared
            if all(path.resolve().is_relative_to(shared) for path in paths):
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
                references += self._make_references([path])
            return references
        (path,) = paths
        if path.suffix == ".checkpoints":
            return [FileRef(KEPT, path.name)]
        kind = FOLDER if path.is_dir() else OUT
        reference = FileRef(kind, f"{len(self.written)}-{path.name}")
        self.written.append(path)
        return [reference]

    def unpack(self, contents: Mapping[str, bytes]) -> None:
        """Write the files that the call made to their paths on this machine.

        A file that no argument named comes beside the first that one did.
        """
        targets = {f"{position}-{path.name}": path for position, path in enumerate(self.written)}
        for name, data in contents.items():
            first, _, rest = name.partition("/")
            target = targets[first] if first in targets else self.written[0].with_name(first)
            (target / rest if rest else target).write_bytes(data)
