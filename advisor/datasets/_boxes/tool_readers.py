"""Read the marked images of each annotation tool."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.datasets._boxes.values import number, stated_size
from advisor.datasets._category_files import class_names_beside

NO_EDGES = (float("nan"),) * 4

LINE = re.compile(r"(?P<path>\S[^\n]*?\.\w{3,4})(?P<boxes>(?: +[\d.]+(?:,[\d.]+){4})+)[ \r]*(?:$|\n)")
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


def read_label_me(content: Any, file: Path) -> Iterator[MarkedImage]:
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


def read_create_ml(content: Any, _file: Path) -> Iterator[MarkedImage]:
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


def read_vott(content: Any, _file: Path) -> Iterator[MarkedImage]:
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


def read_via(content: Any, _file: Path) -> Iterator[MarkedImage]:
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


def read_label_studio(content: Any, _file: Path) -> Iterator[MarkedImage]:
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


def read_edge_impulse(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of ``bounding_boxes.labels``."""
    for name, listed in _object(_object(content).get("boundingBoxes")).items():
        boxes = []
        for box in _objects(listed):
            edges = _from_corner(*map(box.get, ("x", "y", "width", "height")))
            boxes.append((str(box.get("label", "")), edges))
        yield MarkedImage(str(name), boxes)


def read_supervisely(content: Any, file: Path) -> Iterator[MarkedImage]:
    """Yield the image of a Supervisely file, which has the name of the image and ``.json``."""
    values = _object(content)
    boxes = []
    for item in _objects(values.get("objects")):
        points = _object(item.get("points")).get("exterior")
        boxes.append((str(item.get("classTitle", "")), _around(points)))
    size = _object(values.get("size"))
    yield MarkedImage(file.stem, boxes, stated_size(size.get("width"), size.get("height")))


def read_bdd(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of BDD100K and Scalabel."""
    for image in _objects(content):
        boxes = []
        for label in _objects(image.get("labels")):
            if place := _object(label.get("box2d")):
                boxes.append((str(label.get("category", "")), [place.get(edge) for edge in ("x1", "y1", "x2", "y2")]))
        yield MarkedImage(str(image.get("name", "")), boxes)


def read_cvat(root: Any, _file: Path) -> Iterator[MarkedImage]:
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


def read_lines(text: Any, file: Path) -> Iterator[MarkedImage]:
    """Yield the images of ``images/1.jpg 10,20,40,60,0 50,50,90,80,1`` in each line: corners and class number."""
    _, names = class_names_beside(file)
    for line in text.splitlines():
        if match := LINE.match(line):
            boxes = []
            for written in match["boxes"].split():
                *edges, label = written.split(",")
                is_known = label.isdecimal() and int(label) < len(names)
                boxes.append((names[int(label)] if is_known else label, edges))
            yield MarkedImage(match["path"], boxes)
