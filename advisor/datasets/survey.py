"""Read a data set: hash, decode and measure every file once, a few at a time."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.datasets.dataset import Dataset, Entry, LabelledImage, Listing, Rejected, fingerprint
from advisor.datasets.image_stats import COLOURS, LEVELS, ImageStats, Measured, Shot, measure
from advisor.datasets.images import READ_ERRORS, quiet, read_bytes, reason
from advisor.datasets.layouts import list_files
from advisor.datasets.look_alikes import THUMBNAIL
from advisor.isolation.resources import usable_cores

IN_FLIGHT = 64
"""Files that are read ahead, which limits the memory."""

Progress = Callable[[int, int], None]

_Read = tuple[LabelledImage, Measured] | Rejected
"""The result of reading one file: the image and what was measured, or the reason of a failure."""


@dataclass(frozen=True, eq=False)
class Survey:
    """A data set and the measures of its images."""

    dataset: Dataset  # the images that can be used
    # structured array (N,) with the fields of :class:`ImageStats`; ``jpeg_quality`` is 0 for other formats
    stats: NDArray[np.void]
    thumbnails: NDArray[np.uint8]  # grey, uint8 (N, THUMBNAIL, THUMBNAIL)
    colours: NDArray[np.uint8]  # small RGB versions, uint8 (N, COLOURS, COLOURS, 3)
    histograms: NDArray[np.uint8]  # roots of the shares of each colour, uint8 (N, LEVELS ** 3)
    shots: tuple[Shot, ...]  # when and with what each image was taken

    def without(self, rejected: Collection[Rejected]) -> Survey:
        """Return the survey without some of the images, which are listed as rejected."""
        paths = {row.path for row in rejected}
        kept = [index for index, image in enumerate(self.dataset.images) if image.path not in paths]
        dataset = replace(
            self.dataset,
            images=tuple(self.dataset.images[index] for index in kept),
            rejected=tuple(sorted((*self.dataset.rejected, *rejected), key=lambda row: row.path)),
        )
        stats, thumbnails, colours, histograms = self.stats, self.thumbnails, self.colours, self.histograms
        shots = tuple(self.shots[index] for index in kept)
        return Survey(dataset, stats[kept], thumbnails[kept], colours[kept], histograms[kept], shots)


def survey(source: Path | str | Listing, progress: Progress | None = None) -> Survey:
    """Read a data set in any layout; faults of single files, classes or labels are recorded, not raised.

    One and a half kilobytes for each image stay in memory, and the pixels of :data:`IN_FLIGHT` files at most.
    ``progress`` is called with (files done, files listed). Raises UsageError if the path does not exist, is not a data
    set, or has only one class.
    """
    listing = source if isinstance(source, Listing) else list_files(Path(source))
    names = canonical([entry.label for entry in listing.entries], listing.classes)
    classes = tuple(sorted(set(names.values())))
    place = {written: classes.index(name) for written, name in names.items()}
    images: list[LabelledImage] = []
    rejected: list[Rejected] = list(listing.rejected)
    shots: list[Shot] = []
    stats, thumbnails, colours, histograms = _empty(len(listing.entries))
    for done, read in enumerate(_read_files(listing, place), start=1):
        if isinstance(read, Rejected):
            rejected.append(read)
        else:
            image, found = read
            stats[len(images)], thumbnails[len(images)] = astuple(found.stats), found.thumbnail
            colours[len(images)], histograms[len(images)] = found.colours, found.histogram
            images.append(image)
            shots.append(found.shot)
        if progress:
            progress(done, len(listing.entries))
    dataset = Dataset(
        root=listing.root,
        classes=classes,
        images=tuple(images),
        rejected=tuple(sorted(rejected, key=lambda row: row.path)),
        fingerprint=fingerprint(classes, images),
        spellings=variants(names),
    )
    count = len(images)
    return Survey(dataset, stats[:count], thumbnails[:count], colours[:count], histograms[:count], tuple(shots))


def _read_files(listing: Listing, place: Mapping[str, int]) -> Iterator[_Read]:
    """Yield the files in order, read by parallel threads, at most :data:`IN_FLIGHT` ahead."""
    waiting: deque[Future[_Read]] = deque()
    with quiet(), ThreadPoolExecutor(max_workers=usable_cores()) as pool:
        for entry in listing.entries:
            waiting.append(pool.submit(_read_file, entry, place[entry.label]))
            if len(waiting) >= IN_FLIGHT:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _read_file(entry: Entry, label: int) -> _Read:
    try:
        data, stamp = read_bytes(entry.path)
        found = measure(data)
    except READ_ERRORS as error:
        return Rejected(entry.path, reason(error))
    sha256 = hashlib.sha256(data).hexdigest()
    return LabelledImage(entry.path, label, sha256, entry.part, entry.group, stamp), found


def _empty(count: int) -> tuple[NDArray[np.void], NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
    """Return empty arrays for the measures and small versions of ``count`` images; memory is allocated as they fill."""
    whole, number = np.int32, np.float32
    kinds = (whole, whole, number, number, number, number, np.uint8)
    fields = np.dtype(list(zip(ImageStats.__dataclass_fields__, kinds, strict=True)))
    shapes = (THUMBNAIL, THUMBNAIL), (COLOURS, COLOURS, 3), (LEVELS**3,)
    thumbnails, colours, histograms = (np.empty((count, *shape), np.uint8) for shape in shapes)
    return np.empty(count, fields), thumbnails, colours, histograms


def canonical(labels: Iterable[str], declared: Iterable[str] = ()) -> dict[str, str]:
    """Return the class name of each label as written: the most frequent spelling, then the first. Declared names may
    have no image.
    """
    counts = Counter(labels)
    for name in declared:
        counts.setdefault(name, 0)
    leader: dict[str, str] = {}
    for written in sorted(counts, key=lambda name: (-counts[name], name)):
        leader.setdefault(_plain(written), written)
    return {written: leader[_plain(written)] for written in counts}


def variants(names: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of spellings of one class, from the result of :func:`canonical`."""
    groups: dict[str, list[str]] = defaultdict(list)
    for written, name in names.items():
        groups[name].append(written)
    return tuple(tuple(sorted(group)) for _, group in sorted(groups.items()) if len(group) > 1)


def _plain(name: str) -> str:
    return " ".join(name.split()).casefold()
