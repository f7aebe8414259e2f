"""List tables of images and their labels: one column with all labels, or a column for each class.

``survey.py`` calls :func:`list_label_sets`. ``cells.py`` splits cells with several labels. A cell
of a column for a class may say that it is there, is not there, or that nobody knows; a column of
other values is no class.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from advisor.core import UsageError, listed
from advisor.datasets._boxes.inside import find_files_with_images
from advisor.datasets._boxes.set_folders import labelled_part_of, list_part_folders
from advisor.datasets._column_names import FOREIGN_IMAGES, IMAGES, TAGS
from advisor.datasets._column_search import SUFFIXES
from advisor.datasets._dataset import Entry, Rejected
from advisor.datasets._image_places import find_by_name
from advisor.datasets._label_sets.cells import split_cells
from advisor.datasets._label_sets.entries import LabelSetEntry, LabelSetListing
from advisor.datasets._label_sets.folders import list_class_folders
from advisor.datasets._label_sets.inside import list_inside
from advisor.datasets._layouts import missing_hint
from advisor.datasets._manifest_columns import SPLIT, ManifestColumns
from advisor.datasets._manifests import read_entry, read_rows
from advisor.datasets._table_rows import JSON, read_column_names

# A column of numbers may be beside one of names.
IMAGE_COLUMNS = (*(title for title in IMAGES if title != "id"), *FOREIGN_IMAGES, "id")
HINT = (
    "give a CSV file with the columns path and labels, such as 1.jpg,cat|dog; or with a column for"
    " each class that has 1, 0, or nothing where it is not known. JSON lines, Parquet, boxes and"
    " folders of classes are read too"
)
TRUE_WORDS = frozenset({"1", "1.0", "true", "yes", "y", "t", "x", "✓", "✔"})
FALSE_WORDS = frozenset({"0", "0.0", "false", "no", "n", "f"})
MINUS = frozenset({"-1", "-1.0"})
UNKNOWN_WORDS = frozenset({"", "nan", "null", "none", "<na>", "?", "unknown"})
# Title of a column beside the labels: a list of labels of which nobody knows if they are there.
UNKNOWN_LABELS = "unknown_labels"
# Share of the cells of a column that say yes, no or unknown, from which on the column is a class.
CLASS_SHARE = 0.95
MOST_CLASSES = 1000
_FLAGS = TRUE_WORDS | FALSE_WORDS | MINUS | UNKNOWN_WORDS
_COLUMN = "column "  # Before the title of a column that may be a class


class ImageRow(NamedTuple):
    """One row of a table."""

    number: int  # from 1
    image: Entry  # the image that it names
    cells: Mapping[str, str]


Rows = Mapping[Path, Sequence[ImageRow]]
"""The rows of each image."""


def list_label_sets(path: Path, known: Collection[str] = ()) -> LabelSetListing:
    """List the images of a table, or of the tables in a folder and in the folders of its parts.

    Tables may have the images in them. A folder without a table is read as folders of classes.
    Where labels are ``known``, a table need not name one.
    Raises UsageError if the path does not exist, or neither a table nor a folder can be read as
    labels.
    """
    if not path.exists():
        raise UsageError(f"--data: '{path}' does not exist", missing_hint(path, HINT))
    tables = list(_find_tables(path))
    if not tables:
        inside = list_inside(path)
        if inside is not None:
            return _refuse_odd_classes(inside, path)
        try:
            return list_class_folders(path)
        except UsageError as error:
            why = error.message.removeprefix("--data: ")
            raise UsageError(
                f"--data: '{path}' has no table of labels and no boxes, and {why}", HINT
            ) from None
    listings = [_list_table(table, part) for table, part in tables]
    classes = frozenset(chain.from_iterable(listing.classes for listing in listings))
    entries: list[LabelSetEntry] = []
    for listing in listings:
        # A table with a column for each class says nothing of classes that only another table has.
        lacking = classes - listing.classes if listing.by_columns else frozenset()
        entries += [replace(entry, unknown=entry.unknown | lacking) for entry in listing.entries]
    rejected = list[Rejected]()
    notes = list[str]()
    for listing in listings:
        rejected += listing.rejected
        notes += listing.notes
    root = path if path.is_dir() else path.parent
    listing = LabelSetListing(
        root,
        tuple(entries),
        classes,
        tuple(rejected),
        tuple(dict.fromkeys(notes)),
        by_columns=all(listing.by_columns for listing in listings),
    )
    return listing if known and not classes else _refuse_odd_classes(listing, tables[0][0])


def _refuse_odd_classes(listing: LabelSetListing, table: Path) -> LabelSetListing:
    """Return a listing; UsageError if it has no label, or more than a network can tell."""
    classes = listing.classes
    if not classes:
        raise UsageError(f"--data: '{table}' names no label", HINT)
    if len(classes) > MOST_CLASSES:
        some = listed(sorted(classes), 3)
        raise UsageError(
            f"--data: '{table}' has {len(classes):,} labels: {some}", f"{MOST_CLASSES:,} at most"
        )
    return listing


def _find_tables(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the tables of a folder that name images, each with the part that a name says.

    A file is such a table by itself, unless it has the images in it.
    """
    if root.is_file():
        if not find_files_with_images(root):
            yield root, ""
        return
    for folder, part in dict.fromkeys([(root, ""), *list_part_folders(root)]):
        # Systems list a folder in different orders, and neither errors nor rows may depend on it.
        for file in sorted(folder.iterdir()):
            is_table = file.suffix.lower() in SUFFIXES and file.is_file()
            if is_json_table(file):
                yield file, part or labelled_part_of(file.stem)
            if not is_table or find_files_with_images(file):
                continue
            if _map_titles(file).keys() & {*IMAGE_COLUMNS}:
                yield file, part or labelled_part_of(file.stem)


