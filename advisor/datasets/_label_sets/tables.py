"""List tables of images and their labels: one column with all labels, or a column for each class.

``survey.py`` calls :func:`list_label_sets`. A cell may say that a label is there, is not there, or
that nobody knows; a column of other values is no class.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from advisor.core import UsageError, listed
from advisor.datasets._boxes.set_folders import labelled_part_of, list_part_folders
from advisor.datasets._column_search import SUFFIXES
from advisor.datasets._dataset import Entry, Rejected
from advisor.datasets._image_places import find_by_name
from advisor.datasets._label_sets.entries import LabelSetEntry, LabelSetListing
from advisor.datasets._label_sets.folders import list_class_folders
from advisor.datasets._layouts import missing_hint
from advisor.datasets._manifest_columns import SPLIT, ManifestColumns
from advisor.datasets._manifests import read_entry, read_rows
from advisor.datasets._table_rows import read_column_names

IMAGE_COLUMNS = (
    "path",
    "filename",
    "file_name",
    "file",
    "image",
    "image_path",
    "image_name",
    "image_id",
    "img",
    "id",
)
LABEL_COLUMNS = (
    "labels",
    "tags",
    "label",
    "tag",
    "classes",
    "categories",
    "attributes",
    "class",
    "category",
)
HINT = (
    "give a CSV file with the columns path and labels, such as 1.jpg,cat|dog; or with a column for"
    " each class that has 1, 0, or nothing where it is not known. JSON lines, Parquet, boxes and"
    " folders of classes are read too"
)
TRUE_WORDS = frozenset({"1", "1.0", "true", "yes", "y", "t"})
FALSE_WORDS = frozenset({"0", "0.0", "false", "no", "n", "f"})
MINUS = frozenset({"-1", "-1.0"})
UNKNOWN_WORDS = frozenset({"", "nan", "null", "none", "<na>", "?", "unknown"})
# The first one that a table has between labels counts; blanks if it has none.
SEPARATORS = ("|", ";", ",")
NO_LABELS = frozenset({"", "[]", "nan", "null", "none"})  # Cells of images without a label
# Share of the cells of a column that say yes, no or unknown, from which on the column is a class.
CLASS_SHARE = 0.95
MOST_CLASSES = 1000
_FLAGS = TRUE_WORDS | FALSE_WORDS | MINUS | UNKNOWN_WORDS
_COLUMN = "column "  # Before the title of a column that may be a class


Rows = Mapping[Path, Sequence[tuple[int, Entry, Mapping[str, str]]]]
"""The rows of each image: the number of the row, the image as it says, and its cells."""


def list_label_sets(path: Path) -> LabelSetListing:
    """List the images of a table, or of the tables in a folder and in the folders of its parts.

    A folder without a table is read as folders of classes. Raises UsageError if the path does not
    exist, or neither a table nor a folder can be read as labels.
    """
    if not path.exists():
        raise UsageError(f"--data: '{path}' does not exist", missing_hint(path, HINT))
    tables = [(path, "")] if path.is_file() else list(_find_tables(path))
    if not tables:
        try:
            return list_class_folders(path)
        except UsageError as error:
            why = error.message.removeprefix("--data: ")
            raise UsageError(
                f"--data: '{path}' has no table of labels and no boxes, and {why}", HINT
            ) from None
    listings = [_list_table(table, part) for table, part in tables]
    classes = frozenset[str]().union(*(listing.classes for listing in listings))
    if not classes:
        raise UsageError(f"--data: '{tables[0][0]}' names no label", HINT)
    if len(classes) > MOST_CLASSES:
        some = listed(sorted(classes), 3)
        raise UsageError(
            f"--data: '{tables[0][0]}' has {len(classes):,} labels: {some}",
            f"{MOST_CLASSES:,} at most",
        )
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
    return LabelSetListing(
        root, tuple(entries), classes, tuple(rejected), tuple(dict.fromkeys(notes))
    )


def _find_tables(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the tables of a folder that name images,
    each with the part that its name or its folder says.
    """
    for folder, part in dict.fromkeys([(root, ""), *list_part_folders(root)]):
        # Systems list a folder in different orders, and neither errors nor rows may depend on it.
        for file in sorted(folder.iterdir()):
            if (
                file.suffix.lower() in SUFFIXES
                and file.is_file()
                and _map_titles(file).keys() & {*IMAGE_COLUMNS}
            ):
                yield file, part or labelled_part_of(file.stem)


def _map_titles(table: Path) -> dict[str, str]:
    """Return the columns of a table by title, in small letters and with underscores for blanks."""
    return {"_".join(column.casefold().split()): column for column in read_column_names(table)}


