"""List the boxes of Pascal VOC: an XML file for each image.

``list_boxes`` calls :func:`list_voc`. The files are in ``Annotations/`` with the images in
``JPEGImages/`` and the split in ``ImageSets/Main/``, or beside the images, in the folder itself or
in one folder for each part. Pixels count from 1 there; edges are kept as written, as one pixel
more or less does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from xml.parsers import expat

from advisor.core import ContentError, UsageError
from advisor.datasets._boxes.entries import BoxEntry, BoxListing, make_box
from advisor.datasets._boxes.marks import read_stated_size
from advisor.datasets._boxes.set_folders import (
    folder_in,
    list_files_with_suffix,
    list_part_folders,
    read_short_text,
)
from advisor.datasets._boxes.table_forms import EDGES
from advisor.datasets._dataset import Rejected
from advisor.datasets._image_names import SUFFIXES
from advisor.datasets._image_places import is_there
from advisor.datasets._parts import PART_OF_WORD
from advisor.datasets._read_errors import explain_error
from advisor.datasets._scan import images_in
from advisor.store import read_bytes

MAX_BYTES = 2**24
WIDE_ENCODINGS = frozenset(
    {"gb2312", "gbk", "gb18030", "big5", "shift_jis", "shift-jis", "euc-jp", "euc-kr"}
)
_ENCODING = re.compile(rb"""<\?xml[^>]{0,100}?encoding=["']([\w.-]{1,40})["']""")
MAX_DEPTH = 32
MAX_ELEMENTS = 250_000  # Elements of a file: 10,000 boxes of Pascal VOC have 120,000
MAX_TEXT = 2**14  # Characters of an element


@dataclass
class Element:
    """An element with its line, its own text and the elements directly in it."""

    name: str
    line: int
    text: str = ""
    inner: list[Element] = field(default_factory=list)
    attributes: Mapping[str, str] = field(default_factory=dict)

    def find_all(self, name: str) -> list[Element]:
        """Return the elements of this name directly in it."""
        return [element for element in self.inner if element.name == name]

    def find_first(self, name: str) -> Element:
        """Return the first element of this name directly in it; an empty one if there is none."""
        return next(iter(self.find_all(name)), Element(name, self.line))


def read_xml(path: Path) -> Element:
    """Return the root element of a file; ValueError with the line if it is beyond a limit.

    The parser is expat, which opens no other file. A document type is refused:
    only it can define entities.
    """
    data = _convert_to_utf8(read_bytes(path, MAX_BYTES))
    reading = _Reading()
    try:
        reading.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ContentError(
            f"line {error.lineno}: {expat.errors.messages.get(error.code, error)}"
        ) from None
    except LookupError:  # an encoding that Python does not know
        raise ContentError("line 1: its encoding is not known") from None
    return reading.document.inner[0]


def _convert_to_utf8(data: bytes) -> bytes:
    """Return XML in an encoding of several bytes, such as GB2312, as UTF-8.

    The parser reads only encodings of one byte and UTF-8. Raises ValueError if the text is not in
    the encoding that it states.
    """
    stated = _ENCODING.match(data)
    name = stated[1].decode().lower() if stated else ""
    if name not in WIDE_ENCODINGS:
        return data
    start, end = stated.span(1) if stated else (0, 0)
    return (data[:start] + b"utf-8" + data[end:]).decode(name).encode()


class _Reading:
    """Builds elements from the parser's events, within the limits."""

    def __init__(self) -> None:
        self.document = Element("", 0)
        self._open = [self.document]
        self._count = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        # Entities that name each other can fill the memory,
        # and only a document type can define them.
        self.parser.StartDoctypeDeclHandler = lambda *_: self._refuse("a document type (DOCTYPE)")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = lambda _name: self._open.pop()
        self.parser.CharacterDataHandler = self._add

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._count += 1
        if len(self._open) > MAX_DEPTH:
            self._refuse(f"elements nested more than {MAX_DEPTH} deep")
        if self._count > MAX_ELEMENTS:
            self._refuse(f"more than {MAX_ELEMENTS:,} elements")
        element = Element(name, self.parser.CurrentLineNumber, attributes=attributes)
        self._open[-1].inner.append(element)
        self._open.append(element)

    def _add(self, text: str) -> None:
        element = self._open[-1]
        element.text += text.strip()
        if len(element.text) > MAX_TEXT:
            self._refuse(f"a text of more than {MAX_TEXT:,} characters")

    def _refuse(self, what: str) -> None:
        raise ContentError(f"line {self.parser.CurrentLineNumber}: {what}")


def is_voc(path: Path) -> bool:
    """Return whether a folder has XML files where Pascal VOC has them."""
    return _has_xml(_list_folders_of_parts(path))


def _has_xml(places: Sequence[tuple[Path, str]]) -> bool:
    """Return whether one of some folders of parts has XML files."""
    folders = [_find_xml_folder(folder) for folder, _ in places]
    return any(list_files_with_suffix(folder, ".xml") for folder in folders)


def _list_folders_of_parts(path: Path) -> list[tuple[Path, str]]:
    """Return the folders of the parts of a set, in it or in its folder ``images``."""
    places = list_part_folders(path)
    images = folder_in(path, "images")
    if images == path or _has_xml(places):
        return places
    return list_part_folders(images)


def _find_xml_folder(folder: Path) -> Path:
    """Return the folder of the annotations of a set or a part.

    TensorFlow's examples have ``annotations/xmls``.
    """
    place = folder_in(folder, "annotations", "xmls", "xml", "labels")
    return folder_in(place, "xmls", "xml")


def list_voc(path: Path) -> BoxListing:
    """List the boxes of a folder; a damaged annotation, or one without its image, is rejected."""
    entries = list[BoxEntry]()
    rejected = list[Rejected]()
    for folder, part in _list_folders_of_parts(path):
        listed = _read_image_sets(folder)
        images = folder_in(folder, "jpegimages", "images")
        files = list_files_with_suffix(_find_xml_folder(folder), ".xml")
        for file in files:
            annotation = _read_annotation(file, images, part or listed.get(file.stem, ""))
            if isinstance(annotation, BoxEntry):
                entries.append(annotation)
            else:
                rejected.append(annotation)
        annotated = {file.stem for file in files} | {entry.path.stem for entry in entries}
        unmarked = []
        for image in images_in(images):
            if image.stem not in annotated:
                unmarked.append(image)
        rejected += [Rejected(image, "it has no annotation") for image in unmarked]
        # An image is reported once, though the lists name it too.
        reported = annotated | {image.stem for image in unmarked}
        for name in listed:
            if name not in reported:
                reason = "it is listed in ImageSets, but has no annotation"
                rejected.append(Rejected(images / name, reason))
    return BoxListing(path, entries, (), rejected)


def _read_annotation(file: Path, images: Path, part: str) -> BoxEntry | Rejected:
    """Read an annotation; its image has the name of the file, or else the one that it says."""
    try:
        root = read_xml(file)
    except UsageError as error:
        return Rejected(file, error.message)
    except ValueError as error:
        return Rejected(file, f"not an annotation: {explain_error(error)}")
    stated_path = root.find_first("filename").text
    stated_name = Path(stated_path.replace("\\", "/")).name
    suffixes = dict.fromkeys((Path(stated_name).suffix, *sorted(SUFFIXES), ".JPG", ".PNG"))
    stems = dict.fromkeys((file.stem, Path(stated_name).stem))
    # The name of the file comes first:
    # the one inside is often that of the image before it was renamed.
    names = []
    for stem, suffix in product(filter(None, stems), filter(None, suffixes)):
        names.append(stem + suffix)
    names.append(stated_name)
    paths = [images / name for name in names if name]
    image = next(filter(is_there, paths), None)
    if image is None:
        return Rejected(file, f"its image '{stated_path or file.stem}' is missing")
    boxes = []
    for marked in root.find_all("object"):
        box = marked.find_first("bndbox")
        edges = [box.find_first(edge).text for edge in EDGES]
        boxes.append(make_box(marked.find_first("name").text, edges, marked.line))
    size = root.find_first("size")
    stated = read_stated_size(size.find_first("width").text, size.find_first("height").text)
    return BoxEntry(image, tuple(boxes), file, part, "", stated)


def _read_image_sets(folder: Path) -> dict[str, str]:
    """Return the part of each image that ``ImageSets/Main`` lists.

    ``trainval`` counts as the training part if ``train`` is missing.
    """
    parts_by_name: dict[str, tuple[str, str]] = {}
    sets = folder_in(folder, "imagesets")
    lists = []
    if sets != folder:
        lists = list_files_with_suffix(folder_in(sets, "main"), ".txt")
    files = {file.stem.casefold(): file for file in lists}
    parts = {name: PART_OF_WORD[name] for name in files if name in PART_OF_WORD}
    # It holds the images of both parts, which would leak where the training part is listed too.
    if "train" not in files and "trainval" in files:
        parts["trainval"] = "train"
    for stem, part in parts.items():
        file = files[stem]
        for number, line in enumerate(read_short_text(file).splitlines(), start=1):
            if not line.strip():
                continue
            name = line.split()[0]
            place = f"line {number} of '{file.name}'"
            part_before, place_before = parts_by_name.setdefault(name, (part, place))
            if part_before != part:
                raise UsageError(
                    f"--data: '{name}' is in two parts of the split: {place_before} and {place} in"
                    f" '{file.parent}'",
                    "remove it from one of them",
                )
    return {name: part for name, (part, _) in parts_by_name.items()}
