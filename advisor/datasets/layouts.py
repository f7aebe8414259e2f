"""Read the layouts of labelled images: class folders, split folders, and manifests (tables, also of boxes)."""

from __future__ import annotations

import csv
import io
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError, nearest, require_extra
from advisor.core.names import without_password
from advisor.core.units import plain as plain_text
from advisor.datasets.dataset import Entry, Listing, Rejected
from advisor.datasets.folders import DEEPEST, HINT, UPPER, Names, is_system_name, read_folders, some_of
from advisor.datasets.images import is_candidate
from advisor.datasets.parts import PARTS, UNLABELLED, part_of
from advisor.datasets.sources import SOURCES, archive_of, kind_of
from advisor.datasets.sources.tables import NEEDS_PYARROW, holds_images
from advisor.store.yamlfile import encoding_of, open_file

if TYPE_CHECKING:
    from fastparquet import ParquetFile

MAX_TABLE_BYTES = 2**30


def list_folder(path: Path, depth: str = "") -> Listing:
    """List a folder of class folders, or of parts of a split with class folders; images may be in deeper folders.

    ``depth`` is :data:`UPPER` or :data:`DEEPEST` if the user says which folders are the classes, else empty. Raises
    UsageError if there are no images, only one class, or it is not clear which folders are the classes.
    """
    scan = scan_folder(path)
    if not any(len(names) > 1 for names in scan.images):
        if archives := archives_in(path):
            return list_archives(path, archives)
        tables = [entry for entry in sorted(path.iterdir()) if entry.suffix.lower() in SUFFIXES]
        what = "has images but no class folders" if scan.images else "holds no images"
        raise UsageError(f"--data: '{path}' {what}", f"give its manifest: --data {tables[0]}" if tables else HINT)
    reading = read_folders(path, scan.images, scan.folders, depth)
    entries = [Entry(path.joinpath(*scan.images[image.index]), image.label, image.part) for image in reading.images]
    _refuse_undecodable(reading.classes)
    return Listing(path, entries, reading.classes, notes=(*reading.notes, *scan.notes))


@dataclass(frozen=True)
class FolderScan:
    """What is below a folder."""

    images: Sequence[Names]  # files that look like images, sorted
    folders: Sequence[Names]  # folders
    system_folders: Collection[str] = ()  # names of folders of an operating system that were left out

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence about the folders that were left out."""
        if not self.system_folders:
            return ()
        which = "folder is" if len(self.system_folders) == 1 else "folders are"
        return (f"The system {which} not read: {', '.join(map(repr, sorted(self.system_folders)))}.",)


def scan_folder(root: Path) -> FolderScan:
    """Return the files below a folder that look like images, and the folders, without hidden and system ones.

    Links are followed, but for those to a folder that they are in. Raises UsageError if a folder cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise UsageError(f"--data: '{error.filename}' cannot be read: {error.strerror}", "check its permissions")

    images: list[Names] = []
    folders: list[Names] = []
    system: set[str] = set()
    for place, inner, files in os.walk(root, onerror=refuse, followlinks=True):
        above = Path(place).relative_to(root).parts
        system |= {name for name in inner if is_system_name(name) and _holds_images(Path(place, name))}
        inner[:] = [name for name in inner if not is_system_name(name) and not _turns_back(Path(place, name))]
        folders += [(*above, name) for name in inner]
        images += [(*above, name) for name in files if not is_system_name(name) and is_candidate(Path(place, name))]
    return FolderScan(sorted(images), folders, system)


def _holds_images(folder: Path) -> bool:
    """Return whether a folder directly holds a file that looks like an image, or is a system folder by its name."""
    if not folder.name.startswith("."):
        return True
    try:
        return any(is_candidate(entry) for entry in folder.iterdir() if entry.is_file())
    except OSError:
        return False


def _refuse_undecodable(labels: Collection[str]) -> None:
    """Refuse the name of a class folder that is not valid UTF-8."""
    for label in labels:
        try:
            label.encode()
        except UnicodeEncodeError:
            message = f"--data: the class folder {os.fsencode(label)!r} has a name that is not valid UTF-8"
            raise UsageError(message, "rename it") from None


def folders_in(root: Path) -> list[Path]:
    """Return the folders directly inside ``root``, sorted, without hidden ones.

    Raises UsageError if the folder cannot be read, or a name in it is not valid UTF-8.
    """
    try:
        folders = sorted(entry for entry in root.iterdir() if entry.is_dir() and not is_system_name(entry.name))
    except OSError as error:
        raise UsageError(f"--data: '{root}' cannot be read: {error.strerror}", "check its permissions") from error
    for folder in folders:
        try:
            folder.name.encode()
        except UnicodeEncodeError:
            message = f"--data: the class folder {os.fsencode(folder.name)!r} has a name that is not valid UTF-8"
            raise UsageError(message, "rename it") from None
    return folders


