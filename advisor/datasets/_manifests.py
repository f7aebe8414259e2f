"""Read tables that name images and their classes: CSV, Parquet, JSON and lists in text files.

:func:`list_manifest` lists such a table for ``_layouts.py`` and ``_tables_beside.py``.
:func:`read_rows` and :func:`read_entry` also read the tables of boxes, masks and sets of labels.
``_column_search.py`` finds the columns, ``_table_rows.py`` reads the cells. Tables are untrusted:
a row that cannot be right is rejected with its number.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from advisor.core import UsageError, nearest, plain as plain_text, plural
from advisor.datasets._captions import refuse_captions
from advisor.datasets._category_files import (
    find_class_names,
    find_first_number,
    make_key,
    read_class_descriptions,
)
from advisor.datasets._column_search import (
    HINT_OF_MARKS,
    LABELLED,
    find_columns,
    find_folder_of_images,
    has_edges,
)
from advisor.datasets._dataset import LISTED_EVERY, Entry, Listed, Listing, Rejected
from advisor.datasets._folder_questions import some_of
from advisor.datasets._image_places import find_by_name, locate_image
from advisor.datasets._json_labels import split_cell
from advisor.datasets._manifest_columns import ManifestColumns
from advisor.datasets._names import strip_invisible
from advisor.datasets._parts import PART_OF_WORD, UNLABELLED, part_of
from advisor.datasets._table_rows import (
    SHOWN,
    Row,
    read_column_names,
    read_table_rows,
)
from advisor.datasets._untitled_columns import NO_PART

LONGEST_LABEL = 1000
IDENTIFIED_LABEL = "labelname"  # Column of Open Images whose labels are identifiers of classes
# Cells without a label, as programs write them.
NO_LABEL = frozenset({"", "nan", "null", "<na>", "#n/a"})
# Of a label that people looked for in the image, and did not find.
NO_CONFIDENCE = frozenset({"0", "0.0"})
TRUE_WORDS = frozenset({"1", "1.0", "true", "yes", "y", "t"})
FALSE_WORDS = frozenset({"0", "0.0", "false", "no", "n", "f"})
FEWEST_VALUES = 4  # Images from which on a value for each image is no class
_SEPARATORS = re.compile(r"[\s,;|+&/]+")  # Between labels in one cell
_OBJECT = re.compile(r"\[?\s*\{.*:.*\}\s*\]?", re.DOTALL)  # A cell that no class can be


@dataclass
class _ReadTable:
    """The rows of a table, by image and label."""

    entries: dict[tuple[Path, str], Entry] = field(default_factory=dict)  # by path and label
    labels: dict[Path, list[str]] = field(default_factory=dict)  # of each image
    rejected: list[Rejected] = field(default_factory=list)
    absent: int = 0  # rows that say what an image does not show


def list_manifest(
    path: Path,
    listed: Listed = lambda _count: None,
    root: Path | None = None,
    more_labels: Collection[str] = (),
) -> Listing:
    """List the files of a table.

    Rows without a label, repeated rows and images of several classes are rejected. If no image is
    where the table says, all are found by their names, with or without an extension, in the
    folders below ``root`` (default: :func:`find_folder_of_images`).

    ``listed`` is called now and then with the number of rows. ``more_labels`` are those of the
    tables of other parts: all of them together tell how classes are numbered.

    Raises UsageError if the table cannot be read, or has no two classes.
    """
    table = _read_table(path, listed)
    single, several = _reject_several_classes(table)
    classes = {entry.label for entry in single}.union(more_labels)
    # Single images of several classes are mistakes; where most have several, they are attributes.
    if 2 * several > len(single):
        _refuse_attributes(path)
    _refuse_few_classes(path, classes, several)
    refuse_captions(path, classes, len(single))
    _refuse_values(path, classes, len(single))
    names, notes_on_names = _name_numbered_classes(path, classes)
    root = root or find_folder_of_images(path)
    paths, notes_on_places = find_by_name(path, [entry.path for entry in single], root)
    notes = [
        *notes_on_names,
        *_describe_other_columns(path),
        *_describe_joined_labels(classes),
        *notes_on_places,
    ]
    images = []
    for entry, image_path in zip(single, paths, strict=True):
        images.append(replace(entry, path=image_path, label=names.get(entry.label, entry.label)))
    if has_edges(path):
        notes.append(
            f"The boxes of '{path.name}' are not used: --task object-detection reads them."
        )
    if table.absent:
        notes.append(
            f"{plural(table.absent, 'label')} of '{path.name}' with confidence 0 say what an image"
            " does not show."
        )
    return Listing(root, images, (), table.rejected, tuple(notes))


def _read_table(path: Path, listed: Listed) -> _ReadTable:
    """Return the rows of a table, without those that have no label or repeat another one."""
    table = _ReadTable()
    for number, row in read_rows(path, LABELLED):
        if row.get("confidence", "").strip() in NO_CONFIDENCE:
            table.absent += 1
            continue
        entry = read_entry(path, number, row, LABELLED)
        if number % LISTED_EVERY == 0:
            listed(number)
        place = f"row {number} of '{path.name}'"
        if entry.label.strip().casefold() in NO_LABEL:
            table.rejected.append(Rejected(entry.path, f"no label ({place})"))
        elif table.entries.setdefault((entry.path, entry.label), entry) is not entry:
            table.rejected.append(Rejected(entry.path, f"listed twice ({place})"))
        else:
            table.labels.setdefault(entry.path, []).append(entry.label)
    return table


def _reject_several_classes(table: _ReadTable) -> tuple[list[Entry], int]:
    """Return the images of one class, and how many have several; these are rejected."""
    single: list[Entry] = []
    several: set[Path] = set()
    for entry in table.entries.values():
        labels = table.labels[entry.path]
        if len(labels) == 1:
            single.append(entry)
        # An image of several classes has an entry for each, and is reported once.
        elif entry.path not in several:
            several.add(entry.path)
            reason = f"of several classes: {', '.join(labels)}"
            table.rejected.append(Rejected(entry.path, reason))
    return single, len(several)


def _refuse_attributes(path: Path) -> None:
    """Refuse a table with a column of 1 and 0 for each of many attributes of an image."""
    known = find_columns(path, LABELLED)
    if known.flags:
        number = read_column_names(path).index(known.flags[0]) + 1
        raise UsageError(
            f"--data: '{path}' has {len(known.flags)} columns of 1 and 0 or -1, and most images"
            " have several classes: they are attributes",
            f"keep one as the class, here '{known.flags[0].strip()}': cut -d, -f1,{number}"
            f" {shlex.quote(str(path))} > table.csv",
        )


def _refuse_few_classes(path: Path, labels: Collection[str], several: int) -> None:
    """Refuse a table with fewer than two classes; ``several`` images have more than one."""
    addition = ""
    if several:
        addition = f"; {plural(several, 'image has', 'images have')} several classes"
    if not labels:
        raise UsageError(f"--data: '{path}' names no image with a label{addition}", LABELLED.hint)
    if len(labels) == 1:
        label = next(iter(labels))
        raise UsageError(
            f"--data: '{path}' has one class only, '{label}'{addition}",
            "add images of a second class",
        )


def _refuse_values(path: Path, labels: Collection[str], images: int) -> None:
    """Refuse a column that has another value for most images, and no title of classes."""
    note = find_columns(path, LABELLED).note
    if note and images >= FEWEST_VALUES and len(labels) > images / 2:
        raise UsageError(
            f"--data: '{path}' has another value for most images, such as"
            f" '{plain_text(min(labels))[:SHOWN]}'. {note}",
            "a class has several images: give a table with the columns path and label",
        )


def _describe_other_columns(path: Path) -> Iterator[str]:
    """Yield a sentence on columns that may have the classes, too."""
    known = find_columns(path, LABELLED)
    if known.others:
        chosen = known.names["label"].strip()
        yield (
            f"The classes are those of the column '{chosen}', and not of {some_of(known.others)}."
        )


def _describe_joined_labels(labels: Collection[str]) -> Iterator[str]:
    """Yield a sentence on labels that join others: ``scab rust`` beside ``scab``, ``rust``."""
    joined = []
    for label in labels:
        words = _SEPARATORS.split(label.strip())
        # A stroke joins labels in any case;
        # a blank does so only between words that are labels themselves.
        joins_labels = "|" in label or all(word in labels for word in words)
        if joins_labels and len(words) > 1:
            joined.append(label)
    if joined:
        yield (
            f"Labels that join others are classes too: {some_of(joined)}. Is each image of one"
            " class?"
        )


def _name_numbered_classes(
    path: Path, labels: Collection[str]
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the names of classes that a table states as numbers, and sentences on the source.

    A number such as ``1.0`` is ``1``. The names are in a list of classes beside the table, counted
    from 0 or from 1.
    """
    note = find_columns(path, LABELLED).note
    notes = (note,) if note else ()
    numbers = {label: make_key(label.strip()) for label in labels}
    if not all(map(str.isdecimal, numbers.values())):
        return {}, notes
    file, classes = find_class_names(path)
    places = {label: int(number) for label, number in numbers.items()}
    first = find_first_number(places.values(), len(classes))
    if first is None:
        return numbers, notes
    names = {label: classes[place - first] for label, place in places.items()}
    return names, (
        *notes,
        f"The names of the classes are those of '{file}', counted from {first}.",
    )


