"""Read boxes from COCO: one JSON file with the lists ``images``, ``categories`` and ``annotations``.

The file is beside its images, beside a folder of them, in ``annotations/``, or in the folder of a part.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.core.codec import parse_known
from advisor.core.errors import UsageError
from advisor.datasets.boxes.values import (
    Box,
    BoxEntry,
    BoxFault,
    BoxListing,
    box_of,
    files_in,
    folder_in,
    is_there,
    part_folders,
    part_of,
    stated_size,
    text_of,
)
from advisor.datasets.dataset import Rejected
from advisor.store.jsonfile import MAX_BYTES, parse_json

HINT = "a COCO file has the lists images, categories and annotations"

NAMES = ("instances", "coco", "annotation")
"""Parts of the name of a COCO file; with another name it counts only if no other format is there."""

_PROBED = 20
"""Images that are looked for, to find the folder of all."""

_IMAGE = {"id": object, "file_name": str, "width": object, "height": object}
_CATEGORY = {"id": object, "name": str}
_ANNOTATION = {"image_id": object, "category_id": object, "bbox": tuple[float, ...], "iscrowd": int}


def coco_files(path: Path, sure: bool = False) -> list[tuple[Path, str]]:
    """Return the COCO files of a folder with their parts; with ``sure``, none if no JSON file is named like one of
    COCO.
    """
    places = [(path, ""), *part_folders(path)]
    inner = [(folder_in(folder, "annotations"), part) for folder, part in places]
    found = [(file, part) for folder, part in dict.fromkeys([*places, *inner]) for file in files_in(folder, ".json")]
    files = [(file, part or part_of(file.stem)) for file, part in found]
    for name in NAMES:
        if named := [one for one in files if name in one[0].stem.casefold()]:
            return named
    return [] if sure else files


def list_coco(path: Path) -> BoxListing:
    """List the boxes of a COCO file, or of all in a folder. Boxes of unknown images or categories are left out."""
    root = path if path.is_dir() else path.parent.parent if path.parent.name == "annotations" else path.parent
    entries: list[BoxEntry] = []
    classes: dict[str, None] = {}
    rejected: list[Rejected] = []
    faults: list[BoxFault] = []
    for file, part in coco_files(path) if path.is_dir() else [(path, part_of(path.stem))]:
        content = _lists(file)
        names = {_key(one.get("id")): one["name"] for one in _known(_CATEGORY, content["categories"]) if "name" in one}
        classes |= dict.fromkeys(names.values())
        images = _images(file, content["images"], rejected)
        base = _base(file, part, root, [one["file_name"] for one in images.values()])
        paths = {key: base / one["file_name"] for key, one in images.items()}
        boxes = _boxes(file, content["annotations"], paths, names, faults)
        for key, one in images.items():
            size = stated_size(one.get("width"), one.get("height"))
            entries.append(BoxEntry(paths[key], tuple(boxes.get(key, ())), file, part, "", size))
    return BoxListing(root, entries, tuple(classes), rejected, faults, unit="annotation")


def _lists(file: Path) -> Mapping[str, Sequence[Any]]:
    try:
        content = parse_json(text_of(file, MAX_BYTES))
    except ValueError as error:
        raise UsageError(f"--data: '{file}' cannot be read as COCO: {error}", HINT) from None
    lists = content if isinstance(content, dict) else {}
    for name in ("images", "categories", "annotations"):
        if not isinstance(lists.get(name), list):
            there = ", ".join(map(repr, list(lists)[:8])) or "nothing of it"
            raise UsageError(f"--data: '{file}' has no list '{name}', but {there}", HINT)
    return lists


def _images(file: Path, listed: Sequence[Any], rejected: list[Rejected]) -> dict[str, dict[str, Any]]:
    """Return the images by their ids; those without a name or with the id of another one are rejected."""
    found: dict[str, dict[str, Any]] = {}
    for number, one in enumerate(_known(_IMAGE, listed), start=1):
        key = _key(one.get("id"))
        fault = "no id" if not key else "no file_name" if not one.get("file_name") else ""
        if fault or found.setdefault(key, one) is not one:
            rejected.append(Rejected(file, f"image {number} has {fault or f'the id {key} of an image before it'}"))
    return found


def _boxes(
    file: Path, listed: Sequence[Any], images: Mapping[str, Path], names: Mapping[str, str], faults: list[BoxFault]
) -> dict[str, list[Box]]:
    """Return the boxes of each image; those that cannot be assigned are left out."""
    found: dict[str, list[Box]] = {}
    for number, one in enumerate(_known(_ANNOTATION, listed), start=1):
        image, category = _key(one.get("image_id")), _key(one.get("category_id"))
        fault = _fault(one, image in images, category in names)
        if fault:
            faults.append(BoxFault(images.get(image, file), f"annotation {number} of '{file.name}'", fault))
        else:
            left, top, width, height = one["bbox"]
            edges = left, top, left + width, top + height
            found.setdefault(image, []).append(box_of(names[category], edges, number))
    return found


def _fault(one: Mapping[str, Any], image: bool, category: bool) -> str:
    if not image:
        return "its image_id is not in 'images'"
    if not category:
        return "its category_id is not in 'categories'"
    if len(one.get("bbox", ())) != 4:
        return "bbox is not a list of four numbers"
    return "it marks a crowd (iscrowd), not one object" if one.get("iscrowd") else ""


def _known(kinds: Mapping[str, Any], entries: Sequence[Any]) -> Iterator[dict[str, Any]]:
    return (parse_known(kinds, entry if isinstance(entry, Mapping) else {}) for entry in entries)


def _key(written: object) -> str:
    """Return an identifier as text: some tools write a number as text in one of the lists."""
    return str(written) if isinstance(written, int | str) else ""


def _base(file: Path, part: str, root: Path, names: Sequence[str]) -> Path:
    """Return the folder that the names of the images count from: the one with the most of the first images."""
    places = [file.parent, folder_in(file.parent, "images"), root, folder_in(root, "images")]
    places += [folder for place in places[2:] for folder, of in part_folders(place) if of == part]
    return max(dict.fromkeys(places), key=lambda place: sum(is_there(place / name) for name in names[:_PROBED]))
