"""List the boxes of a set with a text file for each image: YOLO, KITTI, DOTA and plain rows.

``list_boxes`` calls :func:`list_yolo`. In this order: ``label_files.py`` finds the file of each
image, ``text_rows.py`` reads its rows, ``class_names.py`` names their classes, and
``value_readings.py`` decides what the numbers mean. A row of YOLO is a class number and centre,
width and height as shares; an image without a text file has no objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from advisor.core import UsageError, plural
from advisor.datasets._boxes.class_names import (
    NAMES,
    YAML,
    find_names_file,
    find_strict_names_file,
    has_key_points,
    name_classes_of_rows,
    read_yaml_values,
)
from advisor.datasets._boxes.entries import (
    BoxEntry,
    BoxFault,
    BoxListing,
    make_box,
)
from advisor.datasets._boxes.label_files import (
    TEXT,
    find_label_files,
    find_label_folders,
    is_label_name,
    list_label_files,
)
from advisor.datasets._boxes.set_folders import labelled_part_of, read_short_text
from advisor.datasets._boxes.text_rows import SHARES_HINT, TextRow, read_text_rows
from advisor.datasets._boxes.value_readings import MarkedShape, choose_reading
from advisor.datasets._dataset import Rejected
from advisor.datasets._folder_questions import some_of
from advisor.datasets._image_places import is_there, locate_image
from advisor.datasets._scan import images_in

KITTI_EDGES = slice(3, 7)


def is_yolo(path: Path, by_names: bool = True) -> bool:
    """Return whether a folder, or a part of it, has text files of labels or names of classes.

    ``by_names``: names of classes alone count.
    """
    if find_label_folders(path):
        return True
    return by_names and find_strict_names_file(path) is not None


def list_yolo(path: Path) -> BoxListing:
    """List the boxes of a folder, or of the folder of a file with class names.

    Rows that are no box are left out, with their reasons in ``faults``.
    """
    root = path if path.is_dir() else path.parent
    labels_of = find_label_files(root, images_in(root))
    rows_of_images, rejected = _read_rows(root, labels_of)
    file = find_names_file(root) if path.is_dir() else path
    names, notes = name_classes_of_rows(file, root, rows_of_images.values())
    key_points = file is not None and has_key_points(file)
    faults: list[BoxFault] = []
    shapes = {}
    uncounted = 0
    for image, rows in rows_of_images.items():
        uncounted += sum(row.is_uncounted for row in rows)
        shapes[image] = _read_shapes(image, labels_of[image], rows, names, key_points, faults)
    # All images decide together: a single one may fit several readings.
    reading = choose_reading(root, shapes)
    stated = _read_stated_parts(file, root) if file is not None else {}
    entries = []
    for image, marked in shapes.items():
        boxes = tuple(map(reading.place_box, marked))
        entries.append(BoxEntry(image, boxes, labels_of[image], _find_part(image, root, stated)))
    rejected += _list_files_without_image(set(labels_of.values()))
    all_notes = [*notes, *_describe_folders(root, labels_of)]
    if reading.note:
        all_notes.append(reading.note)
    if uncounted:
        regions = plural(uncounted, "region of 'DontCare' is", "regions of 'DontCare' are")
        all_notes.append(f"{regions} no object.")
    return BoxListing(
        root,
        entries,
        tuple(names.values()),
        rejected,
        faults,
        relative=reading.relative,
        notes=all_notes,
    )


def _read_rows(
    root: Path, labels_of: Mapping[Path, Path]
) -> tuple[dict[Path, Sequence[TextRow]], list[Rejected]]:
    """Return the rows of each image, and the images whose text file cannot be read.

    UsageError if no file can be read.
    """
    rejected: list[Rejected] = []
    rows_of_images: dict[Path, Sequence[TextRow]] = {}
    for image, labels in labels_of.items():
        try:
            rows_of_images[image] = read_text_rows(labels) if labels.exists() else ()
        except UsageError as error:
            rejected.append(Rejected(image, error.message))
    # Single damaged files are left out. If none can be read, the format is another one.
    if rejected and not any(rows_of_images.values()):
        raise UsageError(
            f"--data: no text file of '{root}' can be read; the first: {rejected[0].reason}",
            SHARES_HINT,
        )
    return rows_of_images, rejected


def _find_part(image: Path, root: Path, stated: Mapping[Path, str]) -> str:
    """Return the part of an image: as data.yaml states it, else by the name of its folders."""
    part = next(filter(None, map(stated.get, (image, *image.parents))), "")
    if part:
        return part
    return next(filter(None, map(labelled_part_of, image.relative_to(root).parts[:-1])), "")


def _describe_folders(root: Path, labels_of: Mapping[Path, Path]) -> Sequence[str]:
    """Return a sentence on folders of labels with another name than YOLO's."""
    images = {image.parent for image in labels_of}
    folders = {labels.parent for labels in labels_of.values()} - images
    # A folder of the name `labels` is where YOLO has them, so it needs no word.
    others = [folder for folder in folders if "labels" not in folder.parts]
    shown = [str(folder.relative_to(root)) for folder in others if folder.is_dir()]
    if not shown:
        return []
    return [f"The text files of the images are those in {some_of(shown)}."]


