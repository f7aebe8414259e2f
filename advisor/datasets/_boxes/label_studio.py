"""Read the images and boxes of Label Studio, from its JSON and its CSV files.

Values are percents of the sides of the image, and a box may be turned about its corner.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.datasets._boxes.marks import (
    MarkedImage,
    edges_around,
    edges_around_ellipse,
    edges_from_corner,
    object_of,
    objects_in,
    read_number,
    read_stated_size,
)
from advisor.datasets._image_names import is_image_name
from advisor.store import parse_json

_REGION_LABELS = ("rectanglelabels", "polygonlabels", "ellipselabels", "labels")
PERCENT = 100.0  # Label Studio's unit of a side


def read_label_studio(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of a JSON export, whose tasks have annotations of several people.

    The first annotation of a task counts that was not skipped.
    """
    for task in objects_in(content):
        data = object_of(task.get("data")) or task
        # The key of the image is its user's choice (``image``, ``photo``),
        # so the first name with an extension counts.
        texts = [value for value in data.values() if isinstance(value, str)]
        name = next((text for text in texts if "." in text), "")
        boxes: list[tuple[str, Sequence[Any]]] = []
        size = None
        for region in _regions_of_task(task):
            value = object_of(region.get("value")) or region
            stated = read_stated_size(region.get("original_width"), region.get("original_height"))
            size = stated or size
            for label in _labels_of_region(value):
                boxes.append((str(label), _read_edges(value, size)))
        # A file that was uploaded has its path behind ``?d=`` in the address of the server.
        yield MarkedImage(name.rpartition("?d=")[2], boxes, size)


def _regions_of_task(task: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the regions that the first annotation marks; in the short export, those of the task.

    A cancelled annotation is one that its author skipped.
    """
    for annotation in objects_in(task.get("annotations")):
        if not annotation.get("was_cancelled"):
            return objects_in(annotation.get("result"))
    return objects_in(task.get("label"))


def _labels_of_region(value: Mapping[str, Any]) -> Sequence[Any]:
    for kind in _REGION_LABELS:
        labels = value.get(kind)
        if isinstance(labels, list):
            return labels
    return ()


def _read_edges(value: Mapping[str, Any], size: tuple[int, int] | None) -> Sequence[float]:
    """Return the edges around a region, in pixels, or in shares if no size is known."""
    across, down = size or (1, 1)
    width = across / PERCENT
    height = down / PERCENT
    if "points" in value:
        percents = edges_around(value["points"])
    elif "radiusX" in value:
        percents = edges_around_ellipse(*map(value.get, ("x", "y", "radiusX", "radiusY")))
    else:
        percents = edges_from_corner(*map(value.get, ("x", "y", "width", "height")))
    left, top, right, bottom = percents
    edges = (left * width, top * height, right * width, bottom * height)
    turn = math.radians(read_number(value.get("rotation") or 0))
    if not turn or "points" in value:
        return edges
    return _bound_turned_box(edges, turn, about_centre="radiusX" in value)


def _bound_turned_box(edges: Sequence[float], turn: float, about_centre: bool) -> Sequence[float]:
    """Return the edges around a box that is turned clockwise, about its first corner or its
    centre.
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


def read_label_studio_table(rows: Any, file: Path) -> Iterator[MarkedImage]:
    """Yield the images of Label Studio's CSV, in which a cell has the regions of an image."""
    tasks = []
    for row in rows:
        # The columns have the names of the user's own labelling interface,
        # so their contents tell them apart.
        cells = list(filter(None, row.values()))
        cell = next((text for text in cells if "labels" in text), "[]")
        image = next(filter(is_image_name, cells), "")
        tasks.append({"image": image, "label": parse_json(cell)})
    return read_label_studio(tasks, file)