def read_labels_of_tables(tables: Sequence[Path]) -> set[str]:
    """Return the labels that tables have."""
    labels: set[str] = set()
    for table in tables:
        labels.update(row["label"].strip() for _, row in read_rows(table, LABELLED))
    return labels


def read_rows(path: Path, wanted: ManifestColumns) -> Iterator[tuple[int, Row]]:
    """Yield (line or row number from 1, cells by column); cells are text, missing ones are empty.

    An image with 1 in several columns of classes has several rows. Raises UsageError if the file
    cannot be read as the format of its extension, or a needed column is missing.
    """
    known = find_columns(path, wanted)
    identified = known.names.get("label", "").strip().casefold() == IDENTIFIED_LABEL
    names = read_class_descriptions(path.parent) if identified else {}
    for number, row in read_table_rows(path, list(known.names.values())):
        cells = {name: row.get(column, "") for name, column in known.names.items()}
        if not known.flags:
            cell = cells.get("label", "")
            labels = (split_cell(cell) if wanted.lists else []) or [cell]
            if wanted is LABELLED and _OBJECT.fullmatch(labels[0].strip()):
                raise UsageError(
                    f"--data: row {number} of '{path}' has an object for its label", HINT_OF_MARKS
                )
            for label in labels:
                yield number, {**cells, "label": names.get(label, label)}
            continue
        classes = []
        for flag in known.flags:
            word = row.get(flag, "").strip().casefold()
            if word in TRUE_WORDS:
                classes.append(flag)
        for label in classes or [""]:
            yield number, {**cells, "label": label.strip()}


