"""Read boxes from a text file for each image:
YOLO, KITTI, DOTA, and rows with the name of a class.

A row of YOLO is a class number and centre, width and height as shares. Names of the classes are in
``data.yaml``, ``classes.txt`` or ``obj.names``. An image without a text file has no objects, as
YOLO has it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from advisor.core import UsageError, plain, plural
from advisor.datasets._boxes.entries import (
    Box,
    BoxEntry,
    BoxFault,
    BoxListing,
    box_of,
    of_centre,
    of_coco,
)
from advisor.datasets._boxes.label_files import (
    TEXT,
    find_label_files,
    is_label_name,
    label_files_in,
    label_folders,
)
from advisor.datasets._boxes.marks import read_number
from advisor.datasets._boxes.set_folders import files_in, labelled_part_of, part_folders, text_of
from advisor.datasets._category_files import CLASS_LISTS, first_number, key_of, require_beside
from advisor.datasets._dataset import Rejected
from advisor.datasets._folder_questions import some_of
from advisor.datasets._image_places import is_there, locate_image
from advisor.datasets._images import READ_ERRORS, open_image, read_orientation
from advisor.datasets._scan import images_in
from advisor.store import labels_in, read_yaml

NAMES = ("data.yaml", "data.yml", "dataset.yaml", "classes.txt", "obj.names", "_darknet.labels")
YAML = frozenset({".yaml", ".yml"})
DARKNET_NAMES = ".names"  # Extension of a list of classes
HINT = (
    "write data.yaml with 'names: [cat, dog]', or classes.txt with one name a line, beside images/"
    " and labels/"
)
SHARES_HINT = "write a class number and centre x, centre y, width and height, each from 0 to 1"
MOST_DIGITS = 9  # Of a class number: a longer text is none
FAR = 2.0  # Shares beyond this are pixels: a box outside its image is not twice as far away
PERCENT = 100.0
SHARES = "shares"
CENTRES = "centres"
CORNERS = "corners"
SIDES = "sides"
PERCENTS = "percents"
NOTES = {
    SHARES: "",
    CENTRES: "The values of the text files are pixels: centre x, centre y, width and height.",
    CORNERS: "The values of the text files are pixels of two corners of a box.",
    SIDES: "The values of the text files are pixels: left, top, width and height.",
    PERCENTS: "The values of the text files are percents of the sides of an image.",
}
"""Sentences on what the values of rows mean."""

PROBED_IMAGES = 50  # Whose sizes tell what values in pixels mean
KITTI_VALUES = (14, 15)  # Behind the class, the last with a score
KITTI_EDGES = slice(3, 7)
UNCOUNTED = "dontcare"  # Class of KITTI for regions that nobody marked
DOTA_VALUES = 8  # Corners before the class
DOTA_HEADERS = ("imagesource:", "gsd:")
VISDRONE_VALUES = 8  # Joined by commas
SHOWN = 60  # Characters of a row in an error


@dataclass(frozen=True, slots=True)
class TextRow:
    """One row of a text file."""

    line: int  # number of the line from 1
    label: str  # number or name of the class
    values: Sequence[float]  # those behind the class
    form: str = ""  # ``kitti`` or ``dota``; empty for YOLO

    @property
    def is_uncounted(self) -> bool:
        """Return whether the row is a region of KITTI that nobody marked."""
        return bool(self.form) and self.label.casefold() == UNCOUNTED


def is_yolo(path: Path, by_names: bool = True) -> bool:
    """Return whether a folder has text files of labels, itself or in the folders of its parts,
    or names of classes.

    ``by_names``: names of classes alone count.
    """
    return bool(label_folders(path)) or (by_names and strict_names_file(path) is not None)


def list_yolo(path: Path) -> BoxListing:
    """List the boxes of a folder, or of the folder of a file with class names.
    Rows that are no box are left out.
    """
    root = path if path.is_dir() else path.parent
    labels_of = find_label_files(root, images_in(root))
    rows_of_images, rejected = _read_all(root, labels_of)
    file = names_file(root) if path.is_dir() else path
    names, notes = _names_of_rows(file, root, rows_of_images.values())
    key_points = file is not None and _has_key_points(file)
    faults: list[BoxFault] = []
    shapes = {}
    uncounted = 0
    for image, rows in rows_of_images.items():
        uncounted += sum(row.is_uncounted for row in rows)
        shapes[image] = _shapes(image, labels_of[image], rows, names, key_points, faults)
    # All images decide together: a single one may fit several readings.
    reading = choose_reading(root, shapes)
    stated = _read_stated_parts(file, root) if file is not None else {}
    entries = []
    for image, marked in shapes.items():
        boxes = tuple(map(reading.place_box, marked))
        entries.append(
            BoxEntry(image, boxes, labels_of[image], _part_of_image(image, root, stated))
        )
    rejected += _without_image(set(labels_of.values()))
    notes = (*notes, *_notes_on_folders(root, labels_of), *filter(None, [reading.note]))
    if uncounted:
        regions = plural(uncounted, "region of 'DontCare' is", "regions of 'DontCare' are")
        notes = (*notes, f"{regions} no object.")
    return BoxListing(
        root,
        entries,
        tuple(names.values()),
        rejected,
        faults,
        relative=reading.relative,
        notes=notes,
    )


def _read_all(
    root: Path, labels_of: Mapping[Path, Path]
) -> tuple[dict[Path, Sequence[TextRow]], list[Rejected]]:
    """Return the rows of each image, and the images whose text file cannot be read;
    UsageError: none can.
    """
    rejected: list[Rejected] = []
    rows_of_images: dict[Path, Sequence[TextRow]] = {}
    for image, labels in labels_of.items():
        try:
            rows_of_images[image] = rows_in(labels) if labels.exists() else ()
        except UsageError as error:
            rejected.append(Rejected(image, error.message))
    # Single damaged files are left out. If none can be read, the format is another one.
    if rejected and not any(rows_of_images.values()):
        raise UsageError(
            f"--data: no text file of '{root}' can be read; the first: {rejected[0].reason}",
            SHARES_HINT,
        )
    return rows_of_images, rejected


def _part_of_image(image: Path, root: Path, stated: Mapping[Path, str]) -> str:
    """Return the part that data.yaml states for an image,
    or that a folder on the way to it is named as.
    """
    part = next(filter(None, map(stated.get, (image, *image.parents))), "")
    if part:
        return part
    return next(filter(None, map(labelled_part_of, image.relative_to(root).parts[:-1])), "")


def _notes_on_folders(root: Path, labels_of: Mapping[Path, Path]) -> Sequence[str]:
    """Return a sentence on folders of labels with another name than YOLO's."""
    images = {image.parent for image in labels_of}
    folders = {labels.parent for labels in labels_of.values()} - images
    # A folder of the name `labels` is where YOLO has them, so it needs no word.
    others = [folder for folder in folders if "labels" not in folder.parts]
    shown = [str(folder.relative_to(root)) for folder in others if folder.is_dir()]
    return [f"The text files of the images are those in {some_of(shown)}."] if shown else []