def images_in(folder: Path) -> list[Path]:
    """Return the files anywhere below ``folder`` that look like images, sorted, without hidden ones.

    Links are followed, but for those to a folder that they are in.
    """
    return [folder.joinpath(*names) for names in scan_folder(folder).images]


def _turns_back(folder: Path) -> bool:
    """Return whether a folder is a link to one that it is in."""
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())


PARQUET = frozenset({".parquet", ".pq"})
RECORDS = frozenset({".tfrecord", ".array_record"})
CSV = frozenset({".csv", ".tsv"})
SUFFIXES = CSV | PARQUET
LONGEST_LABEL = 1000
SHOWN = 80  # Characters of a column's name in an error
_DELIMITERS = ",;\t"
_DELIMITER_LINE = re.compile(rf'"?sep=([{_DELIMITERS}])"?', re.IGNORECASE)
_WORD = re.compile(r"[-_.\s\d]+")  # What separates the words of a file's name
_STORE = re.compile(r"[a-z][a-z0-9+]+:/")  # Begin of an address; a path has one slash of its two
LISTED_EVERY = 10_000  # Images between two reports of a listing: a manifest has about as many rows in 0.2 s
Listed = Callable[[int], None]
Row = dict[str, str]  # The cells of a row by the names of the columns here


@dataclass(frozen=True)
class ManifestColumns:
    """The columns of a kind of table."""

    names: Mapping[str, tuple[str, ...]]  # the columns and their accepted names, in any case
    needed: tuple[str, ...]  # the columns that a table must have
    hint: str  # what a table should look like, for errors


SPLIT = {"split": ("split", "part", "subset"), "group": ("group",)}  # Columns that each kind of table may have

LABELLED = ManifestColumns(
    {"path": ("path", "file", "filename", "image"), "label": ("label", "class"), **SPLIT},
    ("path", "label"),
    "columns: path, label and, optionally, split (train, validation, test) and group; paths are relative to it",
)


def list_manifest(path: Path, listed: Listed = lambda _count: None) -> Listing:
    """List the files of a CSV or Parquet table. Rows without a label and repeated rows are rejected.

    ``listed`` is called now and then with the number of rows so far.
    """
    entries: dict[tuple[Path, str], Entry] = {}
    rejected: list[Rejected] = []
    for number, row in read_rows(path, LABELLED):
        entry = entry_of(path, number, row, LABELLED)
        if number % LISTED_EVERY == 0:
            listed(number)
        fault = "" if entry.label.strip() else "no label"
        if fault or entries.setdefault((entry.path, entry.label), entry) is not entry:
            rejected.append(Rejected(entry.path, f"{fault or 'listed twice'} (row {number} of '{path.name}')"))
    labels = {entry.label for entry in entries.values()}
    if not labels:
        raise UsageError(f"--data: '{path}' names no image with a label", LABELLED.hint)
    if len(labels) == 1:
        raise UsageError(f"--data: '{path}' has one class only, '{labels.pop()}'", "add images of a second class")
    return Listing(path.parent, list(entries.values()), (), rejected)


def _known_columns(path: Path, wanted: ManifestColumns) -> dict[str, str]:
    """Return the columns that a table has of those wanted, each with its name in the table."""
    if path.suffix.lower() in PARQUET:
        found = [str(name) for name in _parquet(path).columns]
    else:
        with _csv_reader(path) as reader:
            found = list(reader.fieldnames or [])
    if path.suffix.lower() in PARQUET and any(name.endswith(".bytes") for name in found):
        require_extra("pyarrow", "arrow", f"--data: '{path}' {NEEDS_PYARROW}")
    plain = {name.strip().casefold(): name for name in found}
    known = {name: plain[one] for name, several in wanted.names.items() for one in reversed(several) if one in plain}
    for name in wanted.needed:
        if name not in known:
            names = ", ".join(f"'{plain_text(column)[:SHOWN]}'" for column in found[:12]) or "nothing"
            close = nearest(name, map(plain_text, plain))
            raise UsageError(f"--data: '{path}' has no column '{name}'{close}, but {names}", wanted.hint)
    return known


