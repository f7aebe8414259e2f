"""Count images that come in groups: the error of a mean, and independent images in a figure.

Photographs of one shop visit and frames of one film share light and background, so that a network
often answers all of them rightly, or none. A figure of 500 images in 100 groups is less certain
than that of 500 single images. ``datasets`` finds the groups, and every interval of a figure
counts them by :class:`ImageUnits`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RESAMPLES = 2000
"""Bootstrap resamples."""

QUANTILE = 0.975
"""The upper end of a 95 % interval."""


@dataclass(frozen=True, eq=False)
class ImageUnits:
    """The units that were drawn independently: groups of images, or single images.

    ``numbers`` is the number of the unit of each image, from 0 on without a gap, int64 (N,).
    """

    numbers: NDArray[np.int64]

    @classmethod
    def of(cls, groups: Sequence[Hashable], images: int) -> ImageUnits:
        """Return the units of images with these names or numbers of groups, (N,).

        Images without groups, and those that are all in one, are a unit each: nothing shows how
        other groups differ.
        """
        if len(groups) == images:
            numbers = np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
            if numbers.max(initial=0) > 0:
                return cls(numbers.astype(np.int64))
        return cls(np.arange(images))

    @property
    def count(self) -> int:
        """Number of units."""
        return int(self.numbers.max(initial=-1)) + 1

    @property
    def are_single(self) -> bool:
        """Return whether each image is a unit."""
        return self.count == len(self.numbers)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of images of each unit, (U,)."""
        return np.bincount(self.numbers)

    @property
    def mean_size(self) -> float:
        """Number of images in the unit of an image, itself included, in the mean over images."""
        return float(np.square(self.sizes).sum()) / len(self.numbers)

    def sum_values(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sums (U, ...) of values (N, ...) over the images of each unit."""
        sums = np.zeros((self.count, *values.shape[1:]), values.dtype)
        np.add.at(sums, self.numbers, values)
        return sums

    def resample_means(self, values: Floats) -> Floats:
        """Return bootstrap means of values (N,): one for each of :data:`RESAMPLES` draws.

        A draw takes as many units as there are, with replacement. Equal units give equal draws.
        """
        drawn = np.random.default_rng(0).integers(0, self.count, (RESAMPLES, self.count))
        sums = self.sum_values(values)[drawn].sum(axis=1)
        return np.asarray(sums / self.sizes[drawn].sum(axis=1))

    def sum_squares(self, values: NDArray[Any]) -> float:
        """Return the sum of squares, over the units, of what values (N,) differ from their mean.

        Divided by N squared, it is the variance of the mean, which is a ratio of two sums over the
        units (W. Cochran, "Sampling Techniques", 3rd edition, 1977, section 9A.1).
        """
        return float(np.square(self.sum_values(values - values.mean())).sum())

    def error_of_mean(self, values: NDArray[Any]) -> float:
        """Return the standard error of the mean of values (N,).

        Of few groups, it is larger by as much as Student's interval is wider than a normal one.
        """
        squares = self.sum_squares(values)
        error = float(squares**0.5 / len(values))
        if self.are_single:
            return error
        from scipy.special import ndtri, stdtrit

        freedom = self.count - 1
        few = stdtrit(freedom, QUANTILE) / ndtri(QUANTILE)
        return float(few * error * (self.count / freedom) ** 0.5)

    def count_independent(self, shares: Floats) -> float:
        """Return how many independent images a mean of shares (N,) of 0 to 1 is worth, 1 to N.

        That is N over the design effect (L. Kish, "Survey Sampling", 1965, section 8.2): the
        variance of the mean over that of single images. Where few answers are wrong, nothing shows
        how alike those of a group are. So both variances count one image more, and that of the
        groups counts all images of its group with it.
        """
        count = len(shares)
        if self.are_single:
            return float(count)
        mean = float(shares.mean())
        few = self.count / (self.count - 1)
        of_units = few * self.sum_squares(shares)
        # The variance of values that are 0 or 1, times their number.
        of_images = count * mean * (1 - mean)
        effect = (of_units + self.mean_size) / (of_images + 1)
        effect = min(max(effect, 1.0), float(count))
        return count / effect
