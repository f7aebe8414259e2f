"""Choose the candidates of a question: recipes and cards, checked before anything is spent."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import product

from advisor.catalog.cards import Card
from advisor.catalog.catalogue import Catalogue
from advisor.catalog.labels import published_labels
from advisor.compression.recipes import RECIPES, Recipe
from advisor.compression.recipes.base import Needs
from advisor.core.errors import UsageError, nearest
from advisor.datasets.dataset import class_order
from advisor.downloads.files import WeightsFile
from advisor.engine.pipeline.images import Images
from advisor.engine.question import Question
from advisor.engine.space.plan import most_promising_first
from advisor.engine.targets.device_prediction import card_rejection
from advisor.engine.targets.target_devices import TargetDevices
from advisor.store.files import sha256_json

DEFAULT_RECIPES = ("float32", "float16", "dynamic_int8", "weight_int8", "int8")
HEAVIER_RECIPES = ("mixed_int8", "qat_int8")
"""Tried if ``--max-drop`` is given, on cards whose lighter compressions lose more."""

RUNTIME = "ai-edge-litert"


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


def chosen_cards(question: Question, catalogue: Catalogue, targets: TargetDevices) -> tuple[Card, ...]:
    """Return the cards of the question, by default all that name a source of weights, the most promising first.

    A user's own file is a card of one task; a search for another one leaves it out unless the user names it.
    Finished files come first. If the user names nothing else, the other cards are those of a search without names.

    Raises:
        UsageError: an unknown name, or a file for another task.
    """
    side, names = question.of_task.side, names_networks(question, catalogue)
    named = catalogue.select(question.candidates) if names else ()
    cards = [card for card in named or catalogue.values() if named or card.weights]
    others = [card for card in cards if card.task not in ("", question.task)]
    for card in others:
        if card.name in question.candidates or len(others) == len(cards):
            raise UsageError(
                f"--candidates: {card.name} is a file for {card.task}, and the search is for {question.task}",
                f"add --task {card.task}, or leave it out",
            )
    cards = [card for card in cards if card not in others]
    cards = [card.at(side) for card in cards] if side else cards
    if not names and not targets.host:
        cards = _fitting(cards, chosen_recipes(question), targets) or cards
    return tuple(sorted(most_promising_first(cards), key=lambda card: not card.form))


def _fitting(cards: Sequence[Card], recipes: Collection[str], targets: TargetDevices) -> list[Card]:
    """Return the cards whose file may fit on a device."""
    pairs = list(product(recipes, targets.devices))
    return [card for card in cards if any(not card_rejection(card, recipe, device) for recipe, device in pairs)]


def names_networks(question: Question, catalogue: Catalogue) -> bool:
    """Return whether the user named cards to try; finished files alone leave the usual ones in the search."""
    return any(not card.form for card in catalogue.select(question.candidates))


def require_known_classes(question: Question, cards: Sequence[Card], images: Images | None) -> None:
    """Check that each finished file that the user named knows the classes of the images.

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


def card_hash(card: Card) -> str:
    """Return the hash of everything that the catalogue says of the card."""
    return sha256_json(json.loads(json.dumps(asdict(card), default=str)))


def runtime_version() -> str:
    """Return the runtime that measures, with its version."""
    return f"{RUNTIME}=={version(RUNTIME)}"
