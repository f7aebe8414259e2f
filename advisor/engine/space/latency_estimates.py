"""Estimate latencies that were not measured: predicted from timings of this machine, else rough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from advisor.catalog.cards import Card
from advisor.core.forms import FORMS, form_of
from advisor.core.quantity import Provenance, Quantity
from advisor.engine.pipeline.cost import rough_ms
from advisor.engine.space.cached import CachedResults
from advisor.engine.space.plan import Plan

if TYPE_CHECKING:
    from advisor.devices.prediction.values import Prediction
    from advisor.devices.profiles import DeviceProfile

THIS_MACHINE = "this-machine"

Key = tuple[str, str, int]
"""Card, recipe, threads."""


@dataclass(frozen=True)
class LatencyEstimate:
    """The estimated latency of one configuration.

    Attributes:
        latency: ``measured`` here before, ``predicted``, or ``estimated`` where it is rough.
        chance: probability that it meets the latency budget; None without a budget, or where the latency is rough.
    """

    latency: Quantity
    chance: float | None


def latency_estimates(
    plan: Plan, cached: Mapping[str, CachedResults], budget_ms: float | None
) -> dict[Key, LatencyEstimate]:
    """Return the latency estimate of every configuration of the plan.

    A configuration that was timed on this machine before has its measured latency. One timing of a precision is enough
    for the latency model to predict the other models. Without a timing, the estimate is rough: it counts the
    multiply-accumulates alone, corrected by the timings that there are.
    """
    found = {key: _measured(cached[key[0]], key, budget_ms) for key in _keys(plan) if _timed(cached, key)}
    predictions = _predictions(plan, cached)
    paces = _paces(plan, cached)
    for key in _keys(plan):
        if key not in found:
            card = next(card for card in plan.cards if card.name == key[0])
            prediction = predictions.get(key)
            found[key] = _predicted(prediction, budget_ms) if prediction else _rough(card, key, paces)
    return found


def worst_estimate(
    here: LatencyEstimate | None, there: tuple[Quantity, float | None] | None, rough: LatencyEstimate
) -> LatencyEstimate:
    """Return the estimate for several devices: the latency of the slowest, and the least budget probability.

    Args:
        here: on this machine, None where it is no device of the question.
        there: on the other devices; None where nothing can be predicted for any.
        rough: the estimate where nothing else is known.
    """
    if there is None:
        return here or LatencyEstimate(rough.latency, None)
    latency, chance = there
    if here is None:
        return LatencyEstimate(latency, chance)
    chances = [each for each in (chance, here.chance) if each is not None]
    return LatencyEstimate(max(latency, here.latency, key=lambda each: each.value), min(chances, default=None))


def _keys(plan: Plan) -> list[Key]:
    return [(card.name, recipe, count) for card in plan.cards for recipe in plan.recipes for count in plan.threads]


def _timed(cached: Mapping[str, CachedResults], key: Key) -> bool:
    return key[1:] in cached[key[0]].latency


def _measured(cached: CachedResults, key: Key, budget_ms: float | None) -> LatencyEstimate:
    chance = None if budget_ms is None else float(cached.latency_p90[key[1:]].value <= budget_ms)
    return LatencyEstimate(cached.latency[key[1:]], chance)


def _predicted(prediction: Prediction, budget_ms: float | None) -> LatencyEstimate:
    return LatencyEstimate(prediction.latency, None if budget_ms is None else prediction.probability(budget_ms))


def _rough(card: Card, key: Key, paces: Mapping[tuple[str, int], tuple[float, int]]) -> LatencyEstimate:
    _, recipe, threads = key
    pace, count = paces.get((recipe, threads), (1.0, 0))
    source = f"rough: MACs at the pace of {count} models timed here" if count else "rough: MACs alone"
    value = rough_ms(card, recipe, threads) * pace
    return LatencyEstimate(Quantity(value, "ms", Provenance.ESTIMATED, n=count or None, source=source), None)


def _paces(plan: Plan, cached: Mapping[str, CachedResults]) -> dict[tuple[str, int], tuple[float, int]]:
    """Return measured over rough latency (geometric mean) by recipe and threads, and of how many models."""
    ratios: dict[tuple[str, int], list[float]] = {}
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
    from advisor.devices.profiles.paths import shipped_profiles

    table = load_features(shipped_profiles())
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
