"""Choose the tables that lie beside images, and list them, each for the part that its name says.

``_layouts.py`` asks before it takes folders for classes. A part without class folders may have its
classes in a table: see :func:`find_listed_parts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from advisor.core import AmbiguousInput, UsageError
from advisor.datasets._column_search import ANNOTATIONS, GUESSED_SUFFIXES, names_labelled_images
from advisor.datasets._dataset import Entry, Listing, Rejected
from advisor.datasets._folder_questions import Names, some_of
from advisor.datasets._folders import (
    FolderReading,
    PlacedImage,
    find_sole_folders,
    is_below,
    read_folders,
)
from advisor.datasets._image_places import is_there
from advisor.datasets._manifests import list_manifest, read_labels_of_tables
from advisor.datasets._parts import NEUTRAL_WORDS, TABLE_WORDS, UNLABELLED, part_of, split_words
from advisor.datasets._read_errors import make_readings
from advisor.datasets._table_rows import TEXT


def find_tables_beside(path: Path, images: Sequence[Names], guess: bool = False) -> list[Path]:
    """Return the tables in a folder, or in those of its parts, that name labelled images.

    ``guess`` as of :func:`._column_search.names_labelled_images`; then a folder that holds all
    images counts too, and a text file whose name says that it is a list. If some are named as
    parts of a split, such as ``train.csv``, the others do not count.
    """
    tops = set()
    for names in images:
        if len(names) > 1:
            tops.add(names[0])
    parts = sorted(filter(part_of, tops))
    folders = [path, *(path / part for part in parts)]
    if (path / ANNOTATIONS).is_dir():
        folders.append(path / ANNOTATIONS)
    outer = find_sole_folders(images) or _find_only_folder(images)
    if guess and outer:
        folders.append(path.joinpath(*outer))
    tables: list[Path] = []
    for folder in dict.fromkeys(folders):
        for file in sorted(folder.iterdir()):
            # By its name first: a table is opened to look at its columns, which takes longer.
            if (
                _may_be_table(file)
                and part_of(file.stem) != UNLABELLED
                and names_labelled_images(file, guess)
            ):
                tables.append(file)
    tables_of_parts = [table for table in tables if find_part_of_table(table, path)]
    return tables_of_parts or tables


def _may_be_table(file: Path) -> bool:
    """Return whether a file may be a table by its name; a text file, if it is called a list."""
    suffix = file.suffix.lower()
    if suffix in TEXT and not is_list_name(file.stem):
        return False
    return suffix in GUESSED_SUFFIXES and file.is_file()


def is_list_name(stem: str) -> bool:
    """Return whether a text file is called a list of images; others are not opened."""
    words = split_words(stem)
    return any(map(part_of, words)) or set(words) <= TABLE_WORDS | NEUTRAL_WORDS


def list_tables(path: Path, tables: Sequence[Path]) -> Listing:
    """List the images of the tables in a folder, each of the part that a name says.

    Raises UsageError as :func:`._manifests.list_manifest`, or if several tables do not say their
    parts.
    """
    parts = {table: find_part_of_table(table, path) for table in tables}
    stated_parts = set(parts.values()) - {""}
    # Two tables of one part, or of none, may be versions of the same labels.
    if len(tables) > 1 and len(stated_parts) < len(tables):
        shown = some_of([str(table.relative_to(path)) for table in tables])
        readings = make_readings(tables, "the classes are those of '{}'")
        raise AmbiguousInput(
            f"--data: which table has the classes of '{path}': {shown}?", readings
        )
    entries: list[Entry] = []
    rejected: list[Rejected] = []
    notes: list[str] = []
    # A part may lack a class, so each table is read with the classes of all.
    more_labels = read_labels_of_tables(tables) - {""} if len(tables) > 1 else set[str]()
    for table in tables:
        listing = list_manifest(table, root=path, more_labels=more_labels)
        part = ""
        if len(tables) > 1:
            part = parts[table]
        entries += [replace(entry, part=entry.part or part) for entry in listing.entries]
        rejected += listing.rejected
        notes += [f"The classes are those of '{table.relative_to(path)}'.", *listing.notes]
    return Listing(path, entries, (), rejected, tuple(notes))


def find_part_of_table(table: Path, root: Path) -> str:
    """Return the part that the name of a table says, or that of its folder; empty for none."""
    part = part_of(table.stem, TABLE_WORDS)
    if not part and table.parent != root:
        part = part_of(table.parent.name)
    return "" if part == UNLABELLED else part


def _find_only_folder(images: Sequence[Names]) -> Names:
    """Return the folder that directly holds all images; empty for none, or the folder itself."""
    places = {names[:-1] for names in images}
    if len(places) == 1:
        return places.pop()
    return ()


def find_listed_parts(path: Path, images: Sequence[Names]) -> Mapping[Names, Listing]:
    """Return the parts without class folders whose classes a table in them states.

    So is ``val/`` of Tiny ImageNet, beside ``train/n01443537/``. The key is the folder of the part
    below ``path``.
    """
    outer = find_sole_folders(images)
    inside: dict[str, list[Names]] = {}
    for names in images:
        top, *inner = names[len(outer) :]
        if inner and part_of(top) not in ("", UNLABELLED):
            inside.setdefault(top, []).append(tuple(inner))
    flat = [top for top, inner in inside.items() if all(map(_is_flat, inner))]
    # Without a part in class folders, the table states all classes and is read as a list.
    if len(flat) == len(inside):
        return {}
    parts = {}
    for top in flat:
        folder = path.joinpath(*outer, top)
        tables = list(filter(_is_guessed_table, sorted(folder.iterdir())))
        if len(tables) != 1:
            continue
        try:
            listing = list_manifest(tables[0], root=folder)
        except UsageError:
            continue
        entries = []
        for entry in listing.entries:
            if is_there(entry.path):
                entries.append(replace(entry, part=part_of(top)))
        note = f"The classes of '{top}' are those of '{tables[0].relative_to(path)}'."
        parts[*outer, top] = Listing(folder, entries, (), listing.rejected, (note,))
    return parts


def read_with_listed_parts(
    path: Path, images: Sequence[Names], folders: Sequence[Names], depth: str
) -> tuple[FolderReading, Sequence[Listing]]:
    """Return the reading of folders, and of the parts of :func:`find_listed_parts`.

    These parts are read as folders if they have other classes than the folders.
    """
    listed = {} if depth else find_listed_parts(path, images)
    if not listed:
        return read_folders(path, images, folders, depth), ()
    indices = [index for index, names in enumerate(images) if not is_below(names, listed)]
    others = []
    for names in folders:
        if not is_below((*names, ""), listed):
            others.append(names)
    reading = read_folders(path, [images[index] for index in indices], others, depth)
    labels: set[str] = set()
    notes = list(reading.notes)
    for listing in listed.values():
        labels.update(entry.label for entry in listing.entries)
        notes += listing.notes
    if not labels <= set(reading.classes):
        return read_folders(path, images, folders, depth), ()
    outer = len(next(iter(listed))) - 1
    placed = []
    for image in reading.images:
        index = indices[image.index]
        placed.append(PlacedImage(index, image.label, image.part or part_of(images[index][outer])))
    return FolderReading(placed, reading.classes, tuple(notes)), list(listed.values())


def _is_flat(names: Names) -> bool:
    """Return whether an image of a part is in no class folder."""
    if len(names) == 1:
        return True
    return len(names) == 2 and set(split_words(names[0])) <= NEUTRAL_WORDS


def _is_guessed_table(file: Path) -> bool:
    return _may_be_table(file) and names_labelled_images(file, guess=True)
