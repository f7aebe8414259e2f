"""Define the findings of a data check, and write a table of the set without the images they name.

Reports show a :class:`Finding` as it is; the values of :class:`Kind` are read by users of the JSON
output. ``--fix`` writes the tables, which must be read back with the same classes and parts.
"""

import csv
import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path

from advisor.core import UsageError
from advisor.datasets._boxes.entries import Box
from advisor.datasets._dataset import Dataset, LabelledImage
from advisor.datasets._table_rows import CSV

# ``test`` is the word that is read as the hold-out in manifests and names of folders.
_WRITTEN_AS = {"holdout": "test", "": ""}


class Kind(StrEnum):
    """The kind of a finding."""

    UNREADABLE = "unreadable"
    UNUSABLE_BOXES = "unusable boxes"
    SPELLING = "one class, several spellings"
    EXACT_DUPLICATES = "exact duplicates"
    NEAR_DUPLICATES = "near duplicates"
    SAME_IMAGE_TWO_CLASSES = "same image in two classes"
    LEAK = "same image in two parts"
    SPLIT = "split"
    WRONG_LABEL = "likely wrong labels"
    TWO_LABELS = "one box, two labels"
    REPEATED_BOXES = "repeated boxes"
    OUTSIDE = "boxes outside the image"
    TINY = "tiny boxes"
    NO_BOXES = "images without boxes"
    SMALL_CLASS = "small class"
    IMBALANCE = "imbalance"
    OBJECT_SIZE = "object size"
    SIZE = "size"
    CAPTURE = "capture conditions"


@dataclass(frozen=True)
class Finding:
    """One result of a data check."""

    kind: StrEnum  # what it is about: a :class:`Kind`, or a kind of a task's own
    message: str  # one sentence with the figures
    advice: str  # what to do about it
    # The images concerned; duplicates as groups, others one by one.
    groups: tuple[tuple[Path, ...], ...] = ()
    # A few words for each group, such as a better label; empty for none.
    notes: tuple[str, ...] = ()
    leave_out: tuple[Path, ...] = ()  # the images to remove from the set to correct it
    # The boxes concerned, for each group; empty for whole images.
    marked: tuple[tuple[Box, ...], ...] = ()
    leave_out_marked: bool = False  # these boxes are to be removed, too

    @property
    def images(self) -> tuple[Path, ...]:
        """The images of all groups."""
        return tuple(chain.from_iterable(self.groups))


def phrase_count(number: int, one: str, many: str = "") -> str:
    """Return ``1 image`` or ``2 images``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def quote_small_classes(counts: Iterable[tuple[str, int]], least: int) -> list[str]:
    """Return the classes with fewer than ``least`` images, each with its count: ``'cat' (3)``."""
    small = []
    for name, count in counts:
        if count < least:
            small.append(f"'{name}' ({count})")
    return small


def list_paths(dataset: Dataset, groups: Sequence[Sequence[int]]) -> tuple[tuple[Path, ...], ...]:
    """Return groups of indices as groups of paths."""
    paths = [image.path for image in dataset.images]
    path_groups = []
    for group in groups:
        path_groups.append(tuple(paths[index] for index in group))
    return tuple(path_groups)


def require_writable(path: Path) -> Path:
    """Return ``path`` if a manifest can be written there.

    Raises UsageError if the name is not that of a CSV file, the file exists,
    or its folder does not.
    """
    if path.suffix.lower() not in CSV:
        raise UsageError(
            f"--fix: '{path}' is not named as a CSV file", "write for example --fix manifest.csv"
        )
    if path.exists():
        raise UsageError(f"--fix: '{path}' already exists", "give another name")
    if not path.absolute().parent.is_dir():
        raise UsageError(
            f"--fix: the folder '{path.parent}' does not exist",
            "create it, or give another folder",
        )
    return path


def write_manifest(path: Path, dataset: Dataset, leave_out: Collection[Path]) -> int:
    """Write a manifest of all images but those left out; return the number of its rows.

    It has path and label, and split and group if there are some. Paths are relative to the
    manifest. Raises UsageError if the file cannot be written; no partial file is left.
    """
    images = [image for image in dataset.images if image.path not in leave_out]
    rows = [make_row(path, image) | {"label": dataset.classes[image.label]} for image in images]
    write_rows(path, ["path", "label", *list_extra_columns(dataset)], rows)
    return len(rows)


def list_left_out(findings: Sequence[Finding]) -> set[Path]:
    """Return the images that the findings leave out."""
    left_out = set[Path]()
    for finding in findings:
        left_out.update(finding.leave_out)
    return left_out


def list_extra_columns(dataset: Dataset) -> list[str]:
    """Return the columns for the parts and groups, if the images have some."""
    columns = {
        "split": [image.part for image in dataset.images],
        "group": [image.group for image in dataset.images],
    }
    return [name for name, values in columns.items() if any(values)]


def make_row(manifest: Path, image: LabelledImage) -> dict[str, str]:
    """Return the row of an image; its path is relative to the manifest."""
    place = Path(os.path.relpath(image.path.absolute(), manifest.absolute().parent)).as_posix()
    return {"path": place, "split": _WRITTEN_AS.get(image.part, image.part), "group": image.group}


def write_rows(
    path: Path, header: Sequence[str], rows: Iterable[dict[str, str]], option: str = "--fix"
) -> None:
    """Write a table as a whole; UsageError, which names the ``option``, if that fails."""
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    # In the same folder, so that the rename stays within one file system.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, header, extrasaction="ignore", delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)
        unfinished.replace(path)
    except OSError as error:
        raise UsageError(
            f"{option}: '{path}' cannot be written: {error.strerror}", "give another path"
        ) from None
    except UnicodeEncodeError as error:
        row = ascii(error.object.strip())
        raise UsageError(
            f"{option}: '{path}' cannot name a file that is not UTF-8: {row}", "rename the file"
        ) from None
    finally:
        # Where the folder is a file, there is nothing to remove either.
        with suppress(OSError):
            unfinished.unlink()
