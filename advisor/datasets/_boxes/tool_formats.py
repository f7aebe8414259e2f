"""Read the images and boxes that the file of each annotation tool states.

There is one function for each tool: LabelMe, CreateML, VoTT, VIA, Edge Impulse, Supervisely,
BDD100K, CVAT, and lists with an image a line; ``label_studio.py`` has the longest. ``tools.py``
finds the files, and asks for the form of one by the words in its beginning. To add a tool, write
such a function, and add a line to :func:`list_tool_forms` or
:func:`list_xml_or_table_forms`. The first form that fits counts, so the order matters.
"""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from advisor.datasets._boxes.label_studio import read_label_studio, read_label_studio_table
from advisor.datasets._boxes.marks import (
    NO_EDGES,
    MarkedImage,
    ToolForm,
    edges_around,
    edges_around_ellipse,
    edges_from_corner,
    object_of,
    objects_in,
    read_number,
    read_stated_size,
)
from advisor.datasets._category_files import find_class_names
from advisor.store import parse_json

IMAGE_AND_BOXES = re.compile(
    r"(?P<path>\S[^\n]*?\.\w{3,4})(?P<boxes>(?: +[\d.]+(?:,[\d.]+){4})+)[ \r]*(?:$|\n)"
)
_PNG_SIZE = 16  # Bytes of a PNG before its width and height
_PNG_HEAD = 24


def _read_label_me(content: Any, file: Path) -> Iterator[MarkedImage]:
    """Yield the image of a LabelMe file: rectangles, polygons and circles.

    A circle is its centre and a point on it.
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


def _read_create_ml(content: Any, _file: Path) -> Iterator[MarkedImage]:
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


def _read_vott(content: Any, _file: Path) -> Iterator[MarkedImage]:
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


def _read_via(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of the VGG Image Annotator; a region's first attribute is its class."""
    values = object_of(content)
    for image in objects_in(values.get("_via_img_metadata") or values):
        boxes = []
        for region in objects_in(image.get("regions")):
            boxes.append(
                _read_via_region(region.get("shape_attributes"), region.get("region_attributes"))
            )
        yield MarkedImage(str(image.get("filename", "")), boxes)


def _read_via_region(shape_attributes: Any, region_attributes: Any) -> tuple[str, Sequence[float]]:
    """Return the class of a region, and the edges of the box around its shape.

    A class may be a list of boxes to tick, of which the ticked one counts.
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
        return str(label), edges_around_ellipse(
            shape["cx"], shape.get("cy"), half_width, half_height
        )
    return str(label), edges_from_corner(*map(shape.get, ("x", "y", "width", "height")))


def _read_via_table(rows: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of the VGG Image Annotator's table, which has a row for each region."""
    boxes: dict[str, list[tuple[str, Sequence[Any]]]] = {}
    for row in rows:
        # An image without a region has a row, too, with an empty shape.
        boxes_of_row = boxes.setdefault(row["filename"], [])
        shape = parse_json(row["region_shape_attributes"] or "{}")
        if shape:
            attributes = parse_json(row["region_attributes"] or "{}")
            boxes_of_row.append(_read_via_region(shape, attributes))
    for name, boxes_of_image in boxes.items():
        yield MarkedImage(name, boxes_of_image)


