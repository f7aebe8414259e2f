"""Hold what ``advisor plan`` says: each configuration and card before it is evaluated, and the
cost.

``_preview.py`` fills these values, commands print them, and ``advisor plan --json`` and
``PlanView.to_frame`` show their fields: keys and columns stay, or :data:`SCHEMA_VERSION` rises.
Prices of a card and of a search are seconds by the clock, on all cores of this machine; the price
of a configuration is the seconds of one core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from advisor.core import Configuration, Quantity, recipe_of
from advisor.datasets import Overview
from advisor.engine._question import Request
from advisor.engine._targets.delegated_nodes import (
    NodeShare,
    NodeSummary,
    ProcessorChoice,
    summarize_shares,
)
from advisor.store import build_frame, value_at

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 1

IDENTITY = ("key", "card", "training", "compression")


@dataclass(frozen=True)
class Forecast:
    """One configuration before it is evaluated.

    Attributes:
        configuration: what would be evaluated.
        latency: median in ms: ``measured`` here before, ``predicted``, or ``estimated`` if it is
            rough; None if the devices of the question do not take the form.
        chance: probability of meeting the latency budget, None without a budget, if the latency is
            rough, if nothing like a device was measured, or if an accelerator leaves most of the
            network to the CPU.
        size: bytes: ``measured`` before, or estimated from the parameters; ``low`` is what it
            cannot be below.
        accuracy: published top-1 in %, the prior of the order; None if nothing is published.
        price_s: rough seconds of one core that are still to be spent on it, with its share of the
            card's stages.
        filtered: why it would be skipped, or empty.
        nodes: how many of its operators run on the accelerators of the question's devices; none if
            CPUs run it.
        processors: the processor on which it is predicted to be the fastest, for each device that
            has several, of which the question names none.
    """

    columns: ClassVar[Mapping[str, str]] = {
        "key": "configuration.key",
        "card": "configuration.card",
        "training": "configuration.training",
        "compression": "configuration.compression",
        "device": "configuration.target.device",
        "threads": "configuration.target.threads",
        "latency_median_ms": "latency.value",
        "latency_low_ms": "latency.low",
        "latency_high_ms": "latency.high",
        "latency_provenance": "latency.provenance",
        "latency_budget_probability": "chance",
        "size_bytes": "size.value",
        "size_low_bytes": "size.low",
        "size_provenance": "size.provenance",
        "top1_percent": "accuracy.value",
        "price_s": "price_s",
        "skipped_because": "filtered",
    }
    """Columns of :meth:`PlanView.to_frame`, and what of a forecast each shows."""

    configuration: Configuration
    latency: Quantity | None
    chance: float | None
    size: Quantity
    accuracy: Quantity | None
    price_s: float
    filtered: str = ""
    nodes: tuple[NodeShare, ...] = ()
    processors: tuple[ProcessorChoice, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        identity = {name: getattr(self.configuration, name) for name in IDENTITY}
        return {
            **identity,
            "threads": self.configuration.target.threads,
            "latency": self.latency.to_json() if self.latency else None,
            "meets_latency_budget": self.chance,
            "size": self.size.to_json(),
            "accuracy": self.accuracy.to_json() if self.accuracy else None,
            "price_s": round(self.price_s, 2),
            "filtered": self.filtered,
            "nodes": [share.to_json() for share in self.nodes],
            "processors": [choice.to_json() for choice in self.processors],
        }

    def to_row(self) -> dict[str, object]:
        """Return a row of a table, with the names of :attr:`columns`;
        sizes in whole bytes, no reason as None.
        """
        row = {name: value_at(self, path) for name, path in self.columns.items()}
        for name in ("size_bytes", "size_low_bytes"):
            if row[name] is not None:
                row[name] = round(row[name])
        row["skipped_because"] = self.filtered or None
        return row


@dataclass(frozen=True)
class CardForecast:
    """One card that would be tried.

    Attributes:
        card: its name.
        on_disk: its weights are on this machine.
        download_bytes: bytes to download, None if the size is not known; 0 if they are on disk.
        price_s: rough seconds by the clock for all of its configurations that are not filtered.
        first_s: rough seconds by the clock until the first of its configurations is evaluated,
            with nothing else at work.
        tuning_s: the part of ``price_s`` for fine-tuning and the forms of the fine-tuned network.
        processors: the processor on which its fastest form is predicted to be the fastest, as of a
            forecast.
    """

    card: str
    on_disk: bool
    download_bytes: int | None
    price_s: float
    first_s: float
    tuning_s: float = 0.0
    processors: tuple[ProcessorChoice, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "card": self.card,
            "weights_on_disk": self.on_disk,
            "download_bytes": self.download_bytes,
            "price_s": round(self.price_s, 1),
            "first_result_s": round(self.first_s, 1),
            "fine_tuning_s": round(self.tuning_s, 1),
            "processors": [choice.to_json() for choice in self.processors],
        }


@dataclass(frozen=True)
class Course:
    """The configurations that a search is expected to evaluate, and its rough seconds by the
    clock, those of fine-tuning apart.
    """

    configurations: tuple[Configuration, ...]
    price_s: float
    tuning_s: float


@dataclass(frozen=True)
class PlanView:
    """Plan of a search: its configurations, cards and cost.

    Attributes:
        request: the question.
        forecasts: every configuration, the most promising cards first.
        cards: the cards that would be tried, in that order.
        left_out: cards that would not be tried, with the reason.
        images: number of readable images, 0 without.
        course: what the search is expected to evaluate; None for everything.
        split: how the images would be split, None without.
        remarks: what limits the latencies, such as another runtime than that of the files.
        spare: number of further cards whose weights are on this machine, which a search tries if a
            download fails.
    """

    request: Request
    forecasts: tuple[Forecast, ...]
    cards: tuple[CardForecast, ...]
    left_out: Mapping[str, str]
    images: int
    course: Course | None = None
    split: Overview | None = None
    remarks: tuple[str, ...] = ()
    spare: int = 0

    @property
    def price_s(self) -> float:
        """Rough seconds by the clock of the whole search, without downloads."""
        if self.course is not None:
            return self.course.price_s
        return sum(card.price_s for card in self.cards)

    @property
    def tuning_s(self) -> float:
        """Rough seconds by the clock for fine-tuning."""
        if self.course is not None:
            return self.course.tuning_s
        return sum(card.tuning_s for card in self.cards)

    @property
    def tuned(self) -> tuple[int, int]:
        """Number of cards that are fine-tuned, about, and of those that could be."""
        possible = sum(card.tuning_s > 0 for card in self.cards)
        if self.course is None:
            return possible, possible
        tuned = set()
        for configuration in self.course.configurations:
            if recipe_of(configuration.training).tunes_backbone:
                tuned.add(configuration.card)
        return len(tuned), possible

    @property
    def node_summaries(self) -> tuple[NodeSummary, ...]:
        """A summary for each accelerator of the question's devices:
        the part of the files that it would run.
        """
        shares = {}
        for forecast in self.forecasts:
            file = f"{forecast.configuration.card} {forecast.configuration.compression}"
            shares[file] = forecast.nodes
        return summarize_shares(shares)

    @property
    def limited_price_s(self) -> float:
        """Rough seconds by the clock under the time limit."""
        limit_s = self.request.execution.time_limit_s
        return self.price_s if limit_s is None else min(limit_s, self.price_s)

    @property
    def reached(self) -> int:
        """Number of configurations that fit into the time limit and ``--max-trials``,
        and are worth it, about.
        """
        possible = sum(not forecast.filtered for forecast in self.forecasts)
        most = self.request.execution.max_trials or possible
        if self.course is not None:
            return min(len(self.course.configurations), most)
        share = 1.0
        limit_s = self.request.execution.time_limit_s
        if limit_s is not None and self.price_s > limit_s:
            share = limit_s / self.price_s
        return min(round(possible * share), most)

    @property
    def cheapest(self) -> CardForecast:
        """The card whose first result comes soonest."""
        return min(self.cards, key=lambda card: card.first_s)

    @property
    def download_bytes(self) -> int:
        """Bytes to download, as far as the sizes are known."""
        return sum(card.download_bytes or 0 for card in self.cards)

    def to_frame(self) -> pd.DataFrame:
        """Return every configuration as a row of a table, the most promising cards first;
        units are in the names.
        """
        return build_frame(
            tuple(Forecast.columns), (forecast.to_row() for forecast in self.forecasts)
        )

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "schema_version": SCHEMA_VERSION,
            "request": dict(self.request.written),
            "pictures": self.images,
            "split": self.split.to_json() if self.split else None,
            "price_s": round(self.price_s, 1),
            "fine_tuning_s": round(self.tuning_s, 1),
            "price_under_limit_s": round(self.limited_price_s, 1),
            "configurations": len(self.forecasts),
            "configurations_reached": self.reached,
            "download_bytes": self.download_bytes,
            "cards": [card.to_json() for card in self.cards],
            "candidates": [forecast.to_json() for forecast in self.forecasts],
            "left_out": dict(self.left_out),
            "remarks": list(self.remarks),
        }
