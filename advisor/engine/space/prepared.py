"""Find and check all parts of a question, for a search and for its preview."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.catalog.cards import Card
from advisor.catalog.user_models.shipped import is_file, shipped_card
from advisor.compression.recipes import Recipe
from advisor.core.tasks import IMAGE_CLASSIFICATION
from advisor.engine.pipeline.images import Images
from advisor.engine.question import Request, require_sampler_installed
from advisor.engine.space.candidates import chosen_cards, chosen_recipes, require_known_classes
from advisor.engine.space.images import read_images
from advisor.engine.targets.target_devices import TargetDevices, select_targets
from advisor.measurement.average_precision import require_coco


@dataclass(frozen=True)
class Prepared:
    """A question after all its parts were found and checked, before any work starts.

    Attributes:
        request: the question.
        targets: the devices.
        recipes: compression recipes by name.
        cards: the candidates, the most promising first.
        images: the user's images, or None.
    """

    request: Request
    targets: TargetDevices
    recipes: Mapping[str, Recipe]
    cards: tuple[Card, ...]
    images: Images | None


def prepare(request: Request, say: Callable[[str], None]) -> Prepared:
    """Find and check all parts of a question.

    Raises:
        UsageError: a part is missing, unknown or damaged, or a package that it needs is not installed.
    """
    require_sampler_installed(request.execution.sampler)
    question = request.question
    if question.task != IMAGE_CLASSIFICATION:
        require_coco()
    targets, recipes, cards = select_targets(question), chosen_recipes(question), chosen_cards(question)
    images = read_images(question, say)
    require_known_classes(question, cards, images)
    return Prepared(request, targets, recipes, cards, images)


def with_files(request: Request) -> Request:
    """Return a request whose candidates are names of cards: each file is one, in a catalogue of its own.

    Raises:
        UsageError: a file is missing or cannot take part.
    """
    question = request.question
    names, catalogs = list[str](), list(question.catalog)
    for candidate in question.candidates:
        if not is_file(candidate):
            names.append(candidate)
            continue
        card, catalogue = shipped_card(Path(candidate), question.catalog)
        names.append(card.name)
        catalogs.append(catalogue)
    if len(catalogs) == len(question.catalog):
        return request
    written = {**request.written, "candidates": names, "catalog": [str(path) for path in catalogs]}
    changed = replace(question, candidates=tuple(names), catalog=tuple(dict.fromkeys(catalogs)))
    return replace(request, question=changed, written=written)
