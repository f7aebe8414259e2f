"""Read class folders, and split folders with class folders inside."""

from __future__ import annotations

from pathlib import Path

from advisor.core.errors import UsageError
from advisor.datasets.layouts.layout import PARTS, Entry, Listing
from advisor.datasets.layouts.manifest import SUFFIXES
from advisor.datasets.layouts.walking import folders_in, images_in, loose_images

HINT = (
    "a data set is a folder with one sub-folder a class (DIR/cat/1.jpg, DIR/dog/2.jpg), such folders inside train/, "
    "val/ and test/, or a CSV or Parquet manifest with the columns path and label"
)


class ClassFolders:
    """``DIR/cat/1.jpg``: one sub-folder a class; images may be in deeper folders."""

    def fits(self, path: Path) -> bool:
        """Return whether ``path`` is a folder."""
        return path.is_dir()

    def list_files(self, path: Path) -> Listing:
        """List the images of each class's folder.

        Raises:
            UsageError: there are no images, or only one class.
        """
        folders = folders_in(path)
        entries = [Entry(file, folder.name) for folder in folders for file in images_in(folder)]
        if not entries:
            raise UsageError(f"--data: '{path}' {_nothing(path)}", _hint(path))
        return Listing(path, entries, _several(path, [folder.name for folder in folders]))


class SplitFolders:
    """``DIR/train/cat/1.jpg``, ``DIR/val/...``, ``DIR/test/...``: the user's own split; val or test may be missing."""

    def fits(self, path: Path) -> bool:
        """Return whether all sub-folders have names of parts of a split."""
        folders = folders_in(path) if path.is_dir() else []
        return bool(folders) and all(folder.name.casefold() in PARTS for folder in folders)

    def list_files(self, path: Path) -> Listing:
        """List the images of each part's class folders; a single part is no split.

        Raises:
            UsageError: there are no images, or only one class.
        """
        folders = folders_in(path)
        entries: list[Entry] = []
        classes: list[str] = []
        for folder in folders:
            part = PARTS[folder.name.casefold()] if len(folders) > 1 else ""
            inner = folders_in(folder)
            classes += [one.name for one in inner]
            entries += [Entry(file, one.name, part) for one in inner for file in images_in(one)]
        if not entries:
            raise UsageError(f"--data: the parts {_names(folders)} of '{path}' hold no class folders", HINT)
        return Listing(path, entries, _several(path, sorted(set(classes))))


def _several(path: Path, classes: list[str]) -> list[str]:
    if len(classes) == 1:
        raise UsageError(f"--data: '{path}' has one class only, '{classes[0]}'", "add a second class's folder")
    return classes


def _nothing(path: Path) -> str:
    return "has images but no class folders" if loose_images(path) else "holds no images"


def _hint(path: Path) -> str:
    manifests = [entry for entry in sorted(path.iterdir()) if entry.suffix.lower() in SUFFIXES]
    return f"give its manifest: --data {manifests[0]}" if manifests else HINT


def _names(folders: list[Path]) -> str:
    return ", ".join(f"'{folder.name}'" for folder in folders)
