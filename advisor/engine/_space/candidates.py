"""Choose the cards of a question, and put the most promising ones first.

``resolving.py`` asks when it finds the parts of a question. A search tries the first cards whose
weights ``weights.py`` can fetch, so the order decides which networks a user sees.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path

from advisor.catalog import (
    SUFFIX,
    Card,
    Catalogue,
    make_shipped_card,
    read_published_labels,
)
from advisor.core import (
    UsageError,
    WeightsFile,
)
from advisor.datasets import class_order
from advisor.engine._pipeline.images import (
    Images,
)
from advisor.engine._question import Question, Request
from advisor.engine._space.prior_accuracy import most_promising_first
from advisor.engine._space.recipes import choose_recipes
from advisor.engine._targets.device_prediction import card_rejection
from advisor.engine._targets.target_devices import TargetDevices

TO_IMPORT = (".keras", ".onnx", ".pt2")
"""Endings of users' files that ``advisor catalog add`` makes a card of."""


@dataclass(frozen=True)
class Candidates:
    """Cards that can be tried, the most promising first, with their weights by name,
    None for fixed-seed random ones.

    ``missing`` says of other cards why their weights cannot be fetched.
    """

    cards: tuple[Card, ...]
    weights: Mapping[str, WeightsFile | None]
    missing: Mapping[str, str]


def with_files(request: Request) -> Request:
    """Return a request whose candidates are names of cards:
    each file is one, in its own catalogue, or is refused.
    """
    question = request.question
    names = list[str]()
    catalogs = list(question.catalog)
    for candidate in question.candidates:
        if candidate.endswith(TO_IMPORT):
            raise UsageError(
                f"--candidates: '{candidate}' is a model to retrain, which needs a card",
                f"make one: advisor catalog add {candidate}; it says how to search with the card",
            )
        if not candidate.endswith(SUFFIX):
            names.append(candidate)
            continue
        card, catalogue = make_shipped_card(Path(candidate), question.catalog, question.task)
        names.append(card.name)
        catalogs.append(catalogue)
    # No candidate is a file, so the request stays as the user wrote it.
    if len(catalogs) == len(question.catalog):
        return request
    written = {**request.written, "candidates": names, "catalog": list(map(str, catalogs))}
    changed = replace(question, candidates=tuple(names), catalog=tuple(dict.fromkeys(catalogs)))
    return replace(request, question=changed, written=written)


def choose_cards(
    question: Question, catalogue: Catalogue, targets: TargetDevices
) -> tuple[Card, ...]:
    """Return the cards of the question, by default backbones that name a source of weights,
    the most promising first.

    A user's own file is a card of one task; a search for another one leaves it out unless the user
    names it. Finished files come first. If the user names nothing else, the other cards are those
    of a search without names. Cards of which no file may fit on a device are left out where this
    machine is no device, if others are left; so are those without a graph file, or with weights of
    Keras alone, where TensorFlow is not installed.
    """
    names = names_networks(question, catalogue)
    cards = list(catalogue.select(question.candidates)) if names else []
    if not cards:
        for card in catalogue.values():
            # What a start from a whole network gains is not shown yet, and it trains longer.
            if card.weights and not card.whole:
                cards.append(card)
    cards = _leave_out_other_tasks(question, cards)
    cards = _give_input_side(question, cards)
    if not names and find_spec("tensorflow") is None:
        cards = _prefer_graph_files(cards)
    if not names and not targets.host:
        cards = _prefer_runnable(question, cards, targets)
    # The phones of a fleet need small and large networks.
    spread = bool(question.fleet) or not question.of_task.published
    ordered = most_promising_first(cards, spread)
    return tuple(sorted(ordered, key=lambda card: not card.form))


def _leave_out_other_tasks(question: Question, cards: Sequence[Card]) -> list[Card]:
    """Return the cards for the question's task; refuse a card for another one that was named."""
    others = [card for card in cards if card.task not in ("", question.task)]
    for card in others:
        # A pattern may match files for several tasks,
        # and then the others are left out without a word.
        if card.name in question.candidates or len(others) == len(cards):
            raise UsageError(
                f"--candidates: {card.name} is a file for {card.task}, and the search is for"
                f" {question.task}",
                f"add --task {card.task}, or leave it out",
            )
    return [card for card in cards if card not in others]


def _give_input_side(question: Question, cards: list[Card]) -> list[Card]:
    """Return the cards with the input side of the task; leave out those that cannot have it."""
    side = question.of_task.side
    if not side:
        return cards
    # A graph that is a file has one side. A user's own detector keeps its own, and a whole
    # network that of its training unless the question names another.
    sized = [card.at(side) for card in cards]
    usable = []
    for card in sized:
        keeps_side = card.own_file or (card.whole and not question.input_size)
        if keeps_side or card.input_size == side:
            usable.append(card)
    if not usable:
        raise UsageError(
            f"--candidates: {sized[0].name} takes images of {sized[0].input_size} pixels only,"
            f" this task {side}",
            "name networks whose graph is no file: see `advisor catalog show NAME`",
        )
    return usable


def _prefer_graph_files(cards: list[Card]) -> list[Card]:
    """Return the cards that become float files without TensorFlow; all if there are none.

    TensorFlow also brings the package that reads the weights of Keras.
    """
    convertible = []
    for card in cards:
        if card.readable_sources and not card.needs_converter:
            convertible.append(card)
    return convertible or cards


def _prefer_runnable(question: Question, cards: list[Card], targets: TargetDevices) -> list[Card]:
    """Return the cards of which a file may run on a device; all if there are none."""
    pairs = list(product(choose_recipes(question), targets.devices))
    runnable = []
    for card in cards:
        if any(not card_rejection(card, *pair) for pair in pairs):
            runnable.append(card)
    return runnable or cards


def names_networks(question: Question, catalogue: Catalogue) -> bool:
    """Return whether the user named cards to try;
    finished files alone leave the usual ones in the search.
    """
    return any(not card.form for card in catalogue.select(question.candidates))


def require_known_classes(
    question: Question, cards: Sequence[Card], images: Images | None
) -> None:
    """Refuse a finished file that the user named and that does not know the classes of the
    images.
    """
    for card in cards:
        if images is None or not card.form or card.name not in question.candidates:
            continue
        labels = read_published_labels(card)
        try:
            class_order(images.classes, labels, len(labels))
        except UsageError as error:
            message = error.message.removeprefix("--data: ")
            raise UsageError(f"--candidates: {card.name}: {message}", error.hint) from None
