"""Give a figure of images the range that it has on as many other images of the same source.

Figures of boxes, masks, counts and labels come with this range. Images of one group, such as
frames of a film, count once where a function takes groups. Ranges are stored with evaluations.
They are the same for the same answers, because those that draw images again have a fixed seed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import DEVIATIONS, ImageUnits, Interval, Quantity

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]

LEVEL = 0.95
# Distance from 0 and 1 that ends of an interval keep while log odds are computed.
EDGE = 1e-6


@dataclass(frozen=True)
class OtherImagesRange(Interval):
    """A share with the range that holds the share on as many other images,
    which is wider than that of its mean.
    """

    error: float  #: standard error of the value

    def as_percent(self, images: int, source: str, unit: str = "%") -> Quantity:
        """Return the measured share of some images, in %, with its own standard error."""
        return replace(super().as_percent(images, source, unit), error=100 * self.error)


def with_interval(value: float, drawn: Sequence[float] | NDArray[Any]) -> Interval:
    """Return a figure with the 95 % interval that resamples of the images give;
    those without a figure do not count.
    """
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return Interval(value, min(value, float(low)), max(value, float(high)))


def resample_mean(
    shares: Sequence[float] | NDArray[Any], groups: Sequence[Hashable] = ()
) -> Interval:
    """Return the mean of what each image adds to a figure,
    with the interval that resamples of the images give, or of their groups (N,).
    """
    values = np.asarray(shares, np.float64)
    units = ImageUnits.of(groups, len(values))
    return with_interval(float(values.mean()), units.resample_means(values))


def of_other_images(value: float, without: Sequence[float] | NDArray[Any]) -> OtherImagesRange:
    """Return a figure (0-1) with the range that holds it with 95 % confidence
    on as many other images like these.

    ``without`` are the figures without each group of images, (U,): NaN where nothing is left to
    judge. Images of one group, such as frames of a film, resemble each other, so a group counts
    once. The error is that of the jackknife over groups, times the root of two, because the other
    images differ by as much. Student's distribution allows for few groups, and for few that bring
    most of the error; log odds keep the ends inside 0 and 1 (B. Efron and R. Tibshirani, "An
    Introduction to the Bootstrap", 1993, chapter 11; G. Hahn and W. Meeker, "Statistical
    Intervals", 1991, section 4.8).
    """
    from scipy.special import expit, logit

    figures = np.asarray(without, np.float64)
    # Without one group nothing may be left to judge. That group then adds no spread.
    figures = np.where(np.isfinite(figures), figures, value)
    count = len(figures)
    # One group says nothing about others: the figure may be anything there.
    if count < 2:
        return OtherImagesRange(value, 0.0, 1.0, 0.5)
    error = _jackknife_error(figures)
    # All groups have the same figure, so their spread shows nothing.
    if error == 0.0:
        ends = Interval.wilson(value * count, count)
        low = min(value, ends.low)
        high = max(value, ends.high)
        return OtherImagesRange(value, low, high, (high - low) / (2 * DEVIATIONS))
    half = _half_width(figures) * 2**0.5
    # Log odds of 0 and 1 are infinite.
    inside = min(max(value, EDGE), 1 - EDGE)
    # The derivative of the log odds turns a half width of the figure into one of its log odds.
    half_of_odds = half / (inside * (1 - inside))
    low = float(expit(logit(inside) - half_of_odds))
    high = float(expit(logit(inside) + half_of_odds))
    return OtherImagesRange(value, min(value, low), max(value, high), error)


def interval_of_gain(gain: float, without: NDArray[np.float64]) -> Interval:
    """Return what one file gains over another on the same images (-1 to 1) with its 95 % interval.

    ``without`` has the gain without each group of images, (U,): NaN where nothing is left to
    judge. The interval is that of the jackknife over groups, with Student's distribution, see
    :func:`.of_other_images`. It lacks the root of two, because the question is which file is
    better, and not what other images show.
    """
    half = _half_width(np.where(np.isfinite(without), without, gain))
    return Interval(gain, max(gain - half, -1.0), min(gain + half, 1.0))


def _half_width(figures: NDArray[np.float64]) -> float:
    """Return the half width of the 95 % interval of a figure, from its values without each group
    of images (U,); endless for a single group.
    """
    from scipy.special import stdtrit

    count = len(figures)
    if count < 2:
        return float("inf")
    error = _jackknife_error(figures)
    # Equal values have no spread, and no freedom.
    if error == 0.0:
        return 0.0
    return float(stdtrit(_count_freedom(figures), (1 + LEVEL) / 2)) * error


def _jackknife_error(figures: NDArray[np.float64]) -> float:
    """Return the standard error of a figure, from its values without each group (U,)."""
    count = len(figures)
    return float(np.sqrt((count - 1) / count * np.square(figures - figures.mean()).sum()))


def _count_freedom(figures: NDArray[np.float64]) -> float:
    """Return the degrees of freedom of the variance of figures (U,):
    from 1 to U - 1, which equal shares in it give.

    Where a class is in few images, these bring most of the variance, and it is as uncertain as one
    of few images. This is the estimate by the fourth moment (B. O'Neill, "Some useful moment
    results in sampling problems", The American Statistician 68, 2014, section 3).
    """
    count = len(figures)
    squares = np.square(figures - figures.mean())
    kurtosis = float(np.square(squares).mean() / squares.mean() ** 2)
    freedom = 2 * count / (kurtosis - (count - 3) / (count - 1))
    return min(max(freedom, 1.0), count - 1.0)
