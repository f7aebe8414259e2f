"""Read boxes from the files of annotation tools:
LabelMe, CreateML, VoTT, VIA, Label Studio, CVAT and others.

A file states the boxes of one image (LabelMe, Supervisely) or of many. Its beginning tells the
form, so that large files of other forms are not parsed.
"""

from __future__ import annotations

import base64
import csv
import io
import math
import os
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from advisor.core import UsageError
from advisor.datasets._boxes.entries import (
    Box,
    BoxEntry,
    BoxListing,
    box_of,
    files_in,
    folder_in,
    part_folders,
    part_of,
)
from advisor.datasets._boxes.marks import (
    NO_EDGES,
    MarkedImage,
    ToolForm,
    edges_around,
    edges_from_corner,
    object_of,
    objects_in,
    read_number,
    read_stated_size,
)
from advisor.datasets._boxes.services import line_forms, service_forms
from advisor.datasets._boxes.voc import read_xml
from advisor.datasets._category_files import class_names_beside
from advisor.datasets._dataset import Rejected
from advisor.datasets._image_names import is_image_name
from advisor.datasets._image_places import find_by_name, is_there
from advisor.datasets._scan import folders_in, images_in
from advisor.store import MAX_BYTES, open_file, parse_json, read_text

HINT = "save the annotations again, or export them as COCO"
LINES_OF_JSON = (".jsonl", ".ndjson", ".manifest")
SUFFIXES = (".json", ".labels", ".xml", ".txt", ".csv", *LINES_OF_JSON)
# Folders with files of tools, or images.
PLACES = ("annotations", "labels", "json", "jsons", "ann", "images", "img")
HEAD_BYTES = 2**16
MOST_FOLDERS = 20  # Folders in which those of Supervisely are looked for
_REGION_LABELS = ("rectanglelabels", "polygonlabels", "ellipselabels", "labels")
_LINE = re.compile(
    r"(?P<path>\S[^\n]*?\.\w{3,4})(?P<boxes>(?: +[\d.]+(?:,[\d.]+){4})+)[ \r]*(?:$|\n)"
)
# The image itself, which LabelMe writes beside its boxes.
_IMAGE_DATA = re.compile(r'"imageData"\s*:\s*"[^"]*"')
_PNG_SIZE = 16  # Bytes of a PNG before its width and height
_PNG_HEAD = 24
PERCENT = 100.0  # Label Studio's unit of a side


def form_of(file: Path) -> ToolForm | None:
    """Return the form of a file by its beginning; None if it is another kind of file."""
    if file.suffix.lower() not in SUFFIXES or not file.is_file():
        return None
    try:
        with open_file(file, MAX_BYTES) as content:
            head = (
                content.read(HEAD_BYTES).decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
            )
            content.seek(max(HEAD_BYTES, content.seek(0, os.SEEK_END) - HEAD_BYTES))
            # Behind an image in the middle of the file.
            tail = content.read(HEAD_BYTES).decode("utf-8", "replace")
    except UsageError:
        return None
    suffix = file.suffix.lower()
    if suffix == ".txt":
        return line_list() if _LINE.match(head) else None
    if suffix in (".xml", ".csv"):
        return _first_form(_other_forms(suffix), head, quote="")
    forms = line_forms() if suffix in LINES_OF_JSON else (*tool_forms(), *service_forms())
    # With their quotes: the keys of JSON are meant, and no words of its texts.
    return _first_form(forms, head + tail, quote='"')


def _first_form(forms: Sequence[ToolForm], text: str, quote: str) -> ToolForm | None:
    """Return the first form of which all words stand in a text, each between quotes;
    None if there is none.
    """
    for form in forms:
        if all(f"{quote}{word}{quote}" in text for word in form.words):
            return form
    return None


def _other_forms(suffix: str) -> Sequence[ToolForm]:
    """Return the forms of XML files or of tables."""
    if suffix == ".xml":
        return ToolForm(("<annotations", "<image "), _cvat), ToolForm(
            ("<annotations", "<track "), _cvat_tracks
        )
    return ToolForm(("region_shape_attributes",), _via_table), ToolForm(
        ("rectanglelabels",), _label_studio_table
    )


