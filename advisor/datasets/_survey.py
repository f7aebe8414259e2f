"""Read a data set: hash, decode and measure every file once, a few at a time.

:meth:`Survey.read` is how all tasks read images. Checks, groups and splits look at the
:class:`Survey`, and open no image again. Child processes call :func:`read_file` and
:func:`read_without_quality` by their names. Labels that differ in case or blanks alone are one
class (:func:`choose_spellings`).
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.core import plural
from advisor.datasets._dataset import (
    Dataset,
    LabelledImage,
    Listing,
    Rejected,
    compute_fingerprint,
    draw_files,
)
from advisor.datasets._duplicates import THUMBNAIL
from advisor.datasets._image_decoding import (
    EIGHT_BITS,
    SIXTEEN_BITS,
)
from advisor.datasets._image_files import (
    READ_ERRORS,
    describe_read_error,
    read_bytes,
)
from advisor.datasets._image_stats import (
    COLOURS,
    LEVELS,
    ImageStats,
    Measured,
    Shot,
    measure_image,
)
from advisor.datasets._layouts import list_files
from advisor.datasets._names import plain
from advisor.datasets._reading import ReaderFailure, read_each
from advisor.datasets._sources import Stamp

# Below this share of its range, an image of more than 8 bits is dark: sensors with 10 and 14 bits.
DARK_SHARE = 0.3
# Types of the fields of :class:`ImageStats`, in their order.
STATS_TYPES = (np.int32, np.int32, np.float32, np.float32, np.float32, np.float32, np.uint8)

Progress = Callable[[int, int], None]

# An image with its measures, or why it cannot be used.
_Read = tuple[LabelledImage, Measured] | Rejected


@dataclass(frozen=True, eq=False)
class Survey:
    """A data set and the measures of its images."""

    dataset: Dataset  # the images that can be used
    # (N,) with the fields of :class:`ImageStats`; ``jpeg_quality`` is 0 for other formats.
    stats: NDArray[np.void]
    thumbnails: NDArray[np.uint8]  # grey, uint8 (N, THUMBNAIL, THUMBNAIL)
    colours: NDArray[np.uint8]  # small RGB versions, uint8 (N, COLOURS, COLOURS, 3)
    histograms: NDArray[np.uint8]  # roots of the shares of each colour, uint8 (N, LEVELS ** 3)
    shots: tuple[Shot, ...]  # when and with what each image was taken

    def without_images(self, rejected: Collection[Rejected]) -> Survey:
        """Return the survey without some of the images, which are listed as rejected."""
        paths = {row.path for row in rejected}
        indices = []
        for index, image in enumerate(self.dataset.images):
            if image.path not in paths:
                indices.append(index)
        dataset = replace(
            self.dataset,
            images=tuple(self.dataset.images[index] for index in indices),
            rejected=tuple(sorted((*self.dataset.rejected, *rejected), key=lambda row: row.path)),
        )
        return Survey(
            dataset,
            stats=self.stats[indices],
            thumbnails=self.thumbnails[indices],
            colours=self.colours[indices],
            histograms=self.histograms[indices],
            shots=tuple(self.shots[index] for index in indices),
        )

    def keep_images(self, names: Collection[str]) -> tuple[Survey, list[int]]:
        """Return the survey with some images alone, by their paths within the data, and the places
        that these had.
        """
        places = []
        others = []
        for place, image in enumerate(self.dataset.images):
            if self.dataset.show_path(image.path) in names:
                places.append(place)
            else:
                others.append(Rejected(image.path, "not asked for"))
        return self.without_images(others), places

    @staticmethod
    def read(
        source: Path | str | Listing,
        progress: Progress | None = None,
        most: int | None = None,
        with_quality: bool = True,
    ) -> Survey:
        """Read a data set in any layout; faults of single files, classes or labels are recorded.

        One and a half kilobytes for each image stay in memory, and the pixels of one file in each
        child. ``progress`` is called with (files done, files listed); while files are listed, with
        (files listed so far, 0). If there are more than ``most`` files, about so many are read,
        see :func:`._dataset.draw_files`; 0 or None for all. Without ``with_quality``, of the
        measures only the size is known.

        Raises UsageError if the path does not exist, is not a data set, or has only one class.
        """
        report = progress or (lambda _done, _total: None)
        if isinstance(source, Listing):
            whole_listing = source
        else:
            whole_listing = list_files(Path(source), lambda count: report(count, 0))
        listed = len(whole_listing.entries)
        listing = draw_files(whole_listing, most or listed)
        names = choose_spellings([entry.label for entry in listing.entries], listing.classes)
        classes = tuple(sorted(set(names.values())))
        number_of_class = {name: number for number, name in enumerate(classes)}
        label_of = {written: number_of_class[name] for written, name in names.items()}
        measures = _Measures(len(listing.entries))
        rejected: list[Rejected] = list(listing.rejected)
        reader = read_file if with_quality else read_without_quality
        for done, outcome in enumerate(_read_files(listing, label_of, reader.__name__), start=1):
            if isinstance(outcome, Rejected):
                rejected.append(outcome)
            else:
                measures.add_image(*outcome)
            report(done, len(listing.entries))
        dataset = Dataset(
            root=listing.root,
            classes=classes,
            images=tuple(measures.images),
            rejected=tuple(sorted(rejected, key=lambda row: row.path)),
            fingerprint=compute_fingerprint(classes, measures.images),
            spellings=group_spellings(names),
            listed=listed,
            most=most or 0,
            notes=(*listing.notes, *_describe_images(measures.shots)),
        )
        return measures.make_survey(dataset)


class _Measures:
    """The images that were read so far, in arrays with a row for each file of a listing.

    The memory of a row is claimed when it is written, so files that cannot be used cost none.
    """

    def __init__(self, files: int) -> None:
        self.images: list[LabelledImage] = []
        self.shots: list[Shot] = []
        fields = np.dtype(list(zip(ImageStats.__dataclass_fields__, STATS_TYPES, strict=True)))
        self._stats = np.empty(files, fields)
        self._thumbnails = np.empty((files, THUMBNAIL, THUMBNAIL), np.uint8)
        self._colours = np.empty((files, COLOURS, COLOURS, 3), np.uint8)
        self._histograms = np.empty((files, LEVELS**3), np.uint8)

    def add_image(self, image: LabelledImage, measured: Measured) -> None:
        row = len(self.images)
        self._stats[row] = astuple(measured.stats)
        self._thumbnails[row] = measured.thumbnail
        self._colours[row] = measured.colours
        self._histograms[row] = measured.histogram
        self.images.append(image)
        self.shots.append(measured.shot)

    def make_survey(self, dataset: Dataset) -> Survey:
        """Return the survey of these images, which ``dataset`` has in the same order."""
        count = len(self.images)
        return Survey(
            dataset,
            stats=self._stats[:count],
            thumbnails=self._thumbnails[:count],
            colours=self._colours[:count],
            histograms=self._histograms[:count],
            shots=tuple(self.shots),
        )


def _describe_images(shots: Sequence[Shot]) -> Iterator[str]:
    """Yield sentences about files without their end, scaled values, and several frames."""
    completed = sum(shot.completed for shot in shots)
    if completed:
        yield (
            f"{plural(completed, 'JPEG file lacks its', 'JPEG files lack their')} end marker; all"
            " pixels are there."
        )
    for largest, count in sorted(Counter(shot.largest_value for shot in shots).items()):
        if largest not in (EIGHT_BITS, SIXTEEN_BITS):
            yield (
                f"{plural(count, 'image has', 'images have')} values from 0 to {largest:,.0f},"
                " scaled to 0 to 255."
            )
    several = sum(shot.several for shot in shots)
    if several:
        yield (
            f"{plural(several, 'image has', 'images have')} several pages or frames: the first one"
            " is used."
        )
    dark = []
    for shot in shots:
        if shot.highest_value < shot.largest_value * DARK_SHARE:
            dark.append(shot.highest_value)
    if dark:
        yield (
            f"{plural(len(dark), 'image is', 'images are')} dark as read: no value is above"
            f" {max(dark):,g}. If the sensor has fewer bits than the file, save with 8 bits."
        )


def _read_files(listing: Listing, place: Mapping[str, int], reader: str) -> Iterator[_Read]:
    """Yield the files in order, read by child processes with a function of this module."""
    paths = [entry.path for entry in listing.entries]
    for entry, read in zip(listing.entries, read_each(f"{__name__}:{reader}", paths), strict=True):
        if isinstance(read, str | ReaderFailure):
            reason = read if isinstance(read, str) else f"damaged: {read.reason}"
            yield Rejected(entry.path, reason)
            continue
        sha256, stamp, measured = read
        label = place[entry.label]
        yield LabelledImage(entry.path, label, sha256, entry.part, entry.group, stamp), measured


def read_without_quality(path: Path) -> tuple[str, Stamp, Measured] | str:
    """Return what :func:`read_file` returns; of the measures, the size alone."""
    return read_file(path, with_quality=False)


def read_file(path: Path, with_quality: bool = True) -> tuple[str, Stamp, Measured] | str:
    """Return the hash and the stamp of an image, and its measures; or why it cannot be used."""
    try:
        data, stamp = read_bytes(path)
        measured = measure_image(data, with_quality)
    except READ_ERRORS as error:
        return describe_read_error(error)
    return hashlib.sha256(data).hexdigest(), stamp, measured


def choose_spellings(labels: Iterable[str], declared: Iterable[str] = ()) -> dict[str, str]:
    """Return the class name of each label: its most frequent spelling, then the first one."""
    counts = Counter(labels)
    for name in declared:
        counts.setdefault(name, 0)
    leader: dict[str, str] = {}
    # The name breaks ties, so that the order of the files changes no class.
    for written in sorted(counts, key=lambda name: (-counts[name], name)):
        leader.setdefault(plain(written), written)
    return {written: leader[plain(written)] for written in counts}


def group_spellings(names: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of spellings of one class, from the result of :func:`choose_spellings`."""
    groups: dict[str, list[str]] = defaultdict(list)
    for written, name in names.items():
        groups[name].append(written)
    return tuple(tuple(sorted(group)) for _, group in sorted(groups.items()) if len(group) > 1)
