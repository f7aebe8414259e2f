"""Look up results of earlier searches, and estimate latencies by them; nothing is run and nothing is written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from advisor.catalog.cards import Card
from advisor.core.forms import FORMS, form_of
from advisor.core.quantity import Provenance, Quantity
from advisor.engine.pipeline.cost import rough_ms
from advisor.engine.pipeline.graph import VariantStages
from advisor.engine.pipeline.materials import Materials, Workload
from advisor.engine.pipeline.stage import Stage, StageName
from advisor.engine.pipeline.walker import Lookup
from advisor.engine.space.plan import Plan
from advisor.engine.targets.device_prediction import LatencyEstimate

if TYPE_CHECKING:
    from advisor.devices.prediction.predictor import Prediction
    from advisor.devices.profiles import DeviceProfile

THIS_MACHINE = "this-machine"

Key = tuple[str, str, int]
"""Card, recipe, threads."""

Point = tuple[str, int]
"""Compression recipe and thread count."""


@dataclass(frozen=True)
class CachedResults:
    """Results of one card that earlier searches have kept.

    Attributes:
        done: stages with results.
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
    """Look up every stage of the cards in the artifact cache. Cards without weights on this machine have no results.

    With ``remeasure``, timings are taken again, so none counts as done.
    """
    lookup = Lookup(materials)
    return {
        name: _of_card(lookup, workload, card, remeasure) if name in materials.weights else CachedResults()
        for name, card in cards.items()
    }


def _of_card(lookup: Lookup, workload: Workload, card: Card, remeasure: bool) -> CachedResults:
    variants = [VariantStages(card, *variant, workload) for variant in workload.variants_of(card)]
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


def latency_estimates(
    plan: Plan, cached: Mapping[str, CachedResults], budget_ms: float | None
) -> dict[Key, LatencyEstimate]:
    """Return the latency estimate of every configuration of the plan.

    A configuration that was timed on this machine before has its measured latency. One timing of a precision is enough
    for the latency model to predict the other models. Without a timing, the estimate is rough: it counts the
    multiply-accumulates alone, corrected by the timings that there are.
    """
    predictions, paces = _predictions(plan, cached), _paces(plan, cached)
    found = {}
    for card, recipe, threads in product(plan.cards, plan.forms, plan.threads):
        key, point, chance = (card.name, recipe, threads), (recipe, threads), None
        timed = cached[card.name]
        if point in timed.latency:
            latency = timed.latency[point]
            chance = None if budget_ms is None else float(timed.latency_p90[point].value <= budget_ms)
        elif key in predictions:
            latency = predictions[key].latency
            chance = None if budget_ms is None else predictions[key].probability(budget_ms)
        else:
            latency = _rough(card, point, paces)
        found[key] = LatencyEstimate(latency, chance)
    return found


def _rough(card: Card, point: Point, paces: Mapping[Point, tuple[float, int]]) -> Quantity:
    pace, count = paces.get(point, (1.0, 0))
    source = f"rough: MACs at the pace of {count} models timed here" if count else "rough: MACs alone"
    return Quantity(rough_ms(card, *point) * pace, "ms", Provenance.ESTIMATED, n=count or None, source=source)


def _paces(plan: Plan, cached: Mapping[str, CachedResults]) -> dict[Point, tuple[float, int]]:
    """Return measured over rough latency (geometric mean) by recipe and threads, and of how many models."""
    ratios: dict[Point, list[float]] = {}
    for card in plan.cards:
        for (recipe, threads), latency in cached[card.name].latency.items():
            ratio = math.log(latency.value / rough_ms(card, recipe, threads))
            ratios.setdefault((recipe, threads), []).append(ratio)
    return {key: (math.exp(sum(values) / len(values)), len(values)) for key, values in ratios.items()}


def _predictions(plan: Plan, cached: Mapping[str, CachedResults]) -> dict[Key, Prediction]:
    machine = _machine(plan, cached)
    if not machine.measurements:
        return {}
    from advisor.devices.latency.features import load_features
    from advisor.devices.prediction.predictor import device_predictor

    table = load_features()
    cards = [card for card in plan.cards if not card.own_file and card.macs and card.params]
    models = [table.features(card.name, card.family, card.macs, card.params, card.input_size) for card in cards]
    predictor, found = device_predictor(), dict[Key, "Prediction"]()
    for recipe in plan.recipes:
        for target in machine.targets if form_of(recipe).predictable else ():
            form = form_of(recipe).like
            if len(predictor.posterior(machine, target, form).seen):
                rows = predictor.predict(machine, target, form, models)
                found |= {(card.name, recipe, target.threads): row for card, row in zip(cards, rows, strict=True)}
    return found


def _machine(plan: Plan, cached: Mapping[str, CachedResults]) -> DeviceProfile:
    """Return this machine as a device profile with its timings of the plan's cards."""
    from advisor.devices.profiles.measurements import Measurement
    from advisor.devices.profiles.runtimes import host_profile

    host = host_profile()
    targets = tuple(replace(host.targets[0], name=f"cpu-x{count}", threads=count) for count in plan.threads)
    predictable = {form.like for form in FORMS.values() if form.predictable}
    timed = tuple(
        Measurement(f"cpu-x{threads}", card, recipe, latency.value, "median", source_repo=THIS_MACHINE)
        for card, each in cached.items()
        for (recipe, threads), latency in each.latency.items()
        if recipe in predictable
    )
    return replace(host, name=THIS_MACHINE, targets=targets, default_target=targets[0].name, measurements=timed)
