"""Read the class of each image from JSON files as annotation tools and programs of people write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
        if not all(map(_is_image, inner)) and (rows := rows_in_json(inner)):
            return rows
    if _are_lists_of_columns(content):
        columns = [list(map(text_of_value, values)) for values in content.values()]
        return [dict(zip(content, cells, strict=True)) for cells in zip(*columns, strict=True)]
    are_columns = len(content) > 1 and all(isinstance(value, dict) for value in content.values())
    if are_columns and not any(map(is_image_name, content)) and len(set(map(frozenset, content.values()))) == 1:
        numbers = next(iter(content.values()))  # pandas writes the numbers of the rows in each column
        return [{name: text_of_value(cells[row]) for name, cells in content.items()} for row in numbers]
    if isinstance(content.get("files"), list):
        return [_edge_impulse_row(value) for value in content["files"] if isinstance(value, dict)]
    if isinstance(content.get("labels"), dict):
        return list(_numbered_rows(content["labels"], content.get("classes")))
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
    """Yield a row for each class that the first annotation of a task chose."""
    data = task["data"] if isinstance(task["data"], dict) else {}
    path = next((value for value in data.values() if _is_image(value)), "")
    annotations = [value for value in task["annotations"] or () if isinstance(value, dict)]
    results = annotations[0].get("result") if annotations else []
    for result in results if isinstance(results, list) else ():
        value = result.get("value") if isinstance(result, dict) and result.get("type") == CHOICES else None
        for label in value.get(CHOICES) or () if isinstance(value, dict) else ():
            yield {PATH: path, LABEL: text_of_value(label)}


def _edge_impulse_row(file: Mapping[str, Any]) -> Row:
    label = file.get("label")
    text = label.get("label") if isinstance(label, dict) else label
    return {
        PATH: text_of_value(file.get("path")),
        LABEL: text_of_value(text),
        SPLIT: text_of_value(file.get("category")),
    }


def _numbered_rows(labels: Mapping[str, Any], classes: object) -> Iterator[Row]:
    names = classes if isinstance(classes, list) else []
    for path, value in labels.items():
        is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names)
        yield {PATH: path, LABEL: text_of_value(names[value] if is_number else value)}
