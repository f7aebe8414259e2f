"""Read the layouts of labelled images: class folders, split folders, and manifests (tables, also of boxes)."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import filterfalse
from pathlib import Path, PurePosixPath

from advisor.core import AmbiguousInput, Reading, UsageError, nearest, plain, plural, readings_of_data, without_password
from advisor.datasets._dataset import Entry, Listing, Rejected, without_blanks
from advisor.datasets._folder_questions import DEEPEST, UPPER, Names, some_of
from advisor.datasets._folders import (
    HINT,
    companion_folders,
    is_companion_name,
    is_system_name,
    read_folders,
    sole_folders,
)
from advisor.datasets._foreign_files import file_of_boxes, foreign_file, foreign_kind
from advisor.datasets._image_names import LABEL_IN_NAME, compile_pattern, pattern_of_names
from advisor.datasets._images import is_candidate
from advisor.datasets._manifests import (
    ANNOTATIONS,
    GUESSED_SUFFIXES,
    LISTED_EVERY,
    LONGEST_LABEL,
    SUFFIXES,
    Listed,
    fault_of,
    fits,
    is_there,
    labels_of,
    list_manifest,
    refuse_captions,
)
from advisor.datasets._parts import HOLDOUT, NEUTRAL_WORDS, UNLABELLED, part_of, words_of
from advisor.datasets._sources import SOURCES, archive_of, holds_images, kind_of
from advisor.datasets._table_rows import PARQUET, PROBED, SHOWN, TEXT
from advisor.store import walk_folder

_TABLE_WORDS = "human machine imagelabels label labels annotation meta metadata list classification"
TABLE_WORDS = frozenset(_TABLE_WORDS.split())  # Beside the word of a part in the name of a table
METADATA = "metadata"  # Name of the table that ``datasets`` of Hugging Face has beside images
RECORDS = frozenset({".tfrecord", ".array_record"})
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff]")
_CHOSEN_FOLDERS = re.compile(r"\{([^{}]+,[^{}]+)\}")  # {train,test}
_LEFT_OUT_FOLDERS = re.compile(r"!\((.+)\)")  # !(backup|tmp)
_WORD = re.compile(r"[-_.\s\d]+")  # What separates the words of a file's name
_STORE = re.compile(r"[a-z][a-z0-9+]+:/")  # Begin of an address; a path has one slash of its two


@dataclass(frozen=True)
class ChosenFolders:
    """The folders of a path that the user wants to be read."""

    only: frozenset[str] = frozenset()  # names of the upper folders that count; all if it is empty
    left_out: frozenset[str] = frozenset()  # names of folders that do not count, wherever they are

    def has(self, names: Names) -> bool:
        """Return whether an image or a folder counts, by its folders and its own name."""
        return not (self.only and names[0] not in self.only) and self.left_out.isdisjoint(names)


ALL_FOLDERS = ChosenFolders()


def list_folder(path: Path, depth: str = "", chosen: ChosenFolders = ALL_FOLDERS) -> Listing:
    """List a folder of class folders, or of parts of a split with class folders; images may be in deeper folders.

    ``depth`` is :data:`UPPER` or :data:`DEEPEST` if the user says which folders are the classes, else empty. Raises
    UsageError if there are no images, only one class, or it is not clear which folders are the classes.
    """
    scan = scan_folder(path)
    if chosen != ALL_FOLDERS:
        images = list(filter(chosen.has, scan.images))
        scan = replace(scan, images=images, folders=list(filter(chosen.has, scan.folders)))
    scan = scan if depth else scan.without_companions()
    tables = [] if depth else tables_beside(path, scan)
    if any(table.stem.casefold() == METADATA for table in tables):
        return list_tables(path, tables)
    if not any(len(names) > 1 for names in scan.images):
        if archives := archives_in(path):
            return list_archives(path, archives, depth=depth, chosen=chosen)
        tables = tables or tables_beside(path, scan, guess=True)
        if tables and scan.images:
            return list_tables(path, tables)
        raise _without_classes(path, scan)
    try:
        reading = read_folders(path, scan.images, scan.folders, depth)
    except UsageError as error:
        listing, fault = _try_tables(path, tables or tables_beside(path, scan, guess=True))
        if listing is None:
            raise _with_names(error, path, scan, fault) from None
        return listing
    if tables and not set(reading.classes) & labels_of(tables):
        listing = list_tables(path, tables)
        if any(is_there(entry.path) for entry in listing.entries[:PROBED]):
            return listing
    entries = [Entry(path.joinpath(*scan.images[image.index]), image.label, image.part) for image in reading.images]
    _refuse_undecodable(reading.classes)
    return Listing(path, entries, reading.classes, notes=(*reading.notes, *scan.notes))


def _try_tables(path: Path, tables: Sequence[Path]) -> tuple[Listing | None, str]:
    """Return the images of tables; or None, and why tables do not count, if there are some."""
    try:
        return (list_tables(path, tables), "") if tables else (None, "")
    except AmbiguousInput:
        raise
    except UsageError as error:
        return None, error.message.removeprefix("--data: ")


def tables_beside(path: Path, scan: FolderScan, guess: bool = False) -> list[Path]:
    """Return the tables directly in a folder, or in the folders of its parts, that name images and their classes.

    ``guess`` as of :func:`.manifests.fits`; then a folder that holds all images counts too, and a text file whose name
    says that it is a list. If some are named as parts of a split, such as ``train.csv``, the others do not count.
    """
    tops = {names[0] for names in scan.images if len(names) > 1 and part_of(names[0])}
    folders = [path, *(path / top for top in sorted(tops))]
    if (path / ANNOTATIONS).is_dir():
        folders.append(path / ANNOTATIONS)
    if guess and (outer := sole_folders(scan.images) or scan.sole_folder):
        folders.append(path.joinpath(*outer))
    tables: list[Path] = []
    for folder in dict.fromkeys(folders):
        for file in sorted(folder.iterdir()):
            is_table = file.suffix.lower() in GUESSED_SUFFIXES and file.is_file()
            if file.suffix.lower() in TEXT and not _is_list_name(file.stem):
                continue
            if is_table and part_of(file.stem) != UNLABELLED and fits(file, guess):
                tables.append(file)
    named = [table for table in tables if _part_of_table(table, path)]
    return named or tables


def _is_list_name(stem: str) -> bool:
    """Return whether the name of a text file is that of a list of images: other text files are not opened."""
    words = words_of(stem)
    return any(map(part_of, words)) or set(words) <= TABLE_WORDS | NEUTRAL_WORDS


def list_tables(path: Path, tables: Sequence[Path]) -> Listing:
    """List the images that the tables in a folder name; the name of a table, or its folder, may say the part.

    Raises UsageError as :func:`.manifests.list_manifest`, or if several tables do not say their parts.
    """
    parts = {table: _part_of_table(table, path) for table in tables}
    if len(tables) > 1 and len(set(parts.values()) - {""}) < len(tables):
        shown = some_of([str(table.relative_to(path)) for table in tables])
        readings = readings_of_data(tables, "the classes are those of '{}'")
        raise AmbiguousInput(f"--data: which table has the classes of '{path}': {shown}?", readings)
    entries: list[Entry] = []
    rejected: list[Rejected] = []
    notes: list[str] = []
    more_labels = labels_of(tables) - {""} if len(tables) > 1 else set[str]()
    for table in tables:
        listing = list_manifest(table, root=path, more_labels=more_labels)
        part = parts[table] if len(tables) > 1 else ""
        entries += [replace(entry, part=entry.part or part) for entry in listing.entries]
        rejected += listing.rejected
        notes += [f"The classes are those of '{table.relative_to(path)}'.", *listing.notes]
    return Listing(path, entries, (), rejected, tuple(notes))


def _part_of_table(table: Path, root: Path) -> str:
    part = part_of(table.stem, TABLE_WORDS) or (part_of(table.parent.name) if table.parent != root else "")
    return "" if part == UNLABELLED else part


def _without_classes(path: Path, scan: FolderScan) -> UsageError:
    """Return the error of a folder without class folders and without a table that fits."""
    tables = [entry for entry in sorted(path.iterdir()) if entry.suffix.lower() in SUFFIXES and entry.is_file()]
    if not scan.images and (foreign := foreign_file(path)) is not None:
        file, (what, way_out) = foreign
        return UsageError(f"--data: '{path}' holds no images, but '{file.relative_to(path)}', {what}", way_out)
    what = "has images but no class folders" if scan.images else "holds no images"
    labelled = [table for table in tables if part_of(table.stem) != UNLABELLED]
    manifest = next((table for table in labelled if not fault_of(table)), None)
    error = UsageError(f"--data: '{path}' {what}", f"give its manifest: --data {manifest}" if manifest else HINT)
    return _with_names(error, path, scan)


def _with_names(error: UsageError, path: Path, scan: FolderScan, fault: str = "") -> UsageError:
    """Return an error as the question whether the names of the images have the classes, if they seem to.

    Otherwise it says why a table beside the images does not count, which is ``fault`` if it is known, or which file
    is not read.
    """
    if isinstance(error, AmbiguousInput):
        return error
    folder, pattern, labels = pattern_of_names(scan.images)
    if pattern:
        place = path.joinpath(*folder, pattern)
        reading = Reading({"data": str(place)}, f"the names of the images say the classes {some_of(labels)}")
        return AmbiguousInput(error.message, [reading])
    tables = [table for table in sorted(path.iterdir()) if table.suffix.lower() in SUFFIXES and table.is_file()]
    tables.sort(key=lambda table: part_of(table.stem) in (UNLABELLED, HOLDOUT))
    if fault := fault or next(filter(None, map(fault_of, tables)), ""):
        return UsageError(error.message, f"{error.hint}; the table beside the images does not count: {fault}")
    if (foreign := foreign_file(path)) is not None:
        file, (what, way_out) = foreign
        return UsageError(error.message, f"'{file.relative_to(path)}' is {what}, which is not read: {way_out}")
    if marks := file_of_boxes(path):
        return UsageError(
            error.message,
            f"'{marks.relative_to(path)}' seems to have boxes: search, plan and data check read them with "
            "--task object-detection",
        )
    return error


@dataclass(frozen=True)
class FolderScan:
    """The files and folders below a folder."""

    images: Sequence[Names]  # files that look like images, sorted
    folders: Sequence[Names]  # folders
    system_folders: Collection[str] = ()  # names of folders of an operating system that were left out
    companions: Collection[str] = ()  # folders of masks and the like that were left out

    @property
    def sole_folder(self) -> Names:
        """The folder that directly holds all images; empty for none, or the folder itself."""
        places = {names[:-1] for names in self.images}
        return places.pop() if len(places) == 1 else ()

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence about the folders that were left out."""
        notes = []
        if self.system_folders:
            which = "folder is" if len(self.system_folders) == 1 else "folders are"
            notes.append(f"The system {which} not read: {', '.join(map(repr, sorted(self.system_folders)))}.")
        if self.companions:
            shown = some_of(self.companions)
            notes.append(f"The images of {shown} are not used: they belong to other images, as masks do.")
        return tuple(notes)

    def without_companions(self) -> FolderScan:
        """Return the images without those that belong to others, see :func:`.folders.companion_folders`."""
        companions = companion_folders(self.images)
        with_images: set[Names] = set()
        images = []
        for names in self.images:
            with_images.update(names[:depth] for depth in range(len(names)))
            if not _is_below(names, companions):
                images.append(names)
        folders = []
        left_out = set(companions)
        for names in self.folders:  # An outer folder comes before those in it
            is_named_so = is_companion_name(names[-1]) or set(words_of(names[-1])) <= NEUTRAL_WORDS
            if names not in with_images and words_of(names[-1]) and is_named_so:
                left_out.add(names)
            if not _is_below(names, left_out):
                folders.append(names)
        return replace(self, images=images, folders=folders, companions=list(map("/".join, companions)))


