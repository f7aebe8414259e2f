"""Read the images and boxes that the files of labelling services state.

``tools.py`` asks for the forms: SageMaker, Vertex AI, Azure ML, Hugging Face, Labelbox, Scale AI
and Datumaro. Most have an object in each line for an image, whose address is in a store: the
images are found by their names. The formats:

- https://docs.aws.amazon.com/sagemaker/latest/dg/sms-data-output.html
- https://cloud.google.com/vertex-ai/docs/image-data/object-detection/prepare-data
- https://learn.microsoft.com/azure/machine-learning/reference-automl-images-schema
- https://huggingface.co/docs/datasets/image_dataset
- https://docs.labelbox.com/reference/export-image-annotations
- https://scale.com/docs/api-reference/data-engine-reference
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from advisor.datasets._boxes.entries import BoxEntry, are_corners, make_box
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
from advisor.datasets._category_files import find_class_names, make_key
from advisor.datasets._sources.base import read_objects

VERTEX_PART = "aiplatform.googleapis.com/ml_use"
SIDES = ("left", "top", "width", "height")
Boxes = list[tuple[str, Sequence[Any]]]


def _read_sage_maker(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of Ground Truth's ``output.manifest``; the last labelling job counts."""
    for line in objects_in(content):
        boxes: Boxes = []
        size = None
        # A line has a key for each labelling job that the image went through.
        for job, answer in line.items():
            if not isinstance(answer, dict) or not isinstance(answer.get("annotations"), list):
                continue
            names = object_of(object_of(line.get(f"{job}-metadata")).get("class-map"))
            sizes = objects_in(answer.get("image_size"))
            size = None
            if sizes:
                size = read_stated_size(sizes[0].get("width"), sizes[0].get("height"))
            boxes = []
            for box in objects_in(answer["annotations"]):
                number_of_class = make_key(box.get("class_id"))
                label = str(names.get(number_of_class, number_of_class))
                boxes.append((label, edges_from_corner(*map(box.get, SIDES))))
        yield MarkedImage(str(line.get("source-ref", "")), boxes, size)


