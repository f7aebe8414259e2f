"""Read boxes from a table: CSV, TSV or Parquet with one box in each row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.datasets.boxes.values import Box, BoxEntry, BoxListing, box_of, stated_size
from advisor.datasets.layouts.manifest import SPLIT, ManifestColumns, entry_of, read_rows

EDGES = ("xmin", "ymin", "xmax", "ymax")

BOXED = ManifestColumns(
    {
        "path": ("path", "file", "filename", "image"),
        "label": ("label", "class", "name"),
        "xmin": ("xmin", "x_min", "left", "x1"),
        "ymin": ("ymin", "y_min", "top", "y1"),
        "xmax": ("xmax", "x_max", "right", "x2"),
        "ymax": ("ymax", "y_max", "bottom", "y2"),
        "width": ("width",),
        "height": ("height",),
        **SPLIT,
    },
    ("path", "label", *EDGES),
    "columns: path,label,xmin,ymin,xmax,ymax and, optionally, split, group, width and height of the image; one row for "
    "each box; a row without label and edges is an image without boxes",
)


def list_table(path: Path) -> BoxListing:
    """List the boxes of a CSV or Parquet table.

    Raises:
        UsageError: the table cannot be read, a column is missing, or the rows of an image contradict each other.
    """
    images: dict[Path, BoxEntry] = {}
    boxes: dict[Path, list[Box]] = {}
    for line, row in read_rows(path, BOXED):
        named = entry_of(path, line, row, BOXED)
        size = stated_size(row.get("width"), row.get("height"))
        entry = BoxEntry(named.path, (), path, named.part, named.group, size)
        if images.setdefault(named.path, entry) != entry:
            raise UsageError(
                f"--data: row {line} of '{path}' has another split, group or size for '{row['path']}' than a row above",
                "write the same split, group, width and height in all rows of an image",
            )
        mine = boxes.setdefault(named.path, [])
        if named.label.strip() or any(row[edge].strip() for edge in EDGES):
            mine.append(box_of(named.label, [row[edge] for edge in EDGES], line))
    entries = [replace(entry, boxes=tuple(boxes[entry.path])) for entry in images.values()]
    return BoxListing(path.parent, entries, unit="row")
