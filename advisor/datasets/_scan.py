"""Find the images and the folders below a folder, without those that an operating system made.

``_layouts.py`` and the readers of boxes and masks start with such a scan.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.core import UsageError, plural
from advisor.datasets._companion_folders import find_companion_folders, is_companion_name
from advisor.datasets._folder_questions import Names, some_of
from advisor.datasets._folders import is_below
from advisor.datasets._foreign_files import is_annotation_name
from advisor.datasets._image_files import may_be_image
from advisor.datasets._image_names import RAW_SUFFIXES, is_image_name
from advisor.datasets._parts import NEUTRAL_WORDS, split_words
from advisor.datasets._system_folders import describe_system_folders, is_system_name
from advisor.store import walk_folder

ICLOUD = ".icloud"  # End of the name of a file that is in iCloud alone


@dataclass(frozen=True)
class FolderScan:
    """The files and folders below a folder."""

    images: Sequence[Names]  # files that look like images, sorted
    folders: Sequence[Names]  # folders
    # Names of folders of an operating system that were left out.
    system_folders: Collection[str] = ()
    companions: Collection[str] = ()  # folders of masks and the like that were left out
    placeholders: int = 0  # files that iCloud keeps elsewhere
    raw: int = 0  # raw files of cameras that were left out, as the same photograph is beside them

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence about the folders that were left out."""
        notes = []
        if self.system_folders:
            notes.append(describe_system_folders(self.system_folders))
        if self.placeholders:
            images = plural(self.placeholders, "image is", "images are")
            notes.append(f"{images} in iCloud alone, and not used: download the folder first.")
        if self.raw:
            files = plural(self.raw, "raw file is", "raw files are")
            notes.append(f"{files} not used: an image of the same name is beside.")
        if self.companions:
            shown = some_of(self.companions)
            notes.append(
                f"The images of {shown} are not used: they belong to other images, as masks do."
            )
        return tuple(notes)

    def without_companions(self) -> FolderScan:
        """Return the scan without images that belong to others, such as masks."""
        companions = find_companion_folders(self.images)
        with_images: set[Names] = set()
        images = []
        for names in self.images:
            with_images.update(names[:depth] for depth in range(len(names)))
            if not is_below(names, companions):
                images.append(names)
        folders = []
        left_out = set(companions)
        for names in self.folders:  # An outer folder comes before those in it
            is_named_so = (
                is_companion_name(names[-1]) or set(split_words(names[-1])) <= NEUTRAL_WORDS
            )
            if names not in with_images and split_words(names[-1]) and is_named_so:
                left_out.add(names)
            if not is_below(names, left_out):
                folders.append(names)
        return replace(
            self, images=images, folders=folders, companions=list(map("/".join, companions))
        )


def scan_folder(root: Path) -> FolderScan:
    """Return the images and folders below a folder, without hidden and system ones.

    Links are followed, but for those to a folder that they are in. Raises UsageError if a folder
    cannot be read.
    """

    def refuse_folder(error: OSError) -> None:
        raise UsageError(
            f"--data: '{error.filename}' cannot be read: {error.strerror}", "check its permissions"
        )

    images: list[Names] = []
    folders: list[Names] = []
    system: set[str] = set()
    placeholders = 0
    raw = 0
    for place, inner, files in walk_folder(root, onerror=refuse_folder, followlinks=True):
        above = place.relative_to(root).parts
        system_names = set(filter(is_system_name, inner))
        system |= {name for name in system_names if _holds_images(place / name)}
        others = [name for name in inner if name not in system_names]
        # In place: the walk goes on from this list.
        inner[:] = [name for name in others if not _turns_back(place / name)]
        folders += [(*above, name) for name in inner]
        visible = [name for name in files if not is_system_name(name)]
        candidates = [name for name in visible if may_be_image(place / name)]
        placeholders += sum(map(_is_placeholder, files))
        used = _without_raw(candidates)
        raw += len(candidates) - len(used)
        images += [(*above, name) for name in used]
        if above and not candidates and not inner and any(map(is_annotation_name, files)):
            # No class, but annotations of the images beside it.
            folders.remove(above)
    return FolderScan(sorted(images), folders, system, placeholders=placeholders, raw=raw)


def _is_placeholder(name: str) -> bool:
    """Return whether a file (``.IMG_1.heic.icloud``) stands for an image in iCloud alone."""
    return name.endswith(ICLOUD) and is_image_name(name.removesuffix(ICLOUD))


def _without_raw(names: Sequence[str]) -> list[str]:
    """Return names of images without raw files that have an image of the same name beside."""
    raw = set()
    for name in names:
        if Path(name).suffix.lower() in RAW_SUFFIXES:
            raw.add(name)
    if not raw:
        return list(names)
    shown = set()
    for name in names:
        if name not in raw:
            shown.add(Path(name).stem)
    repeated = set()
    for name in raw:
        if Path(name).stem in shown:
            repeated.add(name)
    return [name for name in names if name not in repeated]


def _holds_images(folder: Path) -> bool:
    """Return whether a folder is a system folder by its name, or directly holds an image."""
    if not folder.name.startswith("."):
        return True
    try:
        return any(may_be_image(entry) for entry in folder.iterdir() if entry.is_file())
    except OSError:
        return False


def list_folders(root: Path) -> list[Path]:
    """Return the folders directly inside ``root``, sorted, without hidden ones.

    Raises UsageError if the folder cannot be read, or a name in it is not valid UTF-8.
    """
    try:
        entries = []
        for entry in root.iterdir():
            if not is_system_name(entry.name):
                entries.append(entry)
        folders = sorted(entry for entry in entries if entry.is_dir())
    except OSError as error:
        raise UsageError(
            f"--data: '{root}' cannot be read: {error.strerror}", "check its permissions"
        ) from error
    for folder in folders:
        try:
            folder.name.encode()
        except UnicodeEncodeError:
            message = (
                f"--data: the class folder {os.fsencode(folder.name)!r} has a name that is not"
                " valid UTF-8"
            )
            raise UsageError(message, "rename it") from None
    return folders


def images_in(folder: Path) -> list[Path]:
    """Return the visible files anywhere below a folder that look like images, sorted.

    Links are followed, but for those to a folder that they are in.
    """
    return [folder.joinpath(*names) for names in scan_folder(folder).images]


def _turns_back(folder: Path) -> bool:
    """Return whether a folder is a link to one that it is in."""
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())