def _read_vertex(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of an import file of Vertex AI, whose edges are shares of the sides."""
    for line in objects_in(content):
        boxes: Boxes = []
        for box in objects_in(line.get("boundingBoxAnnotations")):
            boxes.append(
                (
                    str(box.get("displayName", "")),
                    list(map(box.get, ("xMin", "yMin", "xMax", "yMax"))),
                )
            )
        part = str(object_of(line.get("dataItemResourceLabels")).get(VERTEX_PART, ""))
        yield MarkedImage(str(line.get("imageGcsUri", "")), boxes, part=part)


def _read_azure(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of an Azure ML table, whose edges are shares; a polygon gives a box around
    it.
    """
    for line in objects_in(content):
        boxes: Boxes = []
        for mark in objects_in(line.get("label")):
            edges: Sequence[Any] = list(map(mark.get, ("topX", "topY", "bottomX", "bottomY")))
            if isinstance(mark.get("polygon"), list):
                edges = edges_around(
                    list(chain.from_iterable(map(_pair_coordinates, mark["polygon"])))
                )
            if str(mark.get("isCrowd") or 0) != "1":
                boxes.append((str(mark.get("label", "")), edges))
        yield MarkedImage(str(line.get("image_url", "")), boxes)


def _list_points(points: Any) -> list[list[Any]]:
    """Return the coordinates of points that are objects with ``x`` and ``y``."""
    return [[point.get("x"), point.get("y")] for point in objects_in(points)]


def _pair_coordinates(values: Any) -> list[list[Any]]:
    """Return the points of a list that has their coordinates in a row."""
    listed = values if isinstance(values, list) else []
    return list(map(list, zip(listed[::2], listed[1::2], strict=False)))


def _read_hugging_face(content: Any, file: Path) -> Iterator[MarkedImage]:
    """Yield the images of ``metadata.jsonl``, whose ``objects`` have boxes as COCO, or two
    corners.
    """
    _, names = find_class_names(file)
    images = []
    for line in objects_in(content):
        boxes = read_objects(line.get("objects"), names)
        size = read_stated_size(line.get("width"), line.get("height"))
        images.append(MarkedImage(str(line.get("file_name", "")), boxes, size))
    entries = []
    for image in images:
        # Whether a file has corners or sides shows in the boxes with four values alone.
        complete = []
        for label, values in image.boxes:
            if len(values) == len(SIDES):
                complete.append(make_box(label, values, 0))
        entries.append(BoxEntry(Path(image.name), tuple(complete), file, size=image.size))
    # `datasets` documents a corner and sides, and files with two corners exist as well.
    corners = are_corners(entries)
    for image in images:
        placed: Boxes = []
        for label, values in image.boxes:
            if len(values) != len(SIDES):
                # Such a box is left out later with its reason,
                # like any other whose edges are no numbers.
                placed.append((label, NO_EDGES))
            elif corners:
                placed.append((label, values))
            else:
                placed.append((label, edges_from_corner(*values)))
        yield MarkedImage(image.name, placed, image.size)


def _read_labelbox(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of a Labelbox export; the first label of a project counts."""
    for line in objects_in(content):
        row = object_of(line.get("data_row"))
        boxes: Boxes = []
        for project in objects_in(line.get("projects")):
            labels = objects_in(project.get("labels"))
            if labels and not boxes:
                annotations = object_of(labels[0].get("annotations"))
                marks = objects_in(annotations.get("objects"))
                boxes = [(str(mark.get("name", "")), _read_labelbox_edges(mark)) for mark in marks]
        # The last key is the address of the image, which stands for a name at worst.
        name = next(filter(None, map(row.get, ("external_id", "global_key", "row_data"))), "")
        size = object_of(line.get("media_attributes"))
        yield MarkedImage(
            str(name), boxes, read_stated_size(size.get("width"), size.get("height"))
        )


def _read_labelbox_edges(mark: Mapping[str, Any]) -> Sequence[float]:
    polygon = mark.get("polygon")
    if polygon:
        return edges_around(_list_points(polygon))
    # Older exports call the box ``bbox``.
    box = object_of(mark.get("bounding_box") or mark.get("bbox"))
    return edges_from_corner(*map(box.get, SIDES))


def _read_old_labelbox(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of Labelbox's older JSON file."""
    for line in objects_in(content):
        marks = objects_in(object_of(line.get("Label")).get("objects"))
        boxes = []
        for mark in marks:
            boxes.append(
                (str(mark.get("title") or mark.get("value") or ""), _read_labelbox_edges(mark))
            )
        yield MarkedImage(str(line.get("External ID") or line.get("Labeled Data") or ""), boxes)


def _read_scale(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of tasks of Scale AI."""
    for task in objects_in(content):
        boxes: Boxes = []
        for mark in objects_in(object_of(task.get("response")).get("annotations")):
            edges = edges_from_corner(*map(mark.get, SIDES))
            if mark.get("vertices"):
                edges = edges_around(_list_points(mark["vertices"]))
            boxes.append((str(mark.get("label", "")), edges))
        yield MarkedImage(str(object_of(task.get("params")).get("attachment", "")), boxes)


def _read_datumaro(content: Any, _file: Path) -> Iterator[MarkedImage]:
    """Yield the images of Datumaro: left, top, width and height, or a box around a polygon."""
    values = object_of(content)
    category = object_of(object_of(values.get("categories")).get("label"))
    names = [str(label.get("name", "")) for label in objects_in(category.get("labels"))]
    for item in objects_in(values.get("items")):
        boxes: Boxes = []
        for mark in objects_in(item.get("annotations")):
            place = read_number(mark.get("label_id"))
            label = ""
            if 0 <= place < len(names):
                label = names[int(place)]
            sides: Any = mark.get("bbox")
            is_box = mark.get("type") == "bbox" and isinstance(sides, list)
            if is_box and len(sides) == len(SIDES):
                boxes.append((label, edges_from_corner(*sides)))
            elif mark.get("type") == "polygon":
                boxes.append((label, edges_around(_pair_coordinates(mark.get("points")))))
        image = object_of(item.get("image"))
        size = image.get("size")
        height, width = size if isinstance(size, list) and len(size) == 2 else (None, None)
        yield MarkedImage(
            str(image.get("path") or item.get("id", "")), boxes, read_stated_size(width, height)
        )


@cache
def list_line_forms() -> Sequence[ToolForm]:
    """Return the forms of files with an object in each line; the first that fits counts."""
    return (
        ToolForm(("source-ref", "annotations"), _read_sage_maker),
        ToolForm(("imageGcsUri", "boundingBoxAnnotations"), _read_vertex),
        ToolForm(("image_url", "topX"), _read_azure),
        ToolForm(("image_url", "polygon"), _read_azure),
        ToolForm(("file_name", "objects", "bbox"), _read_hugging_face),
        ToolForm(("data_row", "projects"), _read_labelbox),
    )


@cache
def list_service_forms() -> Sequence[ToolForm]:
    """Return the forms of whole JSON files; the first that fits counts."""
    return (
        ToolForm(("data_row", "projects"), _read_labelbox),
        ToolForm(("Labeled Data", "objects"), _read_old_labelbox),
        ToolForm(("attachment", "response"), _read_scale),
        ToolForm(("items", "label_id", "categories"), _read_datumaro),
    )