def tool_files(path: Path) -> list[tuple[Path, str]]:
    """Return the files of tools in a folder with their parts.
    The first file of a folder tells the form of all.
    """
    places: list[tuple[Path, str]] = []
    inner = folders_in(path)
    # Supervisely has a folder for each data set, with ``ann`` and ``img``.
    if len(inner) <= MOST_FOLDERS:
        places = []
        for folder in inner:
            labels = folder_in(folder, "ann")
            if labels != folder:
                places.append((labels, ""))
    for folder, part in [(path, ""), *part_folders(path)]:
        places += [(folder, part), *((folder_in(folder, name), part) for name in PLACES)]
    files: dict[Path, str] = {}
    for folder, part in dict.fromkeys(places):
        for suffix in SUFFIXES:
            names = files_in(folder, suffix)
            if suffix == ".txt":
                names = [name for name in names if "annotation" in name.stem.casefold()]
            # One file is opened and not thousands: a tool writes all files of a folder alike.
            if names and form_of(names[0]) is not None:
                for file in names:
                    files[file] = files.get(file) or part or part_of(file.stem)
    return list(files.items())


def list_tools(path: Path) -> BoxListing:
    """List the boxes of a file of a tool, or of all in a folder;
    a file of another form is rejected.

    Images are beside their file, in a folder ``images``,
    or anywhere below ``path`` by their names.
    """
    root = path if path.is_dir() else path.parent
    files = tool_files(path) if path.is_dir() else [(path, part_of(path.stem))]
    rejected: list[Rejected] = []
    entries: list[BoxEntry] = []
    folders = {file.parent for file, _ in files}
    bases = {folder: _bases(folder, root) for folder in folders}
    for file, part in files:
        try:
            marked = _read_marked_images(file)
        except (UsageError, ValueError) as error:
            # Without the hint: this is one line of a list.
            reason = error.message if isinstance(error, UsageError) else str(error)
            rejected.append(Rejected(file, reason))
            continue
        for image in marked:
            # Written on Windows.
            name = image.name.replace("\\", "/")
            places = []
            for base in bases[file.parent]:
                places.append(Path(os.path.normpath(base / name)))
            # Tools state paths of the machine on which they ran, so several places are tried.
            place = next(filter(is_there, places), places[0])
            boxes = []
            for line, (label, edges) in enumerate(image.boxes, start=1):
                boxes.append(box_of(label, edges, line))
            stated = part_of(image.part) or part
            entries.append(
                BoxEntry(place, tuple(map(_in_order, boxes)), file, stated, "", image.size)
            )
    if not entries:
        why = f": {rejected[0].reason}" if rejected else ""
        raise UsageError(f"--data: '{path}' names no image{why}", HINT)
    lost = []
    for entry in entries:
        if not is_there(entry.path):
            lost.append(entry.path)
    # Searching below the folder is expensive, so only for what was found nowhere else.
    moved = dict(zip(lost, find_by_name(entries[0].source, lost, root)[0], strict=True))
    entries = [replace(entry, path=moved.get(entry.path, entry.path)) for entry in entries]
    known = {entry.path for entry in entries}
    for file in images_in(root) if path.is_dir() else ():
        if file not in known:
            rejected.append(Rejected(file, "it has no annotation"))
    return BoxListing(root, entries, (), rejected, unit="box")


def _bases(folder: Path, root: Path) -> list[Path]:
    """Return the folders that the names of images may count from, for files in a folder."""
    outer = [folder, root, *([folder.parent] if folder != root else [])]
    return list(dict.fromkeys([*outer, *(folder_in(place, "images", "img") for place in outer)]))


def _in_order(box: Box) -> Box:
    """Return a box whose two corners may be any two opposite ones."""
    left, right = sorted((box.left, box.right))
    top, bottom = sorted((box.top, box.bottom))
    return box.with_edges(left, top, right, bottom)


def _read_marked_images(file: Path) -> list[MarkedImage]:
    """Return the images of a file; ValueError or UsageError: it cannot be read."""
    form = form_of(file)
    if form is None:
        raise ValueError("it is no file of a known annotation tool")
    if file.suffix.lower() == ".xml":
        return list(form.read(read_xml(file), file))
    text = read_text(file, MAX_BYTES)
    if form is line_list():
        return list(form.read(text, file))
    if file.suffix.lower() == ".csv":
        return list(form.read(list(csv.DictReader(io.StringIO(text))), file))
    if file.suffix.lower() in LINES_OF_JSON:
        return list(
            form.read([parse_json(line) for line in text.split("\n") if line.strip()], file)
        )
    return list(form.read(parse_json(_IMAGE_DATA.sub('"imageData": null', text)), file))


