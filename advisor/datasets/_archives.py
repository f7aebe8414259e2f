"""List the images inside files: zips of class folders, shards, and tables.

``_layouts.py`` calls :func:`list_archives` for such a file or a folder of them; ``_sources/``
opens each. The files are never unpacked: the address of an image goes on behind its file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import filterfalse
from pathlib import Path, PurePosixPath

from advisor.core import AmbiguousInput, Reading, UsageError
from advisor.datasets._captions import refuse_captions
from advisor.datasets._chosen_folders import ChosenFolders, read_choice
from advisor.datasets._companion_folders import find_companion_folders
from advisor.datasets._dataset import LISTED_EVERY, Entry, Listed, Listing, Rejected
from advisor.datasets._folder_questions import DEEPEST, UPPER, some_of
from advisor.datasets._folders import HINT, find_sole_folders, is_below, read_folders
from advisor.datasets._image_files import may_be_image
from advisor.datasets._parts import NEUTRAL_WORDS, UNLABELLED, part_of, split_words
from advisor.datasets._read_errors import make_readings
from advisor.datasets._sources import SOURCES, find_kind, holds_images, open_source
from advisor.datasets._sources.base import Archive, FolderArchive
from advisor.datasets._system_folders import describe_system_folders, is_system_name
from advisor.datasets._table_rows import PARQUET
from advisor.store import walk_folder

RECORDS = frozenset({".tfrecord", ".array_record"})
ALL_FOLDERS = ChosenFolders()
_WORD = re.compile(r"[-_.\s\d]+")  # What separates the words of a file's name


@dataclass
class _Contents:
    """The images that were listed so far, of all files."""

    entries: list[Entry] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unused: list[UsageError] = field(default_factory=list)  # why a file is not used


def archives_in(folder: Path) -> list[Path]:
    """Return the files anywhere below a folder that hold images, sorted, without hidden ones.

    A table without images is a manifest, and none of these files. Neither is a pipe or a device,
    which could not be read to its end.
    """
    paths = []
    for place, inner, names in walk_folder(folder):
        # In place: the walk goes on from this list.
        inner[:] = filterfalse(is_system_name, inner)
        visible = filterfalse(is_system_name, names)
        paths += [place / name for name in visible if find_kind(Path(name)) in SOURCES]
    files = [file for file in paths if file.is_file()]
    # A table without images is a manifest, which another reader takes.
    manifests = set()
    for file in files:
        if file.suffix.lower() in PARQUET and not holds_images(file):
            manifests.add(file)
    return sorted(set(files) - manifests)


def list_archives(
    path: Path,
    files: Sequence[Path],
    listed: Listed = lambda _count: None,
    depth: str = "",
    chosen: ChosenFolders = ALL_FOLDERS,
) -> Listing:
    """List the images inside files: zips of class folders, shards, and tables.

    ``listed`` is called now and then with the number of images so far. ``depth`` and ``chosen``
    are those of :func:`._layouts._list_folder`. The part of a file is the first word of its name,
    or a folder that it is in, which names one: ``val-00001.tar``, ``train/data.arrow``.

    Raises UsageError if a file cannot be read as its kind, or there is one class only.
    """
    _ask_about_sets(path, files)
    contents = _Contents()
    # One part alone is a download without its other files, and no split.
    is_split = len({part_in_name(file, path) for file in files} - {""}) > 1
    for file in files:
        part = part_in_name(file, path) if is_split else ""
        in_folders = _list_members(file, part, contents, listed, chosen)
        # A single file holds the whole set, so its own name is no class.
        label = ""
        if len(files) > 1 and not depth:
            label = _label_of_archive(file, in_folders)
        if label:
            contents.entries += [Entry(file / name, label, part) for name in in_folders]
            contents.notes.append(
                "Each zip or tar file holds one class, which its folder or its own name says."
            )
            continue
        try:
            listing = _read_members(file, in_folders, part, depth)
        except AmbiguousInput as error:
            raise _ask_about(path, error) from None
        except UsageError as error:
            # Of several files, the others may be the set, and this one a download beside it.
            if len(files) == 1:
                raise
            contents.unused.append(error)
            contents.notes.append(
                f"The images of '{file.name}' are not used:"
                f" {error.message.removeprefix('--data: ')}."
            )
            continue
        contents.entries += listing.entries
        contents.notes += listing.notes
    _refuse_few_classes(path, contents)
    notes = tuple(dict.fromkeys(contents.notes))
    return Listing(path, contents.entries, (), contents.rejected, notes)


def _list_members(
    file: Path,
    part: str,
    contents: _Contents,
    listed: Listed,
    chosen: ChosenFolders,
) -> list[str]:
    """Add the images of a file whose class it states; return the names of the others.

    Tables and shards state a class for each image; zips have folders, which are read together.
    """
    in_folders: list[str] = []
    archive = open_source(file)
    contents.notes += _describe_unread(file, archive)
    for count, member in enumerate(archive.list_members()):
        if count % LISTED_EVERY == 0:
            listed(len(contents.entries) + len(in_folders))
        if member.fault:
            contents.rejected.append(Rejected(file / member.name, member.fault))
        elif member.label is not None:
            contents.entries.append(Entry(file / member.name, member.label, part))
        elif _is_chosen_image(PurePosixPath(member.name), chosen):
            in_folders.append(member.name)
    return in_folders


def _is_chosen_image(name: PurePosixPath, chosen: ChosenFolders) -> bool:
    """Return whether a file inside an archive is an image in folders that the user wants."""
    return may_be_image(Path(name)) and chosen.includes_names(name.parts)


def _ask_about_sets(path: Path, files: Sequence[Path]) -> None:
    """Raise the question which data set of TFDS is meant, if there are several."""
    folders = {file.parent for file in files if _is_record(file)}
    # TFDS writes this file beside the records of one data set.
    sets = sorted(folder for folder in folders if folder.joinpath("dataset_info.json").is_file())
    if len(sets) > 1:
        shown = some_of([str(folder.relative_to(path)) for folder in sets])
        readings = make_readings(sets, "the images of '{}' are used")
        raise AmbiguousInput(
            f"--data: '{path}' has {len(sets)} data sets of TFDS: {shown}", readings
        )


def _refuse_few_classes(path: Path, contents: _Contents) -> None:
    """Refuse files without two classes; the error says what was left out."""
    labels = {entry.label for entry in contents.entries}
    refuse_captions(path, labels, len(contents.entries))
    if not labels and contents.unused:
        raise contents.unused[0]
    if not labels:
        why = f". {contents.notes[0]}" if contents.notes else ""
        if contents.rejected:
            why = f"; the first: {contents.rejected[0].reason}"
        raise UsageError(f"--data: '{path}' holds no image with a label{why}", HINT)
    if len(labels) == 1:
        raise UsageError(
            f"--data: '{path}' has one class only, '{labels.pop()}'",
            "add images of a second class",
        )


def _describe_unread(file: Path, archive: Archive) -> Iterator[str]:
    """Yield sentences about what is not read inside a file: system folders and archives."""
    if not isinstance(archive, FolderArchive):
        return
    folders = archive.system_folders()
    if folders:
        yield describe_system_folders(folders)
    inner = archive.inner_archives()
    if inner:
        yield (
            f"'{file.name}' has archives in it that are not read: {some_of(inner)}. Unpack them if"
            " they have images."
        )


def _is_record(file: Path) -> bool:
    return find_kind(file) in RECORDS


def part_in_name(file: Path, root: Path) -> str:
    """Return the part that the name of a file says, or that of a folder below ``root``."""
    first, *others = _WORD.split(file.stem)
    words = [first]
    last = list(filter(None, others))[-1:]
    if _is_record(file):
        # TFDS has the part last: ``animals-train.tfrecord-00000-of-00001``.
        words = [*last, first]
    if file != root:
        words += file.relative_to(root).parts[:-1]
    parts = list(map(part_of, words))
    return next((part for part in parts if part not in ("", UNLABELLED)), "")


def _label_of_archive(file: Path, members: Sequence[str]) -> str:
    """Return the class of all images inside a file; empty if they are in several folders.

    Teachable Machine writes the images of the class ``cat`` to ``cat-samples.zip``.
    """
    folders = {PurePosixPath(member).parent for member in members}
    if len(folders) != 1:
        return ""
    for name in (folders.pop().name, file.stem.removesuffix("-samples")):
        words = set(split_words(name))
        # A folder `train` or `images` says nothing of a class.
        if name and not part_of(name) and not (words and words <= NEUTRAL_WORDS):
            return name
    return ""


def _read_members(file: Path, members: Sequence[str], part: str, depth: str) -> Listing:
    """List the images of class folders or folders of parts inside a file."""
    names = [PurePosixPath(member).parts for member in members]
    # Images in no folder have no class.
    if not any(len(image) > 1 for image in names):
        return Listing(file, [])
    companions = () if depth else find_companion_folders(names)
    if companions:
        members = [
            member for member in members if not is_below(PurePosixPath(member).parts, companions)
        ]
        names = [PurePosixPath(member).parts for member in members]
    if depth:
        outer = find_sole_folders(names)
        names = [image[len(outer) :] for image in names]
    reading = read_folders(file, names, depth=depth)
    entries = []
    for image in reading.images:
        entries.append(Entry(file / members[image.index], image.label, image.part or part))
    return Listing(file, entries, notes=tuple(reading.notes))


def _ask_about(path: Path, error: AmbiguousInput) -> AmbiguousInput:
    """Return a question about folders inside a file as one about the path that the user gave."""
    readings = []
    for reading in error.readings:
        place = Path(reading.options["data"])
        name = place.name
        if name in (UPPER, DEEPEST) or read_choice(place) != ALL_FOLDERS:
            readings.append(Reading({"data": str(path / name)}, reading.meaning))
    return AmbiguousInput(error.message, readings, error.otherwise)
