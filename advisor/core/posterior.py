"""Accuracies given the validation images: differences on the same images, what to expect, and how they may turn out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

from advisor.core.evaluation import Evaluation, accuracy_of, latency_of, network_of, variant_of
from advisor.core.quantity import DEVIATIONS, Quantity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

TIE_POINTS = 0.5
"""Published figures closer than this, in points, count as equal: sources differ by about as much."""

SHOWN_DEVIATIONS = 0.75
"""Standard errors of a difference on the same images that count as noise. Beyond them the images show the difference:
the odds that it is real are 3 to 1. Chosen on splits of TrashNet; see docs/decisions."""

FORM_POINTS = 0.5
"""Standard deviation, in points, of what a form of a network gains or loses against the float form. Measured on the
hold-out of TrashNet: 0.25 for ``weight_int8`` to 0.7 for ``int8``, the noise of 505 images included."""

BROKEN_SHARE, BROKEN_POINTS = 0.05, 10.0
"""Share of forms that lose much, as if quantization failed, and the standard deviation of their loss in points. So for
fine-tuning that goes wrong."""

FLOAT = "float32"

LEAST_ERROR = 0.2
"""Least error in % that is counted, so that its logarithm stays finite."""

RIVALS = 256
"""Most accurate candidates that each candidate is compared with, so that 10,000 candidates take seconds."""

DRAWS = 400
"""Resamplings of images and timings. A share of 5 % has a standard error of 1.1 points."""

Answers = Callable[[Evaluation], Sequence[float] | None]
"""Returns each validation image's share in the accuracy of a candidate, None where it is not known. Their mean is the
accuracy: by top-1 they are 1 where it is right and 0 elsewhere."""


def not_known(_evaluation: Evaluation) -> None:
    """Return None: nothing is known image by image."""


class Posterior:
    """The accuracies of candidates, given the validation images.

    Candidates with answers on the same images are compared image by image: the images are resampled for all of them
    together, with random weights (the Bayesian bootstrap: D. B. Rubin, Annals of Statistics 9, 1981). Its mean and its
    variance are known without draws. Other accuracies are independent: their intervals tell their standard errors.
    """

    def __init__(self, evaluations: Sequence[Evaluation], answers: Answers = not_known) -> None:
        import numpy as np

        files: dict[str, int] = {}
        known: list[Sequence[float]] = []
        rows = []
        for evaluation in evaluations:
            right = answers(evaluation)
            file = evaluation.answers.file or evaluation.configuration.key
            if right is not None and file not in files:
                files[file] = len(known)
                known.append(right)
            rows.append(-1 if right is None else files[file])
        self._evaluations = tuple(evaluations)
        self._place = {evaluation.configuration: place for place, evaluation in enumerate(evaluations)}
        self._rows: Integers = np.array(rows, dtype=np.int64)
        self._right: Floats = np.array(known, dtype=float).reshape(len(known), len(known[0]) if known else 0)
        figures: Floats = np.array([accuracy_of(e) for e in evaluations])
        means = 100 * self._right.mean(axis=1) if known else np.zeros(1)
        self._accuracies: Floats = np.where(self._rows >= 0, means[np.maximum(self._rows, 0)], figures)
        self._deviations: Floats = np.array([_deviation(e.accuracy) for e in evaluations])
        self._bases, self._base_errors = self._compared_with(evaluations)

    def _compared_with(self, evaluations: Sequence[Evaluation]) -> tuple[Integers, Floats]:
        """Return the place of each one's float form, or else most accurate form, and the error of the difference."""
        import numpy as np

        networks = defaultdict[tuple[str, str], list[Evaluation]](list)
        for evaluation in evaluations:
            networks[network_of(evaluation)].append(evaluation)
        bases, errors = np.zeros(len(evaluations), dtype=np.int64), np.zeros(len(evaluations))
        for forms in networks.values():
            base = min(forms, key=lambda e: (e.configuration.compression != FLOAT, -accuracy_of(e), e.configuration))
            places = self._places(forms)
            bases[places] = self._place[base.configuration]
            errors[places] = self.differences(forms, [base])[1][:, 0]
        return bases, errors

    def differences(self, of: Sequence[Evaluation], behind: Sequence[Evaluation]) -> tuple[Floats, Floats]:
        """Return by how many points each of ``of`` (rows) is behind each of ``behind``, and the standard errors."""
        import numpy as np

        mine, theirs = self._places(of), self._places(behind)
        points = self._accuracies[theirs][None, :] - self._accuracies[mine][:, None]
        errors = np.hypot(self._deviations[mine][:, None], self._deviations[theirs][None, :])
        own, other = self._rows[mine], self._rows[theirs]
        if self._right.size:
            by_image = self._errors_on_same_images(own, other)
            errors = np.where((own[:, None] >= 0) & (other[None, :] >= 0), by_image, errors)
        return points, errors

    def tied(self, best: Evaluation, others: Sequence[Evaluation]) -> list[bool]:
        """Return which of ``others`` are tied with ``best``: the 95 % interval of their difference contains zero."""
        points, errors = self.differences(others, [best])
        return [bool(tie) for tie in (abs(points) <= DEVIATIONS * errors + 1e-9)[:, 0]]

    def shown_behind(self, of: Sequence[Evaluation], pool: Sequence[Evaluation]) -> Floats:
        """Return how many points, less the noise, each of ``of`` is behind any of ``pool``; at least 0."""
        points, errors = self.differences(of, _most_accurate(pool, RIVALS))
        shown: Floats = (points - SHOWN_DEVIATIONS * errors).max(axis=1, initial=0.0)
        return shown

    def gained(self, tuned: Evaluation, head: Evaluation, shift: float, spread: float) -> float:
        """Return the points that fine-tuning is expected to gain over a head; the others as :func:`.shift_of` gives."""
        points, error = self.differences([head], [tuned])
        errors = max(100.0 - (accuracy_of(head) + accuracy_of(tuned)) / 2, LEAST_ERROR)
        return float(drawn_in(points, error, errors * (1 - math.exp(shift)), errors * math.exp(shift) * spread)[0, 0])

    def float_forms(self, of: Sequence[Evaluation]) -> list[Evaluation]:
        """Return the float form of each one's network; the most accurate form of a network without one."""
        return [self._evaluations[self._bases[self._place[e.configuration]]] for e in of]

    def lost(self, of: Sequence[Evaluation]) -> Floats:
        """Return how many points each of ``of`` is expected to lose against its float form; see :func:`drawn_in`."""
        places = self._places(of)
        return drawn_in(self._accuracies[self._bases[places]] - self._accuracies[places], self._base_errors[places])

    def draws(self, of: Sequence[Evaluation], pool: Sequence[Evaluation]) -> tuple[Floats, Floats, Floats, Floats]:
        """Return :data:`DRAWS` resamplings, (DRAWS, len(of)) each.

        They are the accuracies (%) of the float forms, the points that these are shown behind, the points that the
        forms are expected to lose, and the logarithms of the latency, which is drawn within its interval. The weights
        of the images are the same for all candidates in a draw.
        """
        import numpy as np

        rng = np.random.default_rng(0)
        weights = rng.standard_exponential((DRAWS, self._right.shape[1]))
        weights /= weights.sum(axis=1, keepdims=True)
        floats, rivals, count = self.float_forms(of), _most_accurate(pool, RIVALS // 4), len(of)
        every = (*of, *floats, *rivals)
        names = sorted({variant_of(e) for e in every})
        noise = dict(zip(names, rng.standard_normal((len(names), DRAWS)), strict=True))
        places, rows = self._places(every), self._rows[self._places(every)]
        independent = np.stack([noise[variant_of(e)] for e in every], axis=1) * self._deviations[places]
        accuracies = self._accuracies[places] + independent
        if self._right.size:
            accuracies = np.where(rows >= 0, 100 * (weights @ self._right.T)[:, np.maximum(rows, 0)], accuracies)
        own, bases, others = np.split(accuracies, (count, 2 * count), axis=1)
        margin = SHOWN_DEVIATIONS * self.differences(floats, rivals)[1]
        shown = [(others - bases[:, [i]] - margin[i]).max(axis=1, initial=0.0) for i in range(count)]
        spread = np.array([_log_deviation(e.latency) for e in of])
        latencies = np.log([latency_of(e) for e in of]) + spread * rng.standard_normal((DRAWS, count))
        lost = drawn_in(bases - own, self._base_errors[self._places(of)])
        return bases, np.stack(shown, axis=1), lost, latencies

    def _errors_on_same_images(self, own: Integers, other: Integers) -> Floats:
        """Return the standard errors, in points, of differences between files; a row below 0 gives no figure.

        Half an image is added for each file that only it answers rightly, or one lone answer would count as proof
        (A. Agresti and Y. Min, "Simple improved confidence intervals for comparing matched proportions", Statistics in
        Medicine 24, 2005).
        """
        import numpy as np

        first, second = (np.unique(rows[rows >= 0]) for rows in (own, other))
        if not first.size or not second.size:
            return np.zeros((len(own), len(other)))
        means, squares = self._right.mean(axis=1), (self._right**2).mean(axis=1)
        count = self._right.shape[1]
        variances = squares[first][:, None] + squares[second] - 2 * self._right[first] @ self._right[second].T / count
        variances -= (means[first][:, None] - means[second]) ** 2
        errors = 100 * np.sqrt((np.maximum(variances, 0.0) + 1 / count) / (count + 1))
        rows = np.clip(np.searchsorted(first, own), 0, len(first) - 1)
        columns = np.clip(np.searchsorted(second, other), 0, len(second) - 1)
        found: Floats = errors[rows][:, columns]
        return found

    def _places(self, evaluations: Sequence[Evaluation]) -> Integers:
        import numpy as np

        return np.array([self._place[e.configuration] for e in evaluations], dtype=np.int64)


def _most_accurate(pool: Sequence[Evaluation], count: int) -> list[Evaluation]:
    """Return the most accurate candidates, one of each artefact."""
    first = {variant_of(e): e for e in sorted(pool, key=lambda e: (accuracy_of(e), e.configuration))}
    return sorted(first.values(), key=lambda e: (-accuracy_of(e), e.configuration))[:count]


def drawn_in(points: Floats, errors: Floats, usual: float = 0.0, spread: float = FORM_POINTS) -> Floats:
    """Return the expected true differences, in points, given measured ones: of forms and their float forms by default.

    Most differ by ``usual`` with the standard deviation ``spread``, some by :data:`BROKEN_POINTS`: the mean of the
    posterior of a mixture of two normal distributions. A difference near the usual one is drawn towards it, a far one
    hardly. The shape of ``errors``, their standard errors, broadcasts.
    """
    import numpy as np

    within, broken = spread**2 + errors**2, BROKEN_POINTS**2 + errors**2
    log_odds = (np.log(within / broken) + (points - usual) ** 2 / within - points**2 / broken) / 2
    log_odds += np.log(BROKEN_SHARE / (1 - BROKEN_SHARE))
    share = 1 / (1 + np.exp(-np.clip(log_odds, -500, 500)))
    near = usual + (points - usual) * spread**2 / within
    found: Floats = (1 - share) * near + share * points * BROKEN_POINTS**2 / broken
    return found


def _deviation(accuracy: Quantity | None) -> float:
    """Return the standard error of one accuracy, in points."""
    known = accuracy.standard_error if accuracy else None
    return TIE_POINTS / DEVIATIONS / 2**0.5 if known is None else known


def _log_deviation(latency: Quantity | None) -> float:
    """Return the standard deviation of the logarithm of a latency, 0 where it has no interval."""
    if latency is None or not latency.low or not latency.high:
        return 0.0
    ends = 2 * NormalDist().inv_cdf(0.5 + (latency.level or 0.95) / 2)
    return math.log(latency.high / latency.low) / ends