def is_json_table(path: Path) -> bool:
    """Return whether a JSON file has images and labels, as a list or by the names of images."""
    if path.suffix.lower() not in JSON or not path.is_file():
        return False
    try:
        titles = set(_map_titles(path))
    except UsageError:
        return False
    return bool(titles & {*IMAGE_COLUMNS}) and bool(titles & {*TAGS})


def _map_titles(table: Path) -> dict[str, str]:
    """Return the columns of a table by title, in small letters and with underscores for blanks."""
    return {"_".join(column.casefold().split()): column for column in read_column_names(table)}


def _list_table(table: Path, part: str) -> LabelSetListing:
    titles = _map_titles(table)
    columns = read_column_names(table)
    repeated = sorted(set(columns) - set(titles.values()))
    if repeated:
        name = repeated[0].strip()
        raise UsageError(
            f"--data: '{table}' has several columns '{name}' in any case of letters",
            "give each column a name of its own",
        )
    labels = next((title for title in TAGS if title in titles), "")
    images = next((title for title in IMAGE_COLUMNS if title in titles), "")
    stated = {images}.union(*SPLIT.values())
    not_known = (UNKNOWN_LABELS,) if labels else ()
    # The prefix keeps the columns of classes apart from the others, whatever a class is named.
    others: dict[str, tuple[str, ...]] = {}
    for title in titles:
        if not labels and title not in stated:
            others[f"{_COLUMN}{title}"] = (title,)
    names = {
        "path": IMAGE_COLUMNS,
        "label": (labels,),
        UNKNOWN_LABELS: not_known,
        **SPLIT,
        **others,
    }
    wanted = ManifestColumns(names, ("path", "label") if labels else ("path",), HINT, lists=False)
    rows = defaultdict[Path, list[ImageRow]](list)
    for number, row in read_rows(table, wanted):
        image = read_entry(table, number, {**row, "label": row["label"].strip()}, wanted)
        # A table that states the part of each image knows more than the name of its folder.
        image = image if image.part else replace(image, part=part)
        rows[image.path].append(ImageRow(number, image, row))
    listing = _read_labels(table, rows) if labels else _read_columns(table, rows)
    stated_paths = [entry.image.path for entry in listing.entries]
    paths, notes = find_by_name(table, stated_paths, table.parent)
    entries = []
    for entry, place in zip(listing.entries, paths, strict=True):
        entries.append(replace(entry, image=replace(entry.image, path=place)))
    return replace(listing, entries=tuple(entries), notes=(*listing.notes, *notes))


