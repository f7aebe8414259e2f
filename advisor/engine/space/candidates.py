"""Choose the candidates of a question: recipes, cards and their weights, checked before anything is spent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version

from advisor.catalog.cards import Card, WeightsFile
from advisor.catalog.catalogue import load_catalogue
from advisor.catalog.labels import published_labels
from advisor.catalog.weights.missing import all_missing
from advisor.catalog.weights.options import FetchOptions
from advisor.compression.recipes import RECIPES, Recipe
from advisor.compression.recipes.base import Needs
from advisor.compression.user_model.images import class_order
from advisor.core.errors import UsageError, WeightsError, nearest
from advisor.core.figures import HOST
from advisor.core.training import HEAD_SUBSET
from advisor.engine.pipeline.images import SUBSET_IMAGES, Images, Role
from advisor.engine.pipeline.materials import Materials
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stages.figures import effort_for
from advisor.engine.question import Execution, Question
from advisor.engine.space.plan import Plan, order_by_promise
from advisor.engine.targets.device_prediction import card_rejection
from advisor.engine.targets.target_devices import select_targets
from advisor.measurement import host
from advisor.measurement.host import Host
from advisor.store import ArtifactCache
from advisor.store.files import sha256_json

DEFAULT_RECIPES = ("float32", "float16", "dynamic_int8", "weight_int8", "int8")
HEAVIER_RECIPES = ("mixed_int8", "qat_int8")
"""Tried if ``--max-drop`` is given, on cards whose lighter compressions lose more."""

AS_IT_IS = "is judged as it is, not trained; its figures are too high if it has learnt from your images"
"""Remark on a user's own detector or file of fixed form among the candidates."""

RUNTIME = "ai-edge-litert"
DOWNLOADS = 4

Say = Callable[[str], None]


@dataclass(frozen=True)
class Candidates:
    """Cards with their weights.

    Attributes:
        cards: what can be tried, the most promising first.
        weights: weights by card name, None for fixed-seed random ones.
        missing: card name to why its weights cannot be fetched.
    """

    cards: tuple[Card, ...]
    weights: Mapping[str, WeightsFile | None]
    missing: Mapping[str, str]


def chosen_recipes(question: Question) -> dict[str, Recipe]:
    """Return the compression recipes of the question. float32 is always among them: the others are compared with it.

    Raises:
        UsageError: an unknown name.
    """
    task, limited = question.of_task, question.limits.max_drop_points is not None
    known = {recipe.name: recipe for recipe in RECIPES if task.labelled or recipe.needs < Needs.SCORING}
    heavier = HEAVIER_RECIPES if question.data is not None and limited and task.labelled else ()
    names = question.compressions or (*DEFAULT_RECIPES, *heavier)
    for name in names:
        if name not in known:
            raise UsageError(f"--compressions: unknown '{name}'{nearest(name, known)}", f"recipes: {', '.join(known)}")
    return {name: known[name] for name in dict.fromkeys(("float32", *names))}


def chosen_cards(question: Question) -> tuple[Card, ...]:
    """Return the cards of the question, by default all that name a source of weights, the most promising first.

    A user's own file is a card of one task; a search for another one leaves it out unless the user names it. Files of
    fixed form come first. If the user names nothing else, the other cards are those of a search without names.

    Raises:
        UsageError: an unknown name, a file for another task, or a catalogue file that cannot be read.
    """
    catalogue, side = load_catalogue(question.catalog), question.of_task.side
    named = catalogue.select(question.candidates) if names_networks(question) else ()
    cards = [card for card in named or catalogue.values() if named or card.weights]
    others = [card for card in cards if card.task not in ("", question.task)]
    for card in others:
        if card.name in question.candidates or len(others) == len(cards):
            raise UsageError(
                f"--candidates: {card.name} is a file for {card.task}, and the search is for {question.task}",
                f"add --task {card.task}, or leave it out",
            )
    cards = [card for card in cards if card not in others]
    ordered = order_by_promise(_fitting(question, [card.at(side) for card in cards] if side else cards))
    return tuple(sorted(ordered, key=lambda card: not card.form))


def _fitting(question: Question, cards: Sequence[Card]) -> Sequence[Card]:
    """Return the cards whose file may fit on a device of the question; all if the user named some, or if none fits."""
    if HOST in question.devices or names_networks(question):
        return cards
    targets, recipes = select_targets(question), chosen_recipes(question)
    return [
        card
        for card in cards
        if any(not card_rejection(card, recipe, device) for recipe in recipes for device in targets.devices)
    ] or cards


def names_networks(question: Question) -> bool:
    """Return whether the user named cards to try; files of fixed form alone leave the usual ones in the search."""
    return any(not card.form for card in load_catalogue(question.catalog).select(question.candidates))


def cards_to_try(question: Question, cards: Sequence[Card]) -> int:
    """Return how many of the chosen cards are tried: all if the user named networks; files of fixed form always."""
    fixed = sum(bool(card.form) for card in cards)
    return len(cards) if names_networks(question) else fixed + question.of_task.cards