def read_rows(path: Path, wanted: ManifestColumns) -> Iterator[tuple[int, Row]]:
    """Yield (line or row number from 1, cells by column); cells are text, missing ones are empty.

    Raises UsageError if the file cannot be read as the format of its extension, or a needed column is missing.
    """
    known = _known_columns(path, wanted)
    read = _parquet_rows if path.suffix.lower() in PARQUET else _csv_rows
    for number, row in read(path, list(known.values())):
        yield number, {name: row[column] for name, column in known.items()}


def entry_of(manifest: Path, number: int, row: Row, columns: ManifestColumns) -> Entry:
    """Return the image that a row names, with its label, part and group.

    Raises UsageError if the row names no image or an unknown part, or its label is too long.
    """
    name, written = row["path"].strip(), row.get("split", "").strip()
    if not name or "\0" in name:
        raise UsageError(f"--data: row {number} of '{manifest}' names no image", columns.hint)
    if "\0" in row["label"] or len(row["label"]) > LONGEST_LABEL:
        raise UsageError(
            f"--data: row {number} of '{manifest}' has a label with NUL or of more than {LONGEST_LABEL} characters",
            "write another name of the class",
        )
    part = part_of(written) if written else ""
    if written and part in ("", UNLABELLED):
        raise UsageError(
            f"--data: row {number} of '{manifest}' has the split '{written}'{nearest(written.casefold(), PARTS)}",
            "write train, validation or test, or leave it empty",
        )
    return Entry(locate(manifest.parent, name), row["label"], part, row.get("group", "").strip())


def locate(folder: Path, name: str) -> Path:
    """Return the file that a table or an annotation names, relative to a folder.

    Windows separates names by backslashes. A name with accents may be composed in the table (NFC) and not on the disk
    (NFD), or the other way.
    """
    if "\\" in name and "/" not in name:
        name = name.replace("\\", "/")
    path = os.path.normpath(os.path.join(folder, name))  # noqa: PTH118 -- a third of the time of paths
    if name.isascii() or os.path.exists(path):  # noqa: PTH110
        return Path(path)
    forms = (Path(unicodedata.normalize(form, path)) for form in ("NFC", "NFD"))
    return next((form for form in forms if form.exists()), Path(path))


@contextmanager
def _csv_reader(path: Path) -> Iterator[csv.DictReader[str]]:
    """Open a table; the delimiter is the most frequent one of the header, or a comma.

    A first line ``sep=;``, as Excel writes it, names the delimiter.
    """
    try:
        with open_file(path, MAX_TABLE_BYTES) as content:
            encoding = encoding_of(content.read(2))
            content.seek(0)
            with io.TextIOWrapper(content, encoding, newline="") as file:
                yield _dict_reader(file)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(path, error) from None


def _dict_reader(file: io.TextIOWrapper) -> csv.DictReader[str]:
    header = file.readline()
    named = _DELIMITER_LINE.fullmatch(header.rstrip("\r\n"))
    if named is not None:
        return csv.DictReader(file, delimiter=named[1], restval="")
    file.seek(0)
    return csv.DictReader(file, delimiter=max(_DELIMITERS, key=header.count), restval="")


def _csv_rows(path: Path, _columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
    with _csv_reader(path) as reader:
        for row in reader:
            yield reader.line_num, {str(key): value for key, value in row.items() if key is not None}


def _parquet(path: Path) -> ParquetFile:
    message = f"--data: '{path}' is Parquet, which fastparquet reads, and it is not installed; CSV needs no package"
    require_extra("fastparquet", "parquet", message)
    from fastparquet import ParquetFile

    try:
        return ParquetFile(str(path))
    except Exception as error:  # a damaged file fails in many ways
        raise _unreadable(path, error) from None


def _parquet_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
    number = 0
    try:
        for frame in _parquet(path).iter_row_groups(columns=list(columns)):
            for values in zip(*(frame[name] for name in columns), strict=True):
                number += 1
                yield number, dict(zip(columns, map(_text, values), strict=True))
    except UsageError:
        raise
    except Exception as error:
        raise _unreadable(path, error) from None


def _text(value: object) -> str:
    """Return a cell as text; whole floats, from nullable integer columns, become integers."""
    if value is None or value != value:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _unreadable(path: Path, error: Exception) -> UsageError:
    kind = "Parquet" if path.suffix.lower() in PARQUET else "CSV in UTF-8"
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    return UsageError(f"--data: '{path}' cannot be read as {kind}: {why}", "write the manifest again")


def list_files(path: Path, listed: Listed = lambda _count: None) -> Listing:
    """List the labelled files of a manifest or a folder, whatever its layout.

    ``listed`` is called now and then with the number of images listed so far, of a manifest or of files with images.

    ``DIR/*`` says that each folder in it is a class, ``DIR/**`` that each folder below it that directly holds images is
    one. Raises UsageError if the path does not exist, no layout fits, or the data cannot be read.
    """
    depth = path.name if path.name in {UPPER, DEEPEST} else ""
    if depth:
        path = path.parent
    if not path.exists():
        if _STORE.match(str(path)):
            hint = "s3:// and gs:// are read by search, plan, compress and data check; else copy the files here"
            raise UsageError(
                f"--data: '{without_password(str(path).replace(':/', '://', 1))}' is in a store that is not read here",
                hint,
            )
        raise UsageError(f"--data: '{path}' does not exist", missing_hint(path, HINT))
    if path.is_dir():
        return list_folder(path, depth)
    if path.is_file() and kind_of(path) in SOURCES and (path.suffix.lower() not in PARQUET or holds_images(path)):
        return list_archives(path, [path], listed)
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        return list_manifest(path, listed)
    raise UsageError(f"--data: '{path}' is a file, neither a folder nor a manifest", HINT)


def archives_in(folder: Path) -> list[Path]:
    """Return the files anywhere below a folder that hold images, sorted, without hidden ones and manifests."""
    found = []
    for place, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if not is_system_name(name)]
        found += [Path(place, name) for name in names if not is_system_name(name) and kind_of(Path(name)) in SOURCES]
    return sorted(file for file in found if file.suffix.lower() not in PARQUET or holds_images(file))