def _is_below(names: Names, folders: Collection[Names]) -> bool:
    return any(names[:depth] in folders for depth in range(1, len(names) + 1))


def scan_folder(root: Path) -> FolderScan:
    """Return the files below a folder that look like images, and the folders, without hidden and system ones.

    Links are followed, but for those to a folder that they are in. Raises UsageError if a folder cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise UsageError(f"--data: '{error.filename}' cannot be read: {error.strerror}", "check its permissions")

    images: list[Names] = []
    folders: list[Names] = []
    system: set[str] = set()
    for place, inner, files in walk_folder(root, onerror=refuse, followlinks=True):
        above = place.relative_to(root).parts
        system |= {name for name in inner if is_system_name(name) and _holds_images(place / name)}
        inner[:] = [name for name in inner if not is_system_name(name) and not _turns_back(place / name)]
        folders += [(*above, name) for name in inner]
        images += [(*above, name) for name in files if not is_system_name(name) and is_candidate(place / name)]
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


def list_files(path: Path, listed: Listed = lambda _count: None) -> Listing:
    """List the labelled files of a manifest or a folder, whatever its layout, with labels that a model can have.

    See :func:`_list_files`. Raises UsageError for a label with a control character, or of more than
    :data:`LONGEST_LABEL` characters, wherever it comes from.
    """
    listing = without_blanks(_list_files(path, listed))
    for label in {entry.label for entry in listing.entries}:
        if len(label) > LONGEST_LABEL or CONTROL.search(label):
            shown = plain(label[:SHOWN])
            raise UsageError(
                f"--data: '{path}' has the label '{shown}', with a control character, bytes that are not UTF-8, or "
                f"more than {LONGEST_LABEL} characters",
                "write another name of the class",
            )
    return listing


def _list_files(path: Path, listed: Listed) -> Listing:
    """List the labelled files of a manifest or a folder.

    ``listed`` is called now and then with the number of images listed so far, of a manifest or of files with images.

    ``DIR/*`` says that each folder in it is a class, ``DIR/**`` that each folder below it that directly holds images is
    one, and ``DIR/{class}_#.jpg`` that the names of the images say it. ``DIR/{train,test}`` leaves other folders out,
    and ``DIR/!(backup|tmp)`` these.

    Raises UsageError if the path does not exist, no layout fits, or the data cannot be read.
    """
    depth = path.name if path.name in {UPPER, DEEPEST} else ""
    if depth:
        path = path.parent
    if LABEL_IN_NAME in path.name:
        return list_named_images(path)
    chosen = _chosen_folders(path)
    if chosen != ALL_FOLDERS:
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
        return list_folder(path, depth, chosen)
    if path.is_file() and kind_of(path) in SOURCES and (path.suffix.lower() not in PARQUET or holds_images(path)):
        return list_archives(path, [path], listed, depth, chosen)
    if path.is_file() and path.suffix.lower() in GUESSED_SUFFIXES:
        return list_manifest(path, listed)
    if (kind := foreign_kind(path)) is not None:
        what, way_out = kind
        raise UsageError(f"--data: '{path}' is {what}", way_out)
    raise UsageError(f"--data: '{path}' is a file, neither a folder nor a manifest", HINT)


def _chosen_folders(path: Path) -> ChosenFolders:
    """Return the folders that the last name of a path chooses."""
    if path.exists():
        return ALL_FOLDERS
    if chosen := _CHOSEN_FOLDERS.fullmatch(path.name):
        return ChosenFolders(only=frozenset(chosen[1].split(",")))
    if left_out := _LEFT_OUT_FOLDERS.fullmatch(path.name):
        return ChosenFolders(left_out=frozenset(left_out[1].split("|")))
    return ALL_FOLDERS


def list_named_images(pattern: Path) -> Listing:
    """List the images of a folder whose names have the class, by a pattern such as ``DIR/{class}_#.jpg``.

    ``#`` is a number, and ``*`` any text. Raises UsageError if no name fits, or all have one class.
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
        raise UsageError(f"--data: the pattern '{pattern.name}' {what}", "write for example 'photos/{class}_#.jpg'")
    note = f"{plural(others, 'image does', 'images do')} not fit '{pattern.name}', and {'is' if others == 1 else 'are'}"
    return Listing(folder, entries, notes=(f"{note} not used.",) if others else ())


def archives_in(folder: Path) -> list[Path]:
    """Return the files anywhere below a folder that hold images, sorted, without hidden ones and manifests.

    A pipe or a device of such a name is none: it could not be read to its end.
    """
    paths = []
    for place, inner, names in walk_folder(folder):
        inner[:] = [name for name in inner if not is_system_name(name)]
        paths += [place / name for name in names if not is_system_name(name) and kind_of(Path(name)) in SOURCES]
    files = [file for file in paths if file.is_file()]
    return sorted(file for file in files if file.suffix.lower() not in PARQUET or holds_images(file))


def list_archives(
    path: Path,
    files: Sequence[Path],
    listed: Listed = lambda _count: None,
    depth: str = "",
    chosen: ChosenFolders = ALL_FOLDERS,
) -> Listing:
    """List the images inside files: zips of class folders, shards, and tables; options as of :func:`list_folder`.

    The part of a file is the first word of its name, or a folder that it is in, which names one: ``val-00001.tar``,
    ``train/data.arrow``. Raises UsageError if a file cannot be read as its kind, or there is one class only.
    """
    sets = sorted({file.parent for file in files if file.with_name("dataset_info.json").is_file() and _is_record(file)})
    if len(sets) > 1:
        shown = some_of([str(folder.relative_to(path)) for folder in sets])
        readings = readings_of_data(sets, "the images of '{}' are used")
        raise AmbiguousInput(f"--data: '{path}' has {len(sets)} data sets of TFDS: {shown}", readings)
    entries: list[Entry] = []
    rejected: list[Rejected] = []
    notes: list[str] = []
    several = len({part for file in files if (part := part_in_name(file, path))}) > 1
    for file in files:
        part = part_in_name(file, path) if several else ""
        in_folders = list[str]()
        for count, member in enumerate(archive_of(file).members()):
            if count % LISTED_EVERY == 0:
                listed(len(entries) + len(in_folders))
            if member.fault:
                rejected.append(Rejected(file / member.name, member.fault))
            elif member.label is not None:
                entries.append(Entry(file / member.name, member.label, part))
            elif is_candidate(Path(member.name)) and chosen.has(PurePosixPath(member.name).parts):
                in_folders.append(member.name)
        label = _label_of_archive(file, in_folders) if len(files) > 1 and not depth else ""
        if label:
            entries += [Entry(file / name, label, part) for name in in_folders]
            notes.append("Each zip or tar file holds one class, which its folder or its own name says.")
            continue
        try:
            inside = _read_members(file, in_folders, part, depth)
        except AmbiguousInput as error:
            raise _asked_of(path, error) from None
        entries += inside.entries
        notes += inside.notes
    labels = {entry.label for entry in entries}
    refuse_captions(path, labels, len(entries))
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


def _label_of_archive(file: Path, members: Sequence[str]) -> str:
    """Return the class of all images inside one of several files; empty if they are in several folders, or in a part.

    Teachable Machine writes the images of the class ``cat`` to ``cat-samples.zip``.
    """
    folders = {PurePosixPath(member).parent for member in members}
    if len(folders) != 1:
        return ""
    for name in (folders.pop().name, file.stem.removesuffix("-samples")):
        words = set(words_of(name))
        if name and not part_of(name) and not (words and words <= NEUTRAL_WORDS):
            return name
    return ""


def _read_members(file: Path, members: Sequence[str], part: str, depth: str) -> Listing:
    """Return the images of class folders inside a file, below folders that hold all of them, or of split folders."""
    names = [PurePosixPath(member).parts for member in members]
    if not any(len(image) > 1 for image in names):
        return Listing(file, [])
    companions = () if depth else companion_folders(names)
    if companions:
        members = list(filterfalse(lambda member: _is_below(PurePosixPath(member).parts, companions), members))
        names = [PurePosixPath(member).parts for member in members]
    if depth:
        outer = sole_folders(names)
        names = [image[len(outer) :] for image in names]
    reading = read_folders(file, names, depth=depth)
    entries = [Entry(file / members[image.index], image.label, image.part or part) for image in reading.images]
    return Listing(file, entries, notes=tuple(reading.notes))


def _asked_of(path: Path, error: AmbiguousInput) -> AmbiguousInput:
    """Return a question about folders inside a file as one about the path that the user gave."""
    readings = []
    for reading in error.readings:
        place = Path(reading.options["data"])
        name = place.name
        if name in (UPPER, DEEPEST) or _chosen_folders(place) != ALL_FOLDERS:
            readings.append(Reading({"data": str(path / name)}, reading.meaning))
    return AmbiguousInput(error.message, readings, error.otherwise)


def missing_hint(path: Path, layouts: str) -> str:
    """Return what to do about a path that does not exist: the nearest name, and the layouts."""
    try:
        siblings = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        siblings = []
    return f"check the path{nearest(path.name, siblings)}; {layouts}"
