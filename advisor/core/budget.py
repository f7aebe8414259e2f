"""Hard limits, and by how much an evaluation exceeds them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from advisor.core.evaluation import Evaluation, Status
from advisor.core.evaluation_facts import DeviceFigures
from advisor.core.latency_distribution import CONFIDENCE
from advisor.core.licences import allows

LICENCE = "licence"
ON = "on "
"""Begins the name of the limit that a pick must run on a device: ``on galaxy-s24``."""


@dataclass(frozen=True)
class Budget:
    """The limits that a pick must meet; None or empty means no limit.

    Attributes:
        latency_ms: upper limit of the 90th percentile of the latency, milliseconds.
        size_bytes: upper limit of the artefact's size, bytes.
        max_drop_points: how many points of top-1 the artefact may lose against float32.
        min_accuracy: lower limit of top-1, %.
        memory_bytes: upper limit of the peak private memory, bytes.
        licence: accepted licences: SPDX identifiers, or ``permissive`` for all permissive ones.
        must_run_on: devices on which the same file must also run, within the latency limit.
        confidence: the probability with which a predicted latency must meet the limit.
    """

    latency_ms: float | None = None
    size_bytes: int | None = None
    max_drop_points: float | None = None
    min_accuracy: float | None = None
    memory_bytes: int | None = None
    licence: tuple[str, ...] = ()
    must_run_on: tuple[str, ...] = ()
    confidence: float = CONFIDENCE

    def violations(self, evaluation: Evaluation) -> dict[str, float]:
        """Return each limit that ``evaluation`` exceeds, with the excess in the limit's unit.

        The excess of an unknown figure is infinite: an unknown figure meets no limit.
        """
        excesses = self.excesses(evaluation)
        return {name: excess for name, excess in excesses.items() if excess > 0}

    def excesses(self, evaluation: Evaluation) -> dict[str, float]:
        """Return figure minus limit for each limit that is set (<= 0 is met), as Optuna expects its constraints."""
        rows = (
            ("latency", self.latency_ms, evaluation.latency_p90 or evaluation.latency, 1),
            ("size", self.size_bytes, evaluation.size, 1),
            ("drop", self.max_drop_points, evaluation.drop, 1),
            ("accuracy", self.min_accuracy, evaluation.accuracy, -1),
            ("memory", self.memory_bytes, evaluation.memory, 1),
        )
        figures = {
            name: math.inf if quantity is None else sign * (quantity.value - limit)
            for name, limit, quantity, sign in rows
            if limit is not None
        }
        return figures | self._licence(evaluation) | self._required(evaluation)

    def met_by(self, evaluation: Evaluation) -> bool:
        """Return whether the evaluation is ok, has an accuracy, and exceeds no limit."""
        ranked = evaluation.status is Status.OK and evaluation.accuracy is not None
        return ranked and not self.violations(evaluation)

    def _licence(self, evaluation: Evaluation) -> dict[str, float]:
        if not self.licence:
            return {}
        return {LICENCE: -1.0 if allows(self.licence, evaluation.card_facts.licence) else math.inf}

    def _required(self, evaluation: Evaluation) -> dict[str, float]:
        """Return the excess on each required device in milliseconds; infinite where the file does not run there."""
        known = evaluation.required_figures or {}
        return {f"{ON}{device}": self._excess_on(known.get(device)) for device in self.must_run_on}

    def _excess_on(self, known: DeviceFigures | None) -> float:
        if known is None or known.reason or known.p90_ms is None:
            return math.inf
        return -1.0 if self.latency_ms is None else known.p90_ms - self.latency_ms
