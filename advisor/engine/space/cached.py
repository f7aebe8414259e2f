"""Look up what earlier searches have kept of the cards of a plan; nothing is run and nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from advisor.catalog.cards import Card
from advisor.core.quantity import Quantity
from advisor.engine.pipeline.graph import VariantStages
from advisor.engine.pipeline.materials import Materials, Workload
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stage import Stage
from advisor.engine.pipeline.walker import Lookup

Point = tuple[str, int]
"""Compression recipe and thread count."""


@dataclass(frozen=True)
class CachedResults:
    """What is kept of one card.

    Attributes:
        done: stages whose results are kept.
        latency_p90: 90th percentile, measured on this machine, by recipe and thread count.
        latency: median, likewise.
        size_bytes: size of the file by recipe.
    """

    done: frozenset[Stage[Any]] = frozenset()
    latency_p90: Mapping[Point, Quantity] = field(default_factory=dict)
    latency: Mapping[Point, Quantity] = field(default_factory=dict)
    size_bytes: Mapping[str, int] = field(default_factory=dict)


def cached_results(
    materials: Materials, workload: Workload, cards: Mapping[str, Card], remeasure: bool = False
) -> dict[str, CachedResults]:
    """Look up every stage of the cards in the artifact cache.

    Args:
        materials: what the stages work from; of cards without weights on this machine nothing is known.
        workload: what is done for each card.
        cards: the cards by name.
        remeasure: timings will be taken again, so that none counts as done.
    """
    lookup = Lookup(materials)
    return {
        name: _of_card(lookup, workload, card, remeasure) if name in materials.weights else CachedResults()
        for name, card in cards.items()
    }


def _of_card(lookup: Lookup, workload: Workload, card: Card, remeasure: bool) -> CachedResults:
    variants = [VariantStages(card, *variant, workload) for variant in workload.variants]
    done = lookup.done(stage for each in variants for stage in each.evaluation)
    # The search that scored a file has judged its finalists, which nearly all files are.
    judged = {stage for each in variants if each.answers in done for stage in each.judging}
    if remeasure:
        done = frozenset(stage for stage in done if stage.name is not StageName.TIMING)
    latency: dict[Point, Quantity] = {}
    latency_p90: dict[Point, Quantity] = {}
    size_bytes: dict[str, int] = {}
    for each in variants:  # the lightest training first, whose figures are kept
        artefact, timed = lookup.find(each.ships), lookup.find(each.timed)
        if artefact is not None:
            size_bytes.setdefault(each.compression, artefact.size_bytes)
        for threads, timing in (timed or {}).items():
            if timing.latency is not None and timing.latency_p90 is not None:
                latency.setdefault((each.compression, threads), timing.latency)
                latency_p90.setdefault((each.compression, threads), timing.latency_p90)
    return CachedResults(done | judged, latency_p90, latency, size_bytes)
