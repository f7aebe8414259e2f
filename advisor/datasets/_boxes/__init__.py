"""Find out in which format a set has its boxes, and list them with the reader of this format.

``reading.py`` calls :func:`list_boxes`, then opens the images. Each format is a module of this
folder with a function from a path to a ``BoxListing``, and a line in :func:`formats_of` and
:func:`_choose_file_reader`. A set with two formats is a question, never a guess.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from advisor.core import AmbiguousInput, UsageError
from advisor.datasets._boxes.class_names import find_strict_names_file, is_names_file
from advisor.datasets._boxes.coco import find_coco_files, list_coco
from advisor.datasets._boxes.entries import BoxListing, screen_boxes
from advisor.datasets._boxes.inside import find_files_with_images, list_inside
from advisor.datasets._boxes.tables import find_box_tables, list_box_tables, list_table
from advisor.datasets._boxes.tools import find_tool_files, find_tool_form, list_tools
from advisor.datasets._boxes.voc import is_voc, list_voc
from advisor.datasets._boxes.yolo import is_yolo, list_yolo
from advisor.datasets._column_search import SUFFIXES
from advisor.datasets._layouts import missing_hint
from advisor.datasets._read_errors import make_readings
from advisor.datasets._system_folders import is_system_name
from advisor.store import walk_folder

HINT = (
    "boxes come as Pascal VOC (Annotations/ and JPEGImages/), COCO (a JSON file beside images/),"
    " YOLO (images/, labels/ and data.yaml), or a table with the columns"
    " path,label,xmin,ymin,xmax,ymax; or inside Parquet, Arrow, WebDataset and TFDS files, with"
    " the objects of each image"
)
SUFFIXES_OF_MARKS = frozenset(
    {*SUFFIXES, ".txt", ".json", ".xml", ".geojson", ".odgt", ".mat", ".ann"}
)


def list_boxes(path: Path) -> BoxListing:
    """List the images of a set with their boxes, without boxes that cannot be right.

    A file says which format counts: a table, a COCO file, or YOLO's class names. If all images are
    in one part of a split, there is no split. Raises UsageError if the path does not exist, no
    format or more than one fits, or the data cannot be read.
    """
    if not path.exists():
        raise UsageError(f"--data: '{path}' does not exist", missing_hint(path, HINT))
    path = _enter_folder(path)
    read_format = _choose_folder_reader(path) if path.is_dir() else _choose_file_reader(path)
    listing = screen_boxes(read_format(path))
    if not listing.entries and not listing.rejected:
        raise UsageError(f"--data: '{path}' names no image", HINT)
    # All images in one part: somebody has taken a part of a set, and a split is drawn from it.
    if len({entry.part for entry in listing.entries}) > 1:
        return listing
    return replace(listing, entries=[replace(entry, part="") for entry in listing.entries])


def _enter_folder(path: Path) -> Path:
    """Return the folder that really holds the set: ``VOCdevkit/VOC2012`` of ``VOCdevkit``.

    Each folder on the way to it holds nothing but the next one.
    """
    while path.is_dir():
        entries = []
        for entry in path.iterdir():
            if not is_system_name(entry.name):
                entries.append(entry)
        if len(entries) != 1 or not entries[0].is_dir():
            break
        path = entries[0]
    return path


def _choose_file_reader(path: Path) -> Callable[[Path], BoxListing]:
    """Return the reader of a file's format; UsageError if none fits."""
    suffix = path.suffix.lower()
    if find_files_with_images(path):
        return list_inside
    if find_tool_form(path) is not None:
        return list_tools
    if suffix in SUFFIXES:
        return list_table
    if suffix == ".json":
        return list_coco
    if is_names_file(path):
        return list_yolo
    raise UsageError(
        f"--data: '{path}' is a file, but neither a table, nor a COCO file, nor YOLO's class"
        " names",
        HINT,
    )


def formats_of(path: Path) -> dict[str, Callable[[Path], BoxListing]]:
    """Return the formats of boxes that a folder surely has: their names and their readers."""
    path = _enter_folder(path)
    # Files of tools are XML and JSON as well, so they are told apart by their beginnings first.
    tools = bool(find_tool_files(path))
    formats = {
        "files of an annotation tool": (tools, list_tools),
        "Pascal VOC (XML files)": (not tools and is_voc(path), list_voc),
        "COCO (JSON files)": (bool(find_coco_files(path, sure=True)), list_coco),
        "YOLO (labels or class names)": (is_yolo(path, by_names=not tools), list_yolo),
        "a table (CSV)": (bool(find_box_tables(path)), list_box_tables),
    }
    readers: dict[str, Callable[[Path], BoxListing]] = {}
    for name, (is_present, read) in formats.items():
        if is_present:
            readers[name] = read
    return readers


def _choose_folder_reader(path: Path) -> Callable[[Path], BoxListing]:
    """Return the reader of the only format of a folder; UsageError for none or several."""
    formats = formats_of(path)
    if not formats and any(file.suffix.lower() != ".zip" for file in find_files_with_images(path)):
        return list_inside  # beside such files are other JSON files than COCO's
    formats = formats or ({"COCO": list_coco} if find_coco_files(path) else {})
    if len(formats) == 1:
        return next(iter(formats.values()))
    if formats:
        raise _ask_which_format(path, formats)
    tables = sorted(entry for entry in path.iterdir() if entry.suffix.lower() in SUFFIXES)
    hint = f"give its table: --data {tables[0]}" if tables else HINT
    marks_file = _find_file_of_marks(path)
    but = f", but '{marks_file.relative_to(path)}'" if marks_file else ""
    raise UsageError(f"--data: '{path}' has no boxes in a known format{but}", hint)


def _find_file_of_marks(path: Path) -> Path | None:
    """Return the first file below a folder that may have boxes in another format, or None."""
    for folder, inner, names in walk_folder(path):
        inner[:] = sorted(name for name in inner if not is_system_name(name))
        for name in sorted(names):
            if is_system_name(name) or name.casefold().startswith(("readme", "license")):
                continue
            if Path(name).suffix.casefold() in SUFFIXES_OF_MARKS:
                return folder / name
    return None


def _ask_which_format(path: Path, formats: Mapping[str, object]) -> UsageError:
    """Return the question which of several annotations count, with a file for each answer."""
    files = [file for file, _ in find_coco_files(path, sure=True)] + find_box_tables(path)
    names = find_strict_names_file(path)
    if names is not None:
        files.append(names)
    readings = make_readings(files, "the boxes of '{}' count")
    message = f"--data: '{path}' has annotations in {len(formats)} formats: {', '.join(formats)}"
    return AmbiguousInput(message, readings, "move the annotations that do not count away")
