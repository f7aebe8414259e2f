"""Find the files of annotation tools and labelling services in a set, and list their boxes.

``list_boxes`` calls :func:`list_tools`. A file states the boxes of one image (LabelMe,
Supervisely) or of many. Its beginning tells the form, so that large files of other forms are not
parsed; ``tool_formats.py``, ``label_studio.py`` and ``services.py`` read the forms.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from advisor.core import UsageError
from advisor.datasets._boxes.entries import Box, BoxEntry, BoxListing, make_box
from advisor.datasets._boxes.marks import (
    MarkedImage,
    ToolForm,
)
from advisor.datasets._boxes.services import list_line_forms, list_service_forms
from advisor.datasets._boxes.set_folders import (
    folder_in,
    labelled_part_of,
    list_files_with_suffix,
    list_part_folders,
)
from advisor.datasets._boxes.tool_formats import (
    IMAGE_AND_BOXES,
    get_image_list_form,
    list_tool_forms,
    list_xml_or_table_forms,
)
from advisor.datasets._boxes.voc import read_xml
from advisor.datasets._dataset import Rejected
from advisor.datasets._image_places import find_by_name, is_there
from advisor.datasets._scan import images_in, list_folders
from advisor.store import MAX_BYTES, open_file, parse_json, read_text

HINT = "save the annotations again, or export them as COCO"
LINES_OF_JSON = (".jsonl", ".ndjson", ".manifest")
SUFFIXES = (".json", ".labels", ".xml", ".txt", ".csv", *LINES_OF_JSON)
# Folders with files of tools, or images.
PLACES = ("annotations", "labels", "json", "jsons", "ann", "images", "img")
HEAD_BYTES = 2**16
MOST_FOLDERS = 20  # Folders in which those of Supervisely are looked for
# The image itself, which LabelMe writes beside its boxes.
_IMAGE_DATA = re.compile(r'"imageData"\s*:\s*"[^"]*"')


def find_tool_form(file: Path) -> ToolForm | None:
    """Return the form of a file by its beginning; None if it is another kind of file."""
    if file.suffix.lower() not in SUFFIXES or not file.is_file():
        return None
    try:
        with open_file(file, MAX_BYTES) as content:
            beginning = content.read(HEAD_BYTES).decode("utf-8", "replace")
            size_bytes = content.seek(0, os.SEEK_END)
            # Keys may stand behind an image in the middle of the file.
            content.seek(max(HEAD_BYTES, size_bytes - HEAD_BYTES))
            tail = content.read(HEAD_BYTES).decode("utf-8", "replace")
    except UsageError:
        return None
    head = beginning.removeprefix("\ufeff").lstrip()
    suffix = file.suffix.lower()
    if suffix == ".txt":
        return get_image_list_form() if IMAGE_AND_BOXES.match(head) else None
    if suffix in (".xml", ".csv"):
        return _find_first_form(list_xml_or_table_forms(suffix), head, quote="")
    forms = [*list_tool_forms(), *list_service_forms()]
    if suffix in LINES_OF_JSON:
        forms = list(list_line_forms())
    # With their quotes: the keys of JSON are meant, and no words of its texts.
    return _find_first_form(forms, head + tail, quote='"')


def _find_first_form(forms: Sequence[ToolForm], text: str, quote: str) -> ToolForm | None:
    """Return the first form whose words all stand in a text, each between quotes; else None."""
    for form in forms:
        if all(f"{quote}{word}{quote}" in text for word in form.words):
            return form
    return None


def find_tool_files(path: Path) -> list[tuple[Path, str]]:
    """Return the files of tools in a folder with their parts.

    The first file of a folder tells the form of all.
    """
    places: list[tuple[Path, str]] = []
    inner = list_folders(path)
    # Supervisely has a folder for each data set, with ``ann`` and ``img``.
    if len(inner) <= MOST_FOLDERS:
        places = []
        for folder in inner:
            labels = folder_in(folder, "ann")
            if labels != folder:
                places.append((labels, ""))
    for folder, part in [(path, ""), *list_part_folders(path)]:
        places += [(folder, part), *((folder_in(folder, name), part) for name in PLACES)]
    files: dict[Path, str] = {}
    for folder, part in dict.fromkeys(places):
        for suffix in SUFFIXES:
            names = list_files_with_suffix(folder, suffix)
            if suffix == ".txt":
                names = [name for name in names if "annotation" in name.stem.casefold()]
            # One file is opened and not thousands: a tool writes all files of a folder alike.
            if names and find_tool_form(names[0]) is not None:
                for file in names:
                    files[file] = files.get(file) or part or labelled_part_of(file.stem)
    return list(files.items())


def list_tools(path: Path) -> BoxListing:
    """List the boxes of a file of a tool, or of all in a folder.

    A file of another form is rejected. Images are beside their file, in a folder ``images``, or
    anywhere below ``path`` by their names.
    """
    root = path if path.is_dir() else path.parent
    files = find_tool_files(path) if path.is_dir() else [(path, labelled_part_of(path.stem))]
    rejected: list[Rejected] = []
    entries: list[BoxEntry] = []
    folders = {file.parent for file, _ in files}
    bases = {folder: _list_bases(folder, root) for folder in folders}
    for file, part in files:
        try:
            marked = _read_marked_images(file)
        except (UsageError, ValueError) as error:
            # Without the hint: this is one line of a list.
            reason = error.message if isinstance(error, UsageError) else str(error)
            rejected.append(Rejected(file, reason))
            continue
        for image in marked:
            # Written on Windows.
            name = image.name.replace("\\", "/")
            places = []
            for base in bases[file.parent]:
                places.append(Path(os.path.normpath(base / name)))
            # Tools state paths of the machine on which they ran, so several places are tried.
            place = next(filter(is_there, places), places[0])
            boxes = []
            for line, (label, edges) in enumerate(image.boxes, start=1):
                boxes.append(make_box(label, edges, line))
            stated = labelled_part_of(image.part) or part
            entries.append(
                BoxEntry(place, tuple(map(_order_corners, boxes)), file, stated, "", image.size)
            )
    if not entries:
        why = f": {rejected[0].reason}" if rejected else ""
        raise UsageError(f"--data: '{path}' names no image{why}", HINT)
    lost = []
    for entry in entries:
        if not is_there(entry.path):
            lost.append(entry.path)
    # Searching below the folder is expensive, so only for what was found nowhere else.
    moved = dict(zip(lost, find_by_name(entries[0].source, lost, root)[0], strict=True))
    entries = [replace(entry, path=moved.get(entry.path, entry.path)) for entry in entries]
    known = {entry.path for entry in entries}
    for file in images_in(root) if path.is_dir() else ():
        if file not in known:
            rejected.append(Rejected(file, "it has no annotation"))
    return BoxListing(root, entries, (), rejected, unit="box")


def _list_bases(folder: Path, root: Path) -> list[Path]:
    """Return the folders that the names of images may count from, for files in a folder."""
    outer = [folder, root]
    if folder != root:
        outer.append(folder.parent)
    inner = [folder_in(place, "images", "img") for place in outer]
    return list(dict.fromkeys([*outer, *inner]))


def _order_corners(box: Box) -> Box:
    """Return a box whose two corners may be any two opposite ones."""
    left, right = sorted((box.left, box.right))
    top, bottom = sorted((box.top, box.bottom))
    return box.with_edges(left, top, right, bottom)


def _read_marked_images(file: Path) -> list[MarkedImage]:
    """Return the images of a file; ValueError or UsageError: it cannot be read."""
    form = find_tool_form(file)
    if form is None:
        raise ValueError("it is no file of a known annotation tool")
    if file.suffix.lower() == ".xml":
        return list(form.read(read_xml(file), file))
    text = read_text(file, MAX_BYTES)
    if form is get_image_list_form():
        return list(form.read(text, file))
    if file.suffix.lower() == ".csv":
        rows = list(csv.DictReader(io.StringIO(text)))
        return list(form.read(rows, file))
    if file.suffix.lower() in LINES_OF_JSON:
        lines = [parse_json(line) for line in text.split("\n") if line.strip()]
        return list(form.read(lines, file))
    content = parse_json(_IMAGE_DATA.sub('"imageData": null', text))
    return list(form.read(content, file))
