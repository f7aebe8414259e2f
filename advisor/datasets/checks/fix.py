"""Write a manifest of a data set without some of its images; the images are not changed."""

from __future__ import annotations

import csv
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.datasets.dataset import Dataset
from advisor.datasets.layouts.manifest import CSV

_WRITTEN_AS = {"holdout": "test", "": ""}


def writable(path: Path) -> Path:
    """Return ``path`` if a manifest can be written there.

    Raises:
        UsageError: the name is not that of a CSV file, the file exists, or its folder does not.
    """
    if path.suffix.lower() not in CSV:
        raise UsageError(f"--fix: '{path}' is not named as a CSV file", "write for example --fix manifest.csv")
    if path.exists():
        raise UsageError(f"--fix: '{path}' already exists", "give another name")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--fix: the folder '{path.parent}' does not exist", "create it, or give another folder")
    return path


def write_manifest(path: Path, dataset: Dataset, leave_out: Collection[Path]) -> int:
    """Write path and label of every image but those left out, and split and group if the set has them.

    Paths are relative to the manifest.

    Returns:
        the number of images in the manifest.

    Raises:
        UsageError: the file cannot be written; no partial file is left.
    """
    split = any(image.part for image in dataset.images)
    group = any(image.group for image in dataset.images)
    header = ["path", "label", *(["split"] if split else []), *(["group"] if group else [])]
    rows = list(_rows(dataset, leave_out, path.absolute().parent))
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, header, extrasaction="ignore", delimiter=_delimiter(path))
            writer.writeheader()
            writer.writerows(rows)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise UsageError(f"--fix: '{path}' cannot be written: {error.strerror}", "give another path") from None
    return len(rows)


def _rows(dataset: Dataset, leave_out: Collection[Path], base: Path) -> Iterator[dict[str, str]]:
    for image in dataset.images:
        if image.path not in leave_out:
            yield {
                "path": Path(os.path.relpath(image.path.absolute(), base)).as_posix(),
                "label": dataset.classes[image.label],
                "split": _WRITTEN_AS.get(image.part, image.part),
                "group": image.group,
            }


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","