def _without_image(used: set[Path]) -> list[Rejected]:
    """Return the files in folders of labels that belong to no image."""
    rejected = []
    for folder in sorted({file.parent for file in used}):
        # Beside images, a text file may be anything; in a folder of labels it belongs to an image.
        is_for_labels = any(map(is_label_name, folder.parts[-2:]))
        if not is_for_labels or not folder.is_dir():
            continue
        for file in label_files_in(folder):
            if file not in used and file.name.casefold() not in NAMES:
                rejected.append(Rejected(file, "its image is missing"))
    return rejected


def rows_in(labels: Path) -> list[TextRow]:
    """Return the rows of a text file; UsageError if it cannot be read, or has values of
    VisDrone.
    """
    rows: list[TextRow] = []
    for line, text in enumerate(text_of(labels).splitlines(), start=1):
        words = text.split()
        if len(words) == 1:  # A comma separates where no blank does
            words = text.strip().rstrip(",").split(",")
            if len(words) == VISDRONE_VALUES and all(map(_is_number, words)):
                raise UsageError(
                    f"'{labels.name}' has rows as VisDrone does: '{plain(text.strip())[:SHOWN]}'",
                    SHARES_HINT,
                )
        if words and not words[0].startswith(DOTA_HEADERS):
            rows.append(_row_of(line, [word.rstrip(",") for word in words]))
    return rows


