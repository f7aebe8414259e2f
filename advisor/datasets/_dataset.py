"""Define the values that describe a set of labelled images, before and after its files are read.

A layout's reader returns a :class:`Listing`: files with labels as written. The survey makes a
:class:`Dataset` of it: the files that can be used. The fingerprint is in cache keys and in run
folders, so equal images and classes must give the same one in every version.
"""

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from advisor.core import UsageError, nearest, utf8
from advisor.datasets._names import plain, strip_invisible

Name = TypeVar("Name", bound=Hashable)

SPARED = 1.25  # A set with fewer than so many times the wanted images is read whole
LEAST = 20  # Files that are drawn of a class in each part of the user's own split, at least
RUN = 10  # Files in a row that are drawn together, at most

# Images between two reports of a listing: a manifest has about as many rows in 0.2 s.
LISTED_EVERY = 10_000
Listed = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class LabelledImage:
    """One readable image."""

    path: Path  # its file
    label: int  # index of its class
    sha256: str  # hash of the file's bytes
    # Its part in the user's own split (``train``, ``validation``, ``holdout``), or empty.
    part: str = ""
    # A group that the user named, such as one subject or one film; empty for none. Groups are
    # never split.
    group: str = ""
    # Size in bytes and time of change in ns when the file was read.
    stamp: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A file that was left out, and the reason."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a listing."""

    path: Path  # the file; it may be missing, or not an image
    label: str  # its class as written
    part: str = ""  # ``train``, ``validation``, ``holdout`` or empty
    group: str = ""  # images of one group stay on one side of a split; empty for none


@dataclass(frozen=True)
class Listing:
    """A data set before its files are opened."""

    root: Path  # paths in reports are relative to it
    entries: Sequence[Entry]  # the files
    classes: Sequence[str] = ()  # class names that exist even without a file
    rejected: Sequence[Rejected] = ()  # entries without an image or a label
    # A sentence about each thing that a reader may not expect of the reading.
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """The images that can be used."""

    root: Path  # the folder that was read, or the folder of the manifest
    classes: tuple[str, ...]  # class names, sorted; a label is an index into them
    # The readable images, in the order in which they were listed.
    images: tuple[LabelledImage, ...]
    rejected: tuple[Rejected, ...]  # the files left out with their reasons
    # SHA-256 of the sorted (class, file hash) pairs; equal data has it at any location.
    fingerprint: str
    # Of each class that is written in several ways (case, blanks).
    spellings: tuple[tuple[str, ...], ...] = ()
    listed: int = 0  # files in the listing, of which some were drawn
    most: int = 0  # most files that were drawn, 0 for all
    notes: tuple[str, ...] = ()  # sentences of the listing

    @property
    def labels(self) -> tuple[int, ...]:
        """The label of each image."""
        return tuple(image.label for image in self.images)

    @property
    def counts(self) -> tuple[int, ...]:
        """Readable images per class, in the order of ``classes``."""
        counts = Counter(self.labels)
        return tuple(counts[label] for label in range(len(self.classes)))

    @property
    def own_parts(self) -> tuple[str | None, ...]:
        """The part of each image in the user's own split, or None; empty without such a split."""
        parts = tuple(image.part or None for image in self.images)
        return parts if any(parts) else ()

    def show_path(self, path: Path) -> str:
        """Return an image's path relative to the root, with bytes that are no UTF-8 as escapes."""
        return utf8(Path(os.path.relpath(path, self.root)).as_posix())


def draw_files(listing: Listing, most: int) -> Listing:
    """Return about ``most`` files of a larger listing, in proportion to its classes and parts.

    Files are drawn in short rows, so that pictures of a burst or film, which follow each other in
    a listing, still show that they belong together; one by one where the user named their group.
    Equal names are drawn alike anywhere.
    """
    # A few more cost less than what is lost by leaving them out.
    if len(listing.entries) <= SPARED * most:
        return listing
    share = most / len(listing.entries)
    chosen = set[int]()
    strata = members_of((plain(entry.label), entry.part) for entry in listing.entries)
    for places in strata.values():
        wanted = max(round(share * len(places)), min(LEAST, len(places)))
        run = min(RUN, max(1, wanted // RUN))
        # Negative numbers for single images, so that they never meet the number of a row.
        runs = []
        for count, place in enumerate(places):
            runs.append(~count if listing.entries[place].group else count // run)
        units = []
        for indices in members_of(runs).values():
            units.append([places[index] for index in indices])
        units.sort(key=lambda unit: _rank_entry(listing.entries[unit[0]]))
        taken = 0
        for unit in units:
            if taken >= wanted:
                break
            chosen.update(unit)
            taken += len(unit)
    return replace(listing, entries=[listing.entries[place] for place in sorted(chosen)])


def _rank_entry(entry: Entry) -> bytes:
    # The folder and the file, and not the whole path:
    # a copy of the set elsewhere gives the same files.
    name = "/".join((entry.label, *entry.path.parts[-2:]))
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()


def compute_fingerprint(classes: Sequence[str], images: Sequence[LabelledImage]) -> str:
    """Return the SHA-256 of the sorted (class name, file hash) pairs."""
    rows = sorted((classes[image.label], image.sha256) for image in images)
    text = "".join(f"{name}\0{sha256}\n" for name, sha256 in rows)
    return hashlib.sha256(text.encode()).hexdigest()


def members_of(names: Iterable[Name]) -> dict[Name, list[int]]:
    """Return the places at which each name stands."""
    members: dict[Name, list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        members[name].append(place)
    return members


def without_blanks(listing: Listing) -> Listing:
    """Return a listing whose labels have no blanks around them.

    It stays as it is where a class has several spellings.
    """
    labels = {entry.label for entry in listing.entries}.union(listing.classes)
    names = {}
    for label in labels:
        name = strip_invisible(label)
        if name not in ("", label):
            names[label] = name
    # Two spellings of one class are the user's to merge; a check names them.
    if not names or len(set(map(plain, labels))) < len(labels):
        return listing
    return rename_classes(listing, names)


def rename_classes(listing: Listing, names: Mapping[str, str]) -> Listing:
    """Return a listing with other names of those classes that are in ``names``."""
    entries = []
    for entry in listing.entries:
        entries.append(replace(entry, label=names.get(entry.label, entry.label)))
    classes = [names.get(name, name) for name in listing.classes]
    return replace(listing, entries=entries, classes=classes)


def class_order(folders: Sequence[str], names: Sequence[str], classes: int) -> tuple[int, ...]:
    """Return the index of the model's output for each class: by name, or in order without names.

    Raises UsageError if the folders and the outputs are not the same classes.
    """
    if not names:
        if len(folders) != classes:
            raise UsageError(
                f"--data: {len(folders)} class folders, and the model has {classes} classes (and"
                " no labels)",
                "give one folder a class, sorted in the order of the model's outputs",
            )
        return tuple(range(classes))
    known = {plain(name): index for index, name in enumerate(names)}
    unknown = [folder for folder in folders if plain(folder) not in known]
    if unknown:
        close = nearest(unknown[0], names)
        raise UsageError(
            f"--data: the model has no class {', '.join(map(repr, unknown[:5]))}{close}",
            f"its classes: {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}",
        )
    return tuple(known[plain(folder)] for folder in folders)
