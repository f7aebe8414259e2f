"""Read shards of WebDataset: tar files in which the files of one sample have one name.

Their extensions say what they are: ``000017.jpg`` and ``000017.cls`` are one sample. Format:
https://github.com/webdataset/webdataset#the-webdataset-format.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from advisor.core import ContentError
from advisor.datasets._read_errors import explain_error
from advisor.datasets._sources.base import (
    OBJECTS,
    REPEATED,
    ImageObjects,
    Member,
    find_system_folder,
    is_archive_name,
    is_hidden,
    name_fault,
    normalise_name,
    read_objects,
    refuse_file,
    within_limit,
)

LABELS = ("cls", "txt", "json")
"""Extensions of what may say a sample's class:
a number or name, twice, and a JSON object with one of :data:`KEYS`.
"""

KEYS = ("label", "cls", "class", "class_name", "label_name")
_MOST_LABEL_BYTES = 100_000
_MOST_MEMBERS = 20_000_000


class Shard:
    """Reads images of a tar file by their places in it, which one pass over the headers finds."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._fault = ""
        # Offset and size in bytes by name.
        self._places: dict[str, tuple[int, int]] = {}
        self._faults: list[Member] = []
        self._repeated: set[str] = set()
        self._system_folders: set[str] = set()
        try:
            with tarfile.open(file, "r:") as tar:
                self._read_headers(tar)
                if not self._has_end(tar.offset):
                    raise EOFError("no end mark")
        except (tarfile.TarError, OSError, EOFError, ValueError) as error:
            if not self._places:
                hint = "a compressed tar cannot be read in any order: store it uncompressed"
                raise refuse_file(file, "a tar file", error, hint) from None
            why = explain_error(error)
            self._fault = f"the file ends in the middle, after {len(self._places)} files: {why}"

    def _read_headers(self, tar: tarfile.TarFile) -> None:
        while (info := tar.next()) is not None:
            tar.members = []  # type: ignore[attr-defined]  # it would keep every header
            if info.isdir():
                continue
            if is_hidden(info.name):
                self._system_folders.add(find_system_folder(info.name))
                continue
            fault = name_fault(info.name)
            if not fault and not info.isreg():
                fault = "a link or device, and no file"
            if fault:
                self._faults.append(Member(f"member at byte {info.offset}", fault=fault))
            elif len(self._places) < _MOST_MEMBERS:
                name = normalise_name(info.name)
                if name in self._places:
                    self._repeated.add(name)
                self._places[name] = info.offset_data, info.size

    def _has_end(self, offset: int) -> bool:
        """Return whether the block of zeros is there that ends a tar file (POSIX 1003.1)."""
        with self._file.open("rb") as file:
            file.seek(offset)
            return file.read(tarfile.BLOCKSIZE) == bytes(tarfile.BLOCKSIZE)

    @cached_property
    def _samples(self) -> dict[str, dict[str, str]]:
        """The names of each sample's files by extension."""
        samples: dict[str, dict[str, str]] = {}
        for name in self._places:
            path = PurePosixPath(name)
            stem, _, extension = path.name.partition(".")
            files = samples.setdefault(str(path.parent / stem), {})
            if extension.lower() in files:  # .jpg and .JPG
                self._repeated |= {name, files[extension.lower()]}
            files[extension.lower()] = name
        return samples

    def list_members(self) -> Iterator[Member]:
        """See :class:`.base.Archive`.

        A shard without labels of its own has the classes in the folders of the names.
        """
        extensions = set(chain.from_iterable(self._samples.values()))
        is_labelled = not extensions.isdisjoint(LABELS)
        for files in self._samples.values():
            for extension, name in files.items():
                if extension in LABELS:
                    continue
                if name in self._repeated:
                    yield Member(name, fault=REPEATED)
                elif is_labelled:
                    yield self._label_member(name, files)
                else:
                    yield Member(name)
        yield from self._unusable

    def system_folders(self) -> Collection[str]:
        """See :class:`.base.FolderArchive`."""
        return self._system_folders - {""}

    def inner_archives(self) -> Sequence[str]:
        """See :class:`.base.FolderArchive`."""
        return list(filter(is_archive_name, self._places))

    @property
    def _unusable(self) -> list[Member]:
        if not self._fault:
            return self._faults
        return [*self._faults, Member("the end", fault=self._fault)]

    def _label_member(self, name: str, files: dict[str, str]) -> Member:
        """Return an image with its class, or why it has none.

        ``.cls`` and ``.json`` must not say different names.
        """
        written: dict[str, str] = {}
        for extension in LABELS:
            if extension not in files:
                continue
            file = files[extension]
            if file in self._repeated:
                return Member(name, fault=f"the archive has several files '.{extension}' of it")
            if self._places[file][1] > _MOST_LABEL_BYTES:
                return Member(
                    name, fault=f"its .{extension} has more than {_MOST_LABEL_BYTES} bytes"
                )
            try:
                label = _read_label(extension, self.read_member(file))
            except (OSError, ValueError, RecursionError):
                label = ""
            if label:
                written[extension] = label
        if not written:
            return Member(name, fault="no label")
        in_cls = written.get("cls", "")
        in_json = written.get("json", "")
        # A number in one and a name in the other may mean the same class.
        are_comparable = in_cls.isdecimal() == in_json.isdecimal()
        if in_cls and in_json and in_cls != in_json and are_comparable:
            return Member(
                name, fault=f"its .cls says '{in_cls[:80]}', and its .json '{in_json[:80]}'"
            )
        return Member(name, next(iter(written.values())))

    def list_objects(self) -> Iterator[ImageObjects]:
        """See :class:`.base.BoxedArchive`.

        They are ``objects`` or ``annotations`` in the JSON file of a sample.
        """
        for files in self._samples.values():
            try:
                content: Any = json.loads(self.read_member(files["json"]))
                objects = next(content[key] for key in OBJECTS if key in content)
            except (KeyError, OSError, ValueError, TypeError, RecursionError, StopIteration):
                content = {}
                objects = None
            fault = ""
            if not isinstance(objects, list | dict):
                fault = f"no JSON file with its objects ({' or '.join(OBJECTS)})"
            size = (None, None)
            if isinstance(content, dict):
                size = (content.get("width"), content.get("height"))
            for extension, name in files.items():
                if extension not in LABELS:
                    yield ImageObjects(name, read_objects(objects), size, fault)
        for file in self._unusable:
            yield ImageObjects(file.name, fault=file.fault)

    def read_member(self, name: str) -> bytes:
        """See :class:`.base.Archive`."""
        if name not in self._places:
            raise FileNotFoundError(f"the shard has no '{name}'")
        if name in self._repeated:
            raise ContentError(REPEATED)
        offset, size = self._places[name]
        within_limit(size)
        with self._file.open("rb") as file:
            file.seek(offset)
            data = file.read(size)
        if len(data) != size:
            raise ContentError("damaged: the shard ends in the middle of the image")
        return data


def _read_label(extension: str, data: bytes) -> str:
    """Return the class that a file of a sample states; empty for none."""
    text = data.decode()
    if extension != "json":
        return text.strip()
    content: Any = json.loads(text)
    if not isinstance(content, dict):
        return ""
    label = next((content[key] for key in KEYS if key in content), "")
    is_name = isinstance(label, str | int) and not isinstance(label, bool)
    return str(label).strip() if is_name else ""
