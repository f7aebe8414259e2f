"""Read the class of each image from JSON as annotation tools and programs of people write it.

``_table_rows.py`` calls :func:`read_json_rows` for a whole file, which returns None for a value of
an unknown form. It calls :func:`read_line_row` for each line of a file with an object in each
line, which always returns a row. ``_manifests.py`` splits cells with lists. ``docs/data.md``
promises the forms: each must stay readable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from advisor.datasets._image_names import is_image_name
from advisor.datasets._untitled_columns import LABEL, PATH, SPLIT
from advisor.store import parse_json

Row = dict[str, str]
CHOICES = "choices"  # Type of a class of an image in Label Studio
LABELBOX_NAMES = ("external_id", "global_key", "row_data")
"""Keys of the name of an image in a Labelbox export;
the last is its address, which stands for a name at worst.
"""


def read_json_rows(content: Any) -> list[Row] | None:
    """Return the rows of a table that a JSON value stands for; None if it is of no known form.

    There is a row for each image and class. Known are a list of objects or of pairs such as
    ``["a.jpg", "cat"]``, ``{"a.jpg": "cat"}``, ``{"cat": ["a.jpg"]}``, a table with a key for each
    column, and the files of Label Studio, FiftyOne (``classes`` and ``labels``), VIA, Datumaro and
    Edge Impulse (``info.labels``).
    """
    if isinstance(content, list):
        return _read_list(content)
    if not isinstance(content, dict) or not content:
        return None
    if len(content) == 1:
        # One key that holds everything, such as ``images``.
        # The names of images are those of one class instead.
        inner = next(iter(content.values()))
        is_wrapper = isinstance(inner, list | dict) and not all(map(_is_image, inner))
        rows = read_json_rows(inner) if is_wrapper else None
        if rows:
            return rows
    images = content.get("_via_img_metadata", content)
    if isinstance(images, dict) and all(map(_is_via_image, images.values())):
        return list(map(_read_via_row, images.values()))
    # A table may have a column ``files`` or ``labels``, which are keys of tools,
    # so columns come first.
    for rows_of_form in (_read_column_rows, _read_tool_rows, _read_name_rows):
        rows = rows_of_form(content)
        if rows is not None:
            return rows
    return None


def _read_list(values: Sequence[Any]) -> list[Row] | None:
    """Return the rows of a list: pairs of image and class, tasks of Label Studio, or objects."""
    if values and all(map(_is_pair, values)):
        return [{PATH: name, **_read_label(label)} for name, label in values]
    objects = [value for value in values if isinstance(value, dict)]
    if not objects or len(objects) < len(values):
        return None
    if all("data" in value and "annotations" in value for value in objects):
        return list(chain.from_iterable(map(_read_label_studio_rows, objects)))
    return list(map(_flatten_values, objects))


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and _is_image(value[0])


def _read_tool_rows(content: Mapping[str, Any]) -> list[Row] | None:
    """Return the rows of a file of Datumaro, Edge Impulse or FiftyOne; None if it is none."""
    if isinstance(content.get("items"), list) and isinstance(content.get("categories"), dict):
        return list(_read_datumaro_rows(content["items"], content["categories"].get("label")))
    if isinstance(content.get("files"), list):
        files = [value for value in content["files"] if isinstance(value, dict)]
        return list(map(_read_edge_impulse_row, files))
    if isinstance(content.get("labels"), dict):
        return list(_read_numbered_rows(content["labels"], content.get("classes")))
    return None


def _read_column_rows(content: Mapping[str, Any]) -> list[Row] | None:
    """Return the rows of an object with a key for each column, as pandas writes it, or None."""
    if _are_lists_of_columns(content):
        columns = [list(map(_convert_to_text, values)) for values in content.values()]
        return [dict(zip(content, cells, strict=True)) for cells in zip(*columns, strict=True)]
    if not _are_numbered_columns(content):
        return None
    rows = []
    for number in next(iter(content.values())):
        rows.append({name: _convert_to_text(cells[number]) for name, cells in content.items()})
    return rows


def _read_name_rows(content: Mapping[str, Any]) -> list[Row] | None:
    """Return the rows of an object with the class of each image, or images of a class; or None."""
    if all(map(is_image_name, content)):
        return [{PATH: name, **_read_label(value)} for name, value in content.items()]
    rows = []
    for label, names in content.items():
        if not isinstance(names, list) or not names or not all(map(_is_image, names)):
            return None
        rows += [{PATH: name, LABEL: label} for name in names]
    return rows


def _flatten_values(values: Mapping[str, Any]) -> Row:
    """Return the values of an object as text; ``a.b`` is a value of an object in it."""
    row: Row = {}
    for name, value in values.items():
        if isinstance(value, dict):
            for inner, deeper in value.items():
                row[f"{name}.{inner}"] = _convert_to_text(deeper)
        else:
            row[name] = _convert_to_text(value)
    return row


def _convert_to_text(value: object) -> str:
    """Return a cell as text; whole floats, from nullable integer columns, become integers."""
    if value is None or value != value:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def split_cell(cell: str) -> list[str]:
    """Return the labels of a cell that holds a list or Label Studio's choices, else none.

    Such cells are ``['cat']`` and ``{"choices": ["cat"]}``.
    """
    text = cell.strip()
    if text[:1] not in ("[", "{") or text[-1:] not in ("]", "}"):
        return []
    # Python writes a list of texts with single quotes, and pandas puts it into a cell so.
    as_json = text
    if '"' not in text:
        as_json = text.replace("'", '"')
    try:
        content = parse_json(as_json)
    except ValueError:
        return []
    listed = content.get(CHOICES) if isinstance(content, dict) else content
    if isinstance(listed, list):
        return list(map(_convert_to_text, listed))
    return []


def _are_lists_of_columns(content: Mapping[str, Any]) -> bool:
    """Return whether an object has a column of images, and others of as many cells."""
    columns = []
    for column in content.values():
        if isinstance(column, list) and column:
            columns.append(column)
    if len(columns) < 2 or len(columns) < len(content):
        return False
    # Two columns of images would be the images of two classes.
    are_images = [all(map(_is_image, column)) for column in columns]
    lengths = set(map(len, columns))
    return sum(are_images) == 1 and len(lengths) == 1


def _are_numbered_columns(content: Mapping[str, Any]) -> bool:
    """Return whether an object has columns of cells by row number, as pandas writes them."""
    columns = []
    for column in content.values():
        if isinstance(column, dict):
            columns.append(column)
    if len(columns) < 2 or len(columns) < len(content):
        return False
    if any(map(is_image_name, content)):
        return False
    numbers = set(map(frozenset, columns))
    return len(numbers) == 1


def _is_image(value: object) -> bool:
    return isinstance(value, str) and is_image_name(value)


def _read_label(value: object) -> Row:
    if isinstance(value, dict):
        return _flatten_values(value)
    return {LABEL: _convert_to_text(value)}


def _read_label_studio_rows(task: Mapping[str, Any]) -> Iterator[Row]:
    """Yield a row for each class that the annotations of a task chose; they may not agree."""
    data = {}
    if isinstance(task["data"], dict):
        data = task["data"]
    path = next(filter(_is_image, data.values()), "")
    annotations = [value for value in task["annotations"] or () if isinstance(value, dict)]
    labels: dict[str, None] = {}
    for annotation in annotations:
        results = annotation.get("result")
        # A cancelled annotation is one that its author skipped.
        if annotation.get("was_cancelled") or not isinstance(results, list):
            continue
        for result in results:
            if not isinstance(result, dict) or result.get("type") != CHOICES:
                continue
            value = result.get("value")
            choices = value.get(CHOICES) if isinstance(value, dict) else ()
            labels.update(dict.fromkeys(map(_convert_to_text, choices or ())))
    for label in labels:
        yield {PATH: path, LABEL: label}


def read_line_row(line: Mapping[str, Any]) -> Row:
    """Return the row of an object in a line; of Labelbox, with the answer to a question."""
    row = line.get("data_row")
    projects = line.get("projects")
    if not isinstance(row, dict) or not isinstance(projects, dict):
        return _flatten_values(line)
    answers = list(chain.from_iterable(map(_list_labelbox_answers, projects.values())))
    path = next(filter(None, map(row.get, LABELBOX_NAMES)), "")
    return {PATH: _convert_to_text(path), LABEL: answers[0] if answers else ""}


def _list_labelbox_answers(project: Any) -> Iterator[str]:
    labels = project.get("labels") if isinstance(project, dict) else ()
    for label in labels or ():
        for question in (label.get("annotations") or {}).get("classifications") or ():
            if isinstance(question.get("radio_answer"), dict):
                yield _convert_to_text(question["radio_answer"].get("name"))


def _is_via_image(value: object) -> bool:
    return isinstance(value, dict) and {"filename", "file_attributes"} <= value.keys()


def _read_via_row(image: Mapping[str, Any]) -> Row:
    """Return the row of an image of the VGG Image Annotator: its class is its first attribute."""
    attributes = image["file_attributes"]
    values = []
    if isinstance(attributes, dict):
        values = list(attributes.values())
    label = values[0] if values else ""
    if isinstance(label, dict):
        label = next((name for name, is_ticked in label.items() if is_ticked), "")
    return {PATH: _convert_to_text(image["filename"]), LABEL: _convert_to_text(label)}


def _read_datumaro_rows(items: Sequence[Any], category: Any) -> Iterator[Row]:
    """Yield a row for each class that Datumaro states of a whole image."""
    labels = category.get("labels") if isinstance(category, dict) else ()
    names = []
    for label in labels or ():
        if isinstance(label, dict):
            names.append(_convert_to_text(label.get("name")))
    for item in items:
        image = item.get("image") if isinstance(item, dict) else None
        path = image.get("path") if isinstance(image, dict) else ""
        for mark in item.get("annotations") or () if image else ():
            place = None
            if mark.get("type") == "label":
                place = mark.get("label_id")
            if isinstance(place, int) and 0 <= place < len(names):
                yield {PATH: _convert_to_text(path), LABEL: names[place]}


def _read_edge_impulse_row(file: Mapping[str, Any]) -> Row:
    label = file.get("label")
    text = label.get("label") if isinstance(label, dict) else label
    return {
        PATH: _convert_to_text(file.get("path")),
        LABEL: _convert_to_text(text),
        SPLIT: _convert_to_text(file.get("category")),
    }


def _read_numbered_rows(labels: Mapping[str, Any], classes: object) -> Iterator[Row]:
    names = classes if isinstance(classes, list) else []
    for path, value in labels.items():
        is_number = (
            isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names)
        )
        yield {PATH: path, LABEL: _convert_to_text(names[value] if is_number else value)}
