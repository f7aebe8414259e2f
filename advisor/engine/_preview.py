"""Preview a search: what it would do and cost, by the results of earlier searches.
It writes no file.

It opens no connection, and starts no child except a browser that is a device of the question,
which is asked for its version.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from advisor.catalog import Card
from advisor.core import (
    FORMS,
    Configuration,
    Provenance,
    Quantity,
    UsageError,
    WeightsFile,
    form_of,
    recipe_of,
    show_seconds,
    units,
)
from advisor.datasets import HOLDOUT, TRAIN, VALIDATION, Overview
from advisor.downloads import FetchOptions
from advisor.engine._pipeline.cost import CostCalibration, rough_ms, rough_size
from advisor.engine._pipeline.graph import VariantStages
from advisor.engine._pipeline.images import Images
from advisor.engine._pipeline.materials import RecipePair
from advisor.engine._pipeline.rule import RuleNeeds
from advisor.engine._pipeline.stage import Stage
from advisor.engine._pipeline.walker import CachedResults, Lookup, Point
from advisor.engine._question import Request
from advisor.engine._rules import rules_of
from advisor.engine._scheduling.belief import AccuracyBelief, FormStep
from advisor.engine._scheduling.next_steps import SearchRule
from advisor.engine._scheduling.prices import TimeLimit
from advisor.engine._space.failed_downloads import read_failures
from advisor.engine._space.forecast import CardForecast, Course, Forecast, PlanView
from advisor.engine._space.plan import ANSWER_S, Plan, prior_accuracy, rule_out
from advisor.engine._space.resolved import Candidates, Resolved, resolve_parts
from advisor.engine._targets.delegated_nodes import falls_back, list_node_shares
from advisor.engine._targets.device_prediction import (
    CardPredictor,
    DevicePredictor,
    LatencyEstimate,
)
from advisor.engine._targets.target_devices import TargetDevices
from advisor.isolation import part_of_a_core

if TYPE_CHECKING:
    from advisor.devices import DeviceProfile, Prediction
    from advisor.engine._targets.units import Choices

THIS_MACHINE = "this-machine"

Key = tuple[str, str, int]
"""Card, recipe, threads."""


def preview(request: Request) -> PlanView:
    """Return what a search would do and what it would cost; refuse what ``search`` would
    refuse.
    """
    from advisor.engine._targets.units import WHOLE_CARD, choose_processors, describe_units

    resolved = resolve_parts(request, lambda _: None)
    space = _look_up(resolved)
    if space is None:
        raise UsageError(
            f"none of {len(resolved.cards)} candidates has weights on this machine or at a known"
            " address",
            "put them into a folder and name it with --mirror DIR, or choose others with"
            " --candidates",
        )
    cards = space.cards()
    space.refuse_too_short(request, cards)
    plan = space.plan
    count = plan.images + plan.holdout
    budget_ms = plan.workload.question.limits.latency_ms
    choices = choose_processors(space.card_predictor, plan.cards, plan.forms, budget_ms)
    with_processors = []
    for card in cards:
        with_processors.append(replace(card, processors=choices.get((card.card, WHOLE_CARD), ())))
    unit_remarks = describe_units(space.card_predictor, plan.cards, plan.forms, choices)
    return PlanView(
        request=request,
        forecasts=space.configurations(choices),
        cards=tuple(with_processors),
        left_out=space.candidates.missing,
        images=count,
        course=space.course(request),
        split=overview_of(resolved.images) if resolved.images else None,
        remarks=(
            *resolved.targets.remarks,
            *_describe_doubts(resolved.targets),
            *unit_remarks,
            *resolved.remarks,
            *_describe_quota(),
        ),
        spare=_count_spare(resolved, space.candidates),
    )


def _describe_doubts(targets: TargetDevices) -> Iterator[str]:
    """Yield a remark for each doubt about what the user measured on the devices of the
    question.
    """
    from advisor.devices import describe_doubts

    for device in targets.devices:
        if device.runtime is None:
            yield from describe_doubts(device.profile, device.target)


def _describe_quota() -> Iterator[str]:
    """Yield a remark where a quota leaves this process less than a core."""
    part = part_of_a_core()
    if part < 1.0:
        yield f"this process may use {part:.2g} of a core; the costs are for that"


def overview_of(images: Images) -> Overview:
    """Return the images, and the boxes if there are any, of each class in each part."""
    split = images.split
    overview = Overview.of_split(images.dataset, split, images.grouping, images.notes)
    if images.boxes is None:
        return overview
    parts = {TRAIN: split.train, VALIDATION: split.validation, HOLDOUT: split.holdout}
    return replace(
        overview, boxes={part: images.boxes.among(indices) for part, indices in parts.items()}
    )


def refuse_too_short(resolved: Resolved) -> None:
    """Refuse a time limit that is too short to evaluate any candidate."""
    space = _look_up(resolved)
    if space is not None and not space.has_time(resolved.request.execution.time_limit_s):
        space.refuse_too_short(resolved.request, space.cards())


@dataclass(frozen=True)
class _SearchSpace:
    """The search space of a question, and what is known of it.

    ``downloads`` are bytes by card, 0 if its weights are on disk, None if the size is not known.
    ``filtered`` says why a configuration would be skipped.
    """

    plan: Plan
    candidates: Candidates
    downloads: Mapping[str, int | None]
    cached: Mapping[str, CachedResults]
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
        return any(self._first_s(card, self._wanted(card)) <= limit_s for card in cards)

    def refuse_too_short(self, request: Request, cards: Sequence[CardForecast]) -> None:
        """Refuse a time limit that is too short to evaluate any candidate;
        say what the shortest one would give.
        """
        limit = request.execution.time_limit_s
        first = min(cards, key=lambda card: card.first_s)
        if limit is None or limit >= first.first_s:
            return
        belief = AccuracyBelief.before(self.plan)
        given = ""
        if self.plan.images:
            place = next(
                place
                for place, network in enumerate(belief.networks)
                if network.card == first.card
            )
            given = (
                f"; {first.card} is expected to be right on about"
                f" {100.0 - math.exp(belief.mean[place]):.0f} %"
            )
        raise UsageError(
            f"--time-limit {request.execution.time_limit} is too short: even the candidate that is"
            f" quickest to evaluate, {first.card}, takes about"
            f" {show_seconds(first.first_s + 0.5)}",
            f"give at least --time-limit {units.write_seconds(int(first.first_s + 1))}{given}; "
            "advisor plan shows each candidate's cost",
        )

    def course(self, request: Request) -> Course | None:
        """Return what a search by the rule is expected to evaluate; None for everything."""
        execution = request.execution
        question = request.question
        plan = self.plan
        least = execution.least_gain(question)
        if not least:
            return None
        left_s = (
            (execution.time_limit_s or 0.0)
            - ANSWER_S
            - plan.judging_s(limit_s=execution.time_limit_s)
        )
        limit = None
        if execution.time_limit_s is not None:
            limit = TimeLimit(lambda: left_s, self.calibration.observed, self.calibration.wall)
        rule = SearchRule(plan, question.preference, question.limits, least, limit)
        done = set[Stage[Any]]()
        for results in self.cached.values():
            done.update(results.done)
        # Cached stages cost nothing, so the course is that of the next search
        # and not that of one with an empty cache.
        rule.prices.finished = set(done)
        steps = list[FormStep]()
        for following in rule.forecast_steps():
            steps += following
        left = (
            configuration
            for configuration in plan.configurations()
            if configuration not in self.filtered
        )
        chosen = tuple(
            configuration for configuration in left if FormStep.of(configuration) in steps
        )
        stages = set[Stage[Any]]()
        for step in steps:
            stages.update(rule.prices.stages(step))
        tuning = {stage for stage in stages if recipe_of(stage.scope.training).tunes_backbone}
        # Stages are priced together, because a shared stage runs once.
        return Course(chosen, self._wall_s(stages - done), self._wall_s(tuning - done))

    def cards(self) -> tuple[CardForecast, ...]:
        """Return the forecast of each card."""
        return tuple(map(self._card, self.plan.cards))

    def configurations(self, choices: Choices) -> tuple[Forecast, ...]:
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
            forecast = self._configuration(configuration, latencies)
            chosen = choices.get((configuration.card, configuration.compression), ())
            forecasts.append(replace(forecast, processors=chosen))
        return tuple(forecasts)

    def _card(self, card: Card) -> CardForecast:
        wanted = self._wanted(card)
        light = []
        for variant in wanted:
            if not recipe_of(variant[0]).tunes_backbone:
                light.append(variant)
        wall_s = self._wall_s(self._left(card, wanted))
        heads_s = self._wall_s(self._left(card, light))
        on_disk = card.name in self.candidates.weights
        # Fine-tuning is what remains of the price without the heads:
        # the two share the master and the features.
        first_s = self._first_s(card, wanted)
        return CardForecast(
            card.name, on_disk, self.downloads[card.name], wall_s, first_s, wall_s - heads_s
        )

    def _wanted(self, card: Card) -> list[RecipePair]:
        """Return the variants of a card that no rule leaves out."""
        plan = self.plan
        threads = plan.threads[0]
        variants = []
        for training, recipe in plan.workload.variants_of(card):
            if plan.configuration(card.name, recipe, threads, training) not in self.filtered:
                variants.append((training, recipe))
        return variants

    def _first_s(self, card: Card, wanted: Sequence[RecipePair]) -> float:
        """Return the seconds by the clock until the first result of a card:
        a form of its lightest training.
        """
        lightest = []
        for variant in wanted:
            if variant[0] == wanted[0][0]:
                lightest.append(variant)
        plan = self.plan
        seconds = (
            plan.costs.chain_s(self._left(card, [variant]), plan.cores) for variant in lightest
        )
        return min(seconds, default=float("inf")) * self.calibration.slowdown

    def _wall_s(self, stages: Collection[Stage[Any]]) -> float:
        """Return the seconds by the clock of stages on all cores,
        of which a quota may leave less than one.
        """
        return self.plan.costs.wall_s(stages, self.plan.cores) * self.calibration.slowdown

    def _left(self, card: Card, variants: Collection[RecipePair]) -> list[Stage[Any]]:
        """Return the stages that variants still need, with those of float32,
        which each form is compared with.
        """
        references = (
            VariantStages(card, *variant, self.plan.workload).reference for variant in variants
        )
        floats = ((reference.training, reference.compression) for reference in references)
        needed = dict.fromkeys((*floats, *variants))
        return [
            stage
            for stage in self.plan.costs.stages(card, needed)
            if stage not in self.cached[card.name].done
        ]

    def _configuration(
        self, configuration: Configuration, latencies: Mapping[Key, LatencyEstimate]
    ) -> Forecast:
        """Return what is known of a configuration before it is evaluated."""
        plan = self.plan
        costs = self.plan.costs
        recipe = configuration.compression
        card = plan.cards_by_name[configuration.card]
        cached = self.cached[configuration.card]
        latency = latencies[card.name, recipe, configuration.target.threads]
        stages = costs.stages(card, [(configuration.training, recipe)])
        # A shared stage is paid once, so each configuration bears its part of it.
        price_s = sum(
            costs.seconds(stage) / costs.sharers(stage)
            for stage in stages
            if stage not in cached.done
        )
        accuracy = None
        if card.top1() is not None:
            accuracy = Quantity(
                prior_accuracy(card, recipe), "%", Provenance.PUBLISHED, source="ImageNet"
            )
        if recipe in cached.size_bytes:
            made = float(cached.size_bytes[recipe])
            size = Quantity(made, "bytes", Provenance.MEASURED, source="made here before")
        else:
            rough = rough_size(card, recipe)
            least = plan.least_size(card, recipe)
            source = "parameters x bytes" + (
                ", the published classifier included" if plan.images else ""
            )
            size = Quantity(rough, "bytes", Provenance.ESTIMATED, low=least, source=source)
        # One file is timed with all thread counts.
        price_s = price_s / len(plan.threads) * self.calibration.slowdown
        filtered = self.filtered.get(configuration, "")
        # What is left out runs nowhere, and its form may be one that the device does not take.
        nodes = (
            () if filtered else list_node_shares(card, recipe, self.card_predictor.targets.devices)
        )
        # Predictions are of networks that run on the accelerator,
        # so they say nothing of a budget here.
        chance = None if falls_back(nodes) else latency.chance
        return Forecast(
            configuration, latency.latency, chance, size, accuracy, price_s, filtered, nodes
        )


def _look_up(resolved: Resolved) -> _SearchSpace | None:
    """Return what would be tried, None if no card has weights at a known address."""
    candidates, downloads = _locate_weights(resolved)
    if not candidates.cards:
        return None
    calibration = CostCalibration(part=part_of_a_core())
    plan = resolved.plan(candidates, calibration.pace)
    materials = resolved.materials(candidates, plan)
    lookup = Lookup(materials)
    remeasure = resolved.execution.remeasure
    unknown = CachedResults()
    cached = {}
    for card in plan.cards:
        # Cards without weights on this machine have no results.
        has_weights = card.name in materials.weights
        cached[card.name] = (
            lookup.of_card(card, plan.workload, remeasure) if has_weights else unknown
        )
    card_predictor = CardPredictor(resolved.targets, plan.cards_by_name, DevicePredictor())
    rules = rules_of(plan, card_predictor)
    filtered = rule_out(plan, rules)
    for configuration in plan.configurations():
        reason = rules.reason(RuleNeeds.PREDICTION, configuration)
        if reason:
            filtered.setdefault(configuration, reason)
    return _SearchSpace(plan, candidates, downloads, cached, card_predictor, filtered, calibration)


def _fetch_options(resolved: Resolved) -> FetchOptions:
    """Return how a search would fetch weights."""
    execution = resolved.execution
    return FetchOptions(offline=execution.offline, mirror=execution.mirror)


def _count_spare(resolved: Resolved, candidates: Candidates) -> int:
    """Return how many other cards have their weights here,
    which a search tries if a download fails.
    """
    from advisor.catalog import locate_weights

    if resolved.question.candidates or len(candidates.weights) == len(candidates.cards):
        return 0
    options = _fetch_options(resolved)
    others = (card for card in resolved.cards if card not in candidates.cards)
    return sum(locate_weights(card, options) is not None for card in others)


def _locate_weights(resolved: Resolved) -> tuple[Candidates, dict[str, int | None]]:
    """Return the cards that would be tried, with their weights on disk,
    and the bytes to download for each.

    Cards whose download failed of late are left out,
    unless the user named them or there are no others.
    """
    failures = {} if resolved.question.candidates else read_failures()
    candidates, downloads = _locate_weights_without(resolved, failures)
    if downloads or not failures:
        return (candidates, downloads)
    return _locate_weights_without(resolved, {})


def _locate_weights_without(
    resolved: Resolved, failures: Mapping[str, str]
) -> tuple[Candidates, dict[str, int | None]]:
    """Return what :func:`_locate_weights` does, without the cards of ``failures``.

    ``failures`` says by card why its weights could not be downloaded.
    """
    from advisor.catalog import locate_weights

    question = resolved.question
    execution = resolved.execution
    options = _fetch_options(resolved)
    downloads: dict[str, int | None] = {}
    files: dict[str, WeightsFile | None] = {}
    missing: dict[str, str] = {}
    for card in resolved.cards:
        # A search stops looking for weights there too, so later cards are no part of the plan.
        if len(downloads) == resolved.cards_to_try:
            break
        file = locate_weights(card, options)
        sources = []
        for source in card.weights:
            if source.file.checkable or source.kind == "huggingface":
                sources.append(source)
        if file is not None:
            downloads[card.name] = 0
            files[card.name] = file
        elif sources and card.name in failures and not execution.offline:
            missing[card.name] = failures[card.name]
        elif sources and not execution.offline:
            downloads[card.name] = sources[0].file.size_bytes
        elif question.candidates and question.data is None:
            # Measured with fixed-seed random weights, quoted with its published accuracy.
            downloads[card.name] = 0
            missing[card.name] = (
                "no weights: measured with random ones, its published accuracy is quoted"
            )
        else:
            missing[card.name] = "weights not on this machine" + (
                " (--offline)" if execution.offline else ""
            )
    return (
        Candidates(
            tuple(card for card in resolved.cards if card.name in downloads), files, missing
        ),
        downloads,
    )


def latency_estimates(
    plan: Plan, cached: Mapping[str, CachedResults], budget_ms: float | None
) -> dict[Key, LatencyEstimate]:
    """Return the latency estimate of every configuration of the plan:
    measured on this machine before, else predicted.

    Where a form or a card cannot be predicted, the estimate counts the multiply-accumulates alone,
    corrected by the timings that there are.
    """
    predictions = _predictions(plan, cached)
    paces = _paces(plan, cached)
    estimates = {}
    for card, recipe, threads in product(plan.cards, plan.forms, plan.threads):
        key = (card.name, recipe, threads)
        point = (recipe, threads)
        chance = None
        timed = cached[card.name]
        # A measured latency is known, so it meets the budget or it does not: the chance is 1 or 0.
        if point in timed.latency:
            latency = timed.latency[point]
            chance = None
            if budget_ms is not None:
                chance = float(timed.latency_p90[point].value <= budget_ms)
        elif key in predictions:
            latency = predictions[key].latency
            chance = None
            if budget_ms is not None:
                chance = predictions[key].probability(budget_ms)
        else:
            pace, count = paces.get(point, (1.0, 0))
            source = (
                f"rough: MACs at the pace of {count} models timed here"
                if count
                else "rough: MACs alone"
            )
            ms = rough_ms(card, *point) * pace
            latency = Quantity(ms, "ms", Provenance.ESTIMATED, n=count or None, source=source)
        estimates[key] = LatencyEstimate(latency, chance)
    return estimates


def _paces(plan: Plan, cached: Mapping[str, CachedResults]) -> dict[Point, tuple[float, int]]:
    """Return measured over rough latency (geometric mean) by recipe and threads,
    and of how many models.
    """
    ratios: dict[Point, list[float]] = {}
    for card in plan.cards:
        for point, latency in cached[card.name].latency.items():
            ratios.setdefault(point, []).append(math.log(latency.value / rough_ms(card, *point)))
    # Ratios are averaged as logarithms: twice and half as fast cancel out.
    return {
        key: (math.exp(sum(values) / len(values)), len(values)) for key, values in ratios.items()
    }


def _predictions(plan: Plan, cached: Mapping[str, CachedResults]) -> dict[Key, Prediction]:
    from advisor.devices import device_predictor, load_features

    table = load_features()
    machine = _machine(plan, cached)
    cards = []
    for card in plan.cards:
        if not card.own_file and card.macs and card.params:
            cards.append(card)
    models = [
        table.features(card.name, card.family, card.macs, card.params, card.input_size)
        for card in cards
    ]
    predictor = device_predictor()
    predictions = dict[Key, "Prediction"]()
    for recipe in plan.recipes:
        for target in machine.targets if form_of(recipe).predictable else ():
            rows = predictor.predict(machine, target, form_of(recipe).like, models)
            predictions |= {
                (card.name, recipe, target.threads): row
                for card, row in zip(cards, rows, strict=True)
            }
    return predictions


def _machine(plan: Plan, cached: Mapping[str, CachedResults]) -> DeviceProfile:
    """Return this machine as a device profile with its timings of the plan's cards."""
    from advisor.devices import Measurement, host_profile

    host = host_profile()
    targets = tuple(
        replace(host.targets[0], name=f"cpu-x{count}", threads=count) for count in plan.threads
    )
    predictable = {form.like for form in FORMS.values() if form.predictable}
    # Timings of this machine calibrate the prediction of its other cards (decision 0104).
    timed = []
    for card, results in cached.items():
        for (recipe, threads), latency in results.latency.items():
            if recipe in predictable:
                target = f"cpu-x{threads}"
                timed.append(
                    Measurement(
                        target, card, recipe, latency.value, "median", source_repo=THIS_MACHINE
                    )
                )
    return replace(
        host,
        name=THIS_MACHINE,
        targets=targets,
        default_target=targets[0].name,
        measurements=tuple(timed),
    )
