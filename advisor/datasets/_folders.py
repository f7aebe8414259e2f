"""Tell from the names of folders which class and which part of a split each image has.

``_layouts.py`` calls :func:`read_folders` for a folder, ``_archives.py`` for a file with folders
in it; nothing is opened here. If the names can be read in two ways, the user is asked: a guess
would train on wrong classes. A name that is read in another way gives existing data other classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.core import UsageError, plural
from advisor.datasets._companion_folders import is_companion_name
from advisor.datasets._folder_levels import (
    are_parts_mixed_with_classes,
    refuse_homonyms,
    refuse_nested_folders,
    refuse_neutral_folder,
    refuse_same_folders,
)
from advisor.datasets._folder_questions import (
    DEEPEST,
    UPPER,
    Names,
    ask_mixed_folders,
    ask_pieces,
    ask_repeated_folders,
    ask_stray_folder,
    name_without,
    quote_names,
    refuse_disjoint,
    some_of,
)
from advisor.datasets._parts import (
    NEUTRAL_WORDS,
    UNLABELLED,
    find_classes_with_parts,
    find_parts_of_siblings,
    part_of,
    split_words,
)
from advisor.datasets._stray_folders import (
    explain_pieces,
    find_doubtful_folders,
    find_repeating_folders,
    find_stray_folders,
    find_unsorted_folders,
)

HINT = (
    "a data set is a folder with one sub-folder a class (DIR/cat/1.jpg, DIR/dog/2.jpg), such"
    " folders inside train/, val/ and test/, a CSV or Parquet manifest with the columns path and"
    " label, or files that hold images (.zip, .tar, .parquet, .arrow, .tfrecord)"
)

ONE_CLASS_HINT = (
    "add a second class's folder, or say how the names of the images have the classes: --data"
    " 'DIR/{class}_#.jpg'"
)


WITHOUT_LABELS = frozenset({"unlabeled", "unlabelled"}) | NEUTRAL_WORDS
"""Words of a folder of images without classes."""


@dataclass(frozen=True, slots=True)
class PlacedImage:
    """One image with what its folders say."""

    index: int  # its place in the sequence of images that was read
    label: str  # its class
    part: str = ""  # its part in the user's own split, or empty


@dataclass(frozen=True)
class FolderReading:
    """The classes and parts of images, as the names of their folders state them."""

    images: Sequence[PlacedImage]  # those with a class
    classes: Sequence[str]  # sorted names, also of class folders without an image
    notes: Sequence[str] = ()  # a sentence about each thing that a reader may not expect


def is_below(names: Names, folders: Collection[Names]) -> bool:
    """Return whether an image or a folder is in one of some folders."""
    return any(names[:depth] in folders for depth in range(1, len(names) + 1))


def read_folders(
    root: Path, images: Sequence[Names], folders: Collection[Names] = (), depth: str = ""
) -> FolderReading:
    """Return the class and the part of each image below a folder.

    Args:
        root: the folder or archive, for messages.
        images: the images below it.
        folders: all folders below it, so that a class may have no image.
        depth: :data:`UPPER` or :data:`DEEPEST` if the user says which folders are the classes,
            else empty.

    Raises:
        UsageError: no folder is a class, there is only one class, or it is not clear which folders
            are the classes.
    """
    notes = []
    outer = () if depth else find_sole_folders(images)
    if outer:
        notes.append(f"The classes are the folders of '{'/'.join(outer)}'.")
        root = root.joinpath(*outer)
        images = [names[len(outer) :] for names in images]
        folders = _list_below(folders, outer)
    reading = _read_once(root, images, folders, depth)
    if not depth:
        reading = _without_strays(root, reading)
    notes += reading.notes
    unsorted_folders = find_unsorted_folders([names for names in images if len(names) > 2])
    if unsorted_folders and not depth:
        others = root / name_without(unsorted_folders)
        notes.append(
            f"The images in {some_of(unsorted_folders)} inside classes count; --data '{others}'"
            " leaves them out."
        )
    if len(reading.classes) == 1:
        raise UsageError(
            f"--data: '{root}' has one class only, '{reading.classes[0]}'", ONE_CLASS_HINT
        )
    return FolderReading(reading.images, reading.classes, notes)


def _list_below(folders: Collection[Names], outer: Names) -> list[Names]:
    """Return the folders below an outer one, named from there."""
    inner = []
    for names in folders:
        if names != outer and names[: len(outer)] == outer:
            inner.append(names[len(outer) :])
    return inner


def _read_once(
    root: Path, images: Sequence[Names], folders: Collection[Names], depth: str
) -> FolderReading:
    """Return the reading of folders without those that hold the same images again.

    Raises AmbiguousInput where a folder has the same folders as those beside it, and other images.
    """
    equal: set[str] = set()
    alike: set[str] = set()
    if not depth:
        equal, alike = find_repeating_folders(images)
    # Masks lie in folders that are named as those of their images.
    alike = {name for name in alike if not is_companion_name(name)}
    if alike:
        raise ask_repeated_folders(root, alike)
    if not equal:
        split = _read_split(root, images, folders, depth)
        return split or _read_classes(root, images, folders, depth)
    reading = _read_others(
        images, folders, equal, lambda rest, inner: read_folders(root, rest, inner, depth)
    )
    note = f"The images of {some_of(equal)} are not used: they repeat those beside."
    return replace(reading, notes=(*reading.notes, note))


def _without_strays(root: Path, reading: FolderReading) -> FolderReading:
    """Return a reading without empty folders that are named like none of a class.

    Raises AmbiguousInput if such a folder has images.
    """
    strays = find_stray_folders(reading.classes)
    with_images = {image.label for image in reading.images}
    doubtful = [name for name in strays if name in with_images]
    if doubtful:
        raise ask_stray_folder(root, doubtful, strays[doubtful[0]])
    notes = []
    for name in strays:
        notes.append(f"The folder '{name}' is empty, and is not read as a class.")
    for name in find_doubtful_folders(reading.classes):
        notes.append(
            f"'{name}' is read as a class; --data '{root / name_without([name])}' leaves it out."
        )
    classes = [name for name in reading.classes if name not in strays]
    return replace(reading, classes=classes, notes=(*reading.notes, *notes))


def find_sole_folders(images: Sequence[Names]) -> Names:
    """Return the folders that hold all images and all other folders, the outer one first."""
    depth = 0
    while images and all(len(names) > depth + 2 for names in images):
        if len({names[depth] for names in images}) > 1:
            break
        depth += 1
    return images[0][:depth] if images else ()


def _read_split(
    root: Path, images: Sequence[Names], folders: Collection[Names], depth: str
) -> FolderReading | None:
    """Return the reading of ``train/cat/1.jpg``; None if the folders are no parts of a split."""
    tops = sorted({names[0] for names in images if len(names) > 1})
    classes_with_parts = find_classes_with_parts(tops)
    if classes_with_parts:
        placed = []
        for index, names in enumerate(images):
            if names[0] in classes_with_parts:
                label, part = classes_with_parts[names[0]]
                placed.append(PlacedImage(index, label, part))
        return FolderReading(placed, sorted({label for label, _ in classes_with_parts.values()}))
    parts = find_parts_of_siblings(tops)
    if not parts:
        return None
    below: dict[str, list[Names]] = {top: [] for top in parts}
    for names in images:
        if names[0] in below:
            below[names[0]].append(names[1:])
    common = _find_common_folder(list(below.values()))
    doubled = {}
    with_classes = []
    for top, names_of_part in below.items():
        doubled[top], inner = _strip_part_folders(top, names_of_part, common)
        if any(len(names) > 1 for names in inner):
            with_classes.append(top)
    others = [top for top in tops if top not in parts]
    # Folders such as `unlabeled` beside two classes or more are neither classes nor parts.
    if len(others) > 1 and all(set(split_words(top)) <= WITHOUT_LABELS for top in parts):
        return _without_unlabelled(root, images, folders, parts, depth)
    if others:
        if depth != UPPER and are_parts_mixed_with_classes(parts, with_classes, others):
            raise ask_mixed_folders(root, with_classes, others)
        return None
    if not with_classes:
        raise UsageError(
            f"--data: the parts {quote_names(sorted(parts))} of '{root}' hold no class folders",
            HINT,
        )
    return _place_parts(root, images, folders, parts, doubled, depth)


def _without_unlabelled(
    root: Path,
    images: Sequence[Names],
    folders: Collection[Names],
    unlabelled: Collection[str],
    depth: str,
) -> FolderReading:
    """Return the reading of class folders, with a note on folders of images without classes."""
    reading = _read_others(
        images,
        folders,
        unlabelled,
        lambda labelled, inner: _read_classes(root, labelled, inner, depth),
    )
    unused = Counter(names[0] for names in images if names[0] in unlabelled)
    return replace(reading, notes=(*reading.notes, *_describe_unused(unused)))


def _read_others(
    images: Sequence[Names],
    folders: Collection[Names],
    left_out: Collection[str],
    read: Callable[[Sequence[Names], Collection[Names]], FolderReading],
) -> FolderReading:
    """Return what ``read`` says of the images and folders that are not in some upper folders."""
    indices = [index for index, names in enumerate(images) if names[0] not in left_out]
    rest = [images[index] for index in indices]
    inner = list(filter(lambda names: names[0] not in left_out, folders))
    reading = read(rest, inner)
    placed = [replace(image, index=indices[image.index]) for image in reading.images]
    return replace(reading, images=placed)


def _find_common_folder(parts: Sequence[Sequence[Names]]) -> str:
    """Return the folder that holds the class folders of each part, or an empty name.

    So is ``animals`` in ``train/animals/cat``. A part that has no folders does not count.
    """
    heads: set[str] = set()
    inner: set[str] = set()
    for images in parts:
        if max(map(len, images), default=0) == 1:
            continue
        for names in images:
            heads.add(names[0])
            # The last name is that of the image, so the second of two is no folder.
            below = ""
            if len(names) > 2:
                below = names[1]
            inner.add(below)
    holds_classes = len(inner) > 1 and "" not in inner
    if len(heads) == 1 and holds_classes:
        return heads.pop()
    return ""


def _strip_part_folders(
    top: str, images: Sequence[Names], common: str
) -> tuple[int, Sequence[Names]]:
    """Return how many folders hold all of a part, as in ``train/train/cat``, and images in them.

    Such a folder repeats the name of the part, is neutral, such as ``images``, or is the
    ``common`` one of all parts.
    """
    depth = 0
    while images and all(len(names) > depth + 1 for names in images):
        heads = {names[depth] for names in images}
        head = next(iter(heads))
        repeats = head.casefold() == top.casefold() or part_of(head) == part_of(top) != ""
        holds_all = head == common and depth == 0
        if len(heads) > 1 or not (repeats or holds_all or set(split_words(head)) <= NEUTRAL_WORDS):
            break
        depth += 1
    return depth, [names[depth:] for names in images]


def _place_parts(
    root: Path,
    images: Sequence[Names],
    folders: Collection[Names],
    parts: Mapping[str, str],
    doubled: Mapping[str, int],
    depth: str,
) -> FolderReading:
    """Return the images of class folders in parts, with a note on images in no class folder."""
    indices: list[int] = []
    inner: list[Names] = []
    unused: Counter[str] = Counter()
    for index, names in enumerate(images):
        below = names[1 + doubled.get(names[0], 0) :]
        if len(below) > 1 and parts.get(names[0], UNLABELLED) != UNLABELLED:
            indices.append(index)
            inner.append(below)
        else:
            unused[names[0] if len(names) > 1 else root.name] += 1
    class_folders = {below[0] for below in inner}
    # A class may have a folder without an image in one of the parts.
    for names in folders:
        below = names[1 + doubled.get(names[0], 0) :]
        if below and parts.get(names[0], UNLABELLED) != UNLABELLED:
            class_folders.add(below[0])
    labels, classes = _label_images(root, inner, class_folders, depth)
    tops = [images[index][0] for index in indices]
    # One part alone is a download without its other parts, and no split.
    is_split = len({parts[top] for top in tops}) > 1
    if is_split:
        refuse_disjoint(root, tops, labels)
    placed = []
    for index, label, top in zip(indices, labels, tops, strict=True):
        placed.append(PlacedImage(index, label, parts[top] if is_split else ""))
    return FolderReading(placed, classes, _describe_unused(unused))


def _read_classes(
    root: Path, images: Sequence[Names], folders: Collection[Names], depth: str
) -> FolderReading:
    """Return the reading of ``cat/1.jpg``; a deeper folder may be a part, ``cat/train/1.jpg``."""
    indices = [index for index, names in enumerate(images) if len(names) > 1]
    inner = [images[index] for index in indices]
    parts = {} if depth else _find_parts_below_classes(inner)
    if not parts and not depth:
        reason = explain_pieces({names[0] for names in inner})
        if reason:
            raise ask_pieces(root, inner, reason)
        refuse_same_folders(root, inner)
        refuse_neutral_folder(root, inner)
    top_folders = {names[0] for names in folders} | {names[0] for names in inner}
    if parts:
        labels = [names[0] for names in inner]
        classes = sorted(top_folders)
    else:
        labels, classes = _label_images(root, inner, top_folders, depth)
    placed = []
    for index, label, names in zip(indices, labels, inner, strict=True):
        placed.append(PlacedImage(index, label, parts.get(names[1], "")))
    loose_images = len(images) - len(inner)
    unused = {root.name: loose_images} if loose_images else {}
    return FolderReading(placed, classes, _describe_unused(unused))


def _describe_unused(counts: Mapping[str, int]) -> list[str]:
    """Return a sentence about the images of each folder that are in no class folder."""
    notes = []
    for folder, count in sorted(counts.items()):
        verb, pronoun = ("is", "it is") if count == 1 else ("are", "they are")
        notes.append(
            f"{plural(count, 'image')} of '{folder}' {verb} not used: {pronoun} in no class"
            " folder."
        )
    return notes


def _find_parts_below_classes(images: Sequence[Names]) -> Mapping[str, str]:
    """Return the parts by the names of folders in classes, as in ``cat/train/1.jpg``.

    Empty unless each image is in such a folder, and there are two parts.
    """
    if not images or any(len(names) < 3 for names in images):
        return {}
    inner = {names[1] for names in images}
    parts = find_parts_of_siblings(inner)
    complete = parts.keys() == inner and UNLABELLED not in parts.values()
    if complete and len(set(parts.values())) > 1:
        return parts
    return {}


def _label_images(
    root: Path, images: Sequence[Names], class_folders: Collection[str], depth: str
) -> tuple[list[str], list[str]]:
    """Return the class of each image, and the sorted names of the classes."""
    if not depth:
        refuse_nested_folders(root, images)
    if depth == DEEPEST:
        refuse_homonyms(images)
        labels = [names[-2] for names in images]
        return labels, sorted(set(labels))
    return [names[0] for names in images], sorted(class_folders)
