"""A zip file of class folders."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

from advisor.core.errors import ContentError, reason_of
from advisor.datasets.sources.base import (
    REPEATED,
    Member,
    is_hidden,
    name_fault,
    plain_name,
    repeated_names,
    unreadable,
    within_limit,
)
from advisor.store.files import UNREADABLE_ZIP


class ZipFile:
    """Reads images of a zip file by their names. The directory at its end says where each is."""

    def __init__(self, file: Path) -> None:
        try:
            self._zip = zipfile.ZipFile(file)
        except UNREADABLE_ZIP as error:
            raise unreadable(file, "a zip file", error) from None
        # Some programs on Windows separate the names of folders by backslashes.
        names = [plain_name(info.filename.replace("\\", "/")) for info in self._zip.infolist()]
        self._infos = dict(zip(names, self._zip.infolist(), strict=True))
        self._repeated = repeated_names(names)

    def members(self) -> Iterator[Member]:
        """See :class:`.base.Archive`. Folders, links and hidden files are no images."""
        for name, info in self._infos.items():
            kind = info.external_attr >> 28
            if not info.filename.endswith("/") and not is_hidden(name) and kind in (0, 8):
                fault = name_fault(info.filename.replace("\\", "/")) or self._fault(name)
                yield Member(name, fault=fault)

    def _fault(self, name: str) -> str:
        """Return why the content of a file is not used; empty if it is."""
        if name in self._repeated:
            return REPEATED
        return "it is encrypted" if self._infos[name].flag_bits & 1 else ""

    def read(self, name: str) -> bytes:
        """See :class:`.base.Archive`."""
        try:
            info = self._infos[name]
            if name in self._repeated:
                raise ContentError(REPEATED)
            size = within_limit(info.file_size)
            with self._zip.open(info) as stream:
                data = stream.read(size + 1)
        except KeyError:
            raise FileNotFoundError(f"the zip file has no '{name}'") from None
        except UNREADABLE_ZIP as error:
            raise ContentError(f"damaged: {reason_of(error)}") from None
        if len(data) != size:
            raise ContentError("damaged: its size is not the one in the directory of the zip file")
        return data
