"""Find and check all parts of a question, for a search and for its preview."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from advisor.catalog.cards import Card
from advisor.compression.recipes import Recipe
from advisor.engine.pipeline.images import Images
from advisor.engine.question import Request, require_sampler_installed
from advisor.engine.space.candidates import chosen_cards, chosen_recipes, require_known_classes
from advisor.engine.space.images import read_images
from advisor.engine.targets.target_devices import TargetDevices, select_targets


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
        UsageError: a part is missing, unknown or damaged.
    """
    require_sampler_installed(request.execution.sampler)
    question = request.question
    targets, recipes, cards = select_targets(question), chosen_recipes(question), chosen_cards(question)
    images = read_images(question, say)
    require_known_classes(question, cards, images)
    return Prepared(request, targets, recipes, cards, images)
