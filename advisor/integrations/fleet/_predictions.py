"""Predict every file of a run on every known phone of a fleet.

``_answer.py`` calls :func:`predict_matrix` once for a fleet; a :class:`Matrix` then gives what
each phone gets from each file, for any latency limit. It is a value: no file is read here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from advisor.core import Evaluation, Limits, StageError, Status
from advisor.engine import DevicePredictor, one_each
from advisor.integrations.fleet._choice import Floats
from advisor.integrations.fleet._phones import Fleet, Phone

BYTES_A_POINT = 6e6
"""Bytes of a file that count like a point of accuracy on the phones that get it: 6 MB cost an app
1 % of its installs (decision 0138).
"""


HARDLY = 1e-3
"""Weight of a file on a phone where it is not sure to meet the budget:
it says which file is the best where none is sure, and adds none.
"""


@dataclass(frozen=True)
class Matrix:
    """Predictions of each file (columns) on each known phone (rows).

    The arrays have the shape (phones,), (files,) or (phones, files).
    """

    phones: tuple[Phone, ...]
    files: tuple[Evaluation, ...]
    rows: tuple[tuple[Evaluation, ...], ...]
    limits: Limits

    @cached_property
    def shares(self) -> Floats:
        """Share of each phone; together 1."""
        shares = np.array([phone.share for phone in self.phones])
        shared: Floats = shares / shares.sum()
        return shared

    @cached_property
    def accuracies(self) -> Floats:
        """Accuracy of each file in %."""
        return np.array([file.accuracy_percent for file in self.files])

    @cached_property
    def net_points(self) -> Floats:
        """Points of accuracy of each file, less its size."""
        sizes = np.array([file.size_bytes / BYTES_A_POINT for file in self.files])
        return np.asarray(self.accuracies - sizes)

    @cached_property
    def allowed(self) -> Floats:
        """1 where a file meets every limit but that of the latency."""
        other_limits = replace(self.limits, latency_ms=None)
        return self._map(lambda evaluation: float(other_limits.met_by(evaluation)))

    def chances(self, scale: float = 1.0) -> Floats:
        """Return the probability that a file meets the latency limit times a scale.

        It is 0 where nothing can be predicted.
        """
        limit_ms = scale * (self.limits.latency_ms or np.inf)
        return self._map(lambda evaluation: _chance_of(evaluation, limit_ms))

    def sure(self, scale: float = 1.0) -> Floats:
        """Return 1 where a file meets every limit, that of the latency with the confidence of the
        question.
        """
        return np.where(self.chances(scale) >= self.limits.confidence - 1e-9, self.allowed, 0.0)

    def values(self, scale: float = 1.0) -> Floats:
        """Return the points that each phone gets from each file, weighted by its share."""
        points = np.where(self.sure(scale) > 0, self.net_points, HARDLY * self.chances(scale))
        return np.asarray(self.shares[:, None] * points)

    def _map(self, figure_of: Callable[[Evaluation], float]) -> Floats:
        """Return a figure of each prediction, of shape (phones, files)."""
        return np.array([list(map(figure_of, predictions)) for predictions in self.rows])


def _chance_of(evaluation: Evaluation, limit_ms: float) -> float:
    """Return the probability that a file meets a latency limit; 0 without a prediction."""
    if evaluation.status is not Status.OK or evaluation.latency_distribution is None:
        return 0.0
    return evaluation.latency_distribution.below(limit_ms)


def predict_matrix(fleet: Fleet, evaluations: Sequence[Evaluation], limits: Limits) -> Matrix:
    """Predict every file of a run on every known phone of a fleet.

    Raises:
        StageError: no evaluation has an accuracy and a file.
    """
    files = []
    for evaluation in one_each(evaluations):
        if evaluation.accuracy is not None and evaluation.artefact:
            files.append(evaluation)
    if not files:
        raise StageError("no file has an accuracy yet, so none can be chosen for the fleet")
    predictor = DevicePredictor()
    rows = []
    for phone in fleet.known:
        assert phone.device is not None, "known phones have one"
        rows.append(predictor.evaluate(files, phone.device, limits.latency_ms, limits.confidence))
    return Matrix(fleet.known, tuple(files), tuple(rows), limits)
