"""Estimate latencies that were not measured: predicted from timings of this machine, else rough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from advisor.catalog.cards import Card
from advisor.core.forms import FORMS, form_of
from advisor.core.quantity import Provenance, Quantity
from advisor.engine.pipeline.cost import rough_ms
from advisor.engine.space.cached import CachedResults, Point
from advisor.engine.space.plan import Plan
from advisor.engine.targets.prefilter import LatencyEstimate

if TYPE_CHECKING:
    from advisor.devices.prediction.values import Prediction
    from advisor.devices.profiles import DeviceProfile

THIS_MACHINE = "this-machine"

Key = tuple[str, str, int]
"""Card, recipe, threads."""


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
    for card, recipe, threads in product(plan.cards, plan.recipes, plan.threads):
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
    from advisor.devices.profiles.host import host_profile
    from advisor.devices.profiles.measurements import Measurement

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
