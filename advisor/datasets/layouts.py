"""Read the layouts of labelled images: class folders, split folders, and manifests (tables, also of boxes)."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError, nearest, require_extra
from advisor.core.names import without_password
from advisor.core.units import plain as plain_text
from advisor.datasets.dataset import PARTS, Entry, Listing, Rejected
from advisor.datasets.images import is_candidate
from advisor.datasets.sources import SOURCES, archive_of, kind_of
from advisor.datasets.sources.tables import NEEDS_PYARROW, holds_images
from advisor.store.yamlfile import open_file

if TYPE_CHECKING:
    from fastparquet import ParquetFile

UPPER, DEEPEST = "*", "**"  # Last names of a path: each folder in it is a class, or each that directly holds images
NESTED = 0.5  # Above this share of images in deeper folders it is not clear which folders are the classes

MAX_TABLE_BYTES = 2**30

HINT = (
    "a data set is a folder with one sub-folder a class (DIR/cat/1.jpg, DIR/dog/2.jpg), such folders inside train/, "
    "val/ and test/, a CSV or Parquet manifest with the columns path and label, or files that hold images (.zip, .tar, "
    ".parquet, .arrow, .tfrecord)"
)


def list_class_folders(path: Path, depth: str = "") -> Listing:
    """List ``DIR/cat/1.jpg``: one sub-folder a class; images may be in deeper folders.

    ``depth`` is :data:`UPPER` or :data:`DEEPEST` if the user says which folders are the classes, else empty. Raises
    UsageError if there are no images, only one class, or it is not clear which folders are the classes.
    """
    folders = folders_in(path)
    _refuse_mixed(path, folders)
    found = [(file, folder) for folder in folders for file in images_in(folder)]
    if not found and (archives := archives_in(path)):
        return list_archives(path, archives)
    if not found:
        loose = any(is_candidate(entry) for entry in path.iterdir() if entry.is_file())
        tables = [entry for entry in sorted(path.iterdir()) if entry.suffix.lower() in SUFFIXES]
        what = "has images but no class folders" if loose else "holds no images"
        raise UsageError(f"--data: '{path}' {what}", f"give its manifest: --data {tables[0]}" if tables else HINT)
    return Listing(path, *_labelled(path, found, folders, depth))


def is_split(path: Path) -> bool:
    """Return whether all sub-folders of a folder have names of parts of a split."""
    folders = folders_in(path)
    return bool(folders) and all(folder.name.casefold() in PARTS for folder in folders)


def list_split_folders(path: Path, depth: str = "") -> Listing:
    """List ``DIR/train/cat/1.jpg``, ``DIR/val/...``, ``DIR/test/...``: the user's own split.

    Validation or test may be missing; a single part is no split. ``depth`` and errors as of :func:`list_class_folders`.
    """
    folders = folders_in(path)
    inner = [(one, folder) for folder in folders for one in folders_in(folder)]
    found = [(file, one) for one, _ in inner for file in images_in(one)]
    if not found and (archives := archives_in(path)):
        return list_archives(path, archives)
    if not found:
        raise UsageError(f"--data: the parts {_names(folders)} of '{path}' hold no class folders", HINT)
    entries, classes = _labelled(path, found, [one for one, _ in inner], depth)
    if len(folders) > 1:
        part_of = {one: PARTS[folder.name.casefold()] for one, folder in inner}
        entries = [replace(entry, part=part_of[one]) for entry, (_, one) in zip(entries, found, strict=True)]
    return Listing(path, entries, classes)


def _labelled(
    path: Path, found: Sequence[tuple[Path, Path]], folders: Sequence[Path], depth: str
) -> tuple[list[Entry], list[str]]:
    """Return the entries of files with their class folders, and the sorted names of the classes."""
    if not depth:
        _refuse_nested(path, found)
    if depth == DEEPEST:
        _refuse_homonyms(found)
        entries = [Entry(file, file.parent.name) for file, _ in found]
        classes = sorted({entry.label for entry in entries})
    else:
        entries, classes = [Entry(file, folder.name) for file, folder in found], sorted({each.name for each in folders})
    if len(classes) == 1:
        raise UsageError(f"--data: '{path}' has one class only, '{classes[0]}'", "add a second class's folder")
    return entries, classes


def _refuse_nested(path: Path, found: Sequence[tuple[Path, Path]]) -> None:
    """Refuse ``DIR/Fruit/Apple/1.jpg``, unless the names of deeper folders, such as ``images``, recur in several."""
    upper = {folder.name for _, folder in found}
    places = {file.parent for file, folder in found if file.parent != folder}
    names = {place.name for place in places}
    nested = sum(file.parent != folder for file, folder in found)
    recur = len({(file.parent.name, folder.name) for file, folder in found if file.parent != folder}) - len(names)
    if nested <= NESTED * len(found) or len(names) <= len(upper) or recur > len(names) / 2:
        return
    raise UsageError(
        f"--data: are the classes of '{path}' {_some(upper)}, or the {len(names)} deeper folders {_some(names)}?",
        f"write --data '{path / DEEPEST}' for the deeper folders, or --data '{path / UPPER}' for the upper ones, "
        "both with the quotes; or list the images in a manifest",
    )


def _refuse_homonyms(found: Sequence[tuple[Path, Path]]) -> None:
    """Refuse deepest folders of one name in several places: ``Fruit/Other`` and ``Packages/Other`` are two classes."""
    places: dict[str, set[str]] = {}
    for file, folder in found:
        places.setdefault(file.parent.name, set()).add(str(file.parent.relative_to(folder.parent)))
    if homonyms := sorted(name for name, several in places.items() if len(several) > 1):
        raise UsageError(
            f"--data: the class '{homonyms[0]}' would be several folders: {_some(places[homonyms[0]])}",
            "rename them, or list the images in a manifest",
        )


def _refuse_mixed(path: Path, folders: Sequence[Path]) -> None:
    """Refuse two parts or more of a split beside other folders: a model would learn to tell the parts."""
    parts = [folder for folder in folders if folder.name.casefold() in PARTS and folders_in(folder)]
    if len({PARTS[folder.name.casefold()] for folder in parts}) < 2:
        return
    others = [folder for folder in folders if folder not in parts]
    trained = min(parts, key=lambda folder: PARTS[folder.name.casefold()] != "train")
    raise UsageError(
        f"--data: '{path}' has the parts {_names(parts)} of a split beside {_names(others)}",
        f"move {_names(others)} away, or use one part alone: --data {trained}; or list the images in a manifest",
    )


def _names(folders: Sequence[Path]) -> str:
    return ", ".join(f"'{folder.name}'" for folder in folders)


def _some(names: Collection[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names)[:3]) + (", ..." if len(names) > 3 else "")


def folders_in(root: Path) -> list[Path]:
    """Return the folders directly inside ``root``, sorted, without hidden ones.

    Raises UsageError if the folder cannot be read, or a name in it is not valid UTF-8.
    """
    try:
        folders = sorted(entry for entry in root.iterdir() if entry.is_dir() and not _ignored(entry.name))
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

    def refuse(error: OSError) -> None:
        raise UsageError(f"--data: '{error.filename}' cannot be read: {error.strerror}", "check its permissions")

    found = []
    for place, inner, names in os.walk(folder, onerror=refuse, followlinks=True):
        inner[:] = [name for name in inner if not _ignored(name) and not _turns_back(Path(place, name))]
        found += [Path(place, name) for name in names if not _ignored(name)]
    return sorted(file for file in found if is_candidate(file))


def _turns_back(folder: Path) -> bool:
    """Return whether a folder is a link to one that it is in."""
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())


def _ignored(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


PARQUET = frozenset({".parquet", ".pq"})
RECORDS = frozenset({".tfrecord", ".array_record"})
CSV = frozenset({".csv", ".tsv"})
SUFFIXES = CSV | PARQUET
LONGEST_LABEL = 1000
SHOWN = 80  # Characters of a column's name in an error
_DELIMITERS = ",;\t"
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
    if written and written.casefold() not in PARTS:
        raise UsageError(
            f"--data: row {number} of '{manifest}' has the split '{written}'{nearest(written.casefold(), PARTS)}",
            "write train, validation or test, or leave it empty",
        )
    path = Path(os.path.normpath(os.path.join(manifest.parent, name)))  # noqa: PTH118 -- a third of the time of paths
    return Entry(path, row["label"], PARTS.get(written.casefold(), ""), row.get("group", "").strip())


@contextmanager
def _csv_reader(path: Path) -> Iterator[csv.DictReader[str]]:
    """Open a table; the delimiter is the most frequent one of the header, or a comma."""
    try:
        with io.TextIOWrapper(open_file(path, MAX_TABLE_BYTES), "utf-8-sig", newline="") as file:
            delimiter = max(_DELIMITERS, key=file.readline().count)
            file.seek(0)
            yield csv.DictReader(file, delimiter=delimiter, restval="")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(path, error) from None


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
        return list_split_folders(path, depth) if is_split(path) else list_class_folders(path, depth)
    if path.is_file() and kind_of(path) in SOURCES and (path.suffix.lower() not in PARQUET or holds_images(path)):
        return list_archives(path, [path], listed)
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        return list_manifest(path, listed)
    raise UsageError(f"--data: '{path}' is a file, neither a folder nor a manifest", HINT)


def archives_in(folder: Path) -> list[Path]:
    """Return the files anywhere below a folder that hold images, sorted, without hidden ones and manifests."""
    found = []
    for place, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if not _ignored(name)]
        found += [Path(place, name) for name in names if not _ignored(name) and kind_of(Path(name)) in SOURCES]
    return sorted(file for file in found if file.suffix.lower() not in PARQUET or holds_images(file))


def list_archives(path: Path, files: Sequence[Path], listed: Listed = lambda _count: None) -> Listing:
    """List the images inside files: zips of class folders, shards, and tables.

    The part of a file is the first word of its name, or a folder that it is in, which names one: ``val-00001.tar``,
    ``train/data.arrow``. Raises UsageError if a file cannot be read as its kind, or there is one class only.
    """
    sets = sorted({file.parent for file in files if file.with_name("dataset_info.json").is_file() and _is_record(file)})
    if len(sets) > 1:
        shown = _some([str(each.relative_to(path)) for each in sets])
        raise UsageError(f"--data: '{path}' has {len(sets)} data sets of TFDS: {shown}", f"name one: --data {sets[-1]}")
    entries: list[Entry] = []
    rejected: list[Rejected] = []
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
        entries += _by_folder(file, in_folders, part)
    labels = {entry.label for entry in entries}
    if not labels:
        why = f"; the first: {rejected[0].reason}" if rejected else ""
        raise UsageError(f"--data: '{path}' holds no image with a label{why}", HINT)
    if len(labels) == 1:
        raise UsageError(f"--data: '{path}' has one class only, '{labels.pop()}'", "add images of a second class")
    return Listing(path, entries, (), rejected)


def _is_record(file: Path) -> bool:
    return kind_of(file) in RECORDS


def part_in_name(file: Path, root: Path) -> str:
    """Return the part of a split that the name of a file with images says, or a folder below ``root`` that it is in."""
    first, *others = _WORD.split(file.stem)
    last = [word for word in others if word and _is_record(file)]  # ``animals-train`` of TFDS
    words = [*last[-1:], first, *(file.relative_to(root).parts[:-1] if file != root else ())]
    return next((PARTS[word.casefold()] for word in words if word.casefold() in PARTS), "")


def _by_folder(file: Path, names: Sequence[str], part: str) -> list[Entry]:
    """Return the images of class folders inside a file, below folders that hold all of them, or of split folders."""
    found = [PurePosixPath(name).parts for name in names]
    while found and len({parts[0] for parts in found}) == 1 and all(len(parts) > 2 for parts in found):
        found = [parts[1:] for parts in found]
    own = {parts[0].casefold() for parts in found if len(parts) > 2}
    split = bool(own) and own <= PARTS.keys() and all(len(parts) > 2 for parts in found)
    places = [file / name for name in names]
    if not split:
        _refuse_nested(
            file,
            [
                (place, Path(*place.parts[: len(place.parts) - len(parts) + 1]))
                for place, parts in zip(places, found, strict=True)
                if len(parts) > 1
            ],
        )
    return [
        Entry(place, parts[1] if split else parts[0], PARTS[parts[0].casefold()] if split and len(own) > 1 else part)
        for place, parts in zip(places, found, strict=True)
        if len(parts) > 1
    ]


def missing_hint(path: Path, layouts: str) -> str:
    """Return what to do about a path that does not exist: the nearest name, and the layouts."""
    try:
        siblings = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        siblings = []
    return f"check the path{nearest(path.name, siblings)}; {layouts}"