def _row_of(line: int, words: Sequence[str]) -> TextRow:
    values = list(map(read_number, words[1:]))
    are_numbers = list(map(_is_number, words))
    if not are_numbers[0] and len(values) in KITTI_VALUES and all(are_numbers[1:]):
        return TextRow(line, words[0], values, "kitti")
    if (
        len(words) > DOTA_VALUES
        and all(are_numbers[:DOTA_VALUES])
        and not are_numbers[DOTA_VALUES]
    ):
        return TextRow(
            line, words[DOTA_VALUES], list(map(read_number, words[:DOTA_VALUES])), "dota"
        )
    return TextRow(line, key_of(words[0]), values)


def _is_number(word: str) -> bool:
    return math.isfinite(read_number(word))


def _names_of_rows(
    file: Path | None, root: Path, images: Iterable[Sequence[TextRow]]
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the name of each class number, or of each class that rows name,
    and sentences on what they say.

    Numbers count from 1 if the number of names is used as a number, and 0 is not. Raises
    UsageError if there are numbers, and no names.
    """
    rows = list(chain.from_iterable(images))
    names = _names(file) if file is not None else {}
    named = _classes_in_rows(rows, names)
    if named:
        return {**names, **named}, (
            () if names else (f"The rows name the classes: {some_of(named)}.",)
        )
    if file is None:
        raise UsageError(f"--data: '{root}' has YOLO labels, but no names of their classes", HINT)
    is_list = list(names) == list(map(str, range(len(names))))
    numbers = {row.label for row in rows} - set(names.values())
    is_plain = all(label.isdecimal() and len(label) <= MOST_DIGITS for label in numbers)
    # Only a list can be counted from another number;
    # names that the file numbers itself are as they say.
    if not is_list or not is_plain or first_number(set(map(int, numbers)), len(names)) != 1:
        return names, ()
    shifted = {str(place): name for place, name in enumerate(names.values(), start=1)}
    return shifted, (
        f"The class numbers count from 1: 1 is '{shifted['1']}', and 0 is in no file of labels.",
    )


def _classes_in_rows(rows: Sequence[TextRow], names: Mapping[str, str]) -> Mapping[str, str]:
    """Return the classes that rows name, and ``names`` does not have.
    Where names are known, rows of YOLO add none.
    """
    labels = set()
    for row in rows:
        if row.form or not names:
            labels.add(row.label)
    unknown = labels - set(names) - set(names.values())
    words = sorted(label for label in unknown if not _is_number(label))
    return {label: label for label in words if label.casefold() != UNCOUNTED}


@dataclass(frozen=True, slots=True)
class MarkedShape:
    """The box or outline of a row: the first four values behind the class,
    or the edges around corners.
    """

    box: Box
    are_edges: bool


def _shapes(
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
        shape = _shape(row, names, key_points)
        if isinstance(shape, MarkedShape):
            shapes.append(shape)
        else:
            faults.append(BoxFault(image, f"line {row.line} of '{labels.name}'", shape))
    return shapes


def _shape(row: TextRow, names: Mapping[str, str], key_points: bool) -> MarkedShape | str:
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
        return MarkedShape(box_of(names[label], values[KITTI_EDGES], row.line), are_edges=True)
    is_box = len(values) in (4, 5) or (key_points and len(values) > 4)
    if is_box and not row.form:
        return MarkedShape(box_of(names[label], values[:4], row.line), are_edges=False)
    if len(values) >= 6 and len(values) % 2 == 0:
        across = values[::2]
        down = values[1::2]
        edges = (min(across), min(down), max(across), max(down))
        return MarkedShape(box_of(names[label], edges, row.line), are_edges=True)
    return f"{len(values) + 1} values, not a class number and centre x, centre y, width, height"


@dataclass(frozen=True)
class ValueReading:
    """A reading of the values of rows: their unit and their order."""

    meaning: str = SHARES  # a key of :data:`NOTES`
    is_told: bool = True  # whether rows have values that may mean something else

    @property
    def note(self) -> str:
        """A sentence on what they mean, if it is not what YOLO has."""
        return NOTES[self.meaning] if self.is_told else ""

    @property
    def relative(self) -> bool:
        """Return whether edges are shares."""
        return self.meaning in (SHARES, PERCENTS)

    def place_box(self, shape: MarkedShape) -> Box:
        """Return the box that a row marks."""
        box = shape.box
        if not shape.are_edges and self.meaning == SIDES:
            box = of_coco(box)
        elif not shape.are_edges and self.meaning != CORNERS:
            box = of_centre(box)
        if self.meaning == PERCENTS:
            left, top, right, bottom = (edge / PERCENT for edge in box.edges)
            box = box.with_edges(left, top, right, bottom)
        return box


def choose_reading(root: Path, shapes: Mapping[Path, Sequence[MarkedShape]]) -> ValueReading:
    """Return what the values of rows mean: shares, or pixels if most are too large for shares.

    Of the readings in pixels that counts by which most boxes are inside their images. YOLO's own
    order counts if no other fits better. Raises UsageError if two others fit equally well.
    """
    all_shapes = chain.from_iterable(shapes.values())
    # A value that is no number is a fault of its box, and says nothing of the others.
    marked = [shape for shape in all_shapes if all(map(math.isfinite, shape.box.edges))]
    far = sum(max(map(abs, shape.box.edges)) > FAR for shape in marked)
    # Some boxes reach over the edge, so single values above 1 make no pixels.
    if far <= len(marked) / 2:
        return ValueReading()
    sized: list[tuple[MarkedShape, tuple[int, int]]] = []
    for image, shapes_of_image in shapes.items():
        # Each size is read from its image, so a few images decide for all.
        if not shapes_of_image or len(sized) >= PROBED_IMAGES:
            continue
        size = _upright_size(image)
        if size is not None:
            sized += [(shape, size) for shape in shapes_of_image]
    if _are_percents(sized):
        return ValueReading(PERCENTS)
    best = _best_readings(sized)
    # Small boxes near the left upper corner fit both ways.
    if best[0] != CENTRES and len(best) > 1:
        raise UsageError(
            f"--data: the text files of '{root}' have pixels, and fit as two corners, and as left,"
            " top, width and height",
            SHARES_HINT,
        )
    if all(shape.are_edges for shape in marked):
        return ValueReading(CORNERS, is_told=False)
    return ValueReading(best[0])


def _best_readings(sized: Sequence[tuple[MarkedShape, tuple[int, int]]]) -> Sequence[str]:
    """Return the meanings in pixels by which most boxes are inside their images."""
    counts = {}
    for meaning in (CENTRES, CORNERS, SIDES):
        reading = ValueReading(meaning)
        counts[meaning] = sum(_is_inside(reading.place_box(shape), size) for shape, size in sized)
    return [meaning for meaning, count in counts.items() if count == max(counts.values())]


def _upright_size(image: Path) -> tuple[int, int] | None:
    try:
        with open_image(image, reduced=True) as opened:
            width, height = opened.size
            return (height, width) if read_orientation(opened) >= 5 else (width, height)
    except READ_ERRORS:
        return None


def _are_percents(sized: Sequence[tuple[MarkedShape, tuple[int, int]]]) -> bool:
    """Return whether all boxes are in the first 100 pixels of images
    with sides of more than twice as many.
    """
    large = all(min(size) > 2 * PERCENT for _, size in sized)
    whole = (int(PERCENT), int(PERCENT))
    of_pixels = ValueReading(CENTRES)
    return (
        bool(sized)
        and large
        and all(_is_inside(of_pixels.place_box(shape), whole) for shape, _ in sized)
    )


def _is_inside(box: Box, size: tuple[int, int]) -> bool:
    width, height = size
    if not -1 <= box.left < box.right <= width + 1:
        return False
    return -1 <= box.top < box.bottom <= height + 1


def strict_names_file(root: Path) -> Path | None:
    """Return the file with the class names that has a name of YOLO's, in any case."""
    folders = [root, *(folder for folder, _ in part_folders(root)), *label_folders(root)]
    for folder in dict.fromkeys(folders):
        files = {}
        for file in sorted(folder.iterdir()):
            if file.is_file():
                files[file.name.casefold()] = file
        for name in NAMES:
            if name in files:
                return files[name]
    return None


def names_file(root: Path) -> Path | None:
    """Return the file with the class names;
    other YAML files and lists of classes count if there are labels.
    """
    strict = strict_names_file(root)
    if strict is not None:
        return strict
    labels = label_folders(root)
    others = []
    if labels:
        others = list(chain.from_iterable(files_in(root, suffix) for suffix in sorted(YAML)))
    others += files_in(root, DARKNET_NAMES)
    for folder in [root, *labels] if labels else ():
        others += [folder / name for name in CLASS_LISTS]
    return next((file for file in others if file.is_file()), None)


def is_names_file(path: Path) -> bool:
    """Return whether a file has the names of YOLO's classes, by its name."""
    name = path.name.casefold()
    return path.suffix.casefold() in {*YAML, DARKNET_NAMES} or name in NAMES or name in CLASS_LISTS


def _names(file: Path) -> dict[str, str]:
    """Return the name of each class number."""
    if file.suffix.lower() not in YAML:
        text = text_of(require_beside(file)).strip()
        lines = [line.strip() for line in text.splitlines()]
        # An empty line in the middle counts as a class.
        labels = lines if "" in lines else labels_in(text)
        return {str(place): name for place, name in enumerate(labels)}
    names = _values_of(file).get("names")
    rows = names
    if isinstance(names, list):
        rows = dict(enumerate(names))
    if not isinstance(rows, dict) or not rows:
        raise UsageError(f"--data: '{file}' has no list 'names' of the classes", HINT)
    return {str(place): str(name) for place, name in rows.items()}


def _values_of(file: Path) -> Mapping[str, Any]:
    """Return the values of a YAML file as they are written."""
    values = read_yaml(file, as_text=True).values
    return values if isinstance(values, dict) else {}


def _read_stated_parts(file: Path, root: Path) -> dict[Path, str]:
    """Return the part of each folder or image that ``train``,
    ``val`` and ``test`` of data.yaml name, if they exist.

    An entry is a folder, a text file with an image a line, or a list of both. It counts from the
    key ``path``, from the folder of data.yaml, or from the one above: Roboflow writes
    ``../train/images``.
    """
    if file.suffix.lower() not in YAML:
        return {}
    values = _values_of(file)
    bases = [root, root / str(values.get("path") or "."), root.parent, root / "images"]
    parts: dict[Path, str] = {}
    for key in ("train", "val", "test"):
        written = values.get(key)
        for entry in written if isinstance(written, list) else [written]:
            place = _existing(str(entry or ""), bases)
            if place is None:
                continue
            if place.suffix.lower() != TEXT:
                parts[place] = labelled_part_of(key)
                continue
            for line in text_of(place).splitlines():
                image = _existing(line.strip(), [place.parent, *bases])
                if image is not None:
                    parts[image] = labelled_part_of(key)
    # One part alone is no split.
    if len(set(parts.values())) > 1:
        return parts
    return {}


def _existing(name: str, bases: Sequence[Path]) -> Path | None:
    """Return the first file or folder of a name that exists below one of several folders;
    None for none.
    """
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


def _has_key_points(file: Path) -> bool:
    """Return whether the rows go on with key points behind the box:
    data.yaml of a pose has ``kpt_shape``.
    """
    return file.suffix.lower() in YAML and "kpt_shape" in _values_of(file)
