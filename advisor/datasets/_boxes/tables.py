"""Read boxes from CSV and Parquet tables with a row for each box.

``table_forms.py`` has the titles of the columns. Where the titles do not say whether four values
are two corners, or a corner and sides, the boxes themselves decide: see :func:`_with_edges`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.core import AmbiguousInput, UsageError
from advisor.datasets import _parts as parts
from advisor.datasets._boxes.entries import (
    Box,
    BoxEntry,
    BoxFault,
    BoxListing,
    are_centres,
    are_corners,
    collect_boxes,
    convert_centre_box,
    convert_coco_box,
    make_box,
)
from advisor.datasets._boxes.marks import read_number, read_stated_size
from advisor.datasets._boxes.set_folders import folder_in, labelled_part_of, list_part_folders
from advisor.datasets._boxes.table_forms import (
    BOXED,
    CENTRE_AND_SIDES,
    CORNER_AND_SIDES,
    EDGES,
    FORMS,
    FOUR_CORNERS,
    LISTED,
    POINT_AND_SIDES,
    UNTITLED,
)
from advisor.datasets._column_search import find_folder_of_images, has_columns
from advisor.datasets._image_places import find_by_name
from advisor.datasets._manifest_columns import ManifestColumns
from advisor.datasets._manifests import read_entry, read_rows
from advisor.datasets._read_errors import make_readings
from advisor.datasets._table_rows import CSV
from advisor.datasets._untitled_columns import CORNERS

UNNAMED_CLASS = "object"  # Of boxes in a table without a column of classes
_NUMBERS = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def find_form(path: Path) -> ManifestColumns | None:
    """Return the form of the boxes of a table; None if it has none.

    A table of one class needs no column of classes.
    """
    for form in FORMS:
        if has_columns(path, form):
            return form
    for form in FORMS:
        unlabelled = replace(form, needed=tuple(name for name in form.needed if name != "label"))
        if has_columns(path, unlabelled):
            return unlabelled
    return None


def list_table(path: Path) -> BoxListing:
    """List the boxes of a CSV or Parquet table; UsageError if its rows contradict each other."""
    form = find_form(path) or BOXED
    images: dict[Path, BoxEntry] = {}
    boxes: dict[Path, list[Box]] = {}
    faults: list[BoxFault] = []
    for line, row in read_rows(path, form):
        named = read_entry(path, line, row, form)
        size = read_stated_size(row.get("width"), row.get("height"))
        entry = BoxEntry(named.path, (), path, named.part, named.group, size)
        # A table has a row for each box, so the facts of the image repeat.
        if images.setdefault(named.path, entry) != entry:
            raise UsageError(
                f"--data: row {line} of '{path}' has another split, group or size for"
                f" '{row['path']}' than a row above",
                "write the same split, group, width and height in all rows of an image",
            )
        edges = _read_edges(row, form)
        # An image without a box has a row, too, with empty cells.
        boxes_of_image = boxes.setdefault(named.path, [])
        if row.get("group_of", "").strip() == "1":
            place = f"row {line} of '{path.name}'"
            faults.append(
                BoxFault(named.path, place, "it marks a group (IsGroupOf), not one object")
            )
        elif named.label.strip() or any(str(edge).strip() for edge in edges):
            label = named.label if "label" in form.needed else UNNAMED_CLASS
            if len(edges) != len(EDGES):
                # Such a box is left out later with its reason,
                # like any other whose edges are no numbers.
                edges = [None] * len(EDGES)
            boxes_of_image.append(make_box(label, edges, line))
    paths, _ = find_by_name(path, list(images), find_folder_of_images(path))
    entries = []
    for entry, image in zip(images.values(), paths, strict=True):
        entries.append(replace(entry, path=image, boxes=tuple(boxes[entry.path])))
    entries, notes = _with_edges(entries, form)
    if "label" not in form.needed:
        notes = (
            *notes,
            f"The table has no column of classes: all boxes are of the class '{UNNAMED_CLASS}'.",
        )
    return BoxListing(path.parent, entries, faults=faults, unit="row", notes=notes)


def _read_edges(row: Mapping[str, str], form: ManifestColumns) -> Sequence[Any]:
    """Return the cells of a row that mark a box; of four corners, the edges around them."""
    if form.names is LISTED.names:
        return _NUMBERS.findall(row["xmin"])
    if form.names is not FOUR_CORNERS.names:
        return [row[edge] for edge in EDGES]
    if not any(row[name].strip() for name in CORNERS):
        return [""] * len(EDGES)
    across = _read_filled(row, CORNERS[::2])
    down = _read_filled(row, CORNERS[1::2])
    return [min(across), min(down), max(across), max(down)]


def _read_filled(row: Mapping[str, str], names: Sequence[str]) -> list[float]:
    """Return the numbers of the cells that are not empty: two opposite corners are enough."""
    numbers = []
    for name in names:
        if row[name].strip():
            numbers.append(read_number(row[name]))
    return numbers


def _with_edges(
    entries: list[BoxEntry], form: ManifestColumns
) -> tuple[list[BoxEntry], Sequence[str]]:
    """Return boxes with their edges, and a sentence if the columns do not say what they mean."""
    if form.names in (BOXED.names, FOUR_CORNERS.names):
        return entries, ()
    # Without titles nothing says the order, and a guess would move every box.
    if form.names is UNTITLED.names and _are_sides_first(entries):
        raise UsageError(
            f"--data: the values of '{entries[0].source}' may be left, right, top and bottom, or a"
            " corner and sides",
            "write the titles path,label,xmin,ymin,xmax,ymax above the columns",
        )
    if form.names is UNTITLED.names and not any(map(_is_turned, collect_boxes(entries))):
        return entries, ("The values of a box are read as two corners.",)
    if form.names is LISTED.names and are_corners(entries):
        note = (
            "The values of a box are read as two corners: more boxes are in their images that way."
        )
        return entries, (note,)
    is_point = form.names is POINT_AND_SIDES.names
    is_centre = form.names is CENTRE_AND_SIDES.names or (is_point and are_centres(entries))
    convert_box = convert_centre_box if is_centre else convert_coco_box
    placed = [entry.convert_boxes(convert_box) for entry in entries]
    if is_point:
        meaning = "the centre" if is_centre else "the left upper corner"
        return placed, (f"'x' and 'y' are read as {meaning} of a box.",)
    if form.names in (CORNER_AND_SIDES.names, CENTRE_AND_SIDES.names):
        return placed, ()
    return placed, ("The values of a box are read as left, top, width and height.",)


def _are_sides_first(entries: Sequence[BoxEntry]) -> bool:
    """Return whether four values are no two corners, but may be left, right, top and bottom."""
    boxes = collect_boxes(entries)
    if not any(map(_is_turned, boxes)):
        return False
    return all(box.left < box.top and box.right < box.bottom for box in boxes)


def _is_turned(box: Box) -> bool:
    """Return whether the second corner of a box is left of the first or above it."""
    return box.right < box.left or box.bottom < box.top


def find_box_tables(path: Path) -> list[Path]:
    """Return the tables with the edges of boxes in a folder, its parts or ``annotations``."""
    folders = [
        path,
        *(folder for folder, _ in list_part_folders(path)),
        folder_in(path, "annotations"),
    ]
    tables = []
    for folder in dict.fromkeys(folders):
        for entry in sorted(folder.iterdir()):
            if entry.suffix.lower() in CSV and entry.is_file() and find_form(entry):
                tables.append(entry)
    return tables


def list_box_tables(path: Path) -> BoxListing:
    """List the boxes of all tables in a folder, each of one part if its name says so.

    Raises UsageError as :func:`list_table`, or if several tables do not say their parts.
    """
    tables = find_box_tables(path)
    parts_of_tables = []
    for table in tables:
        in_folder = ""
        if table.parent != path:
            in_folder = labelled_part_of(table.parent.name)
        stated = parts.part_of(table.stem.replace("bbox", ""), parts.TABLE_WORDS)
        stated_part = ""
        if stated != parts.UNLABELLED:
            stated_part = stated or in_folder
        parts_of_tables.append(stated_part)
    # Two tables of one part, or of none, may be versions of the same boxes.
    if len(tables) > 1 and len(set(parts_of_tables) - {""}) < len(tables):
        readings = make_readings(tables, "the boxes are those of '{}'")
        raise AmbiguousInput(f"--data: which table has the boxes of '{path}'?", readings)
    entries: list[BoxEntry] = []
    faults: list[BoxFault] = []
    notes: list[str] = []
    for table, part in zip(tables, parts_of_tables, strict=True):
        listing = list_table(table)
        entries += [replace(entry, part=entry.part or part) for entry in listing.entries]
        faults += listing.faults
        notes += listing.notes
    return BoxListing(path, entries, faults=faults, unit="row", notes=tuple(dict.fromkeys(notes)))
