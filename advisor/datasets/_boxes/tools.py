"""Read boxes from the files of annotation tools: LabelMe, CreateML, VoTT, VIA, Label Studio, CVAT and others.

A file states the boxes of one image (LabelMe, Supervisely) or of many. Its beginning tells the form, so that large
files of other forms are not parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from advisor.core import UsageError
from advisor.datasets._boxes.values import (
    Box,
    BoxEntry,
    BoxListing,
    box_of,
    files_in,
    folder_in,
    number,
    part_folders,
    part_of,
    stated_size,
)
from advisor.datasets._boxes.voc import read_xml
from advisor.datasets._category_files import class_names_beside
from advisor.datasets._dataset import Rejected
from advisor.datasets._layouts import folders_in, images_in
from advisor.datasets._manifests import find_by_name, is_there
from advisor.store import MAX_BYTES, open_file, parse_json, read_text

HINT = "save the annotations again, or export them as COCO"
SUFFIXES = (".json", ".labels", ".xml", ".txt")
PLACES = ("annotations", "labels", "json", "jsons", "ann", "images", "img")  # Folders with files of tools, or images
HEAD_BYTES = 2**16
MOST_FOLDERS = 20  # Folders in which those of Supervisely are looked for
NO_EDGES = (float("nan"),) * 4
_LINE = re.compile(r"(?P<path>\S[^\n]*?\.\w{3,4})(?P<boxes>(?: +[\d.]+(?:,[\d.]+){4})+)[ \r]*(?:$|\n)")
PERCENT = 100.0  # Label Studio's unit of a side


@dataclass(frozen=True)
class MarkedImage:
    """An image with the boxes that a file states."""

    name: str  # its path as written
    boxes: Sequence[tuple[str, Sequence[Any]]]  # class; left, top, right and bottom
    size: tuple[int, int] | None = None  # width and height, if the file states them


@dataclass(frozen=True)
class ToolForm:
    """A form of JSON file."""

    words: Sequence[str]  # what its beginning has
    read: Callable[[Any, Path], Iterator[MarkedImage]]  # the images of the value that the file holds


def form_of(file: Path) -> ToolForm | None:
    """Return the form of a file by its beginning; None if it is another kind of file."""
    if file.suffix.lower() not in SUFFIXES or not file.is_file():
        return None
    try:
        with open_file(file, MAX_BYTES) as content:
            head = content.read(HEAD_BYTES).decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    except UsageError:
        return None
    if file.suffix.lower() == ".xml":
        return CVAT if all(word in head for word in CVAT.words) else None
    if file.suffix.lower() == ".txt":
        return LINES if _LINE.match(head) else None
    for form in FORMS:
        if all(f'"{word}"' in head for word in form.words):
            return form
    return None


def tool_files(path: Path) -> list[tuple[Path, str]]:
    """Return the files of tools in a folder with their parts. The first file of a folder tells the form of all."""
    places: list[tuple[Path, str]] = []
    inner = folders_in(path)
    if len(inner) <= MOST_FOLDERS:  # Supervisely has a folder for each data set, with ``ann`` and ``img``
        places = [(folder_in(folder, "ann"), "") for folder in inner if folder_in(folder, "ann") != folder]
    for folder, part in [(path, ""), *part_folders(path)]:
        places += [(folder, part), *((folder_in(folder, name), part) for name in PLACES)]
    files: dict[Path, str] = {}
    for folder, part in dict.fromkeys(places):
        for suffix in SUFFIXES:
            names = files_in(folder, suffix)
            if suffix == ".txt":
                names = [name for name in names if "annotation" in name.stem.casefold()]
            if names and form_of(names[0]) is not None:
                for file in names:
                    files[file] = files.get(file) or part or part_of(file.stem)
    return list(files.items())


def list_tools(path: Path) -> BoxListing:
    """List the boxes of a file of a tool, or of all in a folder; a file of another form is rejected.

    Images are beside their file, in a folder ``images``, or anywhere below ``path`` by their names.
    """
    root = path if path.is_dir() else path.parent
    files = tool_files(path) if path.is_dir() else [(path, part_of(path.stem))]
    rejected: list[Rejected] = []
    entries: list[BoxEntry] = []
    bases = {folder: _bases(folder, root) for folder in {file.parent for file, _ in files}}
    for file, part in files:
        try:
            marked = _marked_images(file)
        except (UsageError, ValueError) as error:
            rejected.append(Rejected(file, error.message if isinstance(error, UsageError) else str(error)))
            continue
        for image in marked:
            places = [base / image.name.replace("\\", "/") for base in bases[file.parent]]
            place = next(filter(is_there, places), places[0])
            boxes = [box_of(label, edges, line) for line, (label, edges) in enumerate(image.boxes, start=1)]
            entries.append(BoxEntry(place, tuple(map(_in_order, boxes)), file, part, "", image.size))
    if not entries:
        why = f": {rejected[0].reason}" if rejected else ""
        raise UsageError(f"--data: '{path}' names no image{why}", HINT)
    lost = [entry.path for entry in entries if not is_there(entry.path)]
    moved = dict(zip(lost, find_by_name(entries[0].source, lost, root)[0], strict=True))
    entries = [replace(entry, path=moved.get(entry.path, entry.path)) for entry in entries]
    known = {entry.path for entry in entries}
    left = [image for image in (images_in(root) if path.is_dir() else ()) if image not in known]
    rejected += [Rejected(image, "it has no annotation") for image in left]
    return BoxListing(root, entries, (), rejected, unit="box")


def _bases(folder: Path, root: Path) -> list[Path]:
    """Return the folders that the names of images may count from, for files in a folder."""
    outer = [folder, root, *([folder.parent] if folder != root else [])]
    return list(dict.fromkeys([*outer, *(folder_in(place, "images", "img") for place in outer)]))


def _in_order(box: Box) -> Box:
    """Return a box whose two corners may be any two opposite ones."""
    left, right = sorted((box.left, box.right))
    top, bottom = sorted((box.top, box.bottom))
    return box.at(left, top, right, bottom)


def _marked_images(file: Path) -> list[MarkedImage]:
    """Return the images of a file; ValueError or UsageError: it cannot be read."""
    form = form_of(file)
    if form is None:
        raise ValueError("it is no file of a known annotation tool")
    if form is CVAT:
        return list(_cvat(read_xml(file), file))
    text = read_text(file, MAX_BYTES)
    return list(form.read(text if form is LINES else parse_json(text), file))


def _objects(values: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list, or of an object whose values are objects."""
    listed = values.values() if isinstance(values, dict) else values if isinstance(values, list) else ()
    return [value for value in listed if isinstance(value, dict)]


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _around(points: Any) -> Sequence[float]:
    """Return the edges of the box around points."""
    pairs = (
        [point for point in points if isinstance(point, list) and len(point) == 2] if isinstance(points, list) else []
    )
    if len(pairs) < 2:
        return NO_EDGES
    across = [number(point[0]) for point in pairs]
    down = [number(point[1]) for point in pairs]
    return min(across), min(down), max(across), max(down)


