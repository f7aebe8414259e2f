"""Read boxes from YOLO: a text file for each image, with a class number and centre, width and height as shares.

The text files are in ``labels`` where the images are in ``images``, or beside them. Names of the classes are in
``data.yaml``, ``classes.txt`` or ``obj.names``. An image without a text file has no objects, as YOLO has it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.datasets.boxes.values import (
    Box,
    BoxEntry,
    BoxFault,
    BoxListing,
    box_of,
    files_in,
    folder_in,
    number,
    part_folders,
    part_of,
    text_of,
)
from advisor.datasets.dataset import Rejected
from advisor.datasets.layouts.folders import images_in
from advisor.store.yamlfile import read_yaml

NAMES = ("data.yaml", "data.yml", "dataset.yaml", "classes.txt", "obj.names", "_darknet.labels")
YAML = frozenset({".yaml", ".yml"})
HINT = "write data.yaml with 'names: [cat, dog]', or classes.txt with one name a line, beside images/ and labels/"


def is_yolo(path: Path) -> bool:
    """Return whether a folder has ``labels``, itself or in the folders of its parts, or names of classes."""
    inside = [folder for folder, _ in part_folders(path)]
    return any(folder_in(folder, "labels") != folder for folder in inside) or _names_file(path) is not None


def list_yolo(path: Path) -> BoxListing:
    """List the boxes of a folder, or of the folder of a file with class names. Rows that are no box are left out."""
    root = path if path.is_dir() else path.parent
    file = _names_file(root) if path.is_dir() else path
    if file is None:
        raise UsageError(f"--data: '{root}' has YOLO labels, but no names of their classes", HINT)
    names = _names(file)
    entries: list[BoxEntry] = []
    rejected: list[Rejected] = []
    faults: list[BoxFault] = []
    labels_of = {image: _labels_of(image, root) for image in images_in(root)}
    for image, labels in labels_of.items():
        try:
            boxes = _boxes(image, labels, names, faults) if labels.exists() else ()
        except UsageError as error:
            rejected.append(Rejected(image, error.message))
        else:
            entries.append(BoxEntry(image, boxes, labels, _part(image, root)))
    rejected += _without_image(set(labels_of.values()))
    return BoxListing(root, entries, tuple(names.values()), rejected, faults, relative=True)


def _boxes(image: Path, labels: Path, names: Mapping[str, str], faults: list[BoxFault]) -> tuple[Box, ...]:
    found = []
    for line, text in enumerate(text_of(labels).splitlines(), start=1):
        if text.strip():
            row = _row(text.split(), line, names)
            if isinstance(row, Box):
                found.append(row)
            else:
                faults.append(BoxFault(image, f"line {line} of '{labels.name}'", row))
    return tuple(found)


def _row(words: Sequence[str], line: int, names: Mapping[str, str]) -> Box | str:
    """Return the box of a row, or why it is none; of a polygon, the box around it."""
    values = [number(word) for word in words[1:]]
    if words[0] not in names:
        return f"class number {words[0][:20]}, but the names are for 0 to {len(names) - 1}"
    if len(values) == 4:
        across, down, width, height = values
        edges = across - width / 2, down - height / 2, across + width / 2, down + height / 2
    elif len(values) >= 6 and len(values) % 2 == 0:
        edges = min(values[::2]), min(values[1::2]), max(values[::2]), max(values[1::2])
    else:
        return f"{len(words)} values, not a class number and centre x, centre y, width, height"
    return box_of(names[words[0]], edges, line)


def _labels_of(image: Path, root: Path) -> Path:
    """Return the text file of an image: in ``labels`` for the last ``images`` of its path, else beside it."""
    steps = list(image.relative_to(root).with_suffix(".txt").parts)
    places = [place for place, step in enumerate(steps[:-1]) if step.casefold() == "images"]
    if places:
        steps[places[-1]] = "labels"
    return root.joinpath(*steps)


def _without_image(used: set[Path]) -> list[Rejected]:
    folders = sorted({file.parent for file in used if "labels" in file.parts and file.parent.is_dir()})
    files = [file for folder in folders for file in files_in(folder, ".txt")]
    return [Rejected(file, "its image is missing") for file in files if file not in used and file.name not in NAMES]


def _part(image: Path, root: Path) -> str:
    return next(filter(None, map(part_of, image.relative_to(root).parts[:-1])), "")


def _names_file(root: Path) -> Path | None:
    """Return the file with the class names; another YAML file in the folder counts if there are labels."""
    folders = [root, *(folder for folder, _ in part_folders(root))]
    labels = [inner for folder in folders if (inner := folder_in(folder, "labels")) != folder]
    known = [folder / name for folder in (*folders, *labels) for name in NAMES]
    other = [file for suffix in sorted(YAML) for file in files_in(root, suffix)] if labels else []
    return next((file for file in (*known, *other) if file.is_file()), None)


def _names(file: Path) -> dict[str, str]:
    """Return the name of each class number."""
    if file.suffix.lower() not in YAML:
        lines = text_of(file).strip().splitlines()
        return {str(place): line.strip() for place, line in enumerate(lines)}
    values = read_yaml(file, number_keys=True).values
    names = values.get("names") if isinstance(values, dict) else None
    rows = dict(enumerate(names)) if isinstance(names, list) else names
    if not isinstance(rows, dict) or not rows:
        raise UsageError(f"--data: '{file}' has no list 'names' of the classes", HINT)
    return {str(place): str(name) for place, name in rows.items()}
