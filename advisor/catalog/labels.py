"""The names of the classes that published weights were trained on."""

from __future__ import annotations

from advisor.catalog.cards import Card
from advisor.catalog.shipped import catalogue_folder
from advisor.core.errors import StageError

BACKGROUND = "background"


def published_labels(card: Card) -> tuple[str, ...]:
    """Return the card's class names in label order: ImageNet's, after ``background`` where the card counts one.

    Raises:
        StageError: the card has another number of classes.
    """
    names = (catalogue_folder() / "labels" / "imagenet_1000.txt").read_text(encoding="utf-8").splitlines()
    labels = (*([BACKGROUND] * card.label_offset), *names)
    if len(labels) != card.classes:
        raise StageError(f"{card.name} has {card.classes} classes, the list of ImageNet's names {len(labels)}")
    return tuple(labels)
