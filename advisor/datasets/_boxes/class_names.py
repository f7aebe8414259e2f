"""Find the file with the class names of a set in YOLO's format, and name the classes of its rows.

The names are in ``data.yaml``, ``classes.txt``, ``obj.names`` or a list under another name.
Without one, rows may name their classes themselves. ``yolo.py`` asks for both; ``__init__.py``
asks whether a folder has such a file, to tell its format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from advisor.core import UsageError
from advisor.datasets._boxes.label_files import find_label_folders
from advisor.datasets._boxes.set_folders import (
    list_files_with_suffix,
    list_part_folders,
    read_short_text,
)
from advisor.datasets._boxes.text_rows import UNCOUNTED, TextRow, is_number
from advisor.datasets._category_files import CLASS_LISTS, find_first_number, require_beside
from advisor.datasets._folder_questions import some_of
from advisor.store import YamlDocument, labels_in

NAMES = ("data.yaml", "data.yml", "dataset.yaml", "classes.txt", "obj.names", "_darknet.labels")
YAML = frozenset({".yaml", ".yml"})
DARKNET_NAMES = ".names"  # Extension of a list of classes

HINT = (
    "write data.yaml with 'names: [cat, dog]', or classes.txt with one name a line, beside images/"
    " and labels/"
)

MOST_DIGITS = 9  # Of a class number: a longer text is none


def name_classes_of_rows(
    file: Path | None, root: Path, images: Iterable[Sequence[TextRow]]
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the name of each class number, or of each class that rows name,
    and sentences on what they say.

    Numbers count from 1 if the number of names is used as a number, and 0 is not. Raises
    UsageError if there are numbers, and no names.
    """
    rows = list(chain.from_iterable(images))
    names = _read_names(file) if file is not None else {}
    named = _name_unlisted_classes(rows, names)
    if named:
        return {**names, **named}, (
            () if names else (f"The rows name the classes: {some_of(named)}.",)
        )
    if file is None:
        raise UsageError(f"--data: '{root}' has YOLO labels, but no names of their classes", HINT)
    is_list = list(names) == list(map(str, range(len(names))))
    numbers = {row.label for row in rows} - set(names.values())
    is_plain = all(label.isdecimal() and len(label) <= MOST_DIGITS for label in numbers)
    # Only a list can be counted from another number;
    # names that the file numbers itself are as they say.
    if not is_list or not is_plain or find_first_number(set(map(int, numbers)), len(names)) != 1:
        return names, ()
    shifted = {str(place): name for place, name in enumerate(names.values(), start=1)}
    return shifted, (
        f"The class numbers count from 1: 1 is '{shifted['1']}', and 0 is in no file of labels.",
    )


def _name_unlisted_classes(rows: Sequence[TextRow], names: Mapping[str, str]) -> Mapping[str, str]:
    """Return the classes that rows name, and that ``names`` does not have.

    Where names are known, rows of YOLO add none.
    """
    labels = set()
    for row in rows:
        if row.form or not names:
            labels.add(row.label)
    unknown = labels - set(names) - set(names.values())
    words = sorted(label for label in unknown if not is_number(label))
    return {label: label for label in words if label.casefold() != UNCOUNTED}


def find_strict_names_file(root: Path) -> Path | None:
    """Return the file with the class names that has a name of YOLO's, in any case."""
    folders = [root, *(folder for folder, _ in list_part_folders(root)), *find_label_folders(root)]
    for folder in dict.fromkeys(folders):
        files = {}
        for file in sorted(folder.iterdir()):
            if file.is_file():
                files[file.name.casefold()] = file
        for name in NAMES:
            if name in files:
                return files[name]
    return None


def find_names_file(root: Path) -> Path | None:
    """Return the file with the class names, or None.

    If there are labels, other YAML files and lists of classes count, too.
    """
    strict = find_strict_names_file(root)
    if strict is not None:
        return strict
    labels = find_label_folders(root)
    others = []
    if labels:
        others = list(
            chain.from_iterable(list_files_with_suffix(root, suffix) for suffix in sorted(YAML))
        )
    others += list_files_with_suffix(root, DARKNET_NAMES)
    for folder in [root, *labels] if labels else ():
        others += [folder / name for name in CLASS_LISTS]
    return next((file for file in others if file.is_file()), None)


def is_names_file(path: Path) -> bool:
    """Return whether a file has the names of YOLO's classes, by its name."""
    name = path.name.casefold()
    return path.suffix.casefold() in {*YAML, DARKNET_NAMES} or name in NAMES or name in CLASS_LISTS


def _read_names(file: Path) -> dict[str, str]:
    """Return the name of each class number."""
    if file.suffix.lower() not in YAML:
        text = read_short_text(require_beside(file)).strip()
        lines = [line.strip() for line in text.splitlines()]
        # An empty line in the middle counts as a class.
        labels = lines if "" in lines else labels_in(text)
        return {str(place): name for place, name in enumerate(labels)}
    names = read_yaml_values(file).get("names")
    rows = names
    if isinstance(names, list):
        rows = dict(enumerate(names))
    if not isinstance(rows, dict) or not rows:
        raise UsageError(f"--data: '{file}' has no list 'names' of the classes", HINT)
    return {str(place): str(name) for place, name in rows.items()}


def read_yaml_values(file: Path) -> Mapping[str, Any]:
    """Return the values of a YAML file as they are written."""
    values = YamlDocument.read(file, as_text=True).values
    return values if isinstance(values, dict) else {}


def has_key_points(file: Path) -> bool:
    """Return whether rows go on with key points behind the box, as ``kpt_shape`` in data.yaml
    says.
    """
    return file.suffix.lower() in YAML and "kpt_shape" in read_yaml_values(file)
