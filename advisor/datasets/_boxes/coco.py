"""List the boxes of COCO, a JSON file with lists of images, categories and annotations.

``list_boxes`` calls :func:`list_coco`. The file is beside its images, beside a folder of them, in
``annotations/``, or in the folder of a part. ``_masks/listing.py`` reads the same files for their
segmentations, by the functions of this module that are public.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.core import parse_known
from advisor.datasets._boxes.entries import (
    Box,
    BoxEntry,
    BoxFault,
    BoxListing,
    are_corners,
    convert_coco_box,
    make_box,
)
from advisor.datasets._boxes.marks import read_number, read_stated_size
from advisor.datasets._boxes.set_folders import (
    folder_in,
    labelled_part_of,
    list_files_with_suffix,
    list_part_folders,
)
from advisor.datasets._boxes.tools import find_tool_form
from advisor.datasets._category_files import make_key, read_lists
from advisor.datasets._dataset import Rejected
from advisor.datasets._image_places import find_by_name, is_there, locate_image

COCO_HINT = "a COCO file has the lists images, categories and annotations"
# Parts of names; others count if no other format is there.
COCO_NAMES = ("instances", "coco", "annotation")
FILES_OF_TOOLS = frozenset({"notes.json"})  # Label Studio writes it beside YOLO's files
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


def find_coco_files(path: Path, sure: bool = False) -> list[tuple[Path, str]]:
    """Return the COCO files of a folder with their parts.

    With ``sure``, none if no file is named like one of COCO.
    """
    places = [(path, ""), *list_part_folders(path)]
    inner = [(folder_in(folder, "annotations"), part) for folder, part in places]
    files = []
    for folder, part in dict.fromkeys([*places, *inner]):
        others = []
        for file in list_files_with_suffix(folder, ".json"):
            if file.name not in FILES_OF_TOOLS:
                others.append(file)
        if others and find_tool_form(others[0]) is None:
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

    Boxes of unknown images or categories are left out. Boxes are left, top, width and height, or
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
    for file, part in (
        find_coco_files(path) if path.is_dir() else [(path, labelled_part_of(path.stem))]
    ):
        content = read_coco_lists(file)
        names = _name_categories(content["categories"])
        classes |= dict.fromkeys(names.values())
        images = read_coco_images(file, content["images"], rejected)
        image_names = [image["file_name"] for image in images.values()]
        base = find_image_base(file, part, root, image_names)
        located = [locate_image(base, name) for name in image_names]
        places, _ = find_by_name(file, located, root)
        paths = dict(zip(images, places, strict=True))
        boxes = _read_coco_boxes(file, content["annotations"], paths, names, faults)
        for key, image in images.items():
            size = read_stated_size(image.get("width"), image.get("height"))
            entries.append(BoxEntry(paths[key], tuple(boxes.get(key, ())), file, part, "", size))
    # COCO states a corner and sides, but converters often write two corners into its files.
    if not are_corners(entries):
        entries = [entry.convert_boxes(convert_coco_box) for entry in entries]
    return BoxListing(root, entries, tuple(classes), rejected, faults, unit="annotation")


def _name_categories(listed: Sequence[Any]) -> dict[str, str]:
    """Return the name of each category by its id; one without a name is left out."""
    names = {}
    for category in _parse_entries(_CATEGORY, listed):
        if "name" in category:
            names[make_key(category.get("id"))] = category["name"]
    return names


def read_coco_lists(file: Path) -> Mapping[str, Sequence[Any]]:
    """Return the lists of a COCO file; UsageError: it cannot be read, or lacks one."""
    return read_lists(file, "COCO", COCO_HINT)


def read_coco_images(
    file: Path, listed: Sequence[Any], rejected: list[Rejected]
) -> dict[str, dict[str, Any]]:
    """Return the images by their ids, and add to ``rejected`` those without a name or own id."""
    by_id: dict[str, dict[str, Any]] = {}
    for place, image in enumerate(_parse_entries(_IMAGE, listed), start=1):
        key = make_key(image.get("id"))
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


def _read_coco_boxes(
    file: Path,
    listed: Sequence[Any],
    images: Mapping[str, Path],
    names: Mapping[str, str],
    faults: list[BoxFault],
) -> dict[str, list[Box]]:
    """Return the boxes of each image with their four values as written.

    Those that cannot be assigned are added to ``faults``.
    """
    boxes: dict[str, list[Box]] = {}
    for place, annotation in enumerate(_parse_entries(_ANNOTATION, listed), start=1):
        image = make_key(annotation.get("image_id"))
        category = make_key(annotation.get("category_id"))
        edges = _read_edges(annotation)
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
            boxes.setdefault(image, []).append(make_box(names[category], edges, place))
    return boxes


def _read_edges(annotation: Mapping[str, Any]) -> Sequence[float]:
    """Return left, top, width and height: of the box, or without one around the polygons."""
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
    """Yield the values of known types of each entry; none for an entry that is no object."""
    for entry in entries:
        yield parse_known(kinds, entry if isinstance(entry, Mapping) else {})


def find_image_base(file: Path, part: str, root: Path, names: Sequence[str]) -> Path:
    """Return the folder that the names of images count from: that with most of the first ones."""
    places = [file.parent, folder_in(file.parent, "images"), root, folder_in(root, "images")]
    for place in places[2:]:
        for folder, part_of_folder in list_part_folders(place):
            if part_of_folder == part:
                places.append(folder)

    def count_images(place: Path) -> int:
        return sum(is_there(place / name) for name in names[:_PROBED])

    return max(dict.fromkeys(places), key=count_images)
