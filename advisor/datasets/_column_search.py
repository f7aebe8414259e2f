"""Find the columns of a table that name the images, their classes and their parts.

``_column_names.py`` has the titles that are known in many languages. Where none fits, the cells
of the first rows decide. ``_manifests.py`` reads the columns that are found here; ``_layouts.py``
asks here whether a file beside images is such a table, and why it is none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from advisor.core import UsageError, nearest, plain as plain_text
from advisor.datasets._column_names import FOREIGN_IMAGES, FOREIGN_LABELS, IMAGES, LABELS
from advisor.datasets._folder_questions import some_of
from advisor.datasets._foreign_files import AS_FILES
from advisor.datasets._image_names import is_image_name
from advisor.datasets._image_places import index_images
from advisor.datasets._manifest_columns import SPLIT, ManifestColumns
from advisor.datasets._parts import part_of
from advisor.datasets._table_rows import (
    CSV,
    JSON,
    JSON_LINES,
    PARQUET,
    PROBED,
    SHOWN,
    TEXT,
    Row,
    read_column_names,
    read_table_rows,
)
from advisor.datasets._untitled_columns import UNTITLED_EDGES

SUFFIXES = CSV | PARQUET | JSON_LINES
GUESSED_SUFFIXES = SUFFIXES | TEXT | JSON  # Of files that may name images and their classes
STATED_SUFFIXES = SUFFIXES | {".json"}
# Cells of columns that are a class each.
FLAGS = frozenset({"", "1", "1.0", "true", "0", "0.0", "false", "-1", "-1.0"})
# If each cell is the word of a part.
PART_COLUMNS = frozenset({"set", "dataset", "data_set", "phase", "train_test"})
# Ends of names of columns in exports of clouds.
CLASS_ENDINGS = ("class-name", "displayname", "display_name")

_NO_CLASSES = """
index width height size url md5 sha256 partition fold kfold folds text caption captions prompt
description
"""

NO_CLASSES = frozenset({"unnamed: 0", *_NO_CLASSES.split()})

_MARKS = (
    "boundingboxannotations objects annotations region_shape_attributes response.annotations"
    " label.objects projects"
)

# Names, or ends of names, of columns that mark objects in an image.
MARKS = frozenset(_MARKS.split())
HINT_OF_MARKS = (
    "a class is one text for each image; objects in images are read with --task object-detection"
)
ANNOTATIONS = "annotations"  # Name of the folder that COCO and iNaturalist have for their tables
FOLDERS_OF_TABLES = frozenset(
    {ANNOTATIONS, "labels", "csv", "meta", "metadata", "vott-csv-export"}
)

BOX_EDGES = (
    frozenset({"xmin", "ymin", "xmax", "ymax"}),
    frozenset({"x1", "y1", "x2", "y2"}),
    frozenset({"x", "y", "w", "h"}),
    frozenset({"x", "y", "width", "height"}),
    frozenset({"left", "top", "width", "height"}),
    frozenset({"bbox"}),
    frozenset(UNTITLED_EDGES),
)

# pixel0, 1x28, 0.512 for a second 0.
_PIXEL_TITLE = re.compile(r"(?:pixel|px|p)?[_ ]?\d+(?:[x.]\d+)*", re.IGNORECASE)
FEWEST_PIXELS = 48  # Columns that are named so, of a table of pixels at least

LABELLED = ManifestColumns(
    {
        "path": (*IMAGES, *FOREIGN_IMAGES),
        "label": (*LABELS, *FOREIGN_LABELS),
        "confidence": ("confidence",),
        **SPLIT,
    },
    ("path", "label"),
    "columns: path, label and, optionally, split (train, validation, test) and group; paths are"
    " relative to it",
)


@dataclass(frozen=True)
class KnownColumns:
    """The columns of one table that are read."""

    names: Mapping[str, str]  # title in the table, by the name that ``ManifestColumns`` has
    flags: Sequence[str] = ()  # columns that are a class each, if there is no column for the class
    note: str = ""  # a sentence on a column whose name does not say that it has the classes
    others: Sequence[str] = ()  # columns that may have the classes too, and say others


def names_labelled_images(path: Path, guess: bool = False) -> bool:
    """Return whether a file names images and their classes, and no boxes.

    With ``guess``, its columns may have other names,
    and a text file or the JSON file of a tool counts too.
    """
    if path.suffix.lower() not in (GUESSED_SUFFIXES if guess else STATED_SUFFIXES):
        return False
    try:
        known = find_columns(path, LABELLED)
    except UsageError:
        return False
    return not has_edges(path) and (guess or not known.note)


def find_fault(path: Path) -> str:
    """Return why a table does not name images and their classes; empty if it does."""
    try:
        find_columns(path, LABELLED)
    except UsageError as error:
        return describe_fault(error)
    return ""


def describe_fault(error: UsageError) -> str:
    """Return why a table does not count, with the hint if it says more than the usual columns."""
    advice = ""
    if error.hint and error.hint != LABELLED.hint:
        advice = f" ({error.hint})"
    return f"{error.message.removeprefix('--data: ')}{advice}"


def has_edges(path: Path) -> bool:
    """Return whether a table has columns for the edges of boxes."""
    try:
        columns = {name.strip().casefold() for name in read_column_names(path)}
    except UsageError:
        return False
    return any(columns >= edges for edges in BOX_EDGES)


def has_columns(path: Path, wanted: ManifestColumns) -> bool:
    """Return whether a table can be read, and has the columns that are needed."""
    try:
        return bool(find_columns(path, wanted).names)
    except UsageError:
        return False


def find_folder_of_images(table: Path) -> Path:
    """Return the folder of a table, or the one above ``annotations`` and the like."""
    if table.parent.name.casefold() in FOLDERS_OF_TABLES:
        return table.parent.parent
    return table.parent


def find_columns(path: Path, wanted: ManifestColumns) -> KnownColumns:
    """Return the columns that a table has of those wanted; UsageError: a needed one is missing."""
    columns = read_column_names(path)
    by_title = {normalise_title(name): name for name in columns}
    names = _match_titles(columns, by_title, wanted)
    if "split" not in names:
        names |= _find_part_column(path, by_title)
    if wanted is LABELLED and not names.keys() >= set(wanted.needed):
        guess = _guess_columns(path, columns, names)
        if guess is not None:
            return guess
        image = ""
        if "path" not in names:
            image = _find_image_column(path, columns, list(_probe_rows(path, columns)))
        if image:
            names["path"] = image
    _refuse_missing_columns(path, columns, names, wanted)
    others = _find_other_class_columns(path, names, by_title) if wanted is LABELLED else ()
    return KnownColumns(names, others=others)


def _match_titles(
    columns: Sequence[str], by_title: Mapping[str, str], wanted: ManifestColumns
) -> dict[str, str]:
    """Return the column of each wanted one whose title is known."""
    names: dict[str, str] = {}
    for name, titles in wanted.names.items():
        # The first of the titles counts, so it is the last to be set.
        for title in reversed(titles):
            if title in by_title:
                names[name] = by_title[title]
    of_clouds = [column for column in columns if column.casefold().endswith(CLASS_ENDINGS)]
    if wanted is LABELLED and len(of_clouds) == 1:
        names["label"] = of_clouds[0]
    return names


def _find_part_column(path: Path, by_title: Mapping[str, str]) -> dict[str, str]:
    """Return the column of the parts by its cells, as a title such as ``set`` may say anything."""
    candidates = [column for title, column in by_title.items() if title in PART_COLUMNS]
    if not candidates:
        return {}
    cells = []
    for _, row in islice(read_table_rows(path, candidates), PROBED):
        cells.append(row.get(candidates[0], ""))
    return {"split": candidates[0]} if all(map(part_of, cells)) else {}


def _refuse_missing_columns(
    path: Path, columns: Sequence[str], names: Mapping[str, str], wanted: ManifestColumns
) -> None:
    pixels = list(filter(_PIXEL_TITLE.fullmatch, columns))
    if "path" not in names and len(pixels) > FEWEST_PIXELS:
        raise UsageError(
            f"--data: '{path}' has a column for each pixel, as '{pixels[-1]}', and no images",
            AS_FILES,
        )
    for name in wanted.needed:
        if name not in names:
            plain_columns = list(map(plain_text, columns))
            shown = ", ".join(f"'{column[:SHOWN]}'" for column in plain_columns[:12]) or "nothing"
            close = nearest(name, plain_columns)
            raise UsageError(
                f"--data: '{path}' has no column '{name}'{close}, but {shown}",
                _choose_hint(columns, wanted),
            )


def _choose_hint(columns: Sequence[str], wanted: ManifestColumns) -> str:
    """Return what a table should look like, or how a table is read that marks objects."""
    if wanted is not LABELLED:
        return wanted.hint
    titles = set(map(normalise_title, columns))
    # Exports write ``label.objects.0.title``, so the words between points count, too.
    words = titles.union(*(title.split(".") for title in titles))
    return HINT_OF_MARKS if words & MARKS else wanted.hint


def normalise_title(column: str) -> str:
    """Return the name of a column as the lists of known ones have it."""
    return unicodedata.normalize("NFC", "_".join(column.casefold().split()))


def _find_other_class_columns(
    path: Path, names: Mapping[str, str], by_title: Mapping[str, str]
) -> Sequence[str]:
    """Return the columns that may have the classes too, and that sort the images differently."""
    columns = []
    for title in LABELS:
        if title in by_title:
            columns.append(by_title[title])
    others = [column for column in columns if column not in names.values()]
    if not others:
        return ()
    rows = []
    for _, row in islice(read_table_rows(path, [names["label"], *others]), PROBED):
        rows.append(row)
    different = []
    for column in others:
        pairs = set()
        for row in rows:
            pairs.add((row.get(names["label"], ""), row.get(column, "")))
        labels = {label for label, _ in pairs}
        values = {label for _, label in pairs}
        # Names and numbers of the same classes stand for each other, one to one.
        if not len(pairs) == len(labels) == len(values):
            different.append(column.strip())
    return different


def _guess_columns(
    path: Path, columns: Sequence[str], names: Mapping[str, str]
) -> KnownColumns | None:
    """Return the columns of images and classes by their cells; None if these do not tell.

    Images are in a column of names of images.
    Classes are in the only other column, or are the columns of 0 and 1.
    """
    names = dict(names)
    rows = list(_probe_rows(path, columns))
    if "path" not in names:
        image = _find_image_column(path, columns, rows)
        if not image:
            return None
        names["path"] = image
    if "label" in names:
        return KnownColumns(names)
    unread = [name for name in columns if name not in names.values()]
    others = [name for name in unread if name.strip().casefold() not in NO_CLASSES]
    if len(others) == 1:
        note = f"The classes are those of the column '{others[0].strip()}'."
        return KnownColumns({**names, "label": others[0]}, note=note)
    flags = []
    for name in others:
        cells = {row.get(name, "").strip().casefold() for row in rows}
        if cells <= FLAGS:
            flags.append(name)
    # A single column of yes and no may say anything about an image.
    if len(flags) < 2 or not rows:
        return None
    titles = [name.strip() for name in flags]
    return KnownColumns(names, flags, f"The classes are the columns {some_of(titles)}.")


def _probe_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the first rows of a table, which stand for all of them."""
    return (row for _, row in islice(read_table_rows(path, columns), PROBED))


def _find_image_column(path: Path, columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return the column with names of images, or of images beside the table without extension."""
    if not rows:
        return ""
    for column in columns:
        if all(is_image_name(row.get(column, "")) for row in rows):
            return column
    places = index_images(find_folder_of_images(path))
    for column in columns:
        cells = {row.get(column, "").strip() for row in rows}
        if len(cells) == len(rows) and all(map(places.get, cells)):
            return column
    return ""
