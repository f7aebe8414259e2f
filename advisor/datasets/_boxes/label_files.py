"""Find the text file with the labels of each image, in whatever folder and case it is.

``yolo.py`` asks before it reads. YOLO's own place is ``labels/train/1.txt`` for
``images/train/1.jpg``, or beside the image. People have the files in ``annotations/``,
``yolo_labels/`` or ``txt/`` too, as ``1.TXT`` or ``1.jpg.txt``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from advisor.core import UsageError
from advisor.datasets._boxes.marks import read_number
from advisor.datasets._boxes.set_folders import (
    folder_in,
    list_files_with_suffix,
    list_part_folders,
)
from advisor.datasets._category_files import CLASS_LISTS
from advisor.datasets._image_names import is_image_name
from advisor.datasets._parts import NEUTRAL_WORDS, split_words
from advisor.datasets._scan import images_in, list_folders
from advisor.datasets._system_folders import is_system_name
from advisor.store import open_file, walk_folder

TEXT = ".txt"
_LABEL_WORDS = """
label labels labeltxt annotation annotations annot annots anno annos ann txt txts text yolo yolov
darknet bbox bboxes boxes groundtruth gt kitti
"""
LABEL_WORDS = frozenset(_LABEL_WORDS.split())
"""Words of a folder with text files of labels."""

FEWEST_VALUES = 4  # Of a row that marks a place in an image
MOST_FOLDERS = 50  # In which those of labels are looked for
MOST_FILES = 50  # Of a folder, of which one must be a file of labels
PROBED_BYTES = 2**12  # Of a file that may have labels

_DIGITS = re.compile(r"\d+")
_SEPARATORS = re.compile(r"[\s,;]+")

Key = tuple[str, ...]


def find_label_folders(root: Path) -> list[Path]:
    """Return the folders below ``root`` that have text files of labels, and are named so.

    A folder ``labels`` is one without a look at its files, unless it has files of another format.
    """
    chosen = []
    stems: set[str] = set()
    for folder in _list_label_folders(root):
        if list_files_with_suffix(folder, ".xml") or list_files_with_suffix(folder, ".json"):
            continue
        if folder.name.casefold() == "labels":
            chosen.append(folder)
            continue
        files = list_label_files(folder)
        if not files:
            continue
        stems = stems or {image.stem.casefold() for image in images_in(root)}
        # Other folders may hold texts of any kind:
        # one must belong to an image and mark a place in it.
        for file in files[:MOST_FILES]:
            if strip_extensions(file.name) in stems and has_values(file):
                chosen.append(folder)
                break
    return chosen


def _list_label_folders(root: Path) -> Sequence[Path]:
    """Return the folders that are named as those of labels, and the folders in them."""
    folders = []
    for place, _ in list_part_folders(root):
        inner = list_folders(place)
        # A folder with so many others has class folders, and none of labels.
        if len(inner) > MOST_FOLDERS:
            continue
        for folder in inner:
            if is_label_name(folder.name):
                folders += [folder, *list_folders(folder)[:MOST_FOLDERS]]
    named = folder_in(root, "labels")
    if named != root:
        folders.append(named)
    return list(dict.fromkeys(folders))


def is_label_name(name: str) -> bool:
    """Return whether a folder is named as one of labels, such as ``yolo_labels``, ``label_2``."""
    words = set(split_words(name))
    return bool(words & LABEL_WORDS) and words <= LABEL_WORDS | NEUTRAL_WORDS


def list_label_files(folder: Path) -> list[Path]:
    """Return the text files directly in a folder, but lists of the names of classes."""
    files = []
    for file in list_files_with_suffix(folder, TEXT):
        if file.name.casefold() not in CLASS_LISTS:
            files.append(file)
    return files


def strip_extensions(name: str) -> str:
    """Return the name of a text file without its extension and that of its image, in small
    letters.
    """
    stem = PurePath(name).stem
    return (PurePath(stem).stem if is_image_name(stem) else stem).casefold()


def has_values(file: Path) -> bool:
    """Return whether the first row of a text file marks a place; True if it is empty."""
    try:
        with open_file(file, 2**30) as content:
            text = content.read(PROBED_BYTES).decode("utf-8", "replace")
    except UsageError:
        return False
    written = [line for line in text.splitlines() if line.strip()]
    # DOTA says first where its image is from.
    lines = []
    for line in written:
        if not line.startswith(("imagesource:", "gsd:")):
            lines.append(line)
    # An empty file is YOLO's way to say that an image has no object.
    if not lines:
        return True
    words = _SEPARATORS.split(lines[0].strip())
    # NaN is not equal to itself, so this counts the numbers.
    return sum(read_number(word) == read_number(word) for word in words) >= FEWEST_VALUES


def find_label_files(root: Path, images: Sequence[Path]) -> dict[Path, Path]:
    """Return the text file of each image; where none is found, the place where YOLO has it.

    A file at YOLO's own place counts, or beside it in another case. If no image has one there, a
    file belongs to the image with the same name and the same folders beside those of images and
    labels; else to the only image of its name. Raises UsageError if two folders have a file for
    the same image.
    """
    labels_of = {image: locate_yolo_file(image, root) for image in images}
    missing = []
    for image, file in labels_of.items():
        if not file.exists():
            missing.append(image)
    if not missing:
        return labels_of
    files = list(_list_text_files(root))
    if len(missing) < len(images):  # An image without a file is one without objects
        places = {file.parent for file in labels_of.values()}
        files = [file for file in files if file.parent in places]
    used = set(labels_of.values())
    by_key = _map_by_key(root, [file for file in files if file not in used])
    keyed = {image: by_key.get(_make_key(root, image)) for image in missing}
    labels_of.update({image: file for image, file in keyed.items() if file is not None})
    # Names alone are the last resort, because two folders may each have a `1.txt`.
    if len(missing) == len(images) and not any(keyed.values()):
        labels_of.update(_match_by_stem(missing, list(by_key.values())))
    return labels_of


def locate_yolo_file(image: Path, root: Path) -> Path:
    """Return the place of an image's text file: in ``labels`` for ``images``, else beside it.

    The last folder ``images`` of its path counts.
    """
    steps = list(image.relative_to(root).with_suffix(TEXT).parts)
    # The last folder `images` counts, as in Ultralytics' own code.
    folders = [step.casefold() for step in steps[:-1]]
    places = []
    for place, folder in enumerate(folders):
        if folder == "images":
            places.append(place)
    if places:
        steps[places[-1]] = "labels"
    file = root.joinpath(*steps)
    if file.exists() or not places:
        return file
    above = root.joinpath(*steps[: places[-1]])
    return folder_in(above, "labels").joinpath(*steps[places[-1] + 1 :])


def _list_text_files(root: Path) -> Iterator[Path]:
    for place, inner, names in walk_folder(root):
        inner[:] = sorted(name for name in inner if not is_system_name(name))
        for name in sorted(names):
            if PurePath(name).suffix.casefold() == TEXT and not is_system_name(name):
                yield place / name


def _map_by_key(root: Path, files: Sequence[Path]) -> dict[Key, Path]:
    by_key: dict[Key, Path] = {}
    for file in files:
        key = _make_key(root, file)
        first_file = by_key.setdefault(key, file)
        # Two versions of the labels, such as of two tools:
        # which of them counts is the user's to say.
        if first_file.parent == file.parent:
            continue
        if has_values(file) and has_values(first_file):
            shown = f"'{first_file.relative_to(root)}' and '{file.relative_to(root)}'"
            raise UsageError(
                f"--data: two text files are for the same image: {shown}",
                f"move the one of '{first_file.parent.name}' and '{file.parent.name}' away that"
                " does not count",
            )
    return by_key


def _make_key(root: Path, file: Path) -> Key:
    """Return the name of a file with its folders, but for those of images and of labels.

    The number of such a folder counts: ``label_2`` belongs to ``image_2``.
    """
    *folders, name = file.relative_to(root).parts
    steps = []
    for folder in folders:
        if set(split_words(folder)) <= LABEL_WORDS | NEUTRAL_WORDS:
            steps += _DIGITS.findall(folder)
        else:
            steps.append(folder.casefold())
    return (*steps, strip_extensions(name))


def _match_by_stem(images: Sequence[Path], files: Sequence[Path]) -> Mapping[Path, Path]:
    """Return the only file of the name of an image, if the name has one image."""
    counts = Counter(strip_extensions(image.name) for image in images)
    places: dict[str, Path | None] = {}
    for file in files:
        stem = strip_extensions(file.name)
        places[stem] = None if stem in places else file
    pairs = {}
    for image in images:
        stem = strip_extensions(image.name)
        label_file = places.get(stem)
        if label_file is not None and counts[stem] == 1:
            pairs[image] = label_file
    return pairs
