"""Read images with boxes: Pascal VOC, COCO, YOLO, tables, and files that hold images.

COCO is one JSON file with the lists ``images``, ``categories`` and ``annotations``. It is beside
its images, beside a folder of them, in ``annotations/``, or in the folder of a part.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.core import AmbiguousInput, UsageError, parse_known
from advisor.datasets._boxes.class_names import is_names_file, strict_names_file
from advisor.datasets._boxes.entries import (
    Box,
    BoxEntry,
    BoxFault,
    BoxListing,
    are_corners,
    box_of,
    of_coco,
    screen_boxes,
)
from advisor.datasets._boxes.inside import files_inside, list_inside
from advisor.datasets._boxes.marks import read_number, read_stated_size
from advisor.datasets._boxes.set_folders import files_in, folder_in, labelled_part_of, part_folders
from advisor.datasets._boxes.tables import box_tables, list_box_tables, list_table
from advisor.datasets._boxes.tools import form_of, list_tools, tool_files
from advisor.datasets._boxes.voc import is_voc, list_voc
from advisor.datasets._boxes.yolo import is_yolo, list_yolo
from advisor.datasets._category_files import key_of, read_lists
from advisor.datasets._column_search import SUFFIXES
from advisor.datasets._dataset import Rejected
from advisor.datasets._image_places import find_by_name, is_there, locate_image
from advisor.datasets._layouts import missing_hint
from advisor.datasets._read_errors import readings_of_data
from advisor.datasets._system_folders import is_system_name
from advisor.store import walk_folder

COCO_HINT = "a COCO file has the lists images, categories and annotations"
# Parts of names; others count if no other format is there.
COCO_NAMES = ("instances", "coco", "annotation")
FILES_OF_TOOLS = frozenset({"notes.json"})  # Label Studio writes it beside YOLO's files
HINT = (
    "boxes come as Pascal VOC (Annotations/ and JPEGImages/), COCO (a JSON file beside images/),"
    " YOLO (images/, labels/ and data.yaml), or a table with the columns"
    " path,label,xmin,ymin,xmax,ymax; or inside Parquet, Arrow, WebDataset and TFDS files, with"
    " the objects of each image"
)
SUFFIXES_OF_MARKS = frozenset(
    {*SUFFIXES, ".txt", ".json", ".xml", ".geojson", ".odgt", ".mat", ".ann"}
)
_PROBED = 20  # Images that are looked for, to find the folder of all

_IMAGE = {"id": object, "file_name": str, "coco_url": object, "width": object, "height": object}
_CATEGORY = {"id": object, "name": str}
_ANNOTATION = {
    "image_id": object,
    "category_id": object,
    "bbox": object,
    "iscrowd": int,
    "segmentation": object,
}


def coco_files(path: Path, sure: bool = False) -> list[tuple[Path, str]]:
    """Return the COCO files of a folder with their parts;
    with ``sure``, none if no file is named like one of COCO.
    """
    places = [(path, ""), *part_folders(path)]
    inner = [(folder_in(folder, "annotations"), part) for folder, part in places]
    files = []
    for folder, part in dict.fromkeys([*places, *inner]):
        others = [file for file in files_in(folder, ".json") if file.name not in FILES_OF_TOOLS]
        if others and form_of(others[0]) is None:
            files += [(file, part or labelled_part_of(file.stem)) for file in others]
    for name in COCO_NAMES:
        # COCO has captions and key points in files beside those of the boxes.
        files_of_boxes = []
        for file, part in files:
            if name in file.stem.casefold():
                files_of_boxes.append((file, part))
        if files_of_boxes:
            return files_of_boxes
    return [] if sure else files


def list_coco(path: Path) -> BoxListing:
    """List the boxes of a COCO file, or of all in a folder.
    Boxes of unknown images or categories are left out.

    Boxes are left, top, width and height;
    two corners if more of them fit into their images as these.
    """
    root = path
    if not path.is_dir():
        # The images are beside the folder `annotations`, and not in it.
        root = path.parent.parent if path.parent.name == "annotations" else path.parent
    entries = list[BoxEntry]()
    rejected = list[Rejected]()
    faults = list[BoxFault]()
    classes: dict[str, None] = {}
    for file, part in coco_files(path) if path.is_dir() else [(path, labelled_part_of(path.stem))]:
        content = lists_of(file)
        names = _names_of_categories(content["categories"])
        classes |= dict.fromkeys(names.values())
        images = images_of(file, content["images"], rejected)
        image_names = [image["file_name"] for image in images.values()]
        base = base_of(file, part, root, image_names)
        located = [locate_image(base, name) for name in image_names]
        places, _ = find_by_name(file, located, root)
        paths = dict(zip(images, places, strict=True))
        boxes = _coco_boxes(file, content["annotations"], paths, names, faults)
        for key, image in images.items():
            size = read_stated_size(image.get("width"), image.get("height"))
            entries.append(BoxEntry(paths[key], tuple(boxes.get(key, ())), file, part, "", size))
    # COCO states a corner and sides, but converters often write two corners into its files.
    if not are_corners(entries):
        entries = [replace(entry, boxes=tuple(map(of_coco, entry.boxes))) for entry in entries]
    return BoxListing(root, entries, tuple(classes), rejected, faults, unit="annotation")


def _names_of_categories(listed: Sequence[Any]) -> dict[str, str]:
    """Return the name of each category by its id;
    one without a name has no boxes that could be used.
    """
    categories = []
    for category in _parse_entries(_CATEGORY, listed):
        if "name" in category:
            categories.append(category)
    return {key_of(category.get("id")): category["name"] for category in categories}


def lists_of(file: Path) -> Mapping[str, Sequence[Any]]:
    """Return the lists of a COCO file; UsageError: it cannot be read, or lacks one."""
    return read_lists(file, "COCO", COCO_HINT)


def images_of(
    file: Path, listed: Sequence[Any], rejected: list[Rejected]
) -> dict[str, dict[str, Any]]:
    """Return the images by their ids;
    those without a name or with the id of another one are rejected.
    """
    by_id: dict[str, dict[str, Any]] = {}
    for place, image in enumerate(_parse_entries(_IMAGE, listed), start=1):
        key = key_of(image.get("id"))
        if not image.get("file_name") and isinstance(image.get("coco_url"), str):
            # LVIS has addresses alone; their last two parts are the folder and the file.
            image["file_name"] = "/".join(image["coco_url"].split("/")[-2:])
        if not key:
            rejected.append(Rejected(file, f"image {place} has no id"))
            continue
        if not image.get("file_name"):
            rejected.append(Rejected(file, f"image {place} has no file_name"))
            continue
        if "/" not in image["file_name"]:
            # Files that were written on Windows separate folders by a backslash.
            image["file_name"] = image["file_name"].replace("\\", "/")
        if by_id.setdefault(key, image) is not image:
            rejected.append(
                Rejected(file, f"image {place} has the id {key} of an image before it")
            )
    return by_id


def _coco_boxes(
    file: Path,
    listed: Sequence[Any],
    images: Mapping[str, Path],
    names: Mapping[str, str],
    faults: list[BoxFault],
) -> dict[str, list[Box]]:
    """Return the boxes of each image with their four values as written;
    those that cannot be assigned are left out.
    """
    boxes: dict[str, list[Box]] = {}
    for place, annotation in enumerate(_parse_entries(_ANNOTATION, listed), start=1):
        image = key_of(annotation.get("image_id"))
        category = key_of(annotation.get("category_id"))
        edges = _edges_of(annotation)
        fault = ""
        # One reason is enough: an image that is missing makes all others follow.
        if image not in images:
            fault = "its image_id is not in 'images'"
        elif category not in names:
            fault = "its category_id is not in 'categories'"
        elif len(edges) != 4:
            fault = "bbox is not a list of four numbers"
        elif annotation.get("iscrowd"):
            fault = "it marks a crowd (iscrowd), not one object"
        if fault:
            faults.append(
                BoxFault(images.get(image, file), f"annotation {place} of '{file.name}'", fault)
            )
        else:
            boxes.setdefault(image, []).append(box_of(names[category], edges, place))
    return boxes


def _edges_of(annotation: Mapping[str, Any]) -> Sequence[float]:
    """Return left, top, width and height of an annotation:
    its box, or without one the box around its polygons.
    """
    box = annotation.get("bbox")
    if box:
        if isinstance(box, list):
            return list(map(read_number, box))
        return ()
    polygons = annotation.get("segmentation")
    points: list[float] = []
    for polygon in polygons if isinstance(polygons, list) else ():
        if isinstance(polygon, list):
            points += map(read_number, polygon)
    # A polygon needs three corners of two numbers.
    if len(points) < 6 or len(points) % 2:
        return ()
    across = points[::2]
    down = points[1::2]
    return min(across), min(down), max(across) - min(across), max(down) - min(down)


def _parse_entries(kinds: Mapping[str, Any], entries: Sequence[Any]) -> Iterator[dict[str, Any]]:
    return (parse_known(kinds, entry if isinstance(entry, Mapping) else {}) for entry in entries)


def base_of(file: Path, part: str, root: Path, names: Sequence[str]) -> Path:
    """Return the folder that the names of the images count from:
    the one with the most of the first images.
    """
    places = [file.parent, folder_in(file.parent, "images"), root, folder_in(root, "images")]
    for place in places[2:]:
        places += [folder for folder, folder_part in part_folders(place) if folder_part == part]

    def count_images(place: Path) -> int:
        return sum(is_there(place / name) for name in names[:_PROBED])

    return max(dict.fromkeys(places), key=count_images)


def list_boxes(path: Path) -> BoxListing:
    """List the images of a set with their boxes, whatever its format;
    boxes that cannot be right are left out.

    A file says which format counts: a table, a COCO file, or YOLO's class names. If all images are
    in one part of a split, there is no split. Raises UsageError if the path does not exist, no
    format or more than one fits, or the data cannot be read.
    """
    if not path.exists():
        raise UsageError(f"--data: '{path}' does not exist", missing_hint(path, HINT))
    path = _enter_folder(path)
    read_format = _of_folder(path) if path.is_dir() else _of_file(path)
    listing = screen_boxes(read_format(path))
    if not listing.entries and not listing.rejected:
        raise UsageError(f"--data: '{path}' names no image", HINT)
    # All images in one part: somebody has taken a part of a set, and a split is drawn from it.
    if len({entry.part for entry in listing.entries}) > 1:
        return listing
    return replace(listing, entries=[replace(entry, part="") for entry in listing.entries])


def _enter_folder(path: Path) -> Path:
    """Return the inner folder where each folder on the way to it holds nothing but the next:
    ``VOCdevkit/VOC2012``.
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