def _label_me(content: Any, file: Path) -> Iterator[MarkedImage]:
    """Yield the image of a LabelMe file:
    rectangles, polygons, and circles by centre and a point on them.
    """
    values = object_of(content)
    boxes = []
    for shape in objects_in(values.get("shapes")):
        points = shape.get("points")
        edges = edges_around(points)
        if shape.get("shape_type") == "circle" and isinstance(points, list) and len(points) == 2:
            centre, on_circle = points
            across, down = map(read_number, centre)
            across_there, down_there = map(read_number, on_circle)
            radius = ((across_there - across) ** 2 + (down_there - down) ** 2) ** 0.5
            edges = (across - radius, down - radius, across + radius, down + radius)
        boxes.append((str(shape.get("label", "")), edges))
    size = read_stated_size(values.get("imageWidth"), values.get("imageHeight"))
    yield MarkedImage(str(values.get("imagePath") or f"{file.stem}.jpg"), boxes, size)


def _create_ml(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of CreateML: a box is its centre, width and height in pixels."""
    for image in objects_in(content):
        boxes = []
        for annotation in objects_in(image.get("annotations")):
            place = object_of(annotation.get("coordinates"))
            width = read_number(place.get("width"))
            height = read_number(place.get("height"))
            left = read_number(place.get("x")) - width / 2
            top = read_number(place.get("y")) - height / 2
            boxes.append(
                (str(annotation.get("label", "")), edges_from_corner(left, top, width, height))
            )
        yield MarkedImage(str(image.get("image") or image.get("imagefilename") or ""), boxes)


def _vott(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of VoTT; a region with several tags has a box for each."""
    for entry in objects_in(object_of(content).get("assets")):
        asset = object_of(entry.get("asset"))
        boxes = []
        for region in objects_in(entry.get("regions")):
            place = object_of(region.get("boundingBox"))
            edges = edges_from_corner(*map(place.get, ("left", "top", "width", "height")))
            boxes += [(str(tag), edges) for tag in region.get("tags") or ()]
        size = object_of(asset.get("size"))
        yield MarkedImage(
            str(asset.get("name", "")),
            boxes,
            read_stated_size(size.get("width"), size.get("height")),
        )


def _via(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of the VGG Image Annotator;
    the class is the only attribute of a region, or the first.
    """
    values = object_of(content)
    for image in objects_in(values.get("_via_img_metadata") or values):
        boxes = []
        for region in objects_in(image.get("regions")):
            boxes.append(
                _via_region(region.get("shape_attributes"), region.get("region_attributes"))
            )
        yield MarkedImage(str(image.get("filename", "")), boxes)


def _via_region(shape_attributes: Any, region_attributes: Any) -> tuple[str, Sequence[float]]:
    """Return the class of a region, and the edges of the box around its shape;
    a box to tick is a class if it is.
    """
    shape = object_of(shape_attributes)
    label = next(iter(object_of(region_attributes).values()), "")
    if isinstance(label, dict):
        label = next((name for name, is_ticked in label.items() if is_ticked), "")
    across = shape.get("all_points_x")
    down = shape.get("all_points_y")
    if isinstance(across, list) and isinstance(down, list):
        return str(label), edges_around(list(map(list, zip(across, down, strict=False))))
    if "cx" in shape:
        half_width, half_height = (shape.get(side, shape.get("r")) for side in ("rx", "ry"))
        return str(label), _around_ellipse(shape["cx"], shape.get("cy"), half_width, half_height)
    return str(label), edges_from_corner(*map(shape.get, ("x", "y", "width", "height")))


def _around_ellipse(across: Any, down: Any, half_width: Any, half_height: Any) -> Sequence[float]:
    left = read_number(across) - read_number(half_width)
    top = read_number(down) - read_number(half_height)
    return edges_from_corner(left, top, 2 * read_number(half_width), 2 * read_number(half_height))


def _via_table(rows: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of the table that the VGG Image Annotator writes,
    with a row for each region.
    """
    boxes: dict[str, list[tuple[str, Sequence[Any]]]] = {}
    for row in rows:
        # An image without a region has a row, too, with an empty shape.
        boxes_of_row = boxes.setdefault(row["filename"], [])
        shape = parse_json(row["region_shape_attributes"] or "{}")
        if shape:
            attributes = parse_json(row["region_attributes"] or "{}")
            boxes_of_row.append(_via_region(shape, attributes))
    for name, boxes_of_image in boxes.items():
        yield MarkedImage(name, boxes_of_image)


def _label_studio(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of Label Studio.
    The first annotation of a task counts that was not skipped.
    """
    for task in objects_in(content):
        data = object_of(task.get("data")) or task
        # The key of the image is its user's choice (``image``, ``photo``),
        # so the first name with an extension counts.
        texts = [value for value in data.values() if isinstance(value, str)]
        name = next((text for text in texts if "." in text), "")
        # A cancelled annotation is one that its author skipped.
        annotations = [
            value
            for value in objects_in(task.get("annotations"))
            if not value.get("was_cancelled")
        ]
        regions = (
            objects_in(annotations[0].get("result"))
            if annotations
            else objects_in(task.get("label"))
        )
        boxes: list[tuple[str, Sequence[Any]]] = []
        size = None
        for region in regions:
            value = object_of(region.get("value")) or region
            size = (
                read_stated_size(region.get("original_width"), region.get("original_height"))
                or size
            )
            labels = next(
                (value[kind] for kind in _REGION_LABELS if isinstance(value.get(kind), list)), ()
            )
            boxes += [(str(label), _label_studio_edges(value, size)) for label in labels]
        yield MarkedImage(name.rpartition("?d=")[2], boxes, size)


def _label_studio_edges(value: Mapping[str, Any], size: tuple[int, int] | None) -> Sequence[float]:
    """Return the edges of a region, whose values are percents of the sides;
    a box is turned about its first corner.
    """
    across, down = size or (1, 1)
    width = across / PERCENT
    height = down / PERCENT
    if "points" in value:
        left, top, right, bottom = edges_around(value["points"])
    elif "radiusX" in value:
        left, top, right, bottom = _around_ellipse(
            *map(value.get, ("x", "y", "radiusX", "radiusY"))
        )
    else:
        left, top, right, bottom = edges_from_corner(
            *map(value.get, ("x", "y", "width", "height"))
        )
    edges = (left * width, top * height, right * width, bottom * height)
    turn = math.radians(read_number(value.get("rotation") or 0))
    if not turn or "points" in value:
        return edges
    return _bound_turned_box(edges, turn, about_centre="radiusX" in value)


def _bound_turned_box(edges: Sequence[float], turn: float, about_centre: bool) -> Sequence[float]:
    """Return the edges of the box around one that is turned clockwise about its first corner,
    or about its centre.
    """
    left, top, right, bottom = edges
    across = (left + right) / 2 if about_centre else left
    down = (top + bottom) / 2 if about_centre else top
    points = []
    for x, y in ((left, top), (right, top), (right, bottom), (left, bottom)):
        along = math.cos(turn) * (x - across) - math.sin(turn) * (y - down)
        below = math.sin(turn) * (x - across) + math.cos(turn) * (y - down)
        points.append([across + along, down + below])
    return edges_around(points)


def _label_studio_table(rows: Any, file: Path) -> Iterator[MarkedImage]:
    """Yield the images of Label Studio's CSV, in which a cell has the regions of an image."""
    tasks = []
    for row in rows:
        # The columns have the names of the user's own labelling interface,
        # so their contents tell them apart.
        cells = list(filter(None, row.values()))
        cell = next((text for text in cells if "labels" in text), "[]")
        image = next(filter(is_image_name, cells), "")
        tasks.append({"image": image, "label": parse_json(cell)})
    return _label_studio(tasks, file)


def _edge_impulse(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of ``bounding_boxes.labels``."""
    for name, listed in object_of(object_of(content).get("boundingBoxes")).items():
        boxes = []
        for box in objects_in(listed):
            edges = edges_from_corner(*map(box.get, ("x", "y", "width", "height")))
            boxes.append((str(box.get("label", "")), edges))
        yield MarkedImage(str(name), boxes)


def _supervisely(content: Any, file: Path) -> Iterator[MarkedImage]:
    """Yield the image of a Supervisely file, which has the name of the image and ``.json``."""
    values = object_of(content)
    boxes = []
    for item in objects_in(values.get("objects")):
        edges = edges_around(object_of(item.get("points")).get("exterior"))
        if item.get("geometryType") == "bitmap":
            edges = _around_bitmap(object_of(item.get("bitmap")))
        boxes.append((str(item.get("classTitle", "")), edges))
    size = object_of(values.get("size"))
    yield MarkedImage(file.stem, boxes, read_stated_size(size.get("width"), size.get("height")))


def _around_bitmap(bitmap: Mapping[str, Any]) -> Sequence[float]:
    """Return the edges around a mask:
    its left upper corner, and the sides that its PNG states in its first bytes.
    """
    try:
        # Only the first bytes are unpacked: a mask may be made to fill the memory.
        head = zlib.decompressobj().decompress(base64.b64decode(bitmap["data"]), _PNG_HEAD)
        width, height = struct.unpack(">II", head[_PNG_SIZE:])
        left, top = bitmap["origin"]
    except (KeyError, TypeError, ValueError, struct.error, zlib.error):
        return NO_EDGES
    return edges_from_corner(left, top, width, height)


def _bdd(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of BDD100K and Scalabel."""
    for image in objects_in(content):
        boxes = []
        for label in objects_in(image.get("labels")):
            place = object_of(label.get("box2d"))
            # Labels of lanes and drivable areas have no box.
            if place:
                edges = list(map(place.get, ("x1", "y1", "x2", "y2")))
                boxes.append((str(label.get("category", "")), edges))
        yield MarkedImage(str(image.get("name", "")), boxes)


def _cvat(root: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of CVAT's own XML: boxes and polygons."""
    for image in root.find_all("image"):
        boxes: list[tuple[str, Sequence[Any]]] = []
        for box in image.find_all("box"):
            edges = list(map(box.attributes.get, ("xtl", "ytl", "xbr", "ybr")))
            boxes.append((box.attributes.get("label", ""), edges))
        for polygon in image.find_all("polygon"):
            points = [
                point.split(",") for point in polygon.attributes.get("points", "").split(";")
            ]
            boxes.append((polygon.attributes.get("label", ""), edges_around(points)))
        size = read_stated_size(image.attributes.get("width"), image.attributes.get("height"))
        yield MarkedImage(image.attributes.get("name", ""), boxes, size)


def _cvat_tracks(_root: Any, _file: Path) -> Iterator[MarkedImage]:
    """Refuse the tracks of a film."""
    raise ValueError(
        "it marks the frames of a film: write them as images, and export 'CVAT for images'"
    )


def _lines(text: Any, file: Path) -> Iterator[MarkedImage]:
    """Yield the images of ``images/1.jpg 10,20,40,60,0 50,50,90,80,1`` in each line:
    corners and class number.
    """
    _, names = class_names_beside(file)
    for line in text.splitlines():
        match = _LINE.match(line)
        if match:
            boxes = []
            for written in match["boxes"].split():
                *edges, label = written.split(",")
                is_known = label.isdecimal() and int(label) < len(names)
                boxes.append((names[int(label)] if is_known else label, edges))
            yield MarkedImage(match["path"], boxes)


@cache
def line_list() -> ToolForm:
    """Return the form of text files with an image and its boxes in each line."""
    return ToolForm((), _lines)


@cache
def tool_forms() -> Sequence[ToolForm]:
    """Return the forms of JSON files; the first that fits counts."""
    return (
        ToolForm(("shapes", "imagePath"), _label_me),
        ToolForm(("shapes", "shape_type"), _label_me),
        ToolForm(("imageData", "imageHeight"), _label_me),
        ToolForm(("coordinates", "annotations"), _create_ml),
        ToolForm(("assets", "regions"), _vott),
        ToolForm(("shape_attributes", "filename"), _via),
        ToolForm(("rectanglelabels",), _label_studio),
        ToolForm(("polygonlabels", "original_width"), _label_studio),
        ToolForm(("ellipselabels", "original_width"), _label_studio),
        ToolForm(("boundingBoxes",), _edge_impulse),
        ToolForm(("classTitle", "objects"), _supervisely),
        ToolForm(("box2d", "labels"), _bdd),
    )
