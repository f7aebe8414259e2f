"""Preview a search: what it would do and cost. It writes no file, opens no connection and starts no child."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from advisor.catalog.cards import Card
from advisor.catalog.weights import WeightsFile
from advisor.compression.recipes import Recipe
from advisor.core.budget import Budget
from advisor.core.errors import UsageError
from advisor.core.evaluation import Configuration
from advisor.core.quantity import Provenance, Quantity
from advisor.core.units import show_seconds
from advisor.engine.pipeline.cost import rough_size
from advisor.engine.pipeline.cost_calibration import CostCalibration
from advisor.engine.pipeline.images import Images
from advisor.engine.pipeline.stage import Stage
from advisor.engine.pipeline.workload import Variant
from advisor.engine.question import Execution, Question, Request, require_sampler_installed
from advisor.engine.space.cached import CachedResults, cached_results
from advisor.engine.space.candidates import (
    DEFAULT_CARDS,
    Candidates,
    chosen_cards,
    chosen_recipes,
    make_plan,
    materials_of,
    read_images,
)
from advisor.engine.space.forecast import CardForecast, Forecast, PlanView, cheapest
from advisor.engine.space.latency_estimates import Key, LatencyEstimate, latency_estimates, worst_estimate
from advisor.engine.space.plan import Plan
from advisor.engine.space.priors import prior_accuracy
from advisor.engine.space.skipped import ruled_out
from advisor.engine.targets.prefilter import Prefilter
from advisor.engine.targets.selection import select_targets


def preview(request: Request) -> PlanView:
    """Return what a search would do and what it would cost.

    Raises:
        UsageError: what ``search`` would refuse before anything is spent.
    """
    require_sampler_installed(request.execution.sampler)
    recipes, cards = chosen_recipes(request.question), chosen_cards(request.question)
    images = read_images(request.question, lambda _: None)
    ahead = _look_up(request, recipes, cards, images)
    if ahead is None:
        raise UsageError(
            f"none of {len(cards)} candidates has weights on this machine or at a known address",
            "put them into a folder and name it with --mirror DIR, or choose others with --candidates",
        )
    _refuse(request, ahead.cards)
    return ahead.view(request)


def refuse_too_short(
    request: Request, recipes: Mapping[str, Recipe], cards: Sequence[Card], images: Images | None
) -> None:
    """Refuse a time limit that is below the price of the cheapest candidate.

    Raises:
        UsageError: it is.
    """
    ahead = _look_up(request, recipes, cards, images)
    if ahead is not None:
        _refuse(request, ahead.cards)


def _refuse(request: Request, cards: Sequence[CardForecast]) -> None:
    limit, soonest = request.execution.time_limit_s, cheapest(cards)
    if limit is not None and limit < soonest.first_s:
        raise UsageError(
            f"--time-limit {request.execution.time_limit} is below the price of the cheapest candidate: "
            f"{soonest.card} takes about {show_seconds(soonest.first_s + 0.5)}",
            f"give at least --time-limit {int(soonest.first_s + 1)}s; advisor plan shows the price of each candidate",
        )


@dataclass(frozen=True)
class _Preview:
    """A plan with what is cached and what is rejected of its cards."""

    plan: Plan
    found: _Found
    cached: Mapping[str, CachedResults]
    filtered: Mapping[Configuration, str]
    prefilter: Prefilter | None = None

    @property
    def cards(self) -> tuple[CardForecast, ...]:
        """The forecast of each card."""
        rows = ((card, self.cached[card.name]) for card in self.plan.cards)
        return tuple(_card_forecast(self.plan, card, self.found, cached, self.filtered) for card, cached in rows)

    def view(self, request: Request) -> PlanView:
        """Return the plan as users see it."""
        plan, latencies = self.plan, self._latencies(request.question.limits.latency_ms)
        cards = {card.name: card for card in plan.cards}
        forecasts = tuple(
            _forecast(plan, cards[each.card], each, latencies, self.cached[each.card], self.filtered)
            for each in plan.configurations()
        )
        return PlanView(request, forecasts, self.cards, self.found.missing, plan.images + plan.holdout)

    def _latencies(self, budget_ms: float | None) -> dict[Key, LatencyEstimate]:
        """Return latency estimates: on this machine, or on the slowest device of the question."""
        here = latency_estimates(self.plan, self.cached, budget_ms)
        if self.prefilter is None:
            return here
        cards = {card.name: card for card in self.plan.cards}
        there = {key: self.prefilter.worst_latency(cards[key[0]], key[1]) for key in here}
        return {
            key: worst_estimate(here[key] if self.prefilter.targets.host else None, there[key], here[key])
            for key in here
        }


def _look_up(
    request: Request, recipes: Mapping[str, Recipe], cards: Sequence[Card], images: Images | None
) -> _Preview | None:
    """Return what would be tried, None where no card has weights at a known address."""
    question, execution = request.question, request.execution
    found = _locate_weights(question, execution, cards)
    tried = {card.name: card for card in cards if card.name in found.places}
    if not tried:
        return None
    candidates = Candidates(tuple(tried.values()), found.files, found.missing)
    plan = make_plan(question, candidates, recipes, images, execution.cores, CostCalibration().pace)
    materials = materials_of(question, images, found.files, plan.size)
    cached = cached_results(materials, plan.workload, tried, execution.remeasure)
    prefilter = Prefilter.of(select_targets(question), question.limits)
    return _Preview(plan, found, cached, _filtered(plan, question.limits, prefilter), prefilter)


def _filtered(plan: Plan, limits: Budget, prefilter: Prefilter | None) -> dict[Configuration, str]:
    """Return the configurations that would be skipped, with the reason."""
    skipped = ruled_out(plan, limits)
    if prefilter is None:
        return skipped
    cards = {card.name: card for card in plan.cards}
    reasons = {each: prefilter.rejection_reason(cards[each.card], each.compression) for each in plan.configurations()}
    return {each: skipped.get(each) or reason for each, reason in reasons.items() if each in skipped or reason}


@dataclass(frozen=True)
class _Found:
    """Where weights are.

    Attributes:
        places: card to bytes to download; 0 where they are on disk, None where the size is not known.
        files: weights on disk, by card.
        missing: card to why it has no weights.
    """

    places: Mapping[str, int | None]
    files: Mapping[str, WeightsFile]
    missing: Mapping[str, str]


def _locate_weights(question: Question, execution: Execution, cards: Sequence[Card]) -> _Found:
    from advisor.catalog.weights import FetchOptions, locate

    options = FetchOptions(offline=execution.offline, mirror=execution.mirror)
    places: dict[str, int | None] = {}
    files: dict[str, WeightsFile] = {}
    missing: dict[str, str] = {}
    for card in cards:
        if not question.candidates and len(places) == DEFAULT_CARDS:
            break
        file = locate(card, options)
        sources = [source for source in card.weights if source.file.checkable]
        if file is not None:
            places[card.name], files[card.name] = 0, file
        elif sources and not execution.offline:
            places[card.name] = sources[0].file.size_bytes
        elif question.candidates and question.data is None:
            places[card.name] = 0  # measured with fixed-seed random weights, quoted with its published accuracy
            missing[card.name] = "no weights: measured with random ones, its published accuracy is quoted"
        else:
            missing[card.name] = "weights not on this machine" + (" (--offline)" if execution.offline else "")
    return _Found(places, files, missing)


def _card_forecast(
    plan: Plan, card: Card, found: _Found, cached: CachedResults, filtered: Mapping[Configuration, str]
) -> CardForecast:
    variants = _wanted(plan, card, filtered)

    def left(wanted: Sequence[Variant]) -> list[Stage[Any]]:
        return [stage for stage in plan.costs.stages(card, _with_reference(wanted)) if stage not in cached.done]

    lightest = [variant for variant in variants if variant[0] == plan.trainings[0]]
    first = min((plan.costs.chain_s(left([variant]), plan.cores) for variant in lightest), default=float("inf"))
    wall = plan.costs.wall_s(left(variants), plan.cores) if variants else 0.0
    return CardForecast(card.name, card.name in found.files, found.places[card.name], wall, first)


def _wanted(plan: Plan, card: Card, filtered: Mapping[Configuration, str]) -> list[Variant]:
    count = plan.threads[0]
    return [
        (training, name)
        for training, name in plan.workload.variants
        if plan.configuration(card.name, name, count, training) not in filtered
    ]


def _with_reference(variants: Sequence[Variant]) -> list[Variant]:
    """Return the variants with float32 of the same training, which every compression is compared with."""
    return list(dict.fromkeys(each for variant in variants for each in ((variant[0], "float32"), variant)))


def _forecast(
    plan: Plan,
    card: Card,
    configuration: Configuration,
    latencies: Mapping[tuple[str, str, int], LatencyEstimate],
    cached: CachedResults,
    filtered: Mapping[Configuration, str],
) -> Forecast:
    recipe, threads = configuration.compression, configuration.target.threads
    latency = latencies[card.name, recipe, threads]
    costs = plan.costs
    left = (each for each in costs.stages(card, [(configuration.training, recipe)]) if each not in cached.done)
    price = sum(costs.seconds(stage) / costs.sharers(stage) for stage in left)
    return Forecast(
        configuration=configuration,
        latency=latency.latency,
        chance=latency.chance,
        size=_size(plan, card, recipe, cached),
        accuracy=_prior(card, recipe),
        price_s=price / len(plan.threads),
        filtered=filtered.get(configuration, ""),
    )


def _size(plan: Plan, card: Card, recipe: str, cached: CachedResults) -> Quantity:
    if recipe in cached.size_bytes:
        return Quantity(float(cached.size_bytes[recipe]), "bytes", Provenance.MEASURED, source="made here before")
    rough, least = rough_size(card, recipe), plan.least_size(card, recipe)
    source = "parameters x bytes" + (", the published classifier included" if plan.images else "")
    return Quantity(rough, "bytes", Provenance.ESTIMATED, low=least, source=source)


def _prior(card: Card, recipe: str) -> Quantity | None:
    if card.top1() is None:
        return None
    return Quantity(prior_accuracy(card, recipe), "%", Provenance.PUBLISHED, source="ImageNet")
