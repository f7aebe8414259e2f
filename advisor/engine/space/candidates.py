"""Choose the candidates of a question, and read its images, before anything is spent."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import product

from advisor.catalog.cards import Card
from advisor.catalog.catalogue import Catalogue, published_labels
from advisor.compression.recipes import RECIPES, Recipe
from advisor.compression.recipes.base import Needs
from advisor.core.errors import UsageError, nearest
from advisor.core.metrics import COST_SAVED, LEAST_GROUP_IMAGES, TOP5, WORST_GROUP
from advisor.datasets.checks.findings import counted
from advisor.datasets.dataset import Dataset, class_order
from advisor.datasets.division import Division
from advisor.datasets.split import Split
from advisor.downloads.files import WeightsFile
from advisor.engine.pipeline.materials import SUBSET_IMAGES, Images, Role
from advisor.engine.question import Question, require_classes
from advisor.engine.space.plan import most_promising_first
from advisor.engine.targets.device_prediction import card_rejection
from advisor.engine.targets.target_devices import TargetDevices
from advisor.measurement.metrics import FIRST
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


PARTS = {Role.VALIDATION: "validation part", Role.HOLDOUT: "hold-out"}


def require_metrics(question: Question, images: Images) -> None:
    """Refuse a metric that counts or is limited, and that cannot be computed on the images.

    Raises:
        UsageError: top5 with five classes or fewer, costs of other classes or without a mistake that costs anything, or
            fewer than two groups of enough images.
    """
    limited = dict.fromkeys(dict(question.limits.min_metrics), "--min-accuracy")
    asked = {question.metric: "--metric", **limited}
    if question.costs is not None:
        _require_costs(question.costs.of(images.classes), images, counted=COST_SAVED in asked)
    for name, option in asked.items():
        if name == TOP5 and len(images.classes) <= FIRST:
            raise UsageError(
                f"{option}: {TOP5} needs more than {FIRST} classes, and the images have {len(images.classes)}",
                "take top1, balanced-accuracy or macro-f1",
            )
        if name == WORST_GROUP:
            _require_groups(option, images)


def _require_costs(rows: Sequence[Sequence[float]], images: Images, counted: bool) -> None:
    """Refuse parts of the images on which one answer costs nothing, if saved costs are counted."""
    for role, part in PARTS.items():
        seen = sorted(set(images.part(role).labels))
        free = [name for label, name in enumerate(images.classes) if not any(rows[true][label] for true in seen)]
        if free and counted:
            raise UsageError(
                f"--costs: always answering '{free[0]}' costs nothing on the {part}, so no cost can be saved there",
                "add images of the other classes, or take another --metric",
            )


def _require_groups(option: str, images: Images) -> None:
    """Refuse parts with fewer than two groups of enough images."""
    for role, part in PARTS.items():
        sizes = Counter(images.group_names(role))
        compared = sum(size >= LEAST_GROUP_IMAGES for size in sizes.values())
        if compared < 2:
            raise UsageError(
                f"{option}: {WORST_GROUP} compares groups of at least {LEAST_GROUP_IMAGES} images, and the {part} has "
                f"{compared} of them",
                "name cameras or sites in the column 'group' of a manifest; a split keeps groups whole, so name at "
                "least two for each part, or put images of each group into all parts by the column 'split'",
            )


Say = Callable[[str], None]


def read_images(question: Question, say: Say) -> Images | None:
    """Read, check and split the user's images.

    Near duplicates and groups stay in one part. A split of the user's own is kept.

    Raises:
        UsageError: a guarantee names a class that no image has. See also :mod:`advisor.datasets.survey`,
            :mod:`advisor.datasets.checks.check` and :func:`advisor.datasets.division.divide`; for boxes
            :mod:`advisor.datasets.boxes.reading`; or a metric cannot be computed on the images.
    """
    if question.data is None:
        return None
    say(f"reading images of {question.data}")
    images = question.of_task.read(question, say)
    require_classes(question.guarantees, images.classes)
    require_metrics(question, images)
    return images


def undivided(dataset: Dataset, seed: int) -> Images:
    """Return images that are all held out."""
    return Images(dataset, Split((), (), tuple(range(len(dataset.images))), seed))


def divided(dataset: Dataset, division: Division, notes: tuple[str, ...], say: Say) -> Images:
    """Return divided images, and say what is notable about the parts."""
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
