"""The hard limits of a search: by how much an evaluation exceeds them, and how probably a
prediction meets them.

A :class:`Limits` is made from the options once, and asked by the search (as constraints of the
sampler), by the decision and by the reports. The names of limits (:data:`NAMES`) are in
``recommendation.json``.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from advisor.core._errors import UsageError
from advisor.core._evaluation import Evaluation, Status
from advisor.core._evaluation_facts import DeviceFigures
from advisor.core._expectation import (
    Belief,
    accuracy_belief,
    drop_belief,
    metric_belief,
    metric_drop_belief,
)
from advisor.core._metrics import METRICS
from advisor.core._quantity import CONFIDENCE, Provenance, Quantity, show_probability

LICENCE = "licence"
PERMISSIVE_WORD = "permissive"

PERMISSIVE = frozenset(
    {
        "apache-2.0",
        "mit",
        "mit-0",
        "bsd-2-clause",
        "bsd-3-clause",
        "isc",
        "zlib",
        "unlicense",
        "cc0-1.0",
        "0bsd",
    }
)
"""SPDX identifiers, in lower case,
of licences that allow closed products and require at most a notice.
"""

ON = "on "
"""Begins the name of the limit that a pick must run on a device: ``on galaxy-s24``."""

DROP = "drop"
"""The limit of the drop of accuracy. That of another metric has its name before it:
``map-small drop``.
"""

_IDENTIFIER = re.compile(r"[-.+]*[A-Za-z0-9][-.+A-Za-z0-9]*")
"""A licence identifier of SPDX, or the word for all permissive ones."""

NAMES = {
    "latency": "p90 latency",
    "size": "size",
    DROP: "drop",
    "accuracy": "accuracy",
    "memory": "memory",
    **{name: metric.label for name, metric in METRICS.items()},
    **{f"{name} {DROP}": f"drop of {metric.label}" for name, metric in METRICS.items()},
}
"""The figure that each numeric limit is compared with."""


@dataclass(frozen=True)
class Limits:
    """The limits that a pick must meet; None or empty means no limit."""

    #: upper limit of the 90th percentile of the latency, milliseconds
    latency_ms: float | None = None
    size_bytes: int | None = None  #: upper limit of the artefact's size, bytes
    #: how many points of accuracy the artefact may lose against float32
    max_drop_points: float | None = None
    min_accuracy: float | None = None  #: lower limit of the accuracy, %
    #: lower limits of other metrics by their names in :data:`advisor.core.METRICS`, %.
    min_metrics: tuple[tuple[str, float], ...] = ()
    #: how many points of other metrics the artefact may lose against float32, by their names.
    max_metric_drops: tuple[tuple[str, float], ...] = ()
    memory_bytes: int | None = None  #: upper limit of the peak private memory, bytes
    #: accepted licences: SPDX identifiers, or ``permissive`` for all permissive ones
    licence: tuple[str, ...] = ()
    #: devices on which the same file must also run, within the latency limit
    must_run_on: tuple[str, ...] = ()
    #: the probability with which a predicted latency must meet the limit
    confidence: float = CONFIDENCE

    @staticmethod
    def parse_licences(text: str) -> tuple[str, ...]:
        """Parse ``permissive``, SPDX identifiers, or both, joined by commas; else UsageError.
        Empty: any licence.
        """
        names = tuple(part.strip() for part in text.split(",") if part.strip())
        for name in names:
            if _IDENTIFIER.fullmatch(name) is None:
                raise UsageError(
                    f"--licence: '{name}' is not a licence identifier",
                    "write permissive, or SPDX identifiers: --licence permissive,CC-BY-4.0",
                )
        return names

    @staticmethod
    def is_permissive(licence: str | None) -> bool:
        """Return whether a licence is one of :data:`PERMISSIVE`."""
        return allows((PERMISSIVE_WORD,), licence)

    @property
    def by_figure(self) -> dict[str, float]:
        """The limits of the figures that are set, by the figure's name."""
        values = {
            "latency": self.latency_ms,
            "size": self.size_bytes,
            DROP: self.max_drop_points,
            "accuracy": self.min_accuracy,
            "memory": self.memory_bytes,
        }
        limits = {name: value for name, value in values.items() if value is not None}
        drops = {f"{name} {DROP}": points for name, points in self.max_metric_drops}
        return limits | dict(self.min_metrics) | drops

    @property
    def floors(self) -> dict[str, float]:
        """The lower limits that are set: of the accuracy and of other metrics."""
        return {name: value for name, value in self.by_figure.items() if is_floor(name)}

    @property
    def drops(self) -> dict[str, float]:
        """The limits of drops that are set: of the accuracy and of other metrics."""
        return {name: value for name, value in self.by_figure.items() if is_drop(name)}

    def violations(self, evaluation: Evaluation) -> dict[str, float]:
        """Return each limit that ``evaluation`` exceeds, with the excess in the limit's unit.

        The excess of an unknown figure is infinite: an unknown figure meets no limit. Limits of
        accuracy, drop and other metrics are met where the probability of meeting them is at least
        50 %, from validation and, of finalists, the hold-out.
        """
        excesses = self.excesses(evaluation)
        return {name: excess for name, excess in excesses.items() if excess > 0}

    def excesses(self, evaluation: Evaluation) -> dict[str, float]:
        """Return figure minus limit for each limit that is set (<= 0 is met),
        as Optuna expects its constraints.
        """
        figures = {
            "latency": evaluation.latency_p90 or evaluation.latency,
            "size": evaluation.size,
            "memory": evaluation.memory,
            **self._list_beliefs(evaluation),
        }
        excesses = {}
        for name, limit in self.by_figure.items():
            excesses[name] = _compute_excess(name, figures[name], limit)
        if self.licence:
            is_accepted = allows(self.licence, evaluation.card_facts.licence)
            excesses[LICENCE] = -1.0 if is_accepted else math.inf
        required = evaluation.required_figures or {}
        for device in self.must_run_on:
            excesses[f"{ON}{device}"] = self._compute_excess_on(required.get(device))
        return excesses

    def met_by(self, evaluation: Evaluation) -> bool:
        """Return whether the evaluation is ok, has an accuracy, and exceeds no limit."""
        ranked = evaluation.status is Status.OK and evaluation.accuracy is not None
        return ranked and not self.violations(evaluation)

    def probabilities(self, evaluation: Evaluation) -> dict[str, float]:
        """Return how probably (0-1) the limits that images decide about are met:
        of accuracy, drop and metrics.
        """
        limits = self.by_figure
        shares = {}
        for name, belief in self._list_beliefs(evaluation).items():
            # A figure without an error holds a limit or does not: there is no probability to tell.
            if name in limits and belief is not None and not belief.certain:
                below = belief.below(limits[name])
                shares[name] = round(1 - below if is_floor(name) else below, 4)
        return shares

    def show_met(self, evaluation: Evaluation) -> dict[str, str]:
        """Return ``met with 62 % probability`` for each limit that images decide about:
        of accuracy, drop, metrics.
        """
        texts = {}
        for name, share in self.probabilities(evaluation).items():
            texts[name] = f"met with {show_probability(share)} probability"
        return texts

    def licence_refusal(self, licence: str | None) -> str:
        """Return why a network's licence is not accepted; empty if it is."""
        if allows(self.licence, licence):
            return ""
        names = ", ".join(self.licence)
        if licence:
            return f"the licence {licence} is not among {names}"
        return f"the licence is not stated ({names} required)"

    def with_budget_probability(self, evaluation: Evaluation) -> Evaluation:
        """Return ``evaluation`` with the probability that its predicted latency meets the budget.

        ``latency_p90`` becomes the latency that is not exceeded with the probability
        :attr:`confidence`. So it meets the budget exactly where the probability of meeting it is
        at least that. An evaluation without a latency distribution is returned unchanged.
        """
        distribution = evaluation.latency_distribution
        if distribution is None or evaluation.latency is None:
            return evaluation
        source = f"not above with {show_probability(self.confidence)} confidence"
        p90 = Quantity(
            distribution.at(self.confidence), "ms", evaluation.latency.provenance, source=source
        )
        probability = None
        if self.latency_ms is not None and evaluation.latency.provenance is Provenance.PREDICTED:
            probability = round(distribution.below(self.latency_ms), 4)
        return replace(evaluation, latency_p90=p90, budget_probability=probability)

    def _list_beliefs(self, evaluation: Evaluation) -> dict[str, Belief | None]:
        """Return the figures that images decide about, by the name of the limit."""
        beliefs = {"accuracy": accuracy_belief(evaluation), DROP: drop_belief(evaluation)}
        for name, _ in self.min_metrics:
            beliefs[name] = metric_belief(evaluation, name)
        for name, _ in self.max_metric_drops:
            beliefs[f"{name} {DROP}"] = metric_drop_belief(evaluation, name)
        return beliefs

    def _compute_excess_on(self, figures: DeviceFigures | None) -> float:
        """Return the excess on a required device in milliseconds;
        infinite where the file does not run there.
        """
        if figures is None or figures.reason or figures.p90_ms is None:
            return math.inf
        if self.latency_ms is None:
            return -1.0
        return figures.p90_ms - self.latency_ms


def is_floor(limit: str) -> bool:
    """Return whether a limit is a least value: of the accuracy or of another metric."""
    return limit == "accuracy" or limit in METRICS


def is_drop(limit: str) -> bool:
    """Return whether a limit is that of a drop against float32:
    of the accuracy or of another metric.
    """
    return limit.split()[-1:] == [DROP] and limit in NAMES


def _compute_excess(name: str, figure: Quantity | Belief | None, limit: float) -> float:
    if figure is None:
        return math.inf
    value = figure.mean if isinstance(figure, Belief) else figure.value
    if is_floor(name):
        return limit - value
    return value - limit


def allows(wanted: Sequence[str], licence: str | None) -> bool:
    """Return whether ``licence`` is accepted;
    an unstated one is accepted only where any licence is.
    """
    if not wanted:
        return True
    identifier = (licence or "").strip().lower()
    if not identifier:
        return False
    names = {name.lower() for name in wanted}
    return identifier in names or (PERMISSIVE_WORD in names and identifier in PERMISSIVE)
