"""Read tables that name images: CSV, Parquet and JSON lines, with classes, or with boxes or
masks.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from advisor.core import UsageError, nearest, plain as plain_text, plural
from advisor.datasets._captions import LISTED_EVERY, Listed, refuse_captions
from advisor.datasets._category_files import (
    class_descriptions,
    class_names_beside,
    first_number,
    key_of,
)
from advisor.datasets._column_names import FOREIGN_IMAGES, FOREIGN_LABELS, IMAGES, LABELS
from advisor.datasets._dataset import Entry, Listing, Rejected
from advisor.datasets._folder_questions import some_of
from advisor.datasets._foreign_files import AS_FILES
from advisor.datasets._image_names import is_image_name
from advisor.datasets._image_places import find_by_name, locate_image, places_of_images
from advisor.datasets._json_labels import labels_in_cell
from advisor.datasets._manifest_columns import SPLIT, ManifestColumns
from advisor.datasets._names import strip_invisible
from advisor.datasets._parts import PARTS, UNLABELLED, part_of
from advisor.datasets._table_rows import (
    CSV,
    JSON,
    JSON_LINES,
    PARQUET,
    PROBED,
    SHOWN,
    TEXT,
    Row,
    columns_of,
    rows_of,
)
from advisor.datasets._untitled_columns import NO_PART, UNTITLED_EDGES

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
LONGEST_LABEL = 1000
HINT_OF_MARKS = (
    "a class is one text for each image; objects in images are read with --task object-detection"
)
ANNOTATIONS = "annotations"  # Name of the folder that COCO and iNaturalist have for their tables
FOLDERS_OF_TABLES = frozenset(
    {ANNOTATIONS, "labels", "csv", "meta", "metadata", "vott-csv-export"}
)
IDENTIFIED_LABEL = "labelname"  # Column of Open Images whose labels are identifiers of classes
BOX_EDGES = (
    frozenset({"xmin", "ymin", "xmax", "ymax"}),
    frozenset({"x1", "y1", "x2", "y2"}),
    frozenset({"x", "y", "w", "h"}),
    frozenset({"x", "y", "width", "height"}),
    frozenset({"left", "top", "width", "height"}),
    frozenset({"bbox"}),
    frozenset(UNTITLED_EDGES),
)
# Cells without a label, as programs write them.
NO_LABEL = frozenset({"", "nan", "null", "<na>", "#n/a"})
# Of a label that people looked for in the image, and did not find.
NO_CONFIDENCE = frozenset({"0", "0.0"})
TRUE_WORDS = frozenset({"1", "1.0", "true", "yes", "y", "t"})
FALSE_WORDS = frozenset({"0", "0.0", "false", "no", "n", "f"})
FEWEST_VALUES = 4  # Images from which on a value for each image is no class
_SEPARATORS = re.compile(r"[\s,;|+&/]+")  # Between labels in one cell
_OBJECT = re.compile(r"\[?\s*\{.*:.*\}\s*\]?", re.DOTALL)  # A cell that no class can be
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
    """The columns of a table that are read."""

    names: Mapping[str, str]  # the name in the table of each column
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
        known = _find_columns(path, LABELLED)
    except UsageError:
        return False
    return not has_edges(path) and (guess or not known.note)


def fault_of(path: Path) -> str:
    """Return why a table has no columns for images and their classes, in words; empty if it
    has.
    """
    try:
        _find_columns(path, LABELLED)
    except UsageError as error:
        return describe_fault(error)
    return ""


def describe_fault(error: UsageError) -> str:
    """Return why a table does not count, and what to do if that is more than to have the
    columns.
    """
    more = ""
    if error.hint and error.hint != LABELLED.hint:
        more = f" ({error.hint})"
    return f"{error.message.removeprefix('--data: ')}{more}"


def has_edges(path: Path) -> bool:
    """Return whether a table has columns for the edges of boxes."""
    try:
        columns = {name.strip().casefold() for name in columns_of(path)}
    except UsageError:
        return False
    return any(columns >= edges for edges in BOX_EDGES)


def has_columns(path: Path, wanted: ManifestColumns) -> bool:
    """Return whether a table can be read, and has the columns that are needed."""
    try:
        return bool(_find_columns(path, wanted).names)
    except UsageError:
        return False


def list_manifest(
    path: Path,
    listed: Listed = lambda _count: None,
    root: Path | None = None,
    more_labels: Collection[str] = (),
) -> Listing:
    """List the files of a table. Rows without a label,
    repeated rows and images of several classes are rejected.

    ``more_labels`` are those of the tables of other parts:
    all of them together tell how classes are numbered.

    If no image is where the table says, all are found by their names, with or without an
    extension, in the folders below ``root`` (default: :func:`folder_of_images`). ``listed`` is
    called now and then with the number of rows.
    """
    entries: dict[tuple[Path, str], Entry] = {}
    labels_of_image: dict[Path, list[str]] = {}
    rejected: list[Rejected] = []
    absent = 0  # rows that say what an image does not show
    for number, row in read_rows(path, LABELLED):
        if row.get("confidence", "").strip() in NO_CONFIDENCE:
            absent += 1
            continue
        entry = entry_of(path, number, row, LABELLED)
        if number % LISTED_EVERY == 0:
            listed(number)
        place = f"row {number} of '{path.name}'"
        if entry.label.strip().casefold() in NO_LABEL:
            rejected.append(Rejected(entry.path, f"no label ({place})"))
        elif entries.setdefault((entry.path, entry.label), entry) is not entry:
            rejected.append(Rejected(entry.path, f"listed twice ({place})"))
        else:
            labels_of_image.setdefault(entry.path, []).append(entry.label)
    single: list[Entry] = []
    several: set[Path] = set()
    for entry in entries.values():
        labels = labels_of_image[entry.path]
        if len(labels) == 1:
            single.append(entry)
        # An image of several classes has an entry for each, and is reported once.
        elif entry.path not in several:
            several.add(entry.path)
            rejected.append(Rejected(entry.path, f"of several classes: {', '.join(labels)}"))
    classes = {entry.label for entry in single}.union(more_labels)
    # Single images of several classes are mistakes; where most have several, they are attributes.
    if 2 * len(several) > len(single):
        _refuse_attributes(path)
    _refuse_few_classes(path, classes, len(several))
    refuse_captions(path, classes, len(single))
    _refuse_values(path, classes, len(single))
    names, notes_on_names = _names_of_numbers(path, classes)
    root = root or folder_of_images(path)
    paths, notes_on_places = find_by_name(path, [entry.path for entry in single], root)
    notes = [
        *notes_on_names,
        *_other_columns(path),
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
    if absent:
        notes.append(
            f"{plural(absent, 'label')} of '{path.name}' with confidence 0 say what an image does"
            " not show."
        )
    return Listing(root, images, (), rejected, tuple(notes))


def _refuse_attributes(path: Path) -> None:
    """Refuse a table with a column of 1 and 0 for each of several attributes,
    of which an image has many.
    """
    known = _find_columns(path, LABELLED)
    if known.flags:
        number = columns_of(path).index(known.flags[0]) + 1
        raise UsageError(
            f"--data: '{path}' has {len(known.flags)} columns of 1 and 0 or -1, and most images"
            " have several classes: they are attributes",
            f"keep one as the class, here '{known.flags[0].strip()}': cut -d, -f1,{number}"
            f" {shlex.quote(str(path))} > table.csv",
        )


def _refuse_few_classes(path: Path, labels: Collection[str], several: int) -> None:
    """Refuse a table with fewer than two classes;
    ``several`` is the number of images that have more than one.
    """
    more = ""
    if several:
        more = f"; {plural(several, 'image has', 'images have')} several classes"
    if not labels:
        raise UsageError(f"--data: '{path}' names no image with a label{more}", LABELLED.hint)
    if len(labels) == 1:
        label = next(iter(labels))
        raise UsageError(
            f"--data: '{path}' has one class only, '{label}'{more}", "add images of a second class"
        )


def _refuse_values(path: Path, labels: Collection[str], images: int) -> None:
    """Refuse a column of which nothing says that it has classes,
    and that has another value for most images.
    """
    note = _find_columns(path, LABELLED).note
    if note and images >= FEWEST_VALUES and len(labels) > images / 2:
        raise UsageError(
            f"--data: '{path}' has another value for most images, such as"
            f" '{plain_text(min(labels))[:SHOWN]}'. {note}",
            "a class has several images: give a table with the columns path and label",
        )


def _other_columns(path: Path) -> Iterator[str]:
    """Yield a sentence on columns that may have the classes, too."""
    known = _find_columns(path, LABELLED)
    if known.others:
        chosen = known.names["label"].strip()
        yield (
            f"The classes are those of the column '{chosen}', and not of {some_of(known.others)}."
        )


def _describe_joined_labels(labels: Collection[str]) -> Iterator[str]:
    """Yield a sentence on labels that join others,
    such as ``scab rust`` beside ``scab`` and ``rust``.
    """
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


def _names_of_numbers(
    path: Path, labels: Collection[str]
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the name of each class that a table states as a number,
    and sentences on where classes come from.

    A number such as ``1.0`` is ``1``.
    The names are in a list of classes beside the table, counted from 0 or from 1.
    """
    note = _find_columns(path, LABELLED).note
    notes = (note,) if note else ()
    numbers = {label: key_of(label.strip()) for label in labels}
    if not all(map(str.isdecimal, numbers.values())):
        return {}, notes
    file, classes = class_names_beside(path)
    places = {label: int(number) for label, number in numbers.items()}
    first = first_number(places.values(), len(classes))
    if first is None:
        return numbers, notes
    names = {label: classes[place - first] for label, place in places.items()}
    return names, (
        *notes,
        f"The names of the classes are those of '{file}', counted from {first}.",
    )


