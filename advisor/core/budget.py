"""Hard limits, and how far an evaluation is beyond them."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.core.evaluation import Evaluation, Status


@dataclass(frozen=True)
class Budget:
    """The limits that a pick must meet; None is no limit.

    Attributes:
        latency_ms: upper limit of the 90th percentile of the latency, milliseconds.
        size_bytes: upper limit of the artefact's size, bytes.
        max_drop_points: how many points of top-1 the artefact may lose against float32.
        min_accuracy: lower limit of top-1, %.
        memory_bytes: upper limit of the peak private memory, bytes.
    """

    latency_ms: float | None = None
    size_bytes: int | None = None
    max_drop_points: float | None = None
    min_accuracy: float | None = None
    memory_bytes: int | None = None

    def violations(self, evaluation: Evaluation) -> dict[str, float]:
        """Return each limit that ``evaluation`` breaks with its excess in the limit's unit.

        A limit on a figure that the evaluation lacks is broken by infinity: what is not known cannot be promised.
        """
        excesses = self.excesses(evaluation)
        return {name: excess for name, excess in excesses.items() if excess > 0}

    def excesses(self, evaluation: Evaluation) -> dict[str, float]:
        """Return figure minus limit for each limit set (<= 0 is met), the form Optuna takes as constraints."""
        latency = evaluation.latency_p90 or evaluation.latency
        rows = (
            ("latency", self.latency_ms, latency.value if latency else None, 1),
            (
                "size",
                self.size_bytes,
                evaluation.size.value if evaluation.size else None,
                1,
            ),
            (
                "drop",
                self.max_drop_points,
                evaluation.drop.value if evaluation.drop else None,
                1,
            ),
            (
                "accuracy",
                self.min_accuracy,
                evaluation.accuracy.value if evaluation.accuracy else None,
                -1,
            ),
            (
                "memory",
                self.memory_bytes,
                evaluation.memory.value if evaluation.memory else None,
                1,
            ),
        )
        return {
            name: float("inf") if value is None else sign * (value - limit)
            for name, limit, value, sign in rows
            if limit is not None
        }

    def met_by(self, evaluation: Evaluation) -> bool:
        """True where the evaluation is ok, has an accuracy to be chosen by, and breaks no limit."""
        ranked = evaluation.status is Status.OK and evaluation.accuracy is not None
        return ranked and not self.violations(evaluation)
