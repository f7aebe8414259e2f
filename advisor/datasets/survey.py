"""Reading a data set: every file is hashed, decoded to its last byte and looked at once, a few at a time."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.datasets import decode, spellings
from advisor.datasets.dataset import Dataset, LabelledImage, Rejected, fingerprint
from advisor.datasets.duplicates import THUMBNAIL
from advisor.datasets.image_stats import Look, look
from advisor.datasets.layouts import Entry, Listing, list_files
from advisor.isolation.cores import usable_cores

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

IN_FLIGHT = 64
"""Files that are read ahead: what bounds the memory, whatever the size of the set."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Survey:
    """A data set and how its images look.

    Attributes:
        dataset: what can be used.
        looks: structured array (N,) with the fields of :class:`Look`; ``jpeg_quality`` is 0 where the file is no JPEG.
        thumbnails: grey, uint8 (N, THUMBNAIL, THUMBNAIL).
    """

    dataset: Dataset
    looks: NDArray[np.void]
    thumbnails: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What reading one file gave: a hash, a look and a thumbnail, or a reason why not."""

    sha256: str = ""
    stamp: tuple[int, int] = (0, 0)
    look: Look | None = None
    thumbnail: NDArray[np.uint8] | None = None
    reason: str = ""


def survey(path: Path | str, progress: Progress | None = None) -> Survey:
    """Read a data set in any layout. What is wrong with single files, classes or labels is recorded, not raised.

    A kilobyte an image stays in memory, and of pixels only what :data:`IN_FLIGHT` files hold.

    Args:
        path: a folder or a manifest, see :mod:`advisor.datasets.layouts`.
        progress: called with (files done, files listed).

    Raises:
        UsageError: nothing there, nothing that can be read as a data set, or one class only.
    """
    listing = list_files(Path(path))
    names = spellings.canonical([entry.label for entry in listing.entries], listing.classes)
    classes = tuple(sorted(set(names.values())))
    place = {written: classes.index(name) for written, name in names.items()}
    images: list[LabelledImage] = []
    rejected: list[Rejected] = list(listing.rejected)
    looks, thumbnails = _empty(len(listing.entries))
    for done, (entry, seen) in enumerate(_seen(listing), start=1):
        if seen.look is None or seen.thumbnail is None:
            rejected.append(Rejected(entry.path, seen.reason))
        else:
            looks[len(images)] = _row(seen.look)
            thumbnails[len(images)] = seen.thumbnail
            images.append(_image(entry, place[entry.label], seen))
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
    return Survey(dataset, looks[: len(images)], thumbnails[: len(images)])


def _seen(listing: Listing) -> Iterator[tuple[Entry, _Seen]]:
    """Read the files in parallel threads, in order, never more than :data:`IN_FLIGHT` ahead."""
    waiting: deque[tuple[Entry, Future[_Seen]]] = deque()
    with decode.quiet(), ThreadPoolExecutor(max_workers=usable_cores()) as pool:
        for entry in listing.entries:
            waiting.append((entry, pool.submit(_see, entry.path)))
            if len(waiting) >= IN_FLIGHT:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()


def _see(path: Path) -> _Seen:
    try:
        data, stamp = decode.read_bytes(path)
        found, thumbnail = look(data)
    except decode.READ_ERRORS as error:
        return _Seen(reason=decode.reason(error))
    return _Seen(hashlib.sha256(data).hexdigest(), stamp, found, thumbnail)


def _image(entry: Entry, label: int, seen: _Seen) -> LabelledImage:
    return LabelledImage(entry.path, label, seen.sha256, entry.part, entry.group, seen.stamp)


def _row(found: Look) -> tuple[float, ...]:
    return (
        found.width, found.height, found.brightness, found.contrast, found.sharpness, found.framing,
        found.jpeg_quality or 0,
    )  # fmt: skip


def _empty(count: int) -> tuple[NDArray[np.void], NDArray[np.uint8]]:
    """Room for so many looks and thumbnails; the operating system gives it page by page as it fills."""
    import numpy as np

    whole, number = np.int32, np.float32
    kinds = (whole, whole, number, number, number, number, np.uint8)
    fields = np.dtype(list(zip(Look.__dataclass_fields__, kinds, strict=True)))
    return np.empty(count, fields), np.empty((count, THUMBNAIL, THUMBNAIL), np.uint8)
