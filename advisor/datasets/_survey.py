"""Read a data set: hash, decode and measure every file once, a few at a time.

:func:`survey` is how all tasks read images. Checks, groups and splits look at the :class:`Survey`,
and open no image again. Child processes call :func:`read_file` and :func:`read_without_quality` by
their names. Labels that differ in case or blanks alone are one class (:func:`choose_spellings`).
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

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
    WIDE_MODES,
    convert_to_rgb,
    cuts_bits,
    decode_image,
    find_value_range,
    has_frames,
    turn_upright,
)
from advisor.datasets._image_files import (
    READ_ERRORS,
    describe_read_error,
    open_image,
    read_bytes,
    read_orientation,
)
from advisor.datasets._jpeg_completeness import refuse_broken_jpeg
from advisor.datasets._layouts import list_files
from advisor.datasets._names import plain
from advisor.datasets._reading import ReaderFailure, read_each
from advisor.datasets._sources import Stamp

SIDE = 128  # Images are measured at this size, as sharpness depends on it
COLOURS = 8  # Side of the small colour version
LEVELS = 6  # Levels of each channel in the colour histogram
_LEVEL_OF_VALUE = np.arange(256) * LEVELS // 256
# What a value of red, green or blue adds to its place.
_PLACES = np.outer((LEVELS**2, LEVELS, 1), _LEVEL_OF_VALUE)

# Below this share of its range, an image of more than 8 bits is dark: sensors with 10 and 14 bits.
DARK_SHARE = 0.3
# Rows at the end of an image of ``SIDE`` pixels that may be filled because pixels are missing.
FLAT_ROWS = 5
FLAT_LEVELS = 2  # Most difference of grey values in them
_COLOUR_SIDE = 64
# Types of the fields of :class:`ImageStats`, in their order.
STATS_TYPES = (np.int32, np.int32, np.float32, np.float32, np.float32, np.float32, np.uint8)
_EXIF = 0x8769
_ORIGINAL = 0x9003
_DIGITIZED = 0x9004
_MAKE = 0x010F
_MODEL = 0x0110
_TIME = "%Y:%m:%d %H:%M:%S"
# Sum of JPEG's luminance table (ITU-T T.81, annex K.1), which is libjpeg's quality 50.
_BASE_LUMINANCE_SUM = 3688


@dataclass(frozen=True, slots=True)
class ImageStats:
    """The measures of one image."""

    width: int  # pixels
    height: int  # pixels
    brightness: float = 0.0  # mean luma, 0-255
    contrast: float = 0.0  # standard deviation of luma
    # variance of the Laplacian of the grey image at ``SIDE`` pixels over its contrast squared; low
    # for a blurred image of any contrast (Pech-Pacheco et al., 2000)
    sharpness: float = 0.0
    # share (0-1) of the image's edges (squared gradients of luma) in its middle quarter: 0.25 for
    # evenly spread edges, less if the subject is at the border
    framing: float = 0.0
    # libjpeg's scale 1-100, estimated from the luminance table; 0 if the file is not a JPEG.
    jpeg_quality: int = 0


@dataclass(frozen=True, slots=True)
class Shot:
    """When, with what and how an image was taken, from its EXIF data."""

    # Seconds since 1970 by the camera's clock, without its zone; None if not recorded.
    taken_s: float | None = None
    camera: str = ""  # maker and model, empty if they are not recorded
    orientation: int = 1  # how the stored image is turned upright, 1 (it is upright) to 8
    completed: bool = False  # whether the file lacked its end, and all pixels were there
    # Largest value that its pixels can have, see :func:`.find_value_range`.
    largest_value: float = EIGHT_BITS
    # Largest value that they have, of pixels with more than 8 bits.
    highest_value: float = EIGHT_BITS
    # Whether the file has more pages or frames than the first, which is used.
    several: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Measured:
    """All that is measured on one image."""

    stats: ImageStats  # its measures
    thumbnail: NDArray[np.uint8]  # grey, uint8 (THUMBNAIL, THUMBNAIL)
    colours: NDArray[np.uint8]  # small RGB version, uint8 (COLOURS, COLOURS, 3)
    # Roots of the shares of ``LEVELS`` cubed colours, times 255, uint8 (LEVELS ** 3,).
    histogram: NDArray[np.uint8]
    shot: Shot  # when and with what it was taken


def measure_image(data: bytes, with_quality: bool = True) -> Measured:
    """Decode an image completely and measure it; raises one of :data:`.images.READ_ERRORS`.

    JPEGs are decoded at the smallest sufficient scale, which still reads every coded block.
    Without ``with_quality``, the measures are 0 but for the size.
    """
    with open_image(BytesIO(data), reduced=True) as image:
        size = image.size
        quality = _estimate_jpeg_quality(getattr(image, "quantization", None))
        is_cut = cuts_bits(image)
        several = has_frames(image)
    with decode_image(BytesIO(data), SIDE) as (image, completed):
        largest = find_value_range(image)
        is_wide = image.mode[0] in WIDE_MODES
        highest = largest
        if is_wide or is_cut:
            highest = float(np.asarray(image).max())
        shown = convert_to_rgb(image) if is_wide else image
        grey = turn_upright(
            shown.convert("L").resize((SIDE, SIDE), Image.Resampling.BILINEAR), image
        )
        colour = shown if shown.mode == "RGB" else shown.convert("RGB")
        small = turn_upright(
            colour.resize((_COLOUR_SIDE, _COLOUR_SIDE), Image.Resampling.BILINEAR), image
        )
        shot = replace(
            _read_shot(image),
            largest_value=largest,
            highest_value=highest,
            completed=completed,
            several=several,
        )
    if quality and not completed:
        # Decoders fill what is missing with one grey:
        # a flat end tells a cut image from a file without its last marker.
        last_rows = np.asarray(grey)[-FLAT_ROWS:]
        refuse_broken_jpeg(
            data, is_flat_below=int(last_rows.max()) - int(last_rows.min()) <= FLAT_LEVELS
        )
    stats = ImageStats(*size)
    thumbnail = grey.resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BILINEAR)
    return Measured(
        stats=_measure_quality(stats, grey, quality) if with_quality else stats,
        thumbnail=np.asarray(thumbnail, dtype=np.uint8),
        colours=np.asarray(small.reduce(_COLOUR_SIDE // COLOURS), dtype=np.uint8),
        histogram=_compute_histogram(np.asarray(small)),
        shot=shot,
    )


def _measure_quality(size: ImageStats, grey: Image.Image, jpeg_quality: int) -> ImageStats:
    """Return the measures of an image of a size, by its grey version of ``SIDE`` pixels."""
    values = np.asarray(grey, dtype=np.float32)
    contrast = float(values.std())
    quarter = SIDE // 4
    above = values[:-2, 1:-1]
    below = values[2:, 1:-1]
    left = values[1:-1, :-2]
    right = values[1:-1, 2:]
    laplacian = 4 * values[1:-1, 1:-1] - above - below - left - right
    vertical = values[1:, 1:] - values[:-1, 1:]
    horizontal = values[1:, 1:] - values[1:, :-1]
    energy = vertical**2 + horizontal**2
    edges = float(energy.sum())
    middle = float(energy[quarter:-quarter, quarter:-quarter].sum())
    framing = middle / edges if edges > 0 else 0.25
    return replace(
        size,
        brightness=float(values.mean()),
        contrast=contrast,
        # Divided by the contrast, so that it is low for a blurred image of any contrast.
        sharpness=float(laplacian.var()) / max(contrast, 1.0) ** 2,
        framing=framing,
        jpeg_quality=jpeg_quality,
    )


def _compute_histogram(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    red, green, blue = (_PLACES[channel][pixels[..., channel].ravel()] for channel in range(3))
    counts = np.bincount(red + green + blue, minlength=LEVELS**3)
    # Roots, so that the Euclidean distance of two histograms is Hellinger's.
    return np.asarray(np.rint(255 * np.sqrt(counts / red.size)), np.uint8)


def _read_shot(image: Image.Image) -> Shot:
    """Return when and with what an image was taken, by its EXIF data.

    Damaged data says nothing, and the time of the last change does not count.
    """
    try:
        exif = image.getexif()
        inner = exif.get_ifd(_EXIF)
        # Some cameras fill the fields with zero bytes.
        maker = str(exif.get(_MAKE, "")).strip("\0 ")
        model = str(exif.get(_MODEL, "")).strip("\0 ")
        camera = f"{maker} {model}".strip()
    except READ_ERRORS:
        return Shot(orientation=read_orientation(image))
    written = str(inner.get(_ORIGINAL) or inner.get(_DIGITIZED)).strip("\0 ")
    try:
        taken_s = datetime.strptime(written, _TIME).replace(tzinfo=UTC).timestamp()
    except ValueError:
        taken_s = None
    return Shot(taken_s, camera, read_orientation(image))


def _estimate_jpeg_quality(tables: Any) -> int:
    """Return the JPEG quality, 1 to 100, whose scaling of the standard table gives these.

    Quality 50 is the standard table itself. 0 for no tables.
    """
    if not isinstance(tables, dict) or 0 not in tables:
        return 0
    ratio = 100.0 * sum(tables[0]) / _BASE_LUMINANCE_SUM
    # The inverse of libjpeg's rule:
    # above 50 the table shrinks evenly, below it grows as the inverse of the quality.
    quality = (200.0 - ratio) / 2.0 if ratio <= 100.0 else 5000.0 / ratio
    return max(1, min(100, round(quality)))


Progress = Callable[[int, int], None]

# The image and what was measured, or why it failed.
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
        stats = self.stats
        thumbnails = self.thumbnails
        colours = self.colours
        histograms = self.histograms
        shots = tuple(self.shots[index] for index in indices)
        return Survey(
            dataset,
            stats[indices],
            thumbnails[indices],
            colours[indices],
            histograms[indices],
            shots,
        )


def survey(
    source: Path | str | Listing,
    progress: Progress | None = None,
    most: int | None = None,
    with_quality: bool = True,
) -> Survey:
    """Read a data set in any layout; faults of single files, classes or labels are recorded.

    One and a half kilobytes for each image stay in memory, and the pixels of one file in each
    child. ``progress`` is called with (files done, files listed); while files are listed, with
    (files listed so far, 0). If there are more than ``most`` files, about so many are read, see
    :func:`.dataset.draw_files`; 0 or None for all. Without ``with_quality``, of the measures only
    the size is known.

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
            self._stats[:count],
            self._thumbnails[:count],
            self._colours[:count],
            self._histograms[:count],
            tuple(self.shots),
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