def _from_corner(left: Any, top: Any, width: Any, height: Any) -> Sequence[float]:
    return number(left), number(top), number(left) + number(width), number(top) + number(height)


def _label_me(content: Any, file: Path) -> Iterator[MarkedImage]:
    """Yield the image of a LabelMe file: rectangles, polygons, and circles by centre and a point on them."""
    values = _object(content)
    boxes = []
    for shape in _objects(values.get("shapes")):
        points = shape.get("points")
        edges = _around(points)
        if shape.get("shape_type") == "circle" and isinstance(points, list) and len(points) == 2:
            (across, down), (x, y) = points
            radius = ((number(x) - number(across)) ** 2 + (number(y) - number(down)) ** 2) ** 0.5
            edges = number(across) - radius, number(down) - radius, number(across) + radius, number(down) + radius
        boxes.append((str(shape.get("label", "")), edges))
    size = stated_size(values.get("imageWidth"), values.get("imageHeight"))
    yield MarkedImage(str(values.get("imagePath") or f"{file.stem}.jpg"), boxes, size)


def _create_ml(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of CreateML: a box is its centre, width and height in pixels."""
    for image in _objects(content):
        boxes = []
        for annotation in _objects(image.get("annotations")):
            place = _object(annotation.get("coordinates"))
            width = number(place.get("width"))
            height = number(place.get("height"))
            left = number(place.get("x")) - width / 2
            top = number(place.get("y")) - height / 2
            boxes.append((str(annotation.get("label", "")), _from_corner(left, top, width, height)))
        yield MarkedImage(str(image.get("image") or image.get("imagefilename") or ""), boxes)


def _vott(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of VoTT; a region with several tags has a box for each."""
    for entry in _objects(_object(content).get("assets")):
        asset = _object(entry.get("asset"))
        boxes = []
        for region in _objects(entry.get("regions")):
            place = _object(region.get("boundingBox"))
            edges = _from_corner(*map(place.get, ("left", "top", "width", "height")))
            boxes += [(str(tag), edges) for tag in region.get("tags") or ()]
        size = _object(asset.get("size"))
        yield MarkedImage(str(asset.get("name", "")), boxes, stated_size(size.get("width"), size.get("height")))


def _via(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of the VGG Image Annotator; the class is the only attribute of a region, or the first."""
    values = _object(content)
    for image in _objects(values.get("_via_img_metadata") or values):
        boxes = []
        for region in _objects(image.get("regions")):
            shape = _object(region.get("shape_attributes"))
            attributes = _object(region.get("region_attributes"))
            points = list(
                map(list, zip(shape.get("all_points_x") or (), shape.get("all_points_y") or (), strict=False))
            )
            corner = _from_corner(*map(shape.get, ("x", "y", "width", "height")))
            boxes.append((str(next(iter(attributes.values()), "")), _around(points) if points else corner))
        yield MarkedImage(str(image.get("filename", "")), boxes)


def _label_studio(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of Label Studio: edges are percents of the sides. The first annotation of a task counts."""
    for task in _objects(content):
        data = _object(task.get("data")) or task
        name = next((value for value in data.values() if isinstance(value, str) and "." in value), "")
        results = _objects(task.get("annotations"))
        regions = _objects(results[0].get("result")) if results else _objects(task.get("label"))
        boxes: list[tuple[str, Sequence[Any]]] = []
        size = None
        for region in regions:
            value = _object(region.get("value")) or region
            labels = value.get("rectanglelabels") or value.get("polygonlabels") or ()
            size = stated_size(region.get("original_width"), region.get("original_height")) or size
            if "points" in value:
                edges = _around(value["points"])
            else:
                edges = _from_corner(*map(value.get, ("x", "y", "width", "height")))
            scale = (size[0] / PERCENT, size[1] / PERCENT) * 2 if size else (1 / PERCENT,) * 4
            scaled = [edge * factor for edge, factor in zip(edges, scale, strict=True)]
            boxes += [(str(label), scaled) for label in labels]
        yield MarkedImage(name.rpartition("?d=")[2], boxes, size)


def _edge_impulse(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of ``bounding_boxes.labels``."""
    for name, listed in _object(_object(content).get("boundingBoxes")).items():
        boxes = []
        for box in _objects(listed):
            edges = _from_corner(*map(box.get, ("x", "y", "width", "height")))
            boxes.append((str(box.get("label", "")), edges))
        yield MarkedImage(str(name), boxes)


def _supervisely(content: Any, file: Path) -> Iterator[MarkedImage]:
    """Yield the image of a Supervisely file, which has the name of the image and ``.json``."""
    values = _object(content)
    boxes = []
    for item in _objects(values.get("objects")):
        points = _object(item.get("points")).get("exterior")
        boxes.append((str(item.get("classTitle", "")), _around(points)))
    size = _object(values.get("size"))
    yield MarkedImage(file.stem, boxes, stated_size(size.get("width"), size.get("height")))


def _bdd(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of BDD100K and Scalabel."""
    for image in _objects(content):
        boxes = []
        for label in _objects(image.get("labels")):
            if place := _object(label.get("box2d")):
                boxes.append((str(label.get("category", "")), [place.get(edge) for edge in ("x1", "y1", "x2", "y2")]))
        yield MarkedImage(str(image.get("name", "")), boxes)


def _cvat(root: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of CVAT's own XML: boxes and polygons."""
    for image in root.all("image"):
        boxes: list[tuple[str, Sequence[Any]]] = []
        for box in image.all("box"):
            edges = [box.attributes.get(edge) for edge in ("xtl", "ytl", "xbr", "ybr")]
            boxes.append((box.attributes.get("label", ""), edges))
        for polygon in image.all("polygon"):
            points = [point.split(",") for point in polygon.attributes.get("points", "").split(";")]
            boxes.append((polygon.attributes.get("label", ""), _around(points)))
        size = stated_size(image.attributes.get("width"), image.attributes.get("height"))
        yield MarkedImage(image.attributes.get("name", ""), boxes, size)


def _lines(text: Any, file: Path) -> Iterator[MarkedImage]:
    """Yield the images of ``images/1.jpg 10,20,40,60,0 50,50,90,80,1`` in each line: corners and class number."""
    _, names = class_names_beside(file)
    for line in text.splitlines():
        if match := _LINE.match(line):
            boxes = []
            for written in match["boxes"].split():
                *edges, label = written.split(",")
                is_known = label.isdecimal() and int(label) < len(names)
                boxes.append((names[int(label)] if is_known else label, edges))
            yield MarkedImage(match["path"], boxes)


CVAT = ToolForm(("<annotations", "<image "), _cvat)
LINES = ToolForm((), _lines)
FORMS = (
    ToolForm(("shapes", "imagePath"), _label_me),
    ToolForm(("shapes", "shape_type"), _label_me),
    ToolForm(("imageData", "imageHeight"), _label_me),
    ToolForm(("coordinates", "annotations"), _create_ml),
    ToolForm(("assets", "regions"), _vott),
    ToolForm(("shape_attributes", "filename"), _via),
    ToolForm(("rectanglelabels",), _label_studio),
    ToolForm(("polygonlabels", "original_width"), _label_studio),
    ToolForm(("boundingBoxes",), _edge_impulse),
    ToolForm(("classTitle", "objects"), _supervisely),
    ToolForm(("box2d", "labels"), _bdd),
)
"""The forms of JSON files; the first that fits counts."""
