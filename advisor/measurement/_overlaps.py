"""Measure how masks overlap the true ones:
the mean IoU and shares of pixels, with their ranges on other images.

The task of segmentation counts pixels image by image and judges files with :class:`Overlaps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import ImageUnits, Interval
from advisor.measurement._other_images import Floats, of_other_images


@dataclass(frozen=True, eq=False)
class Overlaps:
    """The overlap of masks of N images with the true ones:
    pixels in both and in either of them, int64 (N, C).
    """

    both: NDArray[np.int64]
    either: NDArray[np.int64]
    found: Sequence[NDArray[np.uint8]] = ()  # the masks that were found
    groups: Sequence[int] = ()  # the number of the group of each image; empty if each image is one

    @property
    def units(self) -> ImageUnits:
        """The number of the group of each image, from 0 on, (N,)."""
        return ImageUnits.of(self.groups, len(self.both))

    @property
    def by_class(self) -> Floats:
        """The IoU of each class over all images, (C,); NaN for a class that is in no mask."""
        either = self.either.sum(axis=0)
        return np.where(either > 0, self.both.sum(axis=0) / np.maximum(either, 1), np.nan)

    @property
    def figure(self) -> Interval:
        """The mean IoU with its range on as many other images, see :func:`.of_other_images`."""
        # The mean IoU without each group of images, of which the jackknife makes the range.
        both = self.both.sum(axis=0) - self.units.sum_values(self.both)
        either = self.either.sum(axis=0) - self.units.sum_values(self.either)
        is_present = either > 0
        ratios = np.where(is_present, both / np.maximum(either, 1), 0.0)
        classes = np.where(is_present.any(axis=1), is_present.sum(axis=1), np.nan)
        without = ratios.sum(axis=1) / classes
        return of_other_images(float(np.nanmean(self.by_class)), without)

    @property
    def right(self) -> Interval:
        """The share of the pixels that have their class, with a range as that of the mean IoU."""
        right = self.both.sum(axis=1)
        pixels = (self.both + self.either).sum(axis=1) / 2
        return ratio_of(right, pixels, self.units)

    @property
    def shares(self) -> list[float]:
        """A figure for each image, whose mean is the mean IoU, to compare files image by image.

        They are the influence of an image on a ratio of sums, to first order (B. Efron and R.
        Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 21).
        """
        by_class = self.by_class
        either = self.either.sum(axis=0)
        there = either > 0
        moved = (self.both - by_class * self.either)[:, there] / either[there] * len(self.both)
        return list(map(float, np.nanmean(by_class) + moved.mean(axis=1)))

    @property
    def of_images(self) -> Floats:
        """The mean IoU of each image over the classes in it, (N,)."""
        there = self.either > 0
        return np.asarray(
            (self.both / np.maximum(self.either, 1)).sum(axis=1, where=there) / there.sum(axis=1)
        )


def ratio_of(parts: NDArray[Any], wholes: NDArray[Any], units: ImageUnits) -> Interval:
    """Return the sum of parts (N,) over that of wholes (N,),
    with its range on as many other images.
    """
    part_sum = float(parts.sum())
    whole_sum = float(wholes.sum())
    # The ratio without each unit in turn: these show how much it depends on single ones.
    parts_left = part_sum - units.sum_values(parts)
    wholes_left = whole_sum - units.sum_values(wholes)
    without = parts_left / np.where(wholes_left > 0, wholes_left, np.nan)
    return of_other_images(part_sum / whole_sum, without)
