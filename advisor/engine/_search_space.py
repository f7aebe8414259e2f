"""Forecast the configurations of a search, and what it costs, from the cache and from predictions.

``advisor plan`` shows the forecasts, and ``advisor search`` refuses a time limit by them that is
too short for any card. Nothing is evaluated, fetched or written.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from advisor.catalog import Card
from advisor.core import (
    Configuration,
    Provenance,
    Quantity,
    UsageError,
    recipe_of,
    show_seconds,
    units,
)
from advisor.engine._latency_estimates import Key, latency_estimates
from advisor.engine._located_weights import LocatedWeights, locate_candidates
from advisor.engine._pipeline.cost import rough_size
from advisor.engine._pipeline.cost_calibration import CostCalibration
from advisor.engine._pipeline.graph import VariantStages
from advisor.engine._pipeline.lookup import CachedCards
from advisor.engine._pipeline.materials import RecipePair
from advisor.engine._pipeline.rule import RuleNeeds
from advisor.engine._pipeline.stage import Stage
from advisor.engine._question import Request
from advisor.engine._rules import rules_of
from advisor.engine._scheduling.belief import AccuracyBelief, FormStep
from advisor.engine._scheduling.next_steps import SearchRule
from advisor.engine._scheduling.prices import TimeLimit
from advisor.engine._space.forecast import CardForecast, Course, Forecast
from advisor.engine._space.plan import ANSWER_S, Plan
from advisor.engine._space.prior_accuracy import prior_accuracy
from advisor.engine._space.resolved import Resolved
from advisor.engine._space.skipped import rule_out
from advisor.engine._targets.delegated_nodes import NodeShare, falls_back, list_node_shares
from advisor.engine._targets.device_prediction import (
    CardPredictor,
    DevicePredictor,
    LatencyEstimate,
)
from advisor.isolation import part_of_a_core

if TYPE_CHECKING:
    from advisor.engine._targets.processors import Choices


@dataclass(frozen=True)
class SearchSpace:
    """The search space of a question, and what is known of it.

    Attributes:
        plan: the configurations.
        weights: the cards with their weights, or the bytes to download.
        cached: what the cache has of each card.
        card_predictor: predicts latencies on the devices of the question.
        filtered: why a configuration would be skipped, of those that would be.
        calibration: corrects expected seconds by what earlier searches took.
    """

    plan: Plan
    weights: LocatedWeights
    cached: CachedCards
    card_predictor: CardPredictor
    filtered: Mapping[Configuration, str]
    calibration: CostCalibration

    def has_time(self, limit_s: float | None) -> bool:
        """Return whether a candidate can be evaluated within a time limit;
        the smallest are priced first.

        The forecasts of all candidates would take two seconds of a search that has not begun.
        """
        if limit_s is None:
            return True
        # The smallest card is nearly always the quickest, so `any` ends after the first one.
        cards = sorted(self.plan.cards, key=lambda card: card.macs)
        return any(self._first_s(card, self._list_variants(card)) <= limit_s for card in cards)

    def refuse_too_short(self, request: Request, cards: Sequence[CardForecast]) -> None:
        """Refuse a time limit that is too short to evaluate any candidate;
        say what the shortest one would give.
        """
        limit = request.execution.time_limit_s
        first = min(cards, key=lambda card: card.first_s)
        if limit is None or limit >= first.first_s:
            return
        accuracy = ""
        if self.plan.images:
            percent = self._expect_accuracy(first.card)
            accuracy = f"; {first.card} is expected to be right on about {percent:.0f} %"
        least = units.write_seconds(int(first.first_s + 1))
        raise UsageError(
            f"--time-limit {request.execution.time_limit} is too short: even the candidate that is"
            f" quickest to evaluate, {first.card}, takes about"
            f" {show_seconds(first.first_s + 0.5)}",
            f"give at least --time-limit {least}{accuracy}; advisor plan shows each candidate's"
            " cost",
        )

    def _expect_accuracy(self, card: str) -> float:
        """Return the accuracy in % that is expected of a card's first network."""
        belief = AccuracyBelief.before(self.plan)
        for place, network in enumerate(belief.networks):
            if network.card == card:
                # The belief is about the logarithm of the errors in %.
                return 100.0 - math.exp(belief.mean[place])
        raise KeyError(card)

    def forecast_course(self, request: Request) -> Course | None:
        """Return what a search by the rule is expected to evaluate; None for everything."""
        execution = request.execution
        question = request.question
        plan = self.plan
        least_gain = execution.least_gain(question)
        if not least_gain:
            return None
        limit = None
        if execution.time_limit_s is not None:
            judging_s = plan.judging_s(limit_s=execution.time_limit_s)
            left_s = execution.time_limit_s - ANSWER_S - judging_s
            limit = TimeLimit(lambda: left_s, self.calibration.observed, self.calibration.wall)
        rule = SearchRule(plan, question.preference, question.limits, least_gain, limit)
        done = self.cached.list_done()
        # Cached stages cost nothing, so the course is that of the next search
        # and not that of one with an empty cache.
        rule.prices.finished = set(done)
        steps = list[FormStep]()
        for following in rule.forecast_steps():
            steps += following
        chosen = []
        for configuration in plan.configurations():
            is_left = configuration not in self.filtered
            if is_left and FormStep.of(configuration) in steps:
                chosen.append(configuration)
        stages = set[Stage[Any]]()
        for step in steps:
            stages.update(rule.prices.stages(step))
        tuning = {stage for stage in stages if recipe_of(stage.scope.training).tunes_backbone}
        # Stages are priced together, because a shared stage runs once.
        return Course(tuple(chosen), self._wall_s(stages - done), self._wall_s(tuning - done))

    def forecast_cards(self) -> tuple[CardForecast, ...]:
        """Return the forecast of each card."""
        return tuple(map(self._forecast_card, self.plan.cards))

    def forecast_configurations(self, choices: Choices) -> tuple[Forecast, ...]:
        """Return the forecast of each configuration;
        latencies on this machine, or on the slowest of the devices.
        """
        budget_ms = self.plan.workload.question.limits.latency_ms
        latencies = {}
        for key, estimate in latency_estimates(self.plan, self.cached, budget_ms).items():
            name, recipe, _ = key
            card = self.plan.cards_by_name[name]
            latencies[key] = self.card_predictor.worst_latency(card, recipe, budget_ms, estimate)
        forecasts = []
        for configuration in self.plan.configurations():
            forecast = self._forecast_configuration(configuration, latencies)
            chosen = choices.get((configuration.card, configuration.compression), ())
            forecasts.append(replace(forecast, processors=chosen))
        return tuple(forecasts)

    def _forecast_card(self, card: Card) -> CardForecast:
        """Return the cost of a card, that of its fine-tuning, and that of its first result."""
        variants = self._list_variants(card)
        light = []
        for training, recipe in variants:
            if not recipe_of(training).tunes_backbone:
                light.append((training, recipe))
        wall_s = self._wall_s(self._list_stages(card, variants))
        heads_s = self._wall_s(self._list_stages(card, light))
        # Fine-tuning is what remains of the price without the heads:
        # the two share the master and the features.
        finetuning_s = wall_s - heads_s
        return CardForecast(
            card.name,
            card.name in self.weights.candidates.weights,
            self.weights.downloads[card.name],
            wall_s,
            self._first_s(card, variants),
            finetuning_s,
        )

    def _list_variants(self, card: Card) -> list[RecipePair]:
        """Return the variants of a card that no rule leaves out."""
        plan = self.plan
        threads = plan.threads[0]
        variants = []
        for training, recipe in plan.workload.variants_of(card):
            if plan.configuration(card.name, recipe, threads, training) not in self.filtered:
                variants.append((training, recipe))
        return variants

    def _first_s(self, card: Card, variants: Sequence[RecipePair]) -> float:
        """Return the seconds by the clock until the first result of a card:
        a form of its lightest training.
        """
        first_s = math.inf
        for training, recipe in variants:
            # The trainings are in order, so the first variant has the lightest.
            if training == variants[0][0]:
                stages = self._list_stages(card, [(training, recipe)])
                first_s = min(first_s, self.plan.costs.chain_s(stages, self.plan.cores))
        return first_s * self.calibration.slowdown

    def _wall_s(self, stages: Collection[Stage[Any]]) -> float:
        """Return the seconds by the clock of stages on all cores,
        of which a quota may leave less than one.
        """
        return self.plan.costs.wall_s(stages, self.plan.cores) * self.calibration.slowdown

    def _list_stages(self, card: Card, variants: Collection[RecipePair]) -> list[Stage[Any]]:
        """Return the stages that variants still need, with those of float32,
        which each form is compared with.
        """
        needed = dict[RecipePair, None]()
        for training, recipe in variants:
            reference = VariantStages(card, training, recipe, self.plan.workload).reference
            needed[reference.training, reference.compression] = None
        needed.update(dict.fromkeys(variants))
        done = self.cached[card.name].done
        stages = self.plan.costs.stages(card, needed)
        return [stage for stage in stages if stage not in done]

    def _forecast_configuration(
        self, configuration: Configuration, latencies: Mapping[Key, LatencyEstimate]
    ) -> Forecast:
        """Return what is known of a configuration before it is evaluated."""
        plan = self.plan
        recipe = configuration.compression
        card = plan.cards_by_name[configuration.card]
        latency = latencies[card.name, recipe, configuration.target.threads]
        accuracy = None
        if card.top1() is not None:
            accuracy = Quantity(
                prior_accuracy(card, recipe), "%", Provenance.PUBLISHED, source="ImageNet"
            )
        filtered = self.filtered.get(configuration, "")
        nodes: tuple[NodeShare, ...] = ()
        # What is left out runs nowhere, and its form may be one that the device does not take.
        if not filtered:
            nodes = list_node_shares(card, recipe, self.card_predictor.targets.devices)
        # Predictions are of networks that run on the accelerator,
        # so they say nothing of a budget here.
        chance = None if falls_back(nodes) else latency.chance
        return Forecast(
            configuration,
            latency.latency,
            chance,
            self._forecast_size(card, recipe),
            accuracy,
            self._share_price_s(configuration),
            filtered,
            nodes,
        )

    def _share_price_s(self, configuration: Configuration) -> float:
        """Return the seconds that are still to be spent on a configuration,
        with its share of the stages that it has in common with others.
        """
        plan = self.plan
        card = plan.cards_by_name[configuration.card]
        done = self.cached[card.name].done
        prices_s = []
        variant = (configuration.training, configuration.compression)
        for stage in plan.costs.stages(card, [variant]):
            # A shared stage is paid once, so each configuration bears its part of it.
            if stage not in done:
                prices_s.append(plan.costs.seconds(stage) / plan.costs.sharers(stage))
        # One file is timed with all thread counts.
        return sum(prices_s) / len(plan.threads) * self.calibration.slowdown

    def _forecast_size(self, card: Card, recipe: str) -> Quantity:
        """Return the size of a file in bytes, from the cache or by the parameters of its card."""
        cached = self.cached[card.name]
        if recipe in cached.size_bytes:
            size_bytes = float(cached.size_bytes[recipe])
            return Quantity(size_bytes, "bytes", Provenance.MEASURED, source="made here before")
        source = "parameters x bytes"
        if self.plan.images:
            source += ", the published classifier included"
        return Quantity(
            rough_size(card, recipe),
            "bytes",
            Provenance.ESTIMATED,
            low=self.plan.least_size(card, recipe),
            source=source,
        )


def find_search_space(resolved: Resolved) -> SearchSpace | None:
    """Return what would be tried, None if no card has weights at a known address."""
    weights = locate_candidates(resolved)
    candidates = weights.candidates
    if not candidates.cards:
        return None
    calibration = CostCalibration(part=part_of_a_core())
    plan = resolved.plan(candidates, calibration.pace)
    materials = resolved.materials(candidates, plan)
    remeasure = resolved.execution.remeasure
    cached = CachedCards(plan.cards, plan.workload, materials, remeasure)
    card_predictor = CardPredictor(resolved.targets, plan.cards_by_name, DevicePredictor())
    rules = rules_of(plan, card_predictor)
    filtered = rule_out(plan, rules)
    for configuration in plan.configurations():
        reason = rules.find_reason(RuleNeeds.PREDICTION, configuration)
        if reason:
            filtered.setdefault(configuration, reason)
    return SearchSpace(plan, weights, cached, card_predictor, filtered, calibration)


def refuse_too_short(resolved: Resolved) -> None:
    """Refuse a time limit that is too short to evaluate any candidate."""
    space = find_search_space(resolved)
    if space is not None and not space.has_time(resolved.request.execution.time_limit_s):
        space.refuse_too_short(resolved.request, space.forecast_cards())