def labels_of(tables: Sequence[Path]) -> set[str]:
    """Return the labels that tables have."""
    labels: set[str] = set()
    for table in tables:
        labels.update(row["label"].strip() for _, row in read_rows(table, LABELLED))
    return labels


def folder_of_images(table: Path) -> Path:
    """Return the folder that a table is in,
    or the one above ``annotations`` and other folders of tables.
    """
    if table.parent.name.casefold() in FOLDERS_OF_TABLES:
        return table.parent.parent
    return table.parent


def _find_columns(path: Path, wanted: ManifestColumns) -> KnownColumns:
    """Return the columns that a table has of those wanted; UsageError: a needed one is missing."""
    columns = columns_of(path)
    plain = {title_of(name): name for name in columns}
    names: dict[str, str] = {}
    for name, titles in wanted.names.items():
        # The first of the titles counts, so it is the last to be set.
        for title in reversed(titles):
            if title in plain:
                names[name] = plain[title]
    titled = [name for name in columns if name.casefold().endswith(CLASS_ENDINGS)]
    if wanted is LABELLED and len(titled) == 1:
        names["label"] = titled[0]
    stated = [name for title, name in plain.items() if title in PART_COLUMNS]
    if "split" not in names and stated:
        cells = []
        for _, row in islice(rows_of(path, stated), PROBED):
            cells.append(row.get(stated[0], ""))
        # A column `set` or `phase` may say anything, so its cells decide.
        if all(map(part_of, cells)):
            names["split"] = stated[0]
    if wanted is LABELLED and not names.keys() >= set(wanted.needed):
        guess = _guess_columns(path, columns, names)
        if guess is not None:
            return guess
        image = ""
        if "path" not in names:
            image = _column_of_images(path, columns, list(_first_rows(path, columns)))
        names |= {"path": image} if image else {}
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
                _hint_of(columns, wanted),
            )
    others = _columns_of_other_classes(path, names, plain) if wanted is LABELLED else ()
    return KnownColumns(names, others=others)


