"""Find the images that a table or an annotation names: at the stated path, or by their names.

All readers of tables, boxes and masks ask here. Tables often come from another machine, so a path
that leads nowhere is common; an image is never guessed if two have its name.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

from advisor.datasets._folder_questions import some_of
from advisor.datasets._image_files import may_be_image
from advisor.datasets._system_folders import is_system_name
from advisor.datasets._table_rows import PROBED
from advisor.store import walk_folder

_THOUSANDS = re.compile(r"\d{1,3}(?:[.,'’\s]\d{3})+")  # A number with marks between thousands
# End of a whole number that is written as a fraction.
_WHOLE_FRACTION = re.compile(r"(?<=\d)\.0+$")
NUMBERED = "#"  # Before the number that a name is, among other names
_EXPORT_PREFIX = re.compile(r"[0-9a-f]{8}-")  # What Label Studio puts before the name of an image


def find_by_name(
    table: Path, paths: Sequence[Path], root: Path
) -> tuple[Sequence[Path], tuple[str, ...]]:
    """Return the images of a table: at the stated paths, else below ``root`` by their names.

    In the second case a sentence says so.
    """
    if any(map(is_there, paths[:PROBED])):
        return paths, ()
    places = index_images(root)
    places_of_paths = []
    for path in paths:
        places_of_name = map(places.get, _list_names(path))
        places_of_paths.append(next(filter(None, places_of_name), None))
    folders = sorted({str(path.parent.relative_to(root)) for path in places_of_paths if path})
    if not folders:
        return paths, ()
    moved = [place or path for place, path in zip(places_of_paths, paths, strict=True)]
    return moved, (
        f"The images of '{table.name}' are found by their names in {some_of(folders)}.",
    )


def _list_names(path: Path) -> Iterator[str]:
    """Yield the keys of :func:`index_images` of an image in a table, the surest first."""
    # Label Studio writes the address of its own server, with the path behind ``?d=``.
    name = path.name.rpartition("?d=")[2]
    if "%" in name:
        name = unquote(name)
    yield f"{path.parent.name}/{name}"
    yield name
    if not path.suffix[1:].isdecimal():  # 1.001 may be the number 1,001
        yield path.stem
    yield _EXPORT_PREFIX.sub("", name, count=1)
    number = _number_in(name)
    if number:
        yield number


def _number_in(name: str) -> str:
    """Return the number that a name is, without leading zeros and marks; empty for none."""
    if name.isdecimal():
        digits = name
    elif _THOUSANDS.fullmatch(name):
        digits = "".join(filter(str.isdecimal, name))
    else:
        digits = _WHOLE_FRACTION.sub("", name)
    if digits.isdecimal():
        return f"{NUMBERED}{digits.lstrip('0') or '0'}"
    return ""


def index_images(root: Path) -> dict[str, Path | None]:
    """Return the images below a folder by name, by stem, and by folder and name.

    An image whose name is a number also has the key of :func:`_number_in`: spreadsheets drop
    zeros, and mark thousands. The value is None where several images have a name: nothing says
    which one is meant.
    """
    places: dict[str, Path | None] = {}
    for folder, inner, files in walk_folder(root):
        inner[:] = sorted(name for name in inner if not is_system_name(name))
        for file in files:
            if is_system_name(file) or not may_be_image(Path(file)):
                continue
            path = folder / file
            names = (file, path.stem, f"{folder.name}/{file}", _number_in(path.stem))
            for name in filter(None, names):
                places[name] = None if name in places else path
    return places


def is_there(path: Path) -> bool:
    """Return whether a file exists; False for a name that no file can have."""
    return os.path.exists(path)  # noqa: PTH110 -- it raises no error for a name that is too long


def locate_image(folder: Path, name: str) -> Path:
    """Return the file that a table or an annotation names, relative to a folder.

    Windows separates names by backslashes. A name with accents may be composed in the table (NFC)
    and not on the disk (NFD), or the other way.
    """
    if "\\" in name and not ("/" in name and is_there(folder / name)):
        name = name.replace("\\", "/")
    path = os.path.normpath(os.path.join(folder, name))  # noqa: PTH118 -- a third of the time of paths
    if name.isascii() or os.path.exists(path):  # noqa: PTH110
        return Path(path)
    forms = (Path(unicodedata.normalize(form, path)) for form in ("NFC", "NFD"))
    return next(filter(is_there, forms), Path(path))
