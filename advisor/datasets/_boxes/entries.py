"""Define the values that describe images with boxes, before and after the images are opened."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from advisor.core import AmbiguousInput, UsageError
from advisor.datasets import _parts as parts
from advisor.datasets._boxes.marks import read_number, read_stated_size
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
from advisor.datasets._dataset import Entry, Listing, Rejected
from advisor.datasets._image_places import find_by_name
from advisor.datasets._manifest_columns import ManifestColumns
from advisor.datasets._manifests import entry_of, folder_of_images, has_columns, read_rows
from advisor.datasets._read_errors import readings_of_data
from advisor.datasets._scan import folders_in
from advisor.datasets._table_rows import CSV
from advisor.datasets._untitled_columns import CORNERS
from advisor.store import read_text

ONE_CLASS = "all images"  # The only class of the images themselves: their boxes have the classes
UNNAMED_CLASS = "object"  # Of boxes in a table without a column of classes
_NUMBERS = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
MAX_BOXES = 10_000  # Boxes of one image, at most: two boxes for each of 5,000 objects
MAX_LABEL = 1000
# Shares of an image beyond this are pixels: a box outside the image is not twice as far away.
_FAR = 2.0


@dataclass(frozen=True, slots=True)
class Box:
    """One object in an image."""

    label: str  # its class
    # Edge in pixels of the upright image, or in shares of its width before the image is opened.
    left: float
    top: float  # as ``left``, of the height
    right: float  # as ``left``
    bottom: float  # as ``top``
    line: int = 0  # line, row or number of the box in its file; 0 if it was not read from one

    @property
    def edges(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom."""
        return self.left, self.top, self.right, self.bottom

    @property
    def width(self) -> float:
        """Width, in the unit of the edges."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """Height, in the unit of the edges."""
        return self.bottom - self.top

    def with_edges(self, left: float, top: float, right: float, bottom: float) -> Box:
        """Return the box with other edges."""
        return replace(self, left=left, top=top, right=right, bottom=bottom)

    def scale_to(self, width: float, height: float) -> Box:
        """Return a box with edges in shares as one in pixels of an image."""
        return self.with_edges(
            self.left * width, self.top * height, self.right * width, self.bottom * height
        )

    def clip_to(self, width: float, height: float) -> Box:
        """Return the part of the box that is inside an image;
        it has no area if the box is outside.
        """
        return self.with_edges(
            min(max(self.left, 0.0), width),
            min(max(self.top, 0.0), height),
            min(max(self.right, 0.0), width),
            min(max(self.bottom, 0.0), height),
        )


def box_of(label: str, edges: Sequence[Any], line: int) -> Box:
    """Return a box of four values of a file;
    what is not a number becomes NaN, see :func:`screen_boxes`.
    """
    left, top, right, bottom = map(read_number, edges)
    return Box(label, left, top, right, bottom, line)


@dataclass(frozen=True, slots=True)
class BoxEntry:
    """One image of a listing."""

    path: Path  # the image; it may be missing, or not an image
    boxes: tuple[Box, ...]  # its boxes as written
    source: Path  # the file that has them
    part: str = ""  # ``train``, ``validation``, ``holdout`` or empty
    group: str = ""  # images of one group stay on one side of a split; empty for none
    # Width and height of the image as ``source`` states them, None if it does not.
    size: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class BoxFault:
    """A box that was left out."""

    path: Path  # its image, or the file that has it if no image is known
    place: str  # file and line
    reason: str  # why it was left out


@dataclass(frozen=True)
class BoxListing:
    """A set of images with boxes before the images are opened."""

    root: Path  # paths in reports are relative to it
    entries: Sequence[BoxEntry]  # the images
    classes: Sequence[str] = ()  # class names that exist even without a box
    rejected: Sequence[Rejected] = ()  # images without a usable annotation
    faults: Sequence[BoxFault] = ()  # boxes that were left out
    # Edges are shares of the image's sides; None if this is not known yet.
    relative: bool | None = None
    unit: str = "line"  # what ``Box.line`` counts: ``line``, ``row``, ``annotation``
    notes: Sequence[str] = ()  # a sentence about each thing that a reader may not expect

    @property
    def images(self) -> Listing:
        """The images without their boxes."""
        entries = [Entry(entry.path, ONE_CLASS, entry.part, entry.group) for entry in self.entries]
        return Listing(self.root, entries, (), self.rejected, tuple(self.notes))

    def make_fault(self, entry: BoxEntry, box: Box, reason: str) -> BoxFault:
        """Return a box that is left out."""
        return BoxFault(entry.path, f"{self.unit} {box.line} of '{entry.source.name}'", reason)


def of_coco(box: Box) -> Box:
    """Return the box of left, top, width and height, which stand where the edges are."""
    return box.with_edges(box.left, box.top, box.left + box.right, box.top + box.bottom)


def of_centre(box: Box) -> Box:
    """Return the box of centre, width and height, which stand where the edges are."""
    half_width = box.right / 2
    half_height = box.bottom / 2
    return box.with_edges(
        box.left - half_width, box.top - half_height, box.left + half_width, box.top + half_height
    )


def are_centres(entries: Sequence[BoxEntry]) -> bool:
    """Return whether more boxes of a point,
    width and height are inside their images with the point as centre alone.
    """
    boxes = _all_boxes(entries)
    is_share = all(max(box.edges) <= 1 for box in boxes)
    # Without a size, a box can still be outside at the left or above.
    unknown_size = (1, 1) if is_share else (math.inf, math.inf)
    votes = 0
    for entry in entries:
        width, height = entry.size or unknown_size
        for box in entry.boxes:
            # Boxes that fit both ways say nothing, so they add and subtract one vote.
            votes += _is_inside(of_centre(box), width, height)
            votes -= _is_inside(of_coco(box), width, height)
    return votes > 0


def _all_boxes(entries: Sequence[BoxEntry]) -> list[Box]:
    return list(chain.from_iterable(entry.boxes for entry in entries))


def _is_inside(box: Box, width: float, height: float) -> bool:
    slack = 1e-3 if width <= 1 else 1.0  # of rounded edges
    if min(box.edges) < -slack:
        return False
    return box.right <= width + slack and box.bottom <= height + slack


def are_corners(entries: Sequence[BoxEntry]) -> bool:
    """Return whether more boxes are inside their images as corners alone
    than as COCO's edges alone.
    """
    votes = 0
    for entry in entries:
        if entry.size is None:
            continue
        # Rounding may put an edge one pixel outside.
        width = entry.size[0] + 1
        height = entry.size[1] + 1
        for box in entry.boxes:
            fits_as_corners = box.left < box.right <= width and box.top < box.bottom <= height
            fits_as_coco = box.left + box.right <= width and box.top + box.bottom <= height
            # Boxes that fit both ways say nothing, so only those count that fit one way alone.
            votes += fits_as_corners - fits_as_coco
    return votes > 0


def form_of_table(path: Path) -> ManifestColumns | None:
    """Return the form of the boxes of a table; None if it has none.
    One class needs no column of classes.
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
    """List the boxes of a CSV or Parquet table;
    raises UsageError if the rows of an image contradict each other.
    """
    form = form_of_table(path) or BOXED
    images: dict[Path, BoxEntry] = {}
    boxes: dict[Path, list[Box]] = {}
    faults: list[BoxFault] = []
    for line, row in read_rows(path, form):
        named = entry_of(path, line, row, form)
        size = read_stated_size(row.get("width"), row.get("height"))
        entry = BoxEntry(named.path, (), path, named.part, named.group, size)
        # A table has a row for each box, so the facts of the image repeat.
        if images.setdefault(named.path, entry) != entry:
            raise UsageError(
                f"--data: row {line} of '{path}' has another split, group or size for"
                f" '{row['path']}' than a row above",
                "write the same split, group, width and height in all rows of an image",
            )
        edges = _edges_in(row, form)
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
            boxes_of_image.append(box_of(label, edges, line))
    paths, _ = find_by_name(path, list(images), folder_of_images(path))
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