def _hint_of(columns: Sequence[str], wanted: ManifestColumns) -> str:
    """Return what a table should look like, or how a table is read that marks objects."""
    if wanted is not LABELLED:
        return wanted.hint
    titles = set(map(title_of, columns))
    # Exports write ``label.objects.0.title``, so the words between points count, too.
    words = titles.union(*(title.split(".") for title in titles))
    return HINT_OF_MARKS if words & MARKS else wanted.hint


def title_of(column: str) -> str:
    """Return the name of a column as the lists of known ones have it."""
    return unicodedata.normalize("NFC", "_".join(column.casefold().split()))


def _columns_of_other_classes(
    path: Path, names: Mapping[str, str], plain: Mapping[str, str]
) -> Sequence[str]:
    """Return the columns that may have the classes too, and tell others apart than the chosen
    one.
    """
    columns = []
    for name in LABELS:
        if name in plain:
            columns.append(plain[name])
    others = [column for column in columns if column not in names.values()]
    if not others:
        return ()
    rows = []
    for _, row in islice(rows_of(path, [names["label"], *others]), PROBED):
        rows.append(row)
    different = []
    for column in others:
        pairs = set()
        for row in rows:
            pairs.add((row.get(names["label"], ""), row.get(column, "")))
        chosen = {label for label, _ in pairs}
        other = {label for _, label in pairs}
        # Names and numbers of the same classes stand for each other, one to one.
        if not len(pairs) == len(chosen) == len(other):
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
    rows = list(_first_rows(path, columns))
    if "path" not in names:
        image = _column_of_images(path, columns, rows)
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
    return KnownColumns(
        names, flags, f"The classes are the columns {some_of([name.strip() for name in flags])}."
    )