def read_entry(manifest: Path, number: int, row: Row, columns: ManifestColumns) -> Entry:
    """Return the image that a row names, with its label, part and group.

    Raises UsageError if the row names no image or an unknown part, or its label is too long.
    """
    name = strip_invisible(row["path"])
    written = row.get("split", "").strip() or _read_part_flags(row)
    written = "" if written.casefold() in NO_PART else written
    if not name or "\0" in name:
        raise UsageError(f"--data: row {number} of '{manifest}' names no image", columns.hint)
    if "\0" in row["label"] or len(row["label"]) > LONGEST_LABEL:
        raise UsageError(
            f"--data: row {number} of '{manifest}' has a label with NUL or of more than"
            f" {LONGEST_LABEL} characters",
            "write another name of the class",
        )
    part = part_of(written) if written else ""
    if written and part in ("", UNLABELLED):
        raise UsageError(
            f"--data: row {number} of '{manifest}' has the split"
            f" '{written}'{nearest(written.casefold(), PART_OF_WORD)}",
            "write train, validation or test, or leave it empty",
        )
    return Entry(
        locate_image(manifest.parent, name), row["label"], part, row.get("group", "").strip()
    )


def _read_part_flags(row: Row) -> str:
    """Return the part that ``is_train``, ``is_valid`` and ``is_test`` say; not train is test."""
    implied_part = ""
    for column, cell in row.items():
        flag = cell.strip().casefold()
        if not column.startswith("is_"):
            continue
        part = column.removeprefix("is_")
        if flag in TRUE_WORDS:
            return part
        if flag in FALSE_WORDS and implied_part != "test":
            implied_part = "test" if part == "train" else "train"
    return implied_part
