"""List the labelled files of a data set, whatever its layout.

:func:`list_files` is the first step of reading: it chooses between class folders, folders of
parts, archives, tables, and names of images, and calls their reader. Nothing is decoded here.

Where folders can be the classes in two ways the user is asked. This is decided without a question:
folders of masks and the like are left out (`_companion_folders.py`), a table ``metadata`` counts
before all folders, and a table that names images on disk counts before folders whose names are
none of its labels. A path with ``*``, ``**`` or ``{class}`` says how it is to be read.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from advisor.core import (
    AmbiguousInput,
    Reading,
    UsageError,
    nearest,
    plain,
    plural,
    without_password,
)
from advisor.datasets._archives import ALL_FOLDERS, archives_in, list_archives
from advisor.datasets._category_files import find_class_names, find_first_number, read_synset_names
from advisor.datasets._chosen_folders import ChosenFolders, read_choice
from advisor.datasets._column_search import GUESSED_SUFFIXES, SUFFIXES, describe_fault, find_fault
from advisor.datasets._dataset import (
    Entry,
    Listed,
    Listing,
    Rejected,
    rename_classes,
    without_blanks,
)
from advisor.datasets._folder_questions import DEEPEST, UPPER, some_of
from advisor.datasets._folders import HINT, FolderReading, find_sole_folders
from advisor.datasets._foreign_files import find_box_file, find_foreign_file, find_foreign_kind
from advisor.datasets._image_names import (
    LABEL_IN_NAME,
    compile_pattern,
    find_pattern,
)
from advisor.datasets._image_places import is_there
from advisor.datasets._manifests import LONGEST_LABEL, list_manifest, read_labels_of_tables
from advisor.datasets._parts import UNLABELLED, part_of
from advisor.datasets._scan import FolderScan, scan_folder
from advisor.datasets._sources import SOURCES, find_kind, holds_images
from advisor.datasets._split_part import SplitPart
from advisor.datasets._table_rows import PARQUET, PROBED, SHOWN, TEXT
from advisor.datasets._tables_beside import find_tables_beside, list_tables, read_with_listed_parts
from advisor.store import guess_encodings

METADATA = "metadata"  # Name of the table that ``datasets`` of Hugging Face has beside images
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff]")
UNDECODED_BYTE = re.compile("[\udc80-\udcff]")  # A byte that is not UTF-8, as Python keeps it
MOST_GUESSES = 3  # Encodings of a label that an error names
_STORE = re.compile(r"[a-z][a-z0-9+]+:/")  # Begin of an address; a path has one slash of its two


def _list_folder(path: Path, depth: str = "", chosen: ChosenFolders = ALL_FOLDERS) -> Listing:
    """List a folder of class folders or of parts; images may be in deeper folders.

    ``depth`` is :data:`UPPER` or :data:`DEEPEST` if the user says which folders are the classes,
    else empty. Raises UsageError if there are no images, only one class, or it is not clear which
    folders are the classes.
    """
    scan = scan_folder(path)
    if chosen != ALL_FOLDERS:
        images = list(filter(chosen.includes_names, scan.images))
        scan = replace(
            scan, images=images, folders=list(filter(chosen.includes_names, scan.folders))
        )
    tables: Sequence[Path] = []
    # If the user says which folders are the classes, nothing about masks and tables is guessed.
    if not depth:
        scan = scan.without_companions()
        tables = find_tables_beside(path, scan.images)
    if any(table.stem.casefold() == METADATA for table in tables):
        return list_tables(path, tables)
    if not any(len(names) > 1 for names in scan.images):
        return _list_without_folders(path, scan, tables, depth, chosen)
    try:
        reading, listed_parts = read_with_listed_parts(path, scan.images, scan.folders, depth)
    except UsageError as error:
        # No folder can be a class, so a table must name the images.
        listing, fault = _try_tables(
            path, tables or find_tables_beside(path, scan.images, guess=True)
        )
        if listing is None:
            raise _explain_missing_classes(error, path, scan, fault) from None
        return listing
    # Folders with other names than the labels of a table sort the images by something else.
    if tables and not set(reading.classes) & read_labels_of_tables(tables):
        listing = list_tables(path, tables)
        if any(is_there(entry.path) for entry in listing.entries[:PROBED]):
            return listing
    return _list_read_folders(path, scan, reading, listed_parts)


def _list_without_folders(
    path: Path,
    scan: FolderScan,
    tables: Sequence[Path],
    depth: str,
    chosen: ChosenFolders,
) -> Listing:
    """List a folder without folders of images by its archives or tables, else UsageError."""
    archives = archives_in(path)
    if archives:
        return list_archives(path, archives, depth=depth, chosen=chosen)
    tables = tables or find_tables_beside(path, scan.images, guess=True)
    if tables and scan.images:
        return list_tables(path, tables)
    raise _refuse_folder(path, scan)


def _list_read_folders(
    path: Path, scan: FolderScan, reading: FolderReading, listed_parts: Sequence[Listing]
) -> Listing:
    """List images by the folders that are their classes, and those of parts that lists name."""
    _refuse_undecodable(reading.classes)
    entries = []
    for image in reading.images:
        entries.append(Entry(path.joinpath(*scan.images[image.index]), image.label, image.part))
    rejected: list[Rejected] = []
    for part in listed_parts:
        entries += part.entries
        rejected += part.rejected
    listing = Listing(path, entries, reading.classes, rejected, (*reading.notes, *scan.notes))
    folder = path.joinpath(*find_sole_folders(scan.images))
    return _name_numbers(_name_synsets(listing, folder), folder)


def _name_synsets(listing: Listing, folder: Path) -> Listing:
    """Return a listing with the names of its classes if they are synsets with a list of names."""
    file, names = read_synset_names(folder, listing.classes)
    if not names:
        return listing
    notes = (*listing.notes, f"The names of the classes are those of '{file}'.")
    renamed = rename_classes(listing, names)
    return replace(renamed, classes=sorted(renamed.classes), notes=notes)


def _name_numbers(listing: Listing, folder: Path) -> Listing:
    """Return a listing with the names of its classes if they are numbers with a list of names."""
    if not listing.classes or not all(map(str.isdecimal, listing.classes)):
        return listing
    file, names = find_class_names(folder / "classes")
    numbers = {label: int(label) for label in listing.classes}
    first = find_first_number(numbers.values(), len(names))
    if first is None or len(names) != len(numbers):
        return listing
    name_of = {label: names[number - first] for label, number in numbers.items()}
    renamed = rename_classes(listing, name_of)
    notes = (
        *listing.notes,
        f"The names of the classes are those of '{file}', counted from {first}.",
    )
    return replace(renamed, classes=sorted(name_of.values()), notes=notes)


def _try_tables(path: Path, tables: Sequence[Path]) -> tuple[Listing | None, str]:
    """Return the images of tables; or None, and why tables do not count, if there are some."""
    try:
        return (list_tables(path, tables), "") if tables else (None, "")
    except AmbiguousInput:
        raise
    except UsageError as error:
        return None, describe_fault(error)


def _refuse_folder(path: Path, scan: FolderScan) -> UsageError:
    """Return the error of a folder without class folders and without a table that fits."""
    foreign = None if scan.images else find_foreign_file(path)
    if foreign is not None:
        file, (what, way_out) = foreign
        return UsageError(
            f"--data: '{path}' holds no images, but '{file.relative_to(path)}', {what}", way_out
        )
    what = "has images but no class folders" if scan.images else "holds no images"
    manifest = _find_manifest(path)
    hint = HINT if manifest is None else f"give its manifest: --data {manifest}"
    return _explain_missing_classes(UsageError(f"--data: '{path}' {what}", hint), path, scan)


def _find_manifest(folder: Path) -> Path | None:
    """Return the first table of a folder that names labelled images; None if there is none."""
    for entry in sorted(folder.iterdir()):
        is_table = entry.suffix.lower() in SUFFIXES and entry.is_file()
        if is_table and part_of(entry.stem) != UNLABELLED and not find_fault(entry):
            return entry
    return None


def _explain_missing_classes(
    error: UsageError, path: Path, scan: FolderScan, fault: str = ""
) -> UsageError:
    """Return the error of images without classes, with the first of these that helps.

    - The names of the images seem to have the classes: the error asks whether they do.
    - A table beside the images does not count, for the reason ``fault`` if that is known.
    - A file with annotations is of a kind that is not read, or of boxes.
    """
    if isinstance(error, AmbiguousInput):
        return error
    folder, pattern, labels = find_pattern(scan.images)
    if pattern:
        place = path.joinpath(*folder, pattern)
        reading = Reading(
            {"data": str(place)}, f"the names of the images say the classes {some_of(labels)}"
        )
        return AmbiguousInput(error.message, [reading])
    tables = list(filter(_may_name_images, sorted(path.iterdir())))
    # Tables of a test part often have no labels, so their faults say the least.
    tables.sort(key=lambda table: part_of(table.stem) in (UNLABELLED, SplitPart.HOLDOUT))
    fault = fault or next(filter(None, map(find_fault, tables)), "")
    if fault:
        return UsageError(
            error.message, f"{error.hint}; the table beside the images does not count: {fault}"
        )
    foreign = find_foreign_file(path)
    if foreign is not None:
        file, (what, way_out) = foreign
        return UsageError(
            error.message, f"'{file.relative_to(path)}' is {what}, which is not read: {way_out}"
        )
    marks = find_box_file(path.joinpath(*find_sole_folders(scan.images)))
    if marks:
        return UsageError(
            error.message,
            f"'{marks.relative_to(path)}' seems to have boxes: search, plan and data check read"
            " them with --task object-detection",
        )
    return error


def _may_name_images(file: Path) -> bool:
    suffix = file.suffix.lower()
    is_list = suffix in TEXT and file.stem.casefold().startswith("list")
    return (suffix in SUFFIXES or is_list) and file.is_file()


def _refuse_undecodable(labels: Collection[str]) -> None:
    """Refuse the name of a class folder that is not valid UTF-8."""
    for label in labels:
        try:
            label.encode()
        except UnicodeEncodeError:
            message = (
                f"--data: the class folder {os.fsencode(label)!r} has a name that is not valid"
                " UTF-8"
            )
            raise UsageError(message, "rename it") from None


def list_files(
    path: Path, listed: Listed = lambda _count: None, known: Collection[str] = ()
) -> Listing:
    """List the labelled files of a data set, with labels that a model can have.

    See :func:`_list_by_layout`. Files that are added to a set with the ``known`` classes may have
    one class only. Raises UsageError for a label with a control character, or of more than
    :data:`LONGEST_LABEL` characters, wherever it comes from.
    """
    listing = _list_single_class(path, known) if known else None
    listing = without_blanks(listing or _list_by_layout(path, listed))
    labels = {entry.label for entry in listing.entries}
    unfit = {label for label in labels if len(label) > LONGEST_LABEL}
    unfit |= set(filter(CONTROL.search, labels))
    if unfit:
        raise _refuse_label(path, sorted(unfit))
    return listing


def _refuse_label(path: Path, labels: Sequence[str]) -> UsageError:
    """Return the error of labels that no model can have, with how they read in encodings."""
    shown = plain(labels[0][:SHOWN])
    bytes_of_labels = []
    for label in labels:
        if UNDECODED_BYTE.search(label):
            bytes_of_labels.append(label[:SHOWN].encode(errors="surrogateescape"))
    guesses = guess_encodings(bytes_of_labels)
    if not guesses:
        return UsageError(
            f"--data: '{path}' has the label '{shown}', with a control character, bytes that are"
            f" not UTF-8, or more than {LONGEST_LABEL} characters",
            "write another name of the class",
        )
    readings = []
    for encoding, text in guesses[:MOST_GUESSES]:
        names = list(map(plain, text.splitlines()))
        readings.append(f"as {encoding.name} {some_of(names)}")
    rename = "rename the folder"
    if path.suffix.lower() == ".zip":
        rename = f"unpack it: unzip -O {guesses[0][0].tool} {shlex.quote(str(path))} -d FOLDER"
    return UsageError(
        f"--data: '{path}' has the label '{shown}', whose bytes are not UTF-8. Such labels read"
        f" {'; '.join(readings)}",
        f"{rename}; the names of classes must be UTF-8",
    )


def _list_single_class(path: Path, known: Collection[str]) -> Listing | None:
    """List a table, or a folder with one folder of images, which may be one class; else None."""
    if path.is_file() and path.suffix.lower() in GUESSED_SUFFIXES:
        return list_manifest(path, more_labels=known)
    if not path.is_dir():
        return None
    images = scan_folder(path).without_companions().images
    labels = set()
    for names in images:
        if len(names) == 2:
            labels.add(names[0])
    # A folder called train or test holds a part of a set, and is no class.
    if (
        len(labels) != 1
        or any(len(names) != 2 for names in images)
        or any(map(part_of, labels - set(known)))
    ):
        return None
    (label,) = labels
    return Listing(path, [Entry(path.joinpath(*names), label) for names in images], [label])


def _list_by_layout(path: Path, listed: Listed) -> Listing:
    """List the labelled files of a manifest or a folder.

    ``listed`` is called now and then with the number of images listed so far,
    of a manifest or of files with images.

    ``DIR/*`` says that each folder in it is a class, ``DIR/**`` that each folder below it that
    directly holds images is one, and ``DIR/{class}_#.jpg`` that the names of the images say it.
    ``DIR/{train,test}`` leaves other folders out, and ``DIR/!(backup|tmp)`` these.

    Raises UsageError if the path does not exist, no layout fits, or the data cannot be read.
    """
    depth = path.name if path.name in {UPPER, DEEPEST} else ""
    if depth:
        path = path.parent
    if LABEL_IN_NAME in path.name:
        return _list_named_images(path)
    chosen = read_choice(path)
    if chosen != ALL_FOLDERS:
        path = path.parent
    if not path.exists():
        if _STORE.match(str(path)):
            # A path joins the two slashes of an address into one.
            address = without_password(str(path).replace(":/", "://", 1))
            raise UsageError(
                f"--data: '{address}' is in a store that is not read here",
                "s3:// and gs:// are read by search, plan, compress and data check; else copy the"
                " files here",
            )
        raise UsageError(f"--data: '{path}' does not exist", missing_hint(path, HINT))
    if path.is_dir():
        return _list_folder(path, depth, chosen)
    is_archive = path.is_file() and find_kind(path) in SOURCES
    # A Parquet table without images names files: it is a manifest.
    is_manifest = is_archive and path.suffix.lower() in PARQUET and not holds_images(path)
    if is_archive and not is_manifest:
        return list_archives(path, [path], listed, depth, chosen)
    if path.is_file() and path.suffix.lower() in GUESSED_SUFFIXES:
        return list_manifest(path, listed)
    kind = find_foreign_kind(path)
    if kind is not None:
        what, way_out = kind
        raise UsageError(f"--data: '{path}' is {what}", way_out)
    raise UsageError(f"--data: '{path}' is a file, neither a folder nor a manifest", HINT)


def _list_named_images(pattern: Path) -> Listing:
    """List the images of a folder whose names have the class, such as ``DIR/{class}_#.jpg``.

    ``#`` is a number, and ``*`` any text. Raises UsageError if no name fits, or there is one
    class.
    """
    folder = pattern.parent
    if not folder.is_dir():
        raise UsageError(f"--data: '{folder}' is no folder", missing_hint(folder, HINT))
    expression = compile_pattern(pattern.name)
    entries: list[Entry] = []
    others = 0
    for names in scan_folder(folder).images:
        match = expression.fullmatch(names[-1])
        if match is None:
            others += 1
        else:
            entries.append(Entry(folder.joinpath(*names), match["label"]))
    labels = {entry.label for entry in entries}
    if len(labels) < 2:
        what = f"gives one class only, '{labels.pop()}'" if labels else "fits the name of no image"
        raise UsageError(
            f"--data: the pattern '{pattern.name}' {what}",
            "write for example 'photos/{class}_#.jpg'",
        )
    if not others:
        return Listing(folder, entries)
    verb = "is" if others == 1 else "are"
    note = (
        f"{plural(others, 'image does', 'images do')} not fit '{pattern.name}', and {verb} not"
        " used."
    )
    return Listing(folder, entries, notes=(note,))


def missing_hint(path: Path, layouts: str) -> str:
    """Return what to do about a path that does not exist: the nearest name, and the layouts."""
    try:
        siblings = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        siblings = []
    return f"check the path{nearest(path.name, siblings)}; {layouts}"
