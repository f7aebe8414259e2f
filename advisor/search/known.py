"""What earlier searches have done already, found by asking for every stage without doing any."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from advisor.catalog.cards import Card
from advisor.catalog.weights import WeightsFile
from advisor.compression.recipes import Recipe
from advisor.core.errors import UnsupportedRecipe
from advisor.core.quantity import Quantity
from advisor.isolation import ChildPool
from advisor.search.context import Context, Pictures, Purpose
from advisor.search.evaluate import metadata_of
from advisor.search.machine import Machine
from advisor.search.plan import Stage
from advisor.search.request import Request
from advisor.search.stages import Artefact, Keeper, Stages
from advisor.search.timing import Timer, effort_for
from advisor.store import ArtifactCache


@dataclass
class Known:
    """What is known of one card.

    Attributes:
        done: stages whose results are kept.
        latency_p90: 90th percentile, measured on this machine, by recipe and thread count.
        latency: median, likewise.
        size_bytes: size of the artefact by recipe.
    """

    done: set[Stage] = field(default_factory=set)
    latency_p90: dict[tuple[str, int], Quantity] = field(default_factory=dict)
    latency: dict[tuple[str, int], Quantity] = field(default_factory=dict)
    size_bytes: dict[str, int] = field(default_factory=dict)


def what_is_known(
    request: Request,
    cards: Mapping[str, Card],
    weights: Mapping[str, WeightsFile],
    recipes: Mapping[str, Recipe],
    pictures: Pictures | None,
) -> dict[str, Known]:
    """Look every stage of the cards up in the artifact cache; nothing is done, and nothing is written.

    Args:
        request: the question.
        cards: the cards by name.
        weights: weights that are on this machine, by card; of other cards nothing is known.
        recipes: compression recipes by name.
        pictures: the user's pictures, or None.
    """
    # Timing again is part of the question's price, and asking with `remeasure` would throw the old timings away.
    asked = replace(request, remeasure=False)
    effort = effort_for(len(cards) * len(recipes) * len(request.thread_counts))
    context = Context(asked, pictures, ArtifactCache(), Machine(1), ChildPool(), ChildPool(), lambda *_: None, effort)
    found = {name: Known() for name in cards}

    async def look() -> None:
        lookup = Stages(_Finder(context, dict.fromkeys(weights, 0)), weights)
        for name in weights:
            await _look(context, lookup, cards[name], recipes, found[name])

    if weights:
        _run(look())
    if request.remeasure:
        for known in found.values():
            known.done = {stage for stage in known.done if stage[0] != "timing"}
    return found


class _NotDone(Exception):
    """A stage whose result is not kept."""


class _Finder(Keeper):
    """Finds results and makes none."""

    async def kept(
        self, stage: str, doing: str, card: Card, inputs: Mapping[str, Any], make: Callable[[Path], None]
    ) -> Path:
        """Return the stage's folder in the cache.

        Raises:
            _NotDone: it is not there.
        """
        if not self.context.cache.has(stage, inputs):
            raise _NotDone
        return self.context.cache.folder(stage, inputs)


class _LookupTimer(Timer):
    """A timer that finds timings and takes none."""

    def _run(self, artefact: Artefact) -> dict[str, Any]:
        raise _NotDone


async def _look(context: Context, lookup: Stages, card: Card, recipes: Mapping[str, Recipe], known: Known) -> None:
    pictures, trunks = context.pictures, lookup.trunks
    shared: list[tuple[str, Callable[[], Awaitable[Any]]]] = [("convert", lambda: trunks.master(card))]
    if pictures is not None:
        shared += [
            ("cut", lambda: trunks.trunk(card)),
            ("features", lambda: trunks.features(card, pictures.learnt)),
            ("head", lambda: lookup.heads.head(card, pictures, Purpose.COMPARE)),
            ("refit", lambda: lookup.heads.head(card, pictures, Purpose.SHIP)),
            ("join", lambda: _both(lookup, card)),
        ]
    else:
        shared.append(("cut", lambda: lookup.float_form(card)))
    for stage, ask in shared:
        if not await _found(ask()):
            return
        known.done.add((stage, ""))
    for recipe in recipes.values():
        await _look_at(context, lookup, card, recipe, known)


async def _look_at(context: Context, lookup: Stages, card: Card, recipe: Recipe, known: Known) -> None:
    pictures, name, timer = context.pictures, recipe.name, _LookupTimer(context, context.effort)
    try:
        metadata = metadata_of(card, pictures)
        artefact = await lookup.artefact(card, name, recipe.version, metadata, Purpose.SHIP)
        compared = (
            await lookup.artefact(card, name, recipe.version, metadata, Purpose.COMPARE) if pictures else artefact
        )
    except _NotDone:
        return
    known.done.add(("compress", name))
    known.size_bytes[name] = artefact.size_bytes
    scored = (
        lookup.scores.probabilities(card, compared, pictures.validation)
        if pictures
        else lookup.scores.answers(card, artefact)
    )
    if await _found(scored):
        known.done.add(("score" if pictures else "answers", name))
    try:
        for threads in context.request.thread_counts:
            timing = await timer.measure(artefact, threads, 0, card.name, name)
            if timing.latency is not None and timing.latency_p90 is not None:
                known.latency[name, threads], known.latency_p90[name, threads] = timing.latency, timing.latency_p90
    except _NotDone:
        return
    known.done.add(("timing", name))


async def _both(lookup: Stages, card: Card) -> None:
    for purpose in Purpose:
        await lookup.float_form(card, purpose)


async def _found(result: Awaitable[Any]) -> bool:
    try:
        await result
    except (_NotDone, UnsupportedRecipe):
        return False
    return True


def _run(work: Any) -> None:
    """Run a coroutine, also where an event loop runs already, as in a notebook."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()
