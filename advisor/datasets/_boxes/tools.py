"""Read boxes from the files of annotation tools: LabelMe, CreateML, VoTT, VIA, Label Studio, CVAT and others.

A file states the boxes of one image (LabelMe, Supervisely) or of many. Its beginning tells the form, so that large
files of other forms are not parsed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from advisor.core import UsageError
from advisor.datasets._boxes.tool_readers import (
    LINE,
    MarkedImage,
    ToolForm,
    read_bdd,
    read_create_ml,
    read_cvat,
    read_edge_impulse,
    read_label_me,
    read_label_studio,
    read_lines,
    read_supervisely,
    read_via,
    read_vott,
)
from advisor.datasets._boxes.values import (
    Box,
    BoxEntry,
    BoxListing,
    box_of,
    files_in,
    folder_in,
    part_folders,
    part_of,
)
from advisor.datasets._boxes.voc import read_xml
from advisor.datasets._dataset import Rejected
from advisor.datasets._layouts import folders_in, images_in
from advisor.datasets._manifests import find_by_name, is_there
from advisor.store import MAX_BYTES, open_file, parse_json, read_text

HINT = "save the annotations again, or export them as COCO"
SUFFIXES = (".json", ".labels", ".xml", ".txt")
PLACES = ("annotations", "labels", "json", "jsons", "ann", "images", "img")  # Folders with files of tools, or images
HEAD_BYTES = 2**16
MOST_FOLDERS = 20  # Folders in which those of Supervisely are looked for

CVAT = ToolForm(("<annotations", "<image "), read_cvat)

LINES = ToolForm((), read_lines)


def form_of(file: Path) -> ToolForm | None:
    """Return the form of a file by its beginning; None if it is another kind of file."""
    if file.suffix.lower() not in SUFFIXES or not file.is_file():
        return None
    try:
        with open_file(file, MAX_BYTES) as content:
            head = content.read(HEAD_BYTES).decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    except UsageError:
        return None
    if file.suffix.lower() == ".xml":
        return CVAT if all(word in head for word in CVAT.words) else None
    if file.suffix.lower() == ".txt":
        return LINES if LINE.match(head) else None
    for form in _list_json_forms():
        if all(f'"{word}"' in head for word in form.words):
            return form
    return None


def tool_files(path: Path) -> list[tuple[Path, str]]:
    """Return the files of tools in a folder with their parts. The first file of a folder tells the form of all."""
    places: list[tuple[Path, str]] = []
    inner = folders_in(path)
    if len(inner) <= MOST_FOLDERS:  # Supervisely has a folder for each data set, with ``ann`` and ``img``
        places = [(folder_in(folder, "ann"), "") for folder in inner if folder_in(folder, "ann") != folder]
    for folder, part in [(path, ""), *part_folders(path)]:
        places += [(folder, part), *((folder_in(folder, name), part) for name in PLACES)]
    files: dict[Path, str] = {}
    for folder, part in dict.fromkeys(places):
        for suffix in SUFFIXES:
            names = files_in(folder, suffix)
            if suffix == ".txt":
                names = [name for name in names if "annotation" in name.stem.casefold()]
            if names and form_of(names[0]) is not None:
                for file in names:
                    files[file] = files.get(file) or part or part_of(file.stem)
    return list(files.items())


def list_tools(path: Path) -> BoxListing:
    """List the boxes of a file of a tool, or of all in a folder; a file of another form is rejected.

    Images are beside their file, in a folder ``images``, or anywhere below ``path`` by their names.
    """
    root = path if path.is_dir() else path.parent
    files = tool_files(path) if path.is_dir() else [(path, part_of(path.stem))]
    rejected: list[Rejected] = []
    entries: list[BoxEntry] = []
    bases = {folder: _bases(folder, root) for folder in {file.parent for file, _ in files}}
    for file, part in files:
        try:
            marked = _marked_images(file)
        except (UsageError, ValueError) as error:
            rejected.append(Rejected(file, error.message if isinstance(error, UsageError) else str(error)))
            continue
        for image in marked:
            places = [base / image.name.replace("\\", "/") for base in bases[file.parent]]
            place = next(filter(is_there, places), places[0])
            boxes = [box_of(label, edges, line) for line, (label, edges) in enumerate(image.boxes, start=1)]
            entries.append(BoxEntry(place, tuple(map(_in_order, boxes)), file, part, "", image.size))
    if not entries:
        why = f": {rejected[0].reason}" if rejected else ""
        raise UsageError(f"--data: '{path}' names no image{why}", HINT)
    lost = [entry.path for entry in entries if not is_there(entry.path)]
    moved = dict(zip(lost, find_by_name(entries[0].source, lost, root)[0], strict=True))
    entries = [replace(entry, path=moved.get(entry.path, entry.path)) for entry in entries]
    known = {entry.path for entry in entries}
    left = [image for image in (images_in(root) if path.is_dir() else ()) if image not in known]
    rejected += [Rejected(image, "it has no annotation") for image in left]
    return BoxListing(root, entries, (), rejected, unit="box")


def _bases(folder: Path, root: Path) -> list[Path]:
    """Return the folders that the names of images may count from, for files in a folder."""
    outer = [folder, root, *([folder.parent] if folder != root else [])]
    return list(dict.fromkeys([*outer, *(folder_in(place, "images", "img") for place in outer)]))


def _in_order(box: Box) -> Box:
    """Return a box whose two corners may be any two opposite ones."""
    left, right = sorted((box.left, box.right))
    top, bottom = sorted((box.top, box.bottom))
    return box.at(left, top, right, bottom)


def _marked_images(file: Path) -> list[MarkedImage]:
    """Return the images of a file; ValueError or UsageError: it cannot be read."""
    form = form_of(file)
    if form is None:
        raise ValueError("it is no file of a known annotation tool")
    if form is CVAT:
        return list(read_cvat(read_xml(file), file))
    text = read_text(file, MAX_BYTES)
    return list(form.read(text if form is LINES else parse_json(text), file))


@cache
def _list_json_forms() -> tuple[ToolForm, ...]:
    """Return the forms of JSON files; the first that fits counts."""
    return (
        ToolForm(("shapes", "imagePath"), read_label_me),
        ToolForm(("shapes", "shape_type"), read_label_me),
        ToolForm(("imageData", "imageHeight"), read_label_me),
        ToolForm(("coordinates", "annotations"), read_create_ml),
        ToolForm(("assets", "regions"), read_vott),
        ToolForm(("shape_attributes", "filename"), read_via),
        ToolForm(("rectanglelabels",), read_label_studio),
        ToolForm(("polygonlabels", "original_width"), read_label_studio),
        ToolForm(("boundingBoxes",), read_edge_impulse),
        ToolForm(("classTitle", "objects"), read_supervisely),
        ToolForm(("box2d", "labels"), read_bdd),
    )
