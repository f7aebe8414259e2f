"""Accuracies given the validation images: differences on the same images, their noise,
and resamplings.

:class:`.Chooser` asks which files are tied with the best one, and how often each would be chosen
on other images. Seeds are fixed: a run that is read again has the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING

from advisor.core._evaluation import Evaluation
from advisor.core._image_units import ImageUnits
from advisor.core._quantity import Quantity
from advisor.core._timings import graph_of, place_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

TIE_POINTS = 0.5
"""Published figures closer than this, in points, count as equal: sources differ by about as
much.
"""

FLOAT = "float32"

DRAWS = 400
"""Resamplings of images and timings. A share of 5 % has a standard error of 1.1 points."""

Answers = Callable[[Evaluation], Sequence[float] | None]
"""Returns each validation image's share in the accuracy of a candidate, None where it is not
known. Their mean is the accuracy: by top-1 they are 1 where it is right and 0 elsewhere.
"""


def not_known(_evaluation: Evaluation) -> None:
    """Return None: nothing is known image by image."""


class Posterior:
    """The accuracies of candidates, given the validation images.

    Candidates with answers on the same images are compared image by image: the images are
    resampled for all of them together, with random weights (the Bayesian bootstrap: D. B. Rubin,
    Annals of Statistics 9, 1981). Its mean and its variance are known without draws. Where images
    come in ``groups``, whole groups are resampled. Other accuracies are independent: their
    intervals tell their standard errors.
    """

    def __init__(
        self,
        evaluations: Sequence[Evaluation],
        answers: Answers = not_known,
        groups: Sequence[Hashable] = (),
    ) -> None:
        import numpy as np

        row_of_file: dict[str, int] = {}
        answers_of_files: list[Sequence[float]] = []
        rows = []
        for evaluation in evaluations:
            right = answers(evaluation)
            file = evaluation.answers.file or evaluation.configuration.key
            # Evaluations on several targets share the answers of their file, which one row holds.
            if right is not None and file not in row_of_file:
                row_of_file[file] = len(answers_of_files)
                answers_of_files.append(right)
            rows.append(-1 if right is None else row_of_file[file])
        images = len(answers_of_files[0]) if answers_of_files else 0
        self._place = {
            evaluation.configuration: place for place, evaluation in enumerate(evaluations)
        }
        #: for each candidate, the row of its file in ``_right``; -1 without answers
        self._rows: Integers = np.array(rows, dtype=np.int64)
        #: each file's share in the accuracy by image, (files, images)
        self._right: Floats = np.array(answers_of_files, dtype=float).reshape(
            len(answers_of_files), images
        )
        self._units = ImageUnits.of(groups, images)
        figures: Floats = np.array([e.accuracy_percent for e in evaluations])
        means = 100 * self._right.mean(axis=1) if answers_of_files else np.zeros(1)
        self._accuracies: Floats = np.where(
            self._rows >= 0, means[np.maximum(self._rows, 0)], figures
        )
        self._deviations: Floats = np.array([_compute_deviation(e.accuracy) for e in evaluations])

    def differences(
        self, of: Sequence[Evaluation], behind: Sequence[Evaluation]
    ) -> tuple[Floats, Floats]:
        """Return by how many points each of ``of`` (rows) is behind each of ``behind``,
        and the standard errors.
        """
        import numpy as np

        mine = self._find_places(of)
        theirs = self._find_places(behind)
        points = self._accuracies[theirs][None, :] - self._accuracies[mine][:, None]
        errors = np.hypot(self._deviations[mine][:, None], self._deviations[theirs][None, :])
        rows = self._rows[mine]
        other = self._rows[theirs]
        if self._right.size:
            by_image = self._compute_paired_errors(rows, other)
            errors = np.where((rows[:, None] >= 0) & (other[None, :] >= 0), by_image, errors)
        return points, errors

    def tied(self, best: Evaluation, others: Sequence[Evaluation]) -> list[bool]:
        """Return which of ``others`` are tied with ``best``:
        the images do not show them to be behind it.

        They are behind by one standard error of the difference at most (the rule of one standard
        error: L. Breiman and others, "Classification and regression trees", 1984, with the error
        of the paired difference).
        """
        points, errors = self.differences(others, [best])
        # Equal files differ by rounding alone.
        return list(map(bool, (points <= errors + 1e-9)[:, 0]))

    def draws(self, of: Sequence[Evaluation]) -> tuple[Floats, Floats]:
        """Return :data:`DRAWS` resamplings of the accuracies (%) and of the latencies (ms),
        (DRAWS, len(of)) each.

        The weights of the images are the same for all candidates in a draw, and those of a group
        are equal. A latency is drawn
        within its interval: one for all files of the same graph on the same target.
        """
        import numpy as np

        places = self._find_places(of)
        rows = self._rows[places]
        files = [e.variant for e in of]
        timings = [(graph_of(e), place_of(e)) for e in of]
        noise = self._draw_noise(files, 1)
        accuracies = self._accuracies[places] + noise * self._deviations[places]
        if self._right.size:
            drawn = 100 * (self._weights @ self._right[np.maximum(rows, 0)].T)
            accuracies = np.where(rows >= 0, drawn, accuracies)
        spread = np.array([_compute_log_deviation(e.latency) for e in of])
        latencies = np.array([e.latency_ms for e in of]) * np.exp(
            spread * self._draw_noise(timings, 2)
        )
        return accuracies, latencies

    @cached_property
    def _weights(self) -> Floats:
        """The weights of the images in each draw."""
        import numpy as np

        # A fixed seed: the same question must have the same answer again, also after a resume.
        of_units = np.random.default_rng(0).standard_exponential((DRAWS, self._units.count))
        weights = of_units[:, self._units.numbers]
        shares: Floats = weights / weights.sum(axis=1, keepdims=True)
        return shares

    def _draw_noise(self, names: Sequence[object], seed: int) -> Floats:
        """Return a standard normal column for each name,
        the same for equal names whatever their order.
        """
        import numpy as np

        # By name: a candidate that finishes later must not change the draws of the others.
        ordered = sorted(set(names), key=repr)
        columns = np.random.default_rng(seed).standard_normal((len(ordered), DRAWS))
        by_name = dict(zip(ordered, columns, strict=True))
        return np.stack([by_name[name] for name in names], axis=1)

    def _compute_paired_errors(self, mine: Integers, other: Integers) -> Floats:
        """Return the standard errors, in points, of differences between files;
        a row below 0 gives no figure.

        Half an image is added for each file that only it answers rightly, or one lone answer would
        count as proof (A. Agresti and Y. Min, "Simple improved confidence intervals for comparing
        matched proportions", Statistics in Medicine 24, 2005). The images of a group count
        together, see :meth:`.ImageUnits.sum_squares`. Nor is the whole group that one file alone
        answers rightly proof, where its square is at most the number of images.
        """
        import numpy as np

        first = np.unique(mine[mine >= 0])
        second = np.unique(other[other >= 0])
        if not first.size or not second.size:
            return np.zeros((len(mine), len(other)))
        count = self._right.shape[1]
        # What a unit's images differ from the mean of the file, summed.
        deviations = self._right - self._right.mean(axis=1, keepdims=True)
        sums = self._units.sum_values(deviations.T).T
        squares = (sums**2).sum(axis=1)
        variances = squares[first][:, None] + squares[second] - 2 * sums[first] @ sums[second].T
        if not self._units.are_single:
            variances *= self._units.count / (self._units.count - 1)
        # Rounding may leave less than nothing of equal files.
        variances = np.maximum(variances, 0.0)
        errors = 100 * np.sqrt((variances + 1) / count / (count + 1))
        rows = np.clip(np.searchsorted(first, mine), 0, len(first) - 1)
        columns = np.clip(np.searchsorted(second, other), 0, len(second) - 1)
        pairwise: Floats = errors[rows][:, columns]
        return pairwise

    def _find_places(self, evaluations: Sequence[Evaluation]) -> Integers:
        import numpy as np

        return np.array([self._place[e.configuration] for e in evaluations], dtype=np.int64)


def _compute_deviation(accuracy: Quantity | None) -> float:
    """Return the standard error of one accuracy, in points."""
    error = accuracy.standard_error if accuracy else None
    if error is None:
        return TIE_POINTS / 2**0.5
    return error


def _compute_log_deviation(latency: Quantity | None) -> float:
    """Return the standard deviation of the logarithm of a latency, 0 where it has no interval."""
    if latency is None or not latency.low or not latency.high:
        return 0.0
    ends = 2 * NormalDist().inv_cdf(0.5 + (latency.level or 0.95) / 2)
    return math.log(latency.high / latency.low) / ends