def list_archives(path: Path, files: Sequence[Path], listed: Listed = lambda _count: None) -> Listing:
    """List the images inside files: zips of class folders, shards, and tables.

    The part of a file is the first word of its name, or a folder that it is in, which names one: ``val-00001.tar``,
    ``train/data.arrow``. Raises UsageError if a file cannot be read as its kind, or there is one class only.
    """
    sets = sorted({file.parent for file in files if file.with_name("dataset_info.json").is_file() and _is_record(file)})
    if len(sets) > 1:
        shown = some_of([str(each.relative_to(path)) for each in sets])
        raise UsageError(f"--data: '{path}' has {len(sets)} data sets of TFDS: {shown}", f"name one: --data {sets[-1]}")
    entries: list[Entry] = []
    rejected: list[Rejected] = []
    notes: list[str] = []
    several = len({part for file in files if (part := part_in_name(file, path))}) > 1
    for file in files:
        part, in_folders = part_in_name(file, path) if several else "", list[str]()
        for count, member in enumerate(archive_of(file).members()):
            if count % LISTED_EVERY == 0:
                listed(len(entries) + len(in_folders))
            if member.fault:
                rejected.append(Rejected(file / member.name, member.fault))
            elif member.label is not None:
                entries.append(Entry(file / member.name, member.label, part))
            elif is_candidate(Path(member.name)):
                in_folders.append(member.name)
        inside = _read_members(file, in_folders, part)
        entries += inside.entries
        notes += inside.notes
    labels = {entry.label for entry in entries}
    if not labels:
        why = f"; the first: {rejected[0].reason}" if rejected else ""
        raise UsageError(f"--data: '{path}' holds no image with a label{why}", HINT)
    if len(labels) == 1:
        raise UsageError(f"--data: '{path}' has one class only, '{labels.pop()}'", "add images of a second class")
    return Listing(path, entries, (), rejected, tuple(dict.fromkeys(notes)))


def _is_record(file: Path) -> bool:
    return kind_of(file) in RECORDS


def part_in_name(file: Path, root: Path) -> str:
    """Return the part of a split that the name of a file with images says, or a folder below ``root`` that it is in."""
    first, *others = _WORD.split(file.stem)
    last = [word for word in others if word and _is_record(file)]  # ``animals-train`` of TFDS
    words = [*last[-1:], first, *(file.relative_to(root).parts[:-1] if file != root else ())]
    parts = (part_of(word) for word in words)
    return next((part for part in parts if part not in ("", UNLABELLED)), "")


def _read_members(file: Path, members: Sequence[str], part: str) -> Listing:
    """Return the images of class folders inside a file, below folders that hold all of them, or of split folders."""
    names = [PurePosixPath(member).parts for member in members]
    if not any(len(image) > 1 for image in names):
        return Listing(file, [])
    reading = read_folders(file, names)
    entries = [Entry(file / members[image.index], image.label, image.part or part) for image in reading.images]
    return Listing(file, entries, notes=tuple(reading.notes))


def missing_hint(path: Path, layouts: str) -> str:
    """Return what to do about a path that does not exist: the nearest name, and the layouts."""
    try:
        siblings = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        siblings = []
    return f"check the path{nearest(path.name, siblings)}; {layouts}"