def _list_files_without_image(used: set[Path]) -> list[Rejected]:
    """Return the files in folders of labels that belong to no image."""
    rejected = []
    for folder in sorted({file.parent for file in used}):
        # Beside images, a text file may be anything; in a folder of labels it belongs to an image.
        is_for_labels = any(map(is_label_name, folder.parts[-2:]))
        if not is_for_labels or not folder.is_dir():
            continue
        for file in list_label_files(folder):
            if file not in used and file.name.casefold() not in NAMES:
                rejected.append(Rejected(file, "its image is missing"))
    return rejected


def _read_shapes(
    image: Path,
    labels: Path,
    rows: Sequence[TextRow],
    names: Mapping[str, str],
    key_points: bool,
    faults: list[BoxFault],
) -> Sequence[MarkedShape]:
    shapes = []
    for row in rows:
        if row.is_uncounted:
            continue
        shape = _read_shape(row, names, key_points)
        if isinstance(shape, MarkedShape):
            shapes.append(shape)
        else:
            faults.append(BoxFault(image, f"line {row.line} of '{labels.name}'", shape))
    return shapes


def _read_shape(row: TextRow, names: Mapping[str, str], key_points: bool) -> MarkedShape | str:
    """Return what a row marks, or why it is no box; of a polygon, the box around it.

    The first four values are the box if one value, a confidence, is behind them,
    or if key points are.
    """
    label = row.label
    # A class may be called by a number, which then is its key and not its name.
    if label in names.values() and label not in names:
        label = next(key for key, name in names.items() if name == label)
    if label not in names:
        numbers = list(names)
        return f"class number {label[:20]}, but the names are for {numbers[0]} to {numbers[-1]}"
    values = row.values
    if row.form == "kitti":
        return MarkedShape(make_box(names[label], values[KITTI_EDGES], row.line), are_edges=True)
    is_box = len(values) in (4, 5) or (key_points and len(values) > 4)
    if is_box and not row.form:
        return MarkedShape(make_box(names[label], values[:4], row.line), are_edges=False)
    if len(values) >= 6 and len(values) % 2 == 0:
        across = values[::2]
        down = values[1::2]
        edges = (min(across), min(down), max(across), max(down))
        return MarkedShape(make_box(names[label], edges, row.line), are_edges=True)
    return f"{len(values) + 1} values, not a class number and centre x, centre y, width, height"


def _read_stated_parts(file: Path, root: Path) -> dict[Path, str]:
    """Return the part of each folder or image that exists and that data.yaml names for a part.

    An entry is a folder, a text file with an image a line, or a list of both. It counts from the
    key ``path``, from the folder of data.yaml, or from the one above: Roboflow writes
    ``../train/images``.
    """
    if file.suffix.lower() not in YAML:
        return {}
    values = read_yaml_values(file)
    bases = [root, root / str(values.get("path") or "."), root.parent, root / "images"]
    parts: dict[Path, str] = {}
    for key in ("train", "val", "test"):
        written = values.get(key)
        listed = written if isinstance(written, list) else [written]
        for entry in listed:
            place = _find_existing(str(entry or ""), bases)
            if place is None:
                continue
            if place.suffix.lower() != TEXT:
                parts[place] = labelled_part_of(key)
                continue
            for line in read_short_text(place).splitlines():
                image = _find_existing(line.strip(), [place.parent, *bases])
                if image is not None:
                    parts[image] = labelled_part_of(key)
    # One part alone is no split.
    if len(set(parts.values())) > 1:
        return parts
    return {}


def _find_existing(name: str, bases: Sequence[Path]) -> Path | None:
    """Return the first file or folder of a name below one of several folders; None for none."""
    if not name or "\0" in name:
        return None
    inside = name.removeprefix("../")
    for base in bases:
        for text in (name, inside):
            place = locate_image(base, text)
            # The whole folder is no part of itself.
            if is_there(place) and place != bases[0]:
                return place
    return None