def _first_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    return (row for _, row in islice(rows_of(path, columns), PROBED))


def _column_of_images(path: Path, columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return the column whose cells are names of images,
    or of images beside the table without their extension.
    """
    if not rows:
        return ""
    for column in columns:
        if all(is_image_name(row.get(column, "")) for row in rows):
            return column
    places = places_of_images(folder_of_images(path))
    for column in columns:
        cells = {row.get(column, "").strip() for row in rows}
        if len(cells) == len(rows) and all(map(places.get, cells)):
            return column
    return ""


def read_rows(path: Path, wanted: ManifestColumns) -> Iterator[tuple[int, Row]]:
    """Yield (line or row number from 1, cells by column); cells are text, missing ones are empty.

    An image with 1 in several columns of classes has several rows. Raises UsageError if the file
    cannot be read as the format of its extension, or a needed column is missing.
    """
    known = _find_columns(path, wanted)
    identified = known.names.get("label", "").strip().casefold() == IDENTIFIED_LABEL
    names = class_descriptions(path.parent) if identified else {}
    for number, row in rows_of(path, list(known.names.values())):
        cells = {name: row.get(column, "") for name, column in known.names.items()}
        if not known.flags:
            cell = cells.get("label", "")
            labels = labels_in_cell(cell) or [cell]
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


def entry_of(manifest: Path, number: int, row: Row, columns: ManifestColumns) -> Entry:
    """Return the image that a row names, with its label, part and group.

    Raises UsageError if the row names no image or an unknown part, or its label is too long.
    """
    name = strip_invisible(row["path"])
    written = row.get("split", "").strip() or _part_by_flags(row)
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
            f" '{written}'{nearest(written.casefold(), PARTS)}",
            "write train, validation or test, or leave it empty",
        )
    return Entry(
        locate_image(manifest.parent, name), row["label"], part, row.get("group", "").strip()
    )


def _part_by_flags(row: Row) -> str:
    """Return the part that the columns ``is_train``, ``is_valid`` and ``is_test`` say;
    not to train is to test.
    """
    other = ""
    for column, cell in row.items():
        flag = cell.strip().casefold()
        if not column.startswith("is_"):
            continue
        part = column.removeprefix("is_")
        if flag in TRUE_WORDS:
            return part
        if flag in FALSE_WORDS and other != "test":
            other = "test" if part == "train" else "train"
    return other