def _of_file(path: Path) -> Callable[[Path], BoxListing]:
    """Return what reads the format of a file."""
    suffix = path.suffix.lower()
    if files_inside(path):
        return list_inside
    if form_of(path) is not None:
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
    """Return the formats of boxes that a folder surely has, by their names, with what reads
    them.
    """
    path = _enter_folder(path)
    # Files of tools are XML and JSON as well, so they are told apart by their beginnings first.
    tools = bool(tool_files(path))
    formats = {
        "files of an annotation tool": (tools, list_tools),
        "Pascal VOC (XML files)": (not tools and is_voc(path), list_voc),
        "COCO (JSON files)": (bool(coco_files(path, sure=True)), list_coco),
        "YOLO (labels or class names)": (is_yolo(path, by_names=not tools), list_yolo),
        "a table (CSV)": (bool(box_tables(path)), list_box_tables),
    }
    return {name: read for name, (is_present, read) in formats.items() if is_present}


def _of_folder(path: Path) -> Callable[[Path], BoxListing]:
    """Return what reads the only format of a folder."""
    formats = formats_of(path)
    if not formats and any(file.suffix.lower() != ".zip" for file in files_inside(path)):
        return list_inside  # beside such files are other JSON files than COCO's
    formats = formats or ({"COCO": list_coco} if coco_files(path) else {})
    if len(formats) == 1:
        return next(iter(formats.values()))
    if formats:
        raise _which_format(path, formats)
    tables = sorted(entry for entry in path.iterdir() if entry.suffix.lower() in SUFFIXES)
    hint = f"give its table: --data {tables[0]}" if tables else HINT
    marks = _file_of_marks(path)
    but = f", but '{marks.relative_to(path)}'" if marks else ""
    raise UsageError(f"--data: '{path}' has no boxes in a known format{but}", hint)


def _file_of_marks(path: Path) -> Path | None:
    """Return the first file below a folder that may have boxes in another format;
    None if there is none.
    """
    for folder, inner, names in walk_folder(path):
        inner[:] = sorted(name for name in inner if not is_system_name(name))
        for name in sorted(names):
            if is_system_name(name) or name.casefold().startswith(("readme", "license")):
                continue
            if Path(name).suffix.casefold() in SUFFIXES_OF_MARKS:
                return folder / name
    return None


def _which_format(path: Path, formats: Mapping[str, object]) -> UsageError:
    """Return the question which annotations count, of those that a file stands for."""
    files = [file for file, _ in coco_files(path, sure=True)] + box_tables(path)
    names = strict_names_file(path)
    if names is not None:
        files.append(names)
    readings = readings_of_data(files, "the boxes of '{}' count")
    message = f"--data: '{path}' has annotations in {len(formats)} formats: {', '.join(formats)}"
    return AmbiguousInput(message, readings, "move the annotations that do not count away")
