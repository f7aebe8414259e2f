"""Compare the images of a set with those of hand-held phones: size, light, focus and compression.

All checks end with these findings; reports show the distributions, too. "Photos from mobile
devices are often poorly framed, badly lit". A set without such images neither trains nor tests for
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.datasets._checks.findings import Finding, Kind, phrase_count
from advisor.datasets._checks.image_measure import Measure
from advisor.datasets._survey import Survey

SMALL_SIDE = 64
LONG_RATIO = 3.0
MODEL_SIDE = 224
FEW = 0.01  # A condition counts as absent if a smaller share of the images shows it

FRAMING = 3  # Place of the measure of framing
MEASURES = (
    Measure(
        "brightness (mean luma, 0-255)", "brightness", 40.0, "very dark", 215.0, "very bright"
    ),
    Measure("contrast (deviation of luma)", "contrast", 15.0, "almost without contrast"),
    # A fifth of TrashNet's median (0.11);
    # 3 % of its images are below, all of them smooth or out of focus.
    Measure("sharpness (edges against contrast)", "sharpness", 0.02, "blurred"),
    # Evenly spread edges give 0.25; with half of that, the middle has no subject.
    Measure(
        "framing (share of edges in the middle)",
        "framing",
        0.12,
        "badly framed (little in the middle)",
    ),
    Measure(
        "compression (JPEG quality)", "jpeg_quality", 50.0, "compressed below JPEG quality 50"
    ),
)

MEASURES_OF_ANY_PLACE = (*MEASURES[:FRAMING], *MEASURES[FRAMING + 1 :])
"""The measures that say the same wherever the subject is in the image."""


@dataclass(frozen=True)
class MeasureDistribution:
    """The distribution of one measure over the set.

    Attributes:
        name: the measure.
        low: its 5 % quantile.
        median: its median.
        high: its 95 % quantile.
        outside: share (0-1) of images beyond the limits.
        words: how those images are called.
    """

    name: str
    low: float
    median: float
    high: float
    outside: float
    words: str

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object, with four decimals."""
        return round_values(asdict(self))

    @classmethod
    def measure_conditions(cls, survey: Survey, framing: bool) -> tuple[MeasureDistribution, ...]:
        """Return the distribution of each measure; that of compression is for JPEGs only.

        ``framing``: also measure it, for images of one thing, which belongs into the middle.
        """
        rows = []
        for measure in MEASURES if framing else MEASURES_OF_ANY_PLACE:
            values = survey.stats[measure.field]
            values = values[values > 0] if measure.field == "jpeg_quality" else values
            if not len(values):
                continue
            low, median, high = map(float, np.quantile(values, (0.05, 0.5, 0.95)))
            outside = 0.0
            for _, mask in _find_beyond_limits(measure, values):
                outside += float(mask.mean())
            words = " or ".join(filter(None, (measure.low_word, measure.high_word)))
            rows.append(cls(measure.name, low, median, high, outside, words))
        return tuple(rows)


def round_values(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with four decimals."""
    rounded = {}
    for name, entry in document.items():
        rounded[name] = round(entry, 4) if isinstance(entry, float) else entry
    return rounded


def check_captures(survey: Survey, measures: Sequence[Measure] = MEASURES) -> Iterator[Finding]:
    """Yield findings on badly taken images and on conditions that the set lacks."""
    count = len(survey.dataset.images)
    absent = []
    for measure in measures:
        for word, mask in _find_beyond_limits(measure, survey.stats[measure.field]):
            # Only JPEGs have this quality; 0 stands for another format.
            taken = mask
            if measure.field == "jpeg_quality":
                taken = mask & (survey.stats[measure.field] > 0)
            yield from _report_images(
                survey, Kind.CAPTURE, taken, f"{word}", "check whether the subject can be seen"
            )
            if taken.sum() < FEW * count:
                absent.append(word)
    if absent:
        yield Finding(
            Kind.CAPTURE,
            f"under {100 * FEW:.0f} % of the images are {', '.join(absent)}, as images from phones"
            " often are",
            "add such images, or train with capture augmentation and check the robust accuracy",
        )


def report_sizes(survey: Survey) -> Iterator[Finding]:
    """Yield findings on images of unusual size, and smaller than the input of most models."""
    width = survey.stats["width"]
    height = survey.stats["height"]
    short = np.minimum(width, height)
    long = np.maximum(width, height)
    yield from _report_images(
        survey,
        Kind.SIZE,
        short < SMALL_SIDE,
        f"less than {SMALL_SIDE} pixels a side",
        "take larger ones",
    )
    long_words = f"over {LONG_RATIO:.0f} times as long as wide"
    yield from _report_images(
        survey, Kind.SIZE, long > LONG_RATIO * short, long_words, "crop them"
    )
    middle = float(np.median(short)) if len(short) else MODEL_SIDE
    if middle < MODEL_SIDE:
        yield Finding(
            Kind.SIZE,
            f"half of the images have a side of {middle:.0f} pixels or less, and most models take"
            f" {MODEL_SIDE}",
            "use the originals if they are larger: a phone's camera gives thousands of pixels",
        )


def _find_beyond_limits(
    measure: Measure, values: NDArray[np.float32]
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    yield measure.low_word, values < measure.low
    if measure.high is not None:
        yield measure.high_word, values > measure.high


def _report_images(
    survey: Survey,
    kind: Kind,
    mask: NDArray[np.bool_],
    what: str,
    advice: str,
) -> Iterator[Finding]:
    images = tuple((survey.dataset.images[int(index)].path,) for index in mask.nonzero()[0])
    if images:
        share = 100 * len(images) / len(mask)
        are = "is" if len(images) == 1 else "are"
        yield Finding(
            kind,
            f"{phrase_count(len(images), 'image')} ({share:.1f} %) {are} {what}",
            advice,
            images,
        )