def _list_table(table: Path, part: str) -> LabelSetListing:
    titles = _map_titles(table)
    labels = next((title for title in LABEL_COLUMNS if title in titles), "")
    stated = set(IMAGE_COLUMNS).union(*SPLIT.values())
    # The prefix keeps the columns of classes apart from the others, whatever a class is named.
    others = {}
    if not labels:
        others = {f"{_COLUMN}{title}": (title,) for title in titles if title not in stated}
    names = {"path": IMAGE_COLUMNS, "label": (labels,), **SPLIT, **others}
    wanted = ManifestColumns(names, ("path", "label") if labels else ("path",), HINT)
    rows = defaultdict[Path, list[tuple[int, Entry, Mapping[str, str]]]](list)
    for number, row in read_rows(table, wanted):
        image = read_entry(table, number, {**row, "label": row["label"].strip()}, wanted)
        # A table that states the part of each image knows more than the name of its folder.
        image = image if image.part else replace(image, part=part)
        rows[image.path].append((number, image, row))
    listing = _read_labels(table, rows) if labels else _read_columns(table, rows)
    paths, moved = find_by_name(
        table, [entry.image.path for entry in listing.entries], table.parent
    )
    moved_entries = []
    for entry, place in zip(listing.entries, paths, strict=True):
        moved_entries.append(replace(entry, image=replace(entry.image, path=place)))
    entries = tuple(moved_entries)
    return replace(listing, entries=entries, notes=(*listing.notes, *moved))


def _find_separator(cells: Collection[str]) -> str:
    """Return the first of :data:`SEPARATORS` that some cell has; empty if none has one."""
    for separator in SEPARATORS:
        if any(separator in cell for cell in cells):
            return separator
    return ""


def _read_labels(table: Path, rows: Rows) -> LabelSetListing:
    """Return the images of a table with one column of labels; a cell may have several."""
    cells = set[str]()
    for of_image in rows.values():
        cells.update(row[1].label for row in of_image)
    cells -= NO_LABELS
    separator = _find_separator(cells)
    blanks = not separator and _have_common_words(cells)
    mark = r"\s+" if blanks else r"\n"
    if separator:
        mark = re.escape(separator)

    def split_cell(cell: str) -> frozenset[str]:
        if cell.casefold() in NO_LABELS:
            return frozenset()
        return frozenset(filter(None, map(str.strip, re.split(mark, cell))))

    entries = []
    rejected = []
    for path, of_image in rows.items():
        sets = defaultdict[int, frozenset[str]](frozenset)
        for number, image, _ in of_image:
            sets[number] |= split_cell(image.label)
        # Rows of one label each are read together;
        # rows of several labels that differ contradict each other.
        if len(set(sets.values())) > 1 and any(len(one) > 1 for one in sets.values()):
            numbers = " and ".join(map(str, list(sets)[:2]))
            rejected.append(
                Rejected(path, f"rows {numbers} of '{table.name}' give it different labels")
            )
            continue
        entries.append(LabelSetEntry(of_image[0][1], frozenset[str]().union(*sets.values())))
    classes = frozenset[str]().union(*(entry.there for entry in entries))
    notes = (
        (f"Blanks separate the labels of '{table.name}': {listed(sorted(classes), 4)}.",)
        if blanks
        else ()
    )
    return LabelSetListing(table.parent, tuple(entries), classes, tuple(rejected), notes)


def _have_common_words(cells: set[str]) -> bool:
    """Return whether a word is in several cells of several words,
    so that blanks seem to separate labels.
    """
    seen = set[str]()
    for cell in cells:
        words = set(cell.split())
        if len(cell.split()) > 1 and words & seen:
            return True
        seen |= words
    return False


def _read_columns(table: Path, rows: Rows) -> LabelSetListing:
    """Return the images of a table with a column for each class."""
    columns = _find_classes(table, rows)
    cells = []
    for of_image in rows.values():
        for *_, row in of_image:
            cells.append(row)
    values = set()
    for row in cells:
        for column in columns:
            values.add(row[column].strip().casefold())
    # Tables of attributes have 1 and -1, and no 0;
    # elsewhere, and without a 1, -1 says that nobody knows.
    minus_is_no = bool(values & MINUS) and bool(values & TRUE_WORDS) and not values & FALSE_WORDS
    entries = []
    rejected = []
    for path, of_image in rows.items():
        said = {}
        for column in columns:
            said[column] = {_read_flag(row[column], minus_is_no) for *_, row in of_image} - {None}
        both = []
        for column, flags in said.items():
            if len(flags) > 1:
                both.append(columns[column])
        if both:
            numbers = " and ".join(str(number) for number, *_ in of_image[:2])
            rejected.append(
                Rejected(
                    path, f"rows {numbers} of '{table.name}' contradict each other on '{both[0]}'"
                )
            )
            continue
        there = frozenset(columns[column] for column, flags in said.items() if flags == {True})
        unknown = frozenset(columns[column] for column, flags in said.items() if not flags)
        entries.append(LabelSetEntry(of_image[0][1], there, unknown))
    notes = (
        (f"'{table.name}' has 1 and -1 and no 0: -1 says that a label is not there.",)
        if minus_is_no
        else ()
    )
    classes = frozenset(columns.values())
    return LabelSetListing(
        table.parent, tuple(entries), classes, tuple(rejected), notes, by_columns=True
    )


def _read_flag(cell: str, minus_is_no: bool) -> bool | None:
    word = cell.strip().casefold()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS or (minus_is_no and word in MINUS):
        return False
    return None


def _find_classes(table: Path, rows: Rows) -> dict[str, str]:
    """Return the columns that are classes with their names; UsageError:
    there is none, or a cell is no answer.
    """
    titles = _map_titles(table)
    answers = []
    for of_image in rows.values():
        for number, _, row in of_image:
            answers.append((number, row))
    first = answers[0][1] if answers else {}
    classes = {}
    for column in (name for name in first if name.startswith(_COLUMN)):
        cells = [(number, row[column].strip()) for number, row in answers]
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
    return classes
