"""Read names of classes and labels from the files that large public sets have beside their images.

Readers of tables, folders and YOLO's files ask here how classes are named. iNaturalist states the
class of each image as COCO does, without boxes: a JSON file with the lists ``images``,
``annotations`` and ``categories``. Open Images names classes by identifiers such as ``/m/01yrx``,
and has a table of their names beside the tables of labels.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from advisor.core import UsageError, parse_known
from advisor.datasets._read_errors import explain_error
from advisor.store import MAX_BYTES, parse_json, read_labels, read_text

LISTS = ("images", "categories", "annotations")
REGIONS = ("bbox", "segmentation")
HINT = (
    "a JSON file has the lists images, annotations and categories, and a category_id for each"
    " image"
)
DESCRIPTIONS = "*class-descriptions*.csv"
MAX_DESCRIPTIONS_BYTES = 2**26
_CLASS_LISTS = """
classes.txt class_names.txt classnames.txt class_list.txt labels.txt label_names.txt labelmap.txt
label_map.txt categories.txt names.txt synset.txt synsets.txt obj.names _classes.txt
"""
CLASS_LISTS = tuple(_CLASS_LISTS.split())
SYNSETS = ("words.txt", "LOC_synset_mapping.txt", "synset_words.txt")
_SYNSET = re.compile(r"n\d{8}")
_WHOLE = re.compile(r"(?<=\d)\.0+$")  # End of a whole number that is written as a fraction

_IMAGE = {"id": object, "file_name": str}
_CATEGORY = {"id": object, "name": str}
_ANNOTATION = {"image_id": object, "category_id": object}


def make_key(written: object) -> str:
    """Return an identifier as text: tools write a number as text, or as ``1.0``, in some lists."""
    if isinstance(written, float) and written.is_integer():
        return str(int(written))
    if isinstance(written, str):
        return _WHOLE.sub("", written.strip())
    return str(written) if isinstance(written, int) else ""


def read_category_labels(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the file name and the class of each image of a JSON file; an empty class for none.

    Raises UsageError if the file cannot be read, lacks a list, or marks regions of the images.
    """
    lists = read_lists(path, "JSON", HINT)
    _refuse_regions(path, lists["annotations"])
    names = {}
    for row in lists["categories"]:
        category = _parse_row(_CATEGORY, row)
        names[make_key(category.get("id"))] = category.get("name", "")
    files = {}
    for row in lists["images"]:
        image = _parse_row(_IMAGE, row)
        files[make_key(image.get("id"))] = image.get("file_name", "")
    for row in lists["annotations"]:
        annotation = _parse_row(_ANNOTATION, row)
        file = files.get(make_key(annotation.get("image_id")), "")
        if file:
            yield file, names.get(make_key(annotation.get("category_id")), "")


def read_lists(path: Path, form: str, hint: str) -> Mapping[str, list[Any]]:
    """Return the lists of a JSON file in a form like COCO; UsageError with the hint if one is
    missing.
    """
    try:
        content = parse_json(read_text(path, MAX_BYTES))
    except ValueError as error:
        raise UsageError(
            f"--data: '{path}' cannot be read as {form}: {explain_error(error)}", hint
        ) from None
    lists = content if isinstance(content, dict) else {}
    for name in LISTS:
        if not isinstance(lists.get(name), list):
            shown = ", ".join(map(repr, list(lists)[:8])) or "nothing of it"
            raise UsageError(f"--data: '{path}' has no list '{name}', but {shown}", hint)
    return lists


def _refuse_regions(path: Path, annotations: Sequence[Any]) -> None:
    """Refuse a file whose annotations mark objects in the images, and no class of each image."""
    for row in annotations:
        if isinstance(row, dict) and any(map(row.get, REGIONS)):
            raise UsageError(
                f"--data: '{path}' marks objects in the images, and no class of each image",
                "these are data for object detection; for classes, list the images in a table with"
                " the columns path and label",
            )


def _parse_row(kinds: Mapping[str, Any], row: Any) -> dict[str, Any]:
    return parse_known(kinds, row if isinstance(row, Mapping) else {})


def read_class_descriptions(folder: Path) -> Mapping[str, str]:
    """Return the names of classes by their identifiers, of the first table of descriptions.

    Each row is an identifier and a name; the first row may name the columns. Empty if the folder
    has no such table.
    """
    for table in sorted(folder.glob(DESCRIPTIONS)):
        rows = csv.reader(read_text(table, MAX_DESCRIPTIONS_BYTES).splitlines())
        return {row[0].strip(): row[1].strip() for row in rows if len(row) > 1}
    return {}


def read_synset_names(folder: Path, classes: Sequence[str]) -> tuple[str, Mapping[str, str]]:
    """Return a file's name, and the names of classes that are synsets of WordNet (``n01443537``).

    A name is the first word of the synset; all of its words, if another class has the same.
    Nothing if the folder, or the one that it is in, has no such file with all of the classes.
    """
    if not classes or not all(map(_SYNSET.fullmatch, classes)):
        return "", {}
    places = [place / name for place, name in product((folder, folder.parent), SYNSETS)]
    for file in filter(Path.is_file, places):
        words: dict[str, str] = {}
        for line in read_text(require_beside(file), MAX_DESCRIPTIONS_BYTES).splitlines():
            synset, _, text = line.strip().replace("\t", " ").partition(" ")
            words[synset] = text.strip()
        # A list of another release lacks some, and half of the names would be worse than none.
        if not all(map(words.get, classes)):
            continue
        first_words = {name: words[name].partition(",")[0] for name in classes}
        counts = Counter(first_words.values())
        names = {}
        for name, short in first_words.items():
            # Two synsets may begin with one word,
            # such as a crane that is a bird and one that lifts.
            names[name] = short if counts[short] == 1 else words[name]
        return file.name, names
    return "", {}


def require_beside(place: Path, table: Path | None = None) -> Path:
    """Return the path of a list of classes; UsageError if it is a link out of its folder.

    It could lead to any text file of this machine, and reports show its lines. It may lead to
    where the table beside it leads: a cache of downloads has both as links to one folder.
    """
    folders = [place.parent.resolve(), *([table.resolve().parent] if table else [])]
    if place.is_symlink() and place.resolve().parent not in folders:
        raise UsageError(
            f"--data: '{place}' is a link out of its folder", "put a copy of the file there"
        )
    return place


def find_class_names(table: Path) -> tuple[str, Sequence[str]]:
    """Return the name and the classes of the first list of classes beside a table, or nothing."""
    for name in CLASS_LISTS:
        file = table.with_name(name)
        if file != table and file.is_file():
            return name, read_labels(require_beside(file, table))
    # Places365 names each list for its set.
    for file in sorted(table.parent.glob("categories*.txt")):
        if file != table:
            return file.name, _without_numbers_behind(read_labels(require_beside(file, table)))
    return "", ()


def _without_numbers_behind(names: Sequence[str]) -> Sequence[str]:
    """Return names without numbers behind them, as in ``/a/airfield 0``, that count lines."""
    plain_names = []
    for place, name in enumerate(names):
        words = name.rsplit(maxsplit=1)
        if len(words) < 2 or words[1] != str(place):
            return names
        plain_names.append(words[0])
    return plain_names


def find_first_number(numbers: Collection[int], names: int) -> int | None:
    """Return the number of the first class, 0 or 1; None if a number is beyond the last class.

    It is 1 if the number of classes is used as a number, and 0 is not: counted from 0, it would
    have no name.
    """
    if not names or not numbers:
        return None
    if max(numbers) < names:
        return 0
    if max(numbers) == names and min(numbers) > 0:
        return 1
    return None
