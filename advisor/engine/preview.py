"""Preview a search: what it would do and cost. It writes no file and opens no connection.

It starts no child, except a browser that is a device of the question, which is asked for its version.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from advisor.catalog.cards import Card
from advisor.core.errors import UsageError
from advisor.core.evaluation import Configuration
from advisor.core.quantity import Provenance, Quantity
from advisor.core.training import recipe_of
from advisor.core.units import show_seconds
from advisor.datasets.division import Overview
from advisor.datasets.split import HOLDOUT, TRAIN, VALIDATION
from advisor.downloads.files import WeightsFile
from advisor.engine.pipeline.cost import CostCalibration, rough_size
from advisor.engine.pipeline.graph import VariantStages
from advisor.engine.pipeline.materials import Images, Variant
from advisor.engine.pipeline.rule import RuleNeeds
from advisor.engine.pipeline.stage import Stage
from advisor.engine.question import Question, Request
from advisor.engine.rules import rules_of
from advisor.engine.space.candidates import Candidates
from advisor.engine.space.estimates import CachedResults, Key, cached_results, latency_estimates
from advisor.engine.space.forecast import CardForecast, Forecast, PlanView, quickest
from advisor.engine.space.plan import Plan, prior_accuracy, ruled_out
from advisor.engine.space.resolved import Resolved, resolve_parts
from advisor.engine.targets.device_prediction import LatencyEstimate, Prefilter


def preview(request: Request) -> PlanView:
    """Return what a search would do and what it would cost.

    Raises:
        UsageError: what ``search`` would refuse before anything is spent.
    """
    resolved = resolve_parts(request, lambda _: None)
    space = _look_up(resolved)
    if space is None:
        raise UsageError(
            f"none of {len(resolved.cards)} candidates has weights on this machine or at a known address",
            "put them into a folder and name it with --mirror DIR, or choose others with --candidates",
        )
    forecasts = space.cards()
    _refuse(request, forecasts)
    count = space.plan.images + space.plan.holdout
    return PlanView(
        request, space.configurations(request.question), forecasts, space.candidates.missing, count,
        space.plan.tuning_s / space.plan.cores,
        overview_of(resolved.images) if resolved.images else None,
        resolved.targets.remarks,
    )  # fmt: skip


def overview_of(images: Images) -> Overview:
    """Return the images, and the boxes if there are any, of each class in each part."""
    split = images.split
    found = Overview.of(images.dataset, split, images.grouping, images.notes)
    if images.boxes is None:
        return found
    parts = {TRAIN: split.train, VALIDATION: split.validation, HOLDOUT: split.holdout}
    return replace(found, boxes={part: images.boxes.among(indices) for part, indices in parts.items()})


def refuse_too_short(resolved: Resolved) -> None:
    """Refuse a time limit that is too short to evaluate any candidate.

    Raises:
        UsageError: it is.
    """
    space = _look_up(resolved)
    if space is not None:
        _refuse(resolved.request, space.cards())


def _refuse(request: Request, cards: Sequence[CardForecast]) -> None:
    limit, first = request.execution.time_limit_s, quickest(cards)
    if limit is not None and limit < first.first_s:
        raise UsageError(
            f"--time-limit {request.execution.time_limit} is too short: even the candidate that is quickest to "
            f"evaluate, {first.card}, takes about {show_seconds(first.first_s + 0.5)}",
            f"give at least --time-limit {int(first.first_s + 1)}s; advisor plan shows the cost of each candidate",
        )


@dataclass(frozen=True)
class _SearchSpace:
    """The search space of a question, and what is known of it.

    Attributes:
        plan: the search space.
        candidates: its cards, their weights on disk, and why others have none.
        downloads: card to bytes to download; 0 if its weights are on disk, None if the size is not known.
        cached: results of earlier searches, by card.
        prefilter: predictions for other devices.
        filtered: configurations that would be skipped, with the reason.
    """

    plan: Plan
    candidates: Candidates
    downloads: Mapping[str, int | None]
    cached: Mapping[str, CachedResults]
    prefilter: Prefilter
    filtered: Mapping[Configuration, str]

    def cards(self) -> tuple[CardForecast, ...]:
        """Return the forecast of each card."""
        return tuple(self._card(card) for card in self.plan.cards)

    def configurations(self, question: Question) -> tuple[Forecast, ...]:
        """Return the forecast of each configuration."""
        latencies = self._latencies(question.limits.latency_ms)
        return tuple(self._configuration(each, latencies) for each in self.plan.configurations())

    def _card(self, card: Card) -> CardForecast:
        plan, threads = self.plan, self.plan.threads[0]
        wanted = [
            (training, recipe)
            for training, recipe in plan.workload.variants_of(card)
            if plan.configuration(card.name, recipe, threads, training) not in self.filtered
        ]
        lightest = [variant for variant in wanted if variant[0] == wanted[0][0]]
        first = (plan.costs.chain_s(self._left(card, [variant]), plan.cores) for variant in lightest)
        light = [variant for variant in wanted if not recipe_of(variant[0]).tunes_backbone]
        wall, heads = (plan.costs.wall_s(self._left(card, those), plan.cores) for those in (wanted, light))
        on_disk = card.name in self.candidates.weights
        first_s = min(first, default=float("inf"))
        return CardForecast(card.name, on_disk, self.downloads[card.name], wall, first_s, wall - heads)

    def _left(self, card: Card, variants: Collection[Variant]) -> list[Stage[Any]]:
        """Return the stages that variants still need, with those of float32, which each form is compared with."""
        references = (VariantStages(card, *variant, self.plan.workload).reference for variant in variants)
        floats = ((each.training, each.compression) for each in references)
        needed = dict.fromkeys((*floats, *variants))
        return [stage for stage in self.plan.costs.stages(card, needed) if stage not in self.cached[card.name].done]

    def _configuration(self, configuration: Configuration, latencies: Mapping[Key, LatencyEstimate]) -> Forecast:
        plan, costs, recipe = self.plan, self.plan.costs, configuration.compression
        card = plan.cards_by_name[configuration.card]
        latency, cached = latencies[card.name, recipe, configuration.target.threads], self.cached[card.name]
        stages = costs.stages(card, [(configuration.training, recipe)])
        price_s = sum(costs.seconds(stage) / costs.sharers(stage) for stage in stages if stage not in cached.done)
        accuracy = None
        if card.top1() is not None:
            accuracy = Quantity(prior_accuracy(card, recipe), "%", Provenance.PUBLISHED, source="ImageNet")
        return Forecast(
            configuration=configuration,
            latency=latency.latency,
            chance=latency.chance,
            size=_size(plan, card, recipe, cached),
            accuracy=accuracy,
            price_s=price_s / len(plan.threads),
            filtered=self.filtered.get(configuration, ""),
        )

    def _latencies(self, budget_ms: float | None) -> dict[Key, LatencyEstimate]:
        """Return latency estimates: on this machine, or on the slowest device of the question."""
        here = latency_estimates(self.plan, self.cached, budget_ms)
        cards = self.plan.cards_by_name
        return {key: self.prefilter.worst_latency(cards[key[0]], key[1], each) for key, each in here.items()}


def _look_up(resolved: Resolved) -> _SearchSpace | None:
    """Return what would be tried, None if no card has weights at a known address."""
    candidates, downloads = _locate_weights(resolved)
    if not candidates.cards:
        return None
    plan = resolved.plan(candidates, CostCalibration().pace)
    materials = resolved.materials(candidates.weights, plan.size)
    cached = cached_results(materials, plan.workload, plan.cards_by_name, resolved.execution.remeasure)
    prefilter = Prefilter(resolved.targets, resolved.question.limits, plan.cards_by_name)
    rules = rules_of(plan, prefilter)
    filtered = ruled_out(plan, rules)
    for each in plan.configurations():
        if reason := rules.reason(RuleNeeds.PREDICTION, each):
            filtered.setdefault(each, reason)
    return _SearchSpace(plan, candidates, downloads, cached, prefilter, filtered)


def _locate_weights(resolved: Resolved) -> tuple[Candidates, dict[str, int | None]]:
    """Return the cards that would be tried, with their weights on disk, and the bytes to download for each."""
    from advisor.catalog.weights.fetching import locate
    from advisor.downloads.files import FetchOptions

    question, execution, cards = resolved.question, resolved.execution, resolved.cards
    options = FetchOptions(offline=execution.offline, mirror=execution.mirror)
    downloads: dict[str, int | None] = {}
    files: dict[str, WeightsFile | None] = {}
    missing: dict[str, str] = {}
    most = resolved.cards_to_try
    for card in cards:
        if len(downloads) == most:
            break
        file = locate(card, options)
        sources = [source for source in card.weights if source.file.checkable]
        if file is not None:
            downloads[card.name], files[card.name] = 0, file
        elif sources and not execution.offline:
            downloads[card.name] = sources[0].file.size_bytes
        elif question.candidates and question.data is None:
            downloads[card.name] = 0  # measured with fixed-seed random weights, quoted with its published accuracy
            missing[card.name] = "no weights: measured with random ones, its published accuracy is quoted"
        else:
            missing[card.name] = "weights not on this machine" + (" (--offline)" if execution.offline else "")
    return Candidates(tuple(card for card in cards if card.name in downloads), files, missing), downloads


def _size(plan: Plan, card: Card, recipe: str, cached: CachedResults) -> Quantity:
    if recipe in cached.size_bytes:
        return Quantity(float(cached.size_bytes[recipe]), "bytes", Provenance.MEASURED, source="made here before")
    rough, least = rough_size(card, recipe), plan.least_size(card, recipe)
    source = "parameters x bytes" + (", the published classifier included" if plan.images else "")
    return Quantity(rough, "bytes", Provenance.ESTIMATED, low=least, source=source)