def _edges_in(row: Mapping[str, str], form: ManifestColumns) -> Sequence[Any]:
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
    """Return the numbers of some cells;
    two opposite corners are enough, so empty cells count for nothing.
    """
    numbers = []
    for name in names:
        if row[name].strip():
            numbers.append(read_number(row[name]))
    return numbers


def _with_edges(
    entries: list[BoxEntry], form: ManifestColumns
) -> tuple[list[BoxEntry], Sequence[str]]:
    """Return boxes of a form with their edges,
    and a sentence where the columns do not say what they mean.
    """
    if form.names in (BOXED.names, FOUR_CORNERS.names):
        return entries, ()
    # Without titles nothing says the order, and a guess would move every box.
    if form.names is UNTITLED.names and _are_sides_first(entries):
        raise UsageError(
            f"--data: the values of '{entries[0].source}' may be left, right, top and bottom, or a"
            " corner and sides",
            "write the titles path,label,xmin,ymin,xmax,ymax above the columns",
        )
    if form.names is UNTITLED.names and not any(map(_is_turned, _all_boxes(entries))):
        return entries, ("The values of a box are read as two corners.",)
    if form.names is LISTED.names and are_corners(entries):
        return entries, (
            (
                "The values of a box are read as two corners: more boxes are in their images that"
                " way."
            ),
        )
    is_centre = form.names is CENTRE_AND_SIDES.names or (
        form.names is POINT_AND_SIDES.names and are_centres(entries)
    )
    read = of_centre if is_centre else of_coco
    placed = [replace(entry, boxes=tuple(map(read, entry.boxes))) for entry in entries]
    if form.names is POINT_AND_SIDES.names:
        meaning = "the centre" if is_centre else "the left upper corner"
        return placed, (f"'x' and 'y' are read as {meaning} of a box.",)
    is_stated = form.names in (CORNER_AND_SIDES.names, CENTRE_AND_SIDES.names)
    return placed, (
        () if is_stated else ("The values of a box are read as left, top, width and height.",)
    )