def _read_labels(table: Path, rows: Rows) -> LabelSetListing:
    """Return the images of a table with one column of labels; a cell may have several."""
    all_rows = list(chain.from_iterable(rows.values()))
    split = split_cells([row.image.label for row in all_rows], table.name)
    not_known = [row.cells.get(UNKNOWN_LABELS, "").strip() for row in all_rows]
    unknown_labels = split_cells(not_known, table.name).labels
    entries = []
    rejected = []
    for path, rows_of_image in rows.items():
        sets = []
        for row in rows_of_image:
            sets.append(split.labels[row.image.label])
        # Rows of one label each are read together;
        # rows of several labels, or of none, that differ from others contradict them.
        counts = set(map(len, sets))
        if len(set(sets)) > 1 and counts != {1}:
            differing = next(place for place, labels in enumerate(sets) if labels != sets[0])
            numbers = f"{rows_of_image[0].number} and {rows_of_image[differing].number}"
            reason = f"rows {numbers} of '{table.name}' give it different labels"
            rejected.append(Rejected(path, reason))
            continue
        labels = frozenset(chain.from_iterable(sets))
        unknown: frozenset[str] = frozenset()
        for row in rows_of_image:
            unknown |= unknown_labels[row.cells.get(UNKNOWN_LABELS, "").strip()]
        entries.append(LabelSetEntry(rows_of_image[0].image, labels, unknown - labels))
    classes = frozenset(chain.from_iterable(entry.there | entry.unknown for entry in entries))
    return LabelSetListing(table.parent, tuple(entries), classes, tuple(rejected), split.notes)


def _read_columns(table: Path, rows: Rows) -> LabelSetListing:
    """Return the images of a table with a column for each class."""
    columns = _find_classes(table, rows)
    words: set[str] = set()
    for row in chain.from_iterable(rows.values()):
        words.update(row.cells[column].strip().casefold() for column in columns)
    # Tables of attributes have 1 and -1, and no 0;
    # elsewhere, and without a 1, -1 says that nobody knows.
    minus_is_no = bool(words & MINUS) and bool(words & TRUE_WORDS) and not words & FALSE_WORDS
    entries = []
    rejected = []
    for path, rows_of_image in rows.items():
        present = []
        unknown = []
        contradicted = []
        for column, label in columns.items():
            flags = {_read_flag(row.cells[column], minus_is_no) for row in rows_of_image} - {None}
            if len(flags) > 1:
                contradicted.append(label)
            elif not flags:
                unknown.append(label)
            elif flags == {True}:
                present.append(label)
        if contradicted:
            first, second = rows_of_image[:2]
            numbers = f"{first.number} and {second.number}"
            reason = f"rows {numbers} of '{table.name}' contradict each other on"
            rejected.append(Rejected(path, f"{reason} '{contradicted[0]}'"))
            continue
        image = rows_of_image[0].image
        entries.append(LabelSetEntry(image, frozenset(present), frozenset(unknown)))
    notes = []
    if minus_is_no:
        notes.append(f"'{table.name}' has 1 and -1 and no 0: -1 says that a label is not there.")
    return LabelSetListing(
        table.parent,
        tuple(entries),
        frozenset(columns.values()),
        tuple(rejected),
        tuple(notes),
        by_columns=True,
    )


def _read_flag(cell: str, minus_is_no: bool) -> bool | None:
    """Return whether a cell says that a label is there; None if nobody knows."""
    word = cell.strip().casefold()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS or (minus_is_no and word in MINUS):
        return False
    return None


def _find_classes(table: Path, rows: Rows) -> dict[str, str]:
    """Return the columns that are classes with their names.

    UsageError if there is none, or a cell is no answer.
    """
    titles = _map_titles(table)
    all_rows = list(chain.from_iterable(rows.values()))
    columns = all_rows[0].cells if all_rows else {}
    classes = {}
    for column in columns:
        if not column.startswith(_COLUMN):
            continue
        cells = [(row.number, row.cells[column].strip()) for row in all_rows]
        stated = [cell for _, cell in cells if cell]
        wrong = [(number, cell) for number, cell in cells if cell.casefold() not in _FLAGS]
        # Mostly other values: a column of numbers or notes.
        # A few among flags are mistakes, which are named below.
        if len(wrong) > (1 - CLASS_SHARE) * len(stated):
            continue
        name = titles[column.removeprefix(_COLUMN)].strip()
        if wrong:
            number, cell = wrong[0]
            what = f"--data: row {number} of '{table}' has '{cell}' in the column '{name}'"
            raise UsageError(what, "write 1, 0, or nothing where it is not known")
        classes[column] = name
    if not classes:
        shown = listed([f"'{name}'" for name in titles.values()], 12)
        raise UsageError(
            f"--data: '{table}' has no column of labels, and none of 1 and 0, but {shown}", HINT
        )
    # The keys of an object in a line of JSON are titles such as ``labels.cat``.
    objects = {name.partition(".")[0].casefold() for name in classes.values()}
    if len(objects) == 1 and objects <= {*TAGS}:
        inner = {}
        for column, name in classes.items():
            inner[column] = name.partition(".")[2] or name
        return inner
    return classes
