"""Estimate the latency of each configuration of a plan on this machine, before it is evaluated.

``advisor plan`` shows the estimates. They are what the cache has measured here before, else
predictions that these timings calibrate, else rough ones by multiply-accumulates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from advisor.catalog import Card
from advisor.core import FORMS, Provenance, Quantity, form_of
from advisor.engine._pipeline.cost import rough_ms
from advisor.engine._pipeline.lookup import CachedResults, Point
from advisor.engine._space.plan import Plan
from advisor.engine._targets.device_prediction import LatencyEstimate

if TYPE_CHECKING:
    from advisor.devices import DeviceProfile, Prediction

THIS_MACHINE = "this-machine"

Key = tuple[str, str, int]
"""Card, recipe, threads."""


def latency_estimates(
    plan: Plan, cached: Mapping[str, CachedResults], budget_ms: float | None
) -> dict[Key, LatencyEstimate]:
    """Return the latency estimate of every configuration of the plan:
    measured on this machine before, else predicted.

    Where a form or a card cannot be predicted, the estimate counts the multiply-accumulates alone,
    corrected by the timings that there are.
    """
    predictions = _predict_latencies(plan, cached)
    paces = _measure_paces(plan, cached)
    estimates = {}
    for card, recipe, threads in product(plan.cards, plan.forms, plan.threads):
        key = (card.name, recipe, threads)
        point = (recipe, threads)
        timed = cached[card.name]
        chance = None
        # A measured latency is known, so it meets the budget or it does not: the chance is 1 or 0.
        if point in timed.latency:
            latency = timed.latency[point]
            if budget_ms is not None:
                chance = float(timed.latency_p90[point].value <= budget_ms)
        elif key in predictions:
            latency = predictions[key].latency
            if budget_ms is not None:
                chance = predictions[key].probability(budget_ms)
        else:
            latency = _estimate_roughly(card, point, paces.get(point, _Pace(1.0, 0)))
        estimates[key] = LatencyEstimate(latency, chance)
    return estimates


class _Pace(NamedTuple):
    """The ratio of measured to rough latencies, and the number of models that it is of."""

    ratio: float
    models: int


def _estimate_roughly(card: Card, point: Point, pace: _Pace) -> Quantity:
    """Return the latency by multiply-accumulates, at the pace of other models."""
    source = "rough: MACs alone"
    if pace.models:
        source = f"rough: MACs at the pace of {pace.models} models timed here"
    return Quantity(
        rough_ms(card, *point) * pace.ratio,
        "ms",
        Provenance.ESTIMATED,
        n=pace.models or None,
        source=source,
    )


def _measure_paces(plan: Plan, cached: Mapping[str, CachedResults]) -> dict[Point, _Pace]:
    """Return the pace (geometric mean) by recipe and threads."""
    logarithms: dict[Point, list[float]] = {}
    for card in plan.cards:
        for point, latency in cached[card.name].latency.items():
            logarithm = math.log(latency.value / rough_ms(card, *point))
            logarithms.setdefault(point, []).append(logarithm)
    paces = {}
    # Ratios are averaged as logarithms: twice and half as fast cancel out.
    for point, values in logarithms.items():
        paces[point] = _Pace(math.exp(sum(values) / len(values)), len(values))
    return paces


def _predict_latencies(plan: Plan, cached: Mapping[str, CachedResults]) -> dict[Key, Prediction]:
    """Return the predictions of the cards whose features are known, in predictable forms."""
    from advisor.devices import Predictor, load_features

    table = load_features()
    machine = _describe_machine(plan, cached)
    cards = []
    models = []
    for card in plan.cards:
        if card.own_file or not card.macs or not card.params:
            continue
        cards.append(card)
        models.append(
            table.features(card.name, card.family, card.macs, card.params, card.input_size)
        )
    predictor = Predictor.load()
    predictions = dict[Key, "Prediction"]()
    for recipe in plan.recipes:
        form = form_of(recipe)
        if not form.predictable:
            continue
        for target in machine.targets:
            rows = predictor.predict(machine, target, form.like, models)
            for card, prediction in zip(cards, rows, strict=True):
                predictions[card.name, recipe, target.threads] = prediction
    return predictions


def _describe_machine(plan: Plan, cached: Mapping[str, CachedResults]) -> DeviceProfile:
    """Return this machine as a device profile with its timings of the plan's cards."""
    from advisor.devices import Measurement, host_profile

    host = host_profile()
    cpu = host.targets[0]
    targets = tuple(replace(cpu, name=f"cpu-x{count}", threads=count) for count in plan.threads)
    predictable = {form.like for form in FORMS.values() if form.predictable}
    # Timings of this machine calibrate the prediction of its other cards (decision 0104).
    timed = []
    for card, results in cached.items():
        for (recipe, threads), latency in results.latency.items():
            if recipe not in predictable:
                continue
            measurement = Measurement(
                target=f"cpu-x{threads}",
                model=card,
                precision=recipe,
                latency_ms=latency.value,
                statistic="median",
                source_repo=THIS_MACHINE,
            )
            timed.append(measurement)
    return replace(
        host,
        name=THIS_MACHINE,
        targets=targets,
        default_target=targets[0].name,
        measurements=tuple(timed),
    )