def _are_sides_first(entries: Sequence[BoxEntry]) -> bool:
    """Return whether four values are no two corners, and may be left, right,
    top and bottom in each row.
    """
    boxes = _all_boxes(entries)
    if not any(map(_is_turned, boxes)):
        return False
    return all(box.left < box.top and box.right < box.bottom for box in boxes)


def _is_turned(box: Box) -> bool:
    """Return whether the second corner of a box is left of the first or above it."""
    return box.right < box.left or box.bottom < box.top


def box_tables(path: Path) -> list[Path]:
    """Return the tables of a folder that have the edges of boxes:
    directly in it, or in those of its parts.

    A folder ``annotations`` counts too.
    """
    folders = [path, *(folder for folder, _ in part_folders(path)), folder_in(path, "annotations")]
    tables = []
    for folder in dict.fromkeys(folders):
        for entry in sorted(folder.iterdir()):
            if entry.suffix.lower() in CSV and entry.is_file() and form_of_table(entry):
                tables.append(entry)
    return tables


def list_box_tables(path: Path) -> BoxListing:
    """List the boxes of all tables in a folder, each of one part if its name says so.

    Raises UsageError as :func:`list_table`, or if several tables do not say their parts.
    """
    tables = box_tables(path)
    parts_of_tables = []
    for table in tables:
        in_folder = ""
        if table.parent != path:
            in_folder = part_of(table.parent.name)
        stated = parts.part_of(table.stem.replace("bbox", ""), parts.TABLE_WORDS)
        stated_part = ""
        if stated != parts.UNLABELLED:
            stated_part = stated or in_folder
        parts_of_tables.append(stated_part)
    # Two tables of one part, or of none, may be versions of the same boxes.
    if len(tables) > 1 and len(set(parts_of_tables) - {""}) < len(tables):
        readings = readings_of_data(tables, "the boxes are those of '{}'")
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


