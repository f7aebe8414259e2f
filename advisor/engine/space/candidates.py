"""Choose the candidates of a question: images, recipes, cards and their weights, checked before anything is spent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path

from advisor.catalog.cards import Card, WeightsFile
from advisor.catalog.catalogue import load_catalogue
from advisor.catalog.labels import published_labels
from advisor.catalog.weights.missing import none_to_be_had
from advisor.catalog.weights.options import FetchOptions
from advisor.compression.recipes import RECIPES, Recipe
from advisor.compression.recipes.base import Needs
from advisor.compression.user_model.images import class_order
from advisor.core.errors import UsageError, WeightsError, nearest
from advisor.core.tasks import IMAGE_CLASSIFICATION, OBJECT_COUNTING, OBJECT_DETECTION
from advisor.core.training import HEAD_SUBSET
from advisor.datasets.boxes import formats_of
from advisor.datasets.boxes.reading import survey_boxes
from advisor.datasets.checks.check import require_usable
from advisor.datasets.checks.findings import counted
from advisor.datasets.dataset import Dataset
from advisor.datasets.division import Division, divide, divide_boxes
from advisor.datasets.others import read_others
from advisor.datasets.survey import survey
from advisor.engine.pipeline.images import SUBSET_IMAGES, Boxes, Images, Role
from advisor.engine.pipeline.materials import Materials
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stages.figures import effort_for
from advisor.engine.question import Execution, Question, require_classes
from advisor.engine.space.metric_needs import require_metrics
from advisor.engine.space.plan import Plan, order_by_promise
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


def read_images(question: Question, say: Say) -> Images | None:
    """Read, check and split the user's images.

    Near duplicates and groups stay in one part. A split of the user's own is kept.

    Raises:
        UsageError: a promise names a class that no image has. See also :mod:`advisor.datasets.survey`,
            :mod:`advisor.datasets.checks.check` and :func:`advisor.datasets.division.divide`; for boxes
            :mod:`advisor.datasets.boxes.reading`; or a metric cannot be computed on the images.
    """
    if question.data is None:
        return None
    say(f"reading images of {question.data}")
    images = READERS[question.task](question, say)
    require_classes(question.promises, images.classes)
    require_metrics(question, images)
    return images


def _with_classes(question: Question, say: Say) -> Images:
    """Read images that have classes, and images of other things."""
    path = _required(question.data)
    try:
        read = survey(path)
        require_usable(read.dataset)
    except UsageError as error:
        formats = formats_of(path) if path.is_dir() else {}
        if not formats:
            raise
        hint = f"the folder has boxes, {' and '.join(formats)}: add --task {OBJECT_DETECTION}"
        raise UsageError(error.message, hint) from None
    division = divide(read, question.seed)
    images = _divided(read.dataset, division, division.notes(read.dataset), say)
    if question.unknown is None:
        return images
    others, note = read_others(question.unknown, read)
    say(note)
    return replace(images, others=others, notes=(*images.notes, note))


def _with_boxes(question: Question, say: Say) -> Images:
    """Read images in which boxes have classes."""
    read = survey_boxes(_required(question.data))
    division, _, notes = divide_boxes(read, question.seed)
    images = _divided(read.images.dataset, division, notes, say)
    return replace(images, boxes=Boxes(read.classes, read.objects, read.sizes))


def _required(data: Path | None) -> Path:
    assert data is not None, "images are read only where there are some"
    return data


READERS: Mapping[str, Callable[[Question, Say], Images]] = {
    IMAGE_CLASSIFICATION: _with_classes,
    OBJECT_DETECTION: _with_boxes,
    OBJECT_COUNTING: _with_boxes,
}
"""What reads and splits the images, by task."""


def _divided(dataset: Dataset, division: Division, notes: tuple[str, ...], say: Say) -> Images:
    for note in (*notes, *_leaking(division)):
        say(note)
    return Images(
        dataset,
        division.split,
        division.leaks,
        SUBSET_IMAGES,
        division.groups,
        division.grouping,
        notes,
    )


def _leaking(division: Division) -> Iterator[str]:
    if division.leaks:
        what = counted(len(division.leaks), "image or group lies", "images or groups lie")
        yield f"{what} in several parts of the split"


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
    ordered = order_by_promise([card.at(side) for card in cards] if side else cards)
    return tuple(sorted(ordered, key=lambda card: not card.form))


def names_networks(question: Question) -> bool:
    """Return whether the user named cards to try; files of fixed form alone leave the usual ones in the search."""
    return any(not card.form for card in load_catalogue(question.catalog).select(question.candidates))


def most_cards(question: Question, cards: Sequence[Card]) -> int:
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
    at_most = most_cards(question, cards)
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
        raise none_to_be_had(errors, options) if len(errors) > 1 else next(iter(errors.values()))
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
    device = select_targets(question).lead
    lead = device.identity if device else None
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