def require_known_classes(question: Question, cards: Sequence[Card], images: Images | None) -> None:
    """Check that each file of fixed form that the user named knows the classes of the images.

    Raises:
        UsageError: one does not; the nearest name is given.
    """
    for card in cards:
        if images is None or not card.form or card.name not in question.candidates:
            continue
        labels = published_labels(card)
        try:
            class_order(images.classes, labels, len(labels))
        except UsageError as error:
            message = error.message.removeprefix("--data: ")
            raise UsageError(f"--candidates: {card.name}: {message}", error.hint) from None


def find_weights(question: Question, execution: Execution, cards: Sequence[Card], say: Say) -> Candidates:
    """Fetch the weights of the cards, several at a time: of all that the user named, else of the first ones.

    A card without weights stays a candidate if the user named it and gave no images: latency, memory and operators
    do not depend on weights.

    Raises:
        WeightsError: no card is left.
    """
    from advisor.catalog.weights.fetching import fetch

    options = FetchOptions(offline=execution.offline, mirror=execution.mirror)

    def get(card: Card) -> WeightsFile | WeightsError:
        try:
            say(f"fetching weights of {card.name}")
            if card.as_it_is:
                say(f"{card.name} {AS_IT_IS}")
            return fetch(card, options)
        except WeightsError as error:
            return error

    weights: dict[str, WeightsFile | None] = {}
    errors: dict[str, WeightsError] = {}
    at_most = cards_to_try(question, cards)
    with ThreadPoolExecutor(DOWNLOADS) as pool:
        for start in range(0, len(cards), DOWNLOADS):
            group = cards[start : start + DOWNLOADS]
            for card, found in zip(group, pool.map(get, group), strict=True):
                if isinstance(found, WeightsError):
                    errors[card.name] = found
                else:
                    weights[card.name] = found
            if len(weights) >= at_most:
                break
    if question.candidates and question.data is None:
        weights.update(dict.fromkeys(errors))
    if not weights:
        raise all_missing(errors, options) if len(errors) > 1 else next(iter(errors.values()))
    return Candidates(
        cards=tuple(card for card in cards if card.name in weights)[:at_most],
        weights=weights,
        missing={name: error.message for name, error in errors.items()},
    )


def make_plan(
    question: Question,
    candidates: Candidates,
    recipes: Mapping[str, Recipe],
    images: Images | None,
    cores: int,
    pace: Mapping[StageName, float] | None = None,
    time_limited: bool = False,
) -> Plan:
    """Return the search space; see :class:`~advisor.engine.space.plan.Plan` for ``cores`` and ``pace``.

    With ``time_limited``, the time limit of the search alone limits the fine-tuning of a default search.
    """
    targets = select_targets(question)
    lead = targets.lead.identity if targets.lead else None
    return Plan(
        cards=candidates.cards,
        recipes=tuple(recipes),
        threads=(lead.threads,) if lead else question.thread_counts,
        trainings=trainings_of(question, images),
        robust=question.robust,
        tunings=question.tune_training,
        tuning_limited=question.tuning_limited and not time_limited,
        runtime=runtime_version(),
        images=len(images.split.learnt) if images else 0,
        validation=len(images.split.validation) if images else 0,
        holdout=len(images.split.holdout) if images else 0,
        own_holdout=images is not None and images.own_holdout,
        pace=pace or {},
        subset=images.counts[Role.SUBSET] if images else SUBSET_IMAGES,
        task=question.task,
        cores=cores,
        lead=lead,
        local_targets=tuple(filter(None, (device.local for device in targets.devices))),
    )


def materials_of(
    question: Question,
    images: Images | None,
    weights: Mapping[str, WeightsFile | None],
    configurations: int,
    machine: Host | None = None,
) -> Materials:
    """Return the materials of the stages of a search.

    Args:
        question: the user's question.
        images: the user's images, or None.
        weights: weights file of each card by name; None for fixed-seed random weights.
        configurations: size of the search space: files of a large one are timed briefly first.
        machine: the machine that measures, this one by default.
    """
    return Materials(
        cache=ArtifactCache(),
        images=images,
        weights=weights,
        host=machine or host.describe(),
        thread_counts=question.thread_counts,
        seed=question.seed,
        max_drop_points=question.limits.max_drop_points,
        robust=question.robust,
        promises=question.promises,
        metric=question.metric,
        costs=question.costs,
        effort=effort_for(configurations),
    )


def card_hash(card: Card) -> str:
    """Return the hash of everything that the catalogue says of the card."""
    return sha256_json(json.loads(json.dumps(asdict(card), default=str)))


def trainings_of(question: Question, images: Images | None) -> tuple[str, ...]:
    """Return the trainings of a search, the lightest first: a large set gets a first look at some of it."""
    first_look = images is not None and images.large and question.of_task.labelled
    return (HEAD_SUBSET, *question.trainings) if first_look else question.trainings


def runtime_version() -> str:
    """Return the runtime that measures, with its version."""
    return f"{RUNTIME}=={version(RUNTIME)}"