def screen_boxes(listing: BoxListing) -> BoxListing:
    """Return a listing without the boxes that cannot be right.
    Edges are shares if most boxes are inside 0 to 1.
    """
    relative = listing.relative
    if relative is None:
        boxes = _all_boxes(listing.entries)
        # By the majority: a box of one pixel in the corner looks like a share.
        relative = sum(map(_within_one, boxes)) > len(boxes) / 2
    entries: dict[Path, BoxEntry] = {}
    faults: list[BoxFault] = []
    rejected: list[Rejected] = []
    for entry in listing.entries:
        name = entry.path.name
        count = len(entry.boxes)
        if entry.path in entries:
            rejected.append(
                Rejected(entry.source, f"it has '{name}' a second time; the first counts")
            )
        elif count > MAX_BOXES:
            rejected.append(
                Rejected(
                    entry.source, f"{count:,} boxes of '{name}', above the limit of {MAX_BOXES:,}"
                )
            )
        else:
            usable = []
            for box in entry.boxes:
                reason = _fault(box, relative)
                if reason:
                    faults.append(listing.make_fault(entry, box, reason))
                else:
                    usable.append(box)
            entries[entry.path] = replace(entry, boxes=tuple(usable))
    rejected = [*listing.rejected, *rejected]
    faults = [*listing.faults, *faults]
    return replace(
        listing,
        entries=list(entries.values()),
        rejected=rejected,
        faults=faults,
        relative=relative,
    )


def _fault(box: Box, relative: bool) -> str:
    """Return what is wrong with a box, empty if nothing is."""
    if not all(map(math.isfinite, box.edges)):
        return "an edge is missing or not a number"
    if not box.label.strip():
        return "no label"
    if len(box.label) > MAX_LABEL or "\0" in box.label:
        return f"a label with NUL or of more than {MAX_LABEL:,} characters"
    if relative and max(map(abs, box.edges)) > _FAR:
        return "pixels, where coordinates from 0 to 1 are expected"
    if not relative and _within_one(box) and box.right > box.left:
        return "coordinates from 0 to 1, where pixels are expected"
    if box.right < box.left or box.bottom < box.top:
        return "the right edge is left of the left one, or the bottom above the top"
    if box.width > 0 and box.height > 0:
        return ""
    return "no width or no height"


def _within_one(box: Box) -> bool:
    return all(0 <= edge <= 1 for edge in box.edges)


def part_of(name: str) -> str:
    """Return the part of a split that a name means, such as ``train2017`` or ``instances_val``;
    empty for none.
    """
    part = parts.part_of(name)
    return "" if part == parts.UNLABELLED else part


def part_folders(root: Path) -> list[tuple[Path, str]]:
    """Return the sub-folders that are named as parts, each with its part;
    the folder itself if there are none.
    """
    folders = [(folder, part_of(folder.name)) for folder in folders_in(root)]
    named = [(folder, part) for folder, part in folders if part]
    return named or [(root, "")]


def folder_in(root: Path, *names: str) -> Path:
    """Return the first sub-folder with one of these names, in any case; ``root`` if there is
    none.
    """
    inner = {folder.name.casefold(): folder for folder in folders_in(root)}
    return next((inner[name] for name in names if name in inner), root)


def files_in(folder: Path, suffix: str) -> list[Path]:
    """Return the files directly in a folder that have this extension, sorted, without hidden
    ones.
    """
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise UsageError(
            f"--data: '{folder}' cannot be read: {error.strerror}", "check its permissions"
        ) from error
    visible = []
    for entry in entries:
        if not entry.name.startswith("."):
            visible.append(entry)
    return [entry for entry in visible if entry.suffix.lower() == suffix]


def text_of(path: Path, max_bytes: int = 2**24) -> str:
    """Return the text of a file without a byte order mark; raises UsageError as
    :func:`read_text`.
    """
    return read_text(path, max_bytes)
