"""Read the class of each image from JSON files as annotation tools and programs of people write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from advisor.datasets._image_names import is_image_name
from advisor.datasets._untitled_columns import LABEL, PATH, SPLIT
from advisor.store import parse_json

Row = dict[str, str]
CHOICES = "choices"  # Type of a class of an image in Label Studio


def rows_in_json(content: Any) -> list[Row] | None:
    """Return the rows of a table that a JSON value stands for, one for each image and class; None if it is none.

    Known are a list of objects, ``{"a.jpg": "cat"}``, ``{"cat": ["a.jpg"]}``, and the files of Label Studio, FiftyOne
    (``classes`` and ``labels``) and Edge Impulse (``info.labels``).
    """
    if isinstance(content, list):
        if content and all(isinstance(value, list) and len(value) == 2 and _is_image(value[0]) for value in content):
            return [{PATH: name, **_label_of(label)} for name, label in content]
        objects = [value for value in content if isinstance(value, dict)]
        if not objects or len(objects) < len(content):
            return None
        if all("data" in value and "annotations" in value for value in objects):
            return [row for value in objects for row in _label_studio_rows(value)]
        return [flat_values(value) for value in objects]
    if not isinstance(content, dict) or not content:
        return None
    if len(content) == 1 and isinstance(next(iter(content.values())), list | dict):
        inner = next(iter(content.values()))
        rows = None if all(map(_is_image, inner)) else rows_in_json(inner)
        if rows:
            return rows
    images = content.get("_via_img_metadata", content)
    if isinstance(images, dict) and all(map(_is_via_image, images.values())):
        return [_via_row(value) for value in images.values()]
    if _are_lists_of_columns(content):
        columns = [list(map(text_of_value, values)) for values in content.values()]
        return [dict(zip(content, cells, strict=True)) for cells in zip(*columns, strict=True)]
    are_columns = len(content) > 1 and all(isinstance(value, dict) for value in content.values())
    if are_columns and not any(map(is_image_name, content)) and len(set(map(frozenset, content.values()))) == 1:
        # pandas writes the numbers of the rows in each column.
        numbers = next(iter(content.values()))
        return [{name: text_of_value(cells[row]) for name, cells in content.items()} for row in numbers]
    if isinstance(content.get("items"), list) and isinstance(content.get("categories"), dict):
        return list(_datumaro_rows(content["items"], content["categories"].get("label")))
    if isinstance(content.get("files"), list):
        return [_edge_impulse_row(value) for value in content["files"] if isinstance(value, dict)]
    if isinstance(content.get("labels"), dict):
        return list(_read_numbered_rows(content["labels"], content.get("classes")))
    if all(map(is_image_name, content)):
        return [{PATH: name, **_label_of(value)} for name, value in content.items()]
    if all(isinstance(value, list) and value and all(map(_is_image, value)) for value in content.values()):
        return [{PATH: name, LABEL: label} for label, names in content.items() for name in names]
    return None


def flat_values(values: Mapping[str, Any]) -> Row:
    """Return the values of an object as text; those of an object in it have both names, with a point between."""
    row: Row = {}
    for name, value in values.items():
        if isinstance(value, dict):
            for inner, deeper in value.items():
                row[f"{name}.{inner}"] = text_of_value(deeper)
        else:
            row[name] = text_of_value(value)
    return row


def text_of_value(value: object) -> str:
    """Return a cell as text; whole floats, from nullable integer columns, become integers."""
    if value is None or value != value:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def labels_in_cell(cell: str) -> list[str]:
    """Return the labels of a cell that holds a list, such as ``['cat']`` or ``{"choices": ["cat"]}``; else none."""
    text = cell.strip()
    if not (text[:1] in ("[", "{") and text[-1:] in ("]", "}")):
        return []
    try:
        content = parse_json(text if '"' in text else text.replace("'", '"'))
    except ValueError:
        return []
    listed = content.get(CHOICES) if isinstance(content, dict) else content
    return list(map(text_of_value, listed)) if isinstance(listed, list) else []


def _are_lists_of_columns(content: Mapping[str, Any]) -> bool:
    """Return whether an object has a column of images, and others of as many cells."""
    columns = list(content.values())
    if len(columns) < 2 or not all(isinstance(column, list) and column for column in columns):
        return False
    images = [all(map(_is_image, column)) for column in columns]
    return sum(images) == 1 and len(set(map(len, columns))) == 1


def _is_image(value: object) -> bool:
    return isinstance(value, str) and is_image_name(value)


def _label_of(value: object) -> Row:
    return flat_values(value) if isinstance(value, dict) else {LABEL: text_of_value(value)}


def _label_studio_rows(task: Mapping[str, Any]) -> Iterator[Row]:
    """Yield a row for each class that an annotation of a task chose; several annotations may not agree."""
    data = task["data"] if isinstance(task["data"], dict) else {}
    path = next((value for value in data.values() if _is_image(value)), "")
    annotations = [value for value in task["annotations"] or () if isinstance(value, dict)]
    labels: dict[str, None] = {}
    for annotation in annotations:
        results = annotation.get("result") if not annotation.get("was_cancelled") else []
        for result in results if isinstance(results, list) else ():
            value = result.get("value") if isinstance(result, dict) and result.get("type") == CHOICES else None
            chosen = value.get(CHOICES) or () if isinstance(value, dict) else ()
            labels.update(dict.fromkeys(map(text_of_value, chosen)))
    for label in labels:
        yield {PATH: path, LABEL: label}


def row_of_line(line: Mapping[str, Any]) -> Row:
    """Return the row that an object in a line stands for: of a Labelbox export, the answer to its first question."""
    row = line.get("data_row")
    projects = line.get("projects")
    if not isinstance(row, dict) or not isinstance(projects, dict):
        return flat_values(line)
    answers = [answer for value in projects.values() for answer in _labelbox_answers(value)]
    path = next((row[key] for key in ("external_id", "global_key", "row_data") if row.get(key)), "")
    return {PATH: text_of_value(path), LABEL: answers[0] if answers else ""}


def _labelbox_answers(project: Any) -> Iterator[str]:
    labels = project.get("labels") if isinstance(project, dict) else ()
    for label in labels or ():
        for question in (label.get("annotations") or {}).get("classifications") or ():
            if isinstance(question.get("radio_answer"), dict):
                yield text_of_value(question["radio_answer"].get("name"))


def _is_via_image(value: object) -> bool:
    return isinstance(value, dict) and {"filename", "file_attributes"} <= value.keys()


def _via_row(image: Mapping[str, Any]) -> Row:
    """Return the row of an image of the VGG Image Annotator: its class is its first attribute."""
    attributes = image["file_attributes"]
    values = list(attributes.values()) if isinstance(attributes, dict) else []
    label = values[0] if values else ""
    if isinstance(label, dict):
        label = next((name for name, is_ticked in label.items() if is_ticked), "")
    return {PATH: text_of_value(image["filename"]), LABEL: text_of_value(label)}


def _datumaro_rows(items: Sequence[Any], category: Any) -> Iterator[Row]:
    """Yield a row for each class that Datumaro states of a whole image."""
    labels = category.get("labels") if isinstance(category, dict) else ()
    names = [text_of_value(label.get("name")) for label in labels or () if isinstance(label, dict)]
    for item in items:
        image = item.get("image") if isinstance(item, dict) else None
        path = image.get("path") if isinstance(image, dict) else ""
        for mark in item.get("annotations") or () if image else ():
            place = mark.get("label_id") if mark.get("type") == "label" else None
            if isinstance(place, int) and 0 <= place < len(names):
                yield {PATH: text_of_value(path), LABEL: names[place]}


def _edge_impulse_row(file: Mapping[str, Any]) -> Row:
    label = file.get("label")
    text = label.get("label") if isinstance(label, dict) else label
    return {
        PATH: text_of_value(file.get("path")),
        LABEL: text_of_value(text),
        SPLIT: text_of_value(file.get("category")),
    }


def _read_numbered_rows(labels: Mapping[str, Any], classes: object) -> Iterator[Row]:
    names = classes if isinstance(classes, list) else []
    for path, value in labels.items():
        is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names)
        yield {PATH: path, LABEL: text_of_value(names[value] if is_number else value)}
