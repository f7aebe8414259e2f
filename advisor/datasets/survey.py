"""Read a data set: hash, decode and measure every file once, a few at a time."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.datasets import decode, spellings
from advisor.datasets.dataset import Dataset, LabelledImage, Rejected, fingerprint
from advisor.datasets.duplicates import THUMBNAIL
from advisor.datasets.image_stats import ImageStats, measure
from advisor.datasets.layouts import Entry, Listing, list_files
from advisor.isolation.resources import usable_cores

IN_FLIGHT = 64
"""Files that are read ahead, which limits the memory."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Survey:
    """A data set and the measures of its images.

    Attributes:
        dataset: the images that can be used.
        stats: structured array (N,) with the fields of :class:`ImageStats`; ``jpeg_quality`` is 0 for other formats.
        thumbnails: grey, uint8 (N, THUMBNAIL, THUMBNAIL).
    """

    dataset: Dataset
    stats: NDArray[np.void]
    thumbnails: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _ReadFile:
    """The result of reading one file: hash, measures and thumbnail, or the reason of a failure."""

    sha256: str = ""
    stamp: tuple[int, int] = (0, 0)
    measure: ImageStats | None = None
    thumbnail: NDArray[np.uint8] | None = None
    reason: str = ""


def survey(path: Path | str, progress: Progress | None = None) -> Survey:
    """Read a data set in any layout; faults of single files, classes or labels are recorded, not raised.

    A kilobyte for each image stays in memory, and the pixels of :data:`IN_FLIGHT` files at most.

    Args:
        path: a folder or a manifest, see :mod:`advisor.datasets.layouts`.
        progress: called with (files done, files listed).

    Raises:
        UsageError: the path does not exist, is not a data set, or has only one class.
    """
    listing = list_files(Path(path))
    names = spellings.canonical([entry.label for entry in listing.entries], listing.classes)
    classes = tuple(sorted(set(names.values())))
    place = {written: classes.index(name) for written, name in names.items()}
    images: list[LabelledImage] = []
    rejected: list[Rejected] = list(listing.rejected)
    stats, thumbnails = _empty(len(listing.entries))
    for done, (entry, read) in enumerate(_read_files(listing), start=1):
        if read.measure is None or read.thumbnail is None:
            rejected.append(Rejected(entry.path, read.reason))
        else:
            stats[len(images)] = _row(read.measure)
            thumbnails[len(images)] = read.thumbnail
            images.append(_image(entry, place[entry.label], read))
        if progress:
            progress(done, len(listing.entries))
    dataset = Dataset(
        root=listing.root,
        classes=classes,
        images=tuple(images),
        rejected=tuple(sorted(rejected, key=lambda row: row.path)),
        fingerprint=fingerprint(classes, images),
        spellings=spellings.variants(names),
    )
    return Survey(dataset, stats[: len(images)], thumbnails[: len(images)])


def _read_files(listing: Listing) -> Iterator[tuple[Entry, _ReadFile]]:
    """Yield the files in order, read by parallel threads, at most :data:`IN_FLIGHT` ahead."""
    waiting: deque[tuple[Entry, Future[_ReadFile]]] = deque()
    with decode.quiet(), ThreadPoolExecutor(max_workers=usable_cores()) as pool:
        for entry in listing.entries:
            waiting.append((entry, pool.submit(_read_file, entry.path)))
            if len(waiting) >= IN_FLIGHT:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()


def _read_file(path: Path) -> _ReadFile:
    try:
        data, stamp = decode.read_bytes(path)
        found, thumbnail = measure(data)
    except decode.READ_ERRORS as error:
        return _ReadFile(reason=decode.reason(error))
    return _ReadFile(hashlib.sha256(data).hexdigest(), stamp, found, thumbnail)


def _image(entry: Entry, label: int, read: _ReadFile) -> LabelledImage:
    return LabelledImage(entry.path, label, read.sha256, entry.part, entry.group, read.stamp)


def _row(found: ImageStats) -> tuple[float, ...]:
    return (
        found.width, found.height, found.brightness, found.contrast, found.sharpness, found.framing,
        found.jpeg_quality or 0,
    )  # fmt: skip


def _empty(count: int) -> tuple[NDArray[np.void], NDArray[np.uint8]]:
    """Return empty arrays for ``count`` measures and thumbnails; memory is allocated as they fill."""
    whole, number = np.int32, np.float32
    kinds = (whole, whole, number, number, number, number, np.uint8)
    fields = np.dtype(list(zip(ImageStats.__dataclass_fields__, kinds, strict=True)))
    return np.empty(count, fields), np.empty((count, THUMBNAIL, THUMBNAIL), np.uint8)
