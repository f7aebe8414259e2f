"""Arguments that name files, made ready for another machine: each path becomes a slip that says where its file is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from advisor.store.hashing import sha256_json


@dataclass(frozen=True)
class FileRef:
    """Stands for a path.

    Attributes:
        bundle: key of the bundle of files that holds it; of a file yet to be written ``out``, of a folder to write
            into ``folder``, of one that stays from one try to the next ``kept``.
        place: its place in the bundle, or the name of what is to be written or kept.
    """

    bundle: str
    place: int | str


_HASH = re.compile(r"[0-9a-f]{64}")

OUT, FOLDER, KEPT = "out", "folder", "kept"


def swapped(value: Any, swap: Callable[[Sequence[Any]], Sequence[Any]], kind: type) -> Any:
    """Return a value with everything of a kind in it swapped; what holds nothing of it is returned as it is.

    Args:
        value: tuples, lists, mappings and dataclasses are looked into.
        swap: called with neighbours together, as the paths of many pictures are.
        kind: :class:`pathlib.Path` or :class:`FileRef`.
    """
    if isinstance(value, kind):
        return swap([value])[0]
    if isinstance(value, tuple | list):
        if value and all(isinstance(item, kind) for item in value):
            return type(value)(swap(value))
        items = [swapped(item, swap, kind) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else type(value)(items)
    if isinstance(value, Mapping):
        found = {key: swapped(item, swap, kind) for key, item in value.items()}
        return value if all(found[key] is item for key, item in value.items()) else found
    if is_dataclass(value) and not isinstance(value, type):
        return _dataclass(value, swap, kind)
    return value


def _dataclass(value: Any, swap: Callable[[Sequence[Any]], Sequence[Any]], kind: type) -> Any:
    old = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    new = {name: swapped(item, swap, kind) for name, item in old.items()}
    changed = {name: item for name, item in new.items() if item is not old[name]}
    return replace(value, **changed) if changed else value


def bundle_key(paths: Sequence[Path]) -> str:
    """Return what the files are known by: names, sizes and times of change."""
    stats = [path.stat() for path in paths]
    return sha256_json([[str(p), s.st_size, s.st_mtime_ns] for p, s in zip(paths, stats, strict=True)])


def beside(path: Path) -> list[Path]:
    """Return what belongs to a file: the others of a folder that is named by a hash, as shards of weights are kept."""
    if not _HASH.fullmatch(path.parent.name):
        return []
    return sorted(file for file in path.parent.iterdir() if file.is_file() and file != path)


def contents(paths: Sequence[Path]) -> list[tuple[int, str, bytes]]:
    """Return the files' contents, each with the number of its folder and its name: neighbours stay neighbours."""
    folders = {folder: number for number, folder in enumerate(dict.fromkeys(path.parent for path in paths))}
    return [(folders[path.parent], path.name, path.read_bytes()) for path in paths]


class Outgoing:
    """Packs the arguments of one call.

    Args:
        send: takes the files of a bundle with their key, and returns what stands for the bundle on the way.
        shared: a folder that the other machine sees too: paths in it stay as they are.
    """

    def __init__(self, send: Callable[[str, Sequence[Path]], Any], shared: Path | None) -> None:
        self._send, self._shared = send, shared
        self.bundles: dict[str, Any] = {}
        self.written: list[Path] = []

    def pack(self, arguments: Any) -> Any:
        """Return the arguments with slips; ``bundles`` are then what they need, ``written`` where results belong."""
        return swapped(arguments, self._slips, Path)

    def _slips(self, paths: Sequence[Path]) -> list[Any]:
        if self._shared is not None and all(path.resolve().is_relative_to(self._shared) for path in paths):
            return list(paths)
        if all(path.is_file() for path in paths):
            files = [*paths, *beside(paths[0])] if len(paths) == 1 else paths
            key = bundle_key(files)
            if key not in self.bundles:
                self.bundles[key] = self._send(key, files)
            return [FileRef(key, place) for place in range(len(paths))]
        if len(paths) > 1:  # some are read and some are written
            return [slip for path in paths for slip in self._slips([path])]
        return [self._yet_to_be(path) for path in paths]

    def _yet_to_be(self, path: Path) -> FileRef:
        if path.suffix == ".checkpoints":
            return FileRef(KEPT, path.name)
        self.written.append(path)
        return FileRef(FOLDER if path.is_dir() else OUT, f"{len(self.written) - 1}-{path.name}")

    def unpack(self, contents: Mapping[str, bytes]) -> None:
        """Write the files that the call made, each where it belongs."""
        places = {f"{place}-{path.name}": path for place, path in enumerate(self.written)}
        for name, data in contents.items():
            first, _, rest = name.partition("/")
            (places[first] / rest if rest else places[first]).write_bytes(data)
