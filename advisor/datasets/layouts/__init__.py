"""Read the layouts of labelled images: class folders, split folders, manifests."""

from pathlib import Path

from advisor.core.errors import UsageError, nearest
from advisor.datasets.dataset import Entry, Listing
from advisor.datasets.layouts.folders import DEEPEST, HINT, UPPER, is_split, list_class_folders, list_split_folders
from advisor.datasets.layouts.manifest import SUFFIXES, list_manifest

__all__ = ["Entry", "Listing", "list_files"]


def list_files(path: Path) -> Listing:
    """List the labelled files of a manifest or a folder, whatever its layout.

    ``DIR/*`` says that each folder in it is a class, ``DIR/**`` that each folder below it that directly holds images is
    one. Raises UsageError if the path does not exist, no layout fits, or the data cannot be read.
    """
    depth = path.name if path.name in {UPPER, DEEPEST} else ""
    if depth:
        path = path.parent
    if not path.exists():
        raise UsageError(f"--data: '{path}' does not exist", missing_hint(path, HINT))
    if path.is_dir():
        return list_split_folders(path, depth) if is_split(path) else list_class_folders(path, depth)
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        return list_manifest(path)
    raise UsageError(f"--data: '{path}' is a file, neither a folder nor a manifest", HINT)


def missing_hint(path: Path, layouts: str) -> str:
    """Return what to do about a path that does not exist: the nearest name, and the layouts."""
    try:
        siblings = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        siblings = []
    return f"check the path{nearest(path.name, siblings)}; {layouts}"
