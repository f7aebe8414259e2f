"""Prepare the arguments of a call for another machine: a reference to a transferred file replaces each path."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TypeVar

from advisor.store.files import sha256_json

Item = TypeVar("Item")


@dataclass(frozen=True)
class FileRef:
    """Replaces a path in the arguments of a call.

    Attributes:
        bundle: key of the bundle that contains the file. Other values: ``out`` is a file that the call writes,
            ``folder`` is a folder that the call fills, ``kept`` is a file that stays for the next attempt.
        position: index of the file in the bundle, or the name of the file or folder to write.
    """

    bundle: str
    position: int | str


_HASH = re.compile(r"[0-9a-f]{64}")

OUT, FOLDER, KEPT = "out", "folder", "kept"


def replaced(value: object, swap: Callable[[Sequence[Item]], Sequence[object]], kind: type[Item]) -> object:
    """Return ``value`` with everything of ``kind`` in it replaced; return the same object if it contains none.

    Args:
        value: tuples, lists, mappings and dataclasses are searched to any depth.
        swap: returns the replacements. It gets the items of one list or tuple together, such as many images.
        kind: :class:`pathlib.Path` or :class:`FileRef`.
    """
    if isinstance(value, kind):
        return swap([value])[0]
    if isinstance(value, tuple | list):
        if value and all(isinstance(item, kind) for item in value):
            return type(value)(swap(value))
        items = [replaced(item, swap, kind) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else type(value)(items)
    if isinstance(value, Mapping):
        found = {key: replaced(item, swap, kind) for key, item in value.items()}
        return value if all(found[key] is item for key, item in value.items()) else found
    if is_dataclass(value) and not isinstance(value, type):
        old = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        new = {name: replaced(item, swap, kind) for name, item in old.items()}
        changed = {name: item for name, item in new.items() if item is not old[name]}
        return replace(value, **changed) if changed else value
    return value


def bundle_key(paths: Sequence[Path]) -> str:
    """Return the key of a bundle: a hash of its files' names, sizes and modification times."""
    stats = [path.stat() for path in paths]
    return sha256_json([[str(p), s.st_size, s.st_mtime_ns] for p, s in zip(paths, stats, strict=True)])


def companions(path: Path) -> list[Path]:
    """Return the other files in a folder that is named by a hash: the shards of one model's weights."""
    if not _HASH.fullmatch(path.parent.name):
        return []
    return sorted(file for file in path.parent.iterdir() if file.is_file() and file != path)


def contents(paths: Sequence[Path]) -> list[tuple[int, str, bytes]]:
    """Return (folder number, file name, content) of each file; files of one folder get the same number."""
    folders = {folder: number for number, folder in enumerate(dict.fromkeys(path.parent for path in paths))}
    return [(folders[path.parent], path.name, path.read_bytes()) for path in paths]


class Outgoing:
    """Packs the arguments of one call, and writes the files that come back.

    Args:
        send: stores the files of a bundle under its key, and returns a handle for the transfer.
        shared: a folder that the other machine sees under the same name: paths in it stay as they are.
    """

    def __init__(self, send: Callable[[str, Sequence[Path]], object], shared: Path | None) -> None:
        self._send, self._shared = send, shared
        self.bundles: dict[str, object] = {}
        self.written: list[Path] = []

    def pack(self, arguments: object) -> object:
        """Return the arguments with file references, and note the bundles to send and the files to expect back."""
        return replaced(arguments, self._references, Path)

    def _references(self, paths: Sequence[Path]) -> list[object]:
        if self._shared is not None and all(path.resolve().is_relative_to(self._shared) for path in paths):
            return list(paths)
        if all(path.is_file() for path in paths):
            files = [*paths, *companions(paths[0])] if len(paths) == 1 else paths
            key = bundle_key(files)
            if key not in self.bundles:
                self.bundles[key] = self._send(key, files)
            return [FileRef(key, position) for position in range(len(paths))]
        if len(paths) > 1:  # some exist and are read, others are written
            return [reference for path in paths for reference in self._references([path])]
        return [self._output_reference(path) for path in paths]

    def _output_reference(self, path: Path) -> FileRef:
        if path.suffix == ".checkpoints":
            return FileRef(KEPT, path.name)
        self.written.append(path)
        return FileRef(FOLDER if path.is_dir() else OUT, f"{len(self.written) - 1}-{path.name}")

    def unpack(self, contents: Mapping[str, bytes]) -> None:
        """Write the files that the call made to their paths on this machine."""
        targets = {f"{position}-{path.name}": path for position, path in enumerate(self.written)}
        for name, data in contents.items():
            first, _, rest = name.partition("/")
            (targets[first] / rest if rest else targets[first]).write_bytes(data)