def _read_edge_impulse(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of ``bounding_boxes.labels``."""
    for name, listed in object_of(object_of(content).get("boundingBoxes")).items():
        boxes = []
        for box in objects_in(listed):
            edges = edges_from_corner(*map(box.get, ("x", "y", "width", "height")))
            boxes.append((str(box.get("label", "")), edges))
        yield MarkedImage(str(name), boxes)


def _read_supervisely(content: Any, file: Path) -> Iterator[MarkedImage]:
    """Yield the image of a Supervisely file, which has the name of the image and ``.json``."""
    values = object_of(content)
    boxes = []
    for item in objects_in(values.get("objects")):
        edges = edges_around(object_of(item.get("points")).get("exterior"))
        if item.get("geometryType") == "bitmap":
            edges = _bound_bitmap(object_of(item.get("bitmap")))
        boxes.append((str(item.get("classTitle", "")), edges))
    size = object_of(values.get("size"))
    yield MarkedImage(file.stem, boxes, read_stated_size(size.get("width"), size.get("height")))


def _bound_bitmap(bitmap: Mapping[str, Any]) -> Sequence[float]:
    """Return the edges around a mask: its left upper corner, and the sides that its PNG states."""
    try:
        # Only the first bytes are unpacked: a mask may be made to fill the memory.
        head = zlib.decompressobj().decompress(base64.b64decode(bitmap["data"]), _PNG_HEAD)
        width, height = struct.unpack(">II", head[_PNG_SIZE:])
        left, top = bitmap["origin"]
    except (KeyError, TypeError, ValueError, struct.error, zlib.error):
        return NO_EDGES
    return edges_from_corner(left, top, width, height)


def _read_bdd100k(content: Any, _file: Path) -> Iterator[MarkedImage]:
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


def _read_cvat(root: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of CVAT's own XML: boxes and polygons."""
    for image in root.find_all("image"):
        boxes: list[tuple[str, Sequence[Any]]] = []
        for box in image.find_all("box"):
            edges = list(map(box.attributes.get, ("xtl", "ytl", "xbr", "ybr")))
            boxes.append((box.attributes.get("label", ""), edges))
        for polygon in image.find_all("polygon"):
            written = polygon.attributes.get("points", "").split(";")
            points = [point.split(",") for point in written]
            boxes.append((polygon.attributes.get("label", ""), edges_around(points)))
        size = read_stated_size(image.attributes.get("width"), image.attributes.get("height"))
        yield MarkedImage(image.attributes.get("name", ""), boxes, size)


def _refuse_cvat_tracks(_root: Any, _file: Path) -> Iterator[MarkedImage]:
    """Refuse the tracks of a film."""
    raise ValueError(
        "it marks the frames of a film: write them as images, and export 'CVAT for images'"
    )


def _read_image_list(text: Any, file: Path) -> Iterator[MarkedImage]:
    """Yield the images of a list with an image a line, and the corners and class number of each
    box.

    A line is ``images/1.jpg 10,20,40,60,0 50,50,90,80,1``.
    """
    _, names = find_class_names(file)
    for line in text.splitlines():
        match = IMAGE_AND_BOXES.match(line)
        if match:
            boxes = []
            for written in match["boxes"].split():
                *edges, label = written.split(",")
                is_known = label.isdecimal() and int(label) < len(names)
                boxes.append((names[int(label)] if is_known else label, edges))
            yield MarkedImage(match["path"], boxes)


@cache
def get_image_list_form() -> ToolForm:
    """Return the form of text files with an image and its boxes in each line."""
    return ToolForm((), _read_image_list)


@cache
def list_tool_forms() -> Sequence[ToolForm]:
    """Return the forms of JSON files; the first that fits counts."""
    return (
        ToolForm(("shapes", "imagePath"), _read_label_me),
        ToolForm(("shapes", "shape_type"), _read_label_me),
        ToolForm(("imageData", "imageHeight"), _read_label_me),
        ToolForm(("coordinates", "annotations"), _read_create_ml),
        ToolForm(("assets", "regions"), _read_vott),
        ToolForm(("shape_attributes", "filename"), _read_via),
        ToolForm(("rectanglelabels",), read_label_studio),
        ToolForm(("polygonlabels", "original_width"), read_label_studio),
        ToolForm(("ellipselabels", "original_width"), read_label_studio),
        ToolForm(("boundingBoxes",), _read_edge_impulse),
        ToolForm(("classTitle", "objects"), _read_supervisely),
        ToolForm(("box2d", "labels"), _read_bdd100k),
    )


def list_xml_or_table_forms(suffix: str) -> Sequence[ToolForm]:
    """Return the forms of XML files for ``.xml``, else those of tables."""
    if suffix == ".xml":
        return (
            ToolForm(("<annotations", "<image "), _read_cvat),
            ToolForm(("<annotations", "<track "), _refuse_cvat_tracks),
        )
    return (
        ToolForm(("region_shape_attributes",), _read_via_table),
        ToolForm(("rectanglelabels",), read_label_studio_table),
    )
