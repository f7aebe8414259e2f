"""Read the names of the classes that published weights were trained on."""

from __future__ import annotations

from advisor.catalog.cards import Card
from advisor.core.errors import StageError
from advisor.store.files import shipped_folder

BACKGROUND = "background"


def published_labels(card: Card) -> tuple[str, ...]:
    """Return the card's class names in label order: ImageNet's, after ``background`` where the card counts one.

    A card of a user's own file has the names that are written in that file.

    Raises:
        StageError: the card has another number of classes.
        WeightsError: a user's own file that is not there.
    """
    labels = _own_labels(card) if card.own_file else (*([BACKGROUND] * card.label_offset), *imagenet_labels())
    if len(labels) != card.classes:
        raise StageError(f"{card.name} has {card.classes} classes, and {len(labels)} names of classes are known")
    return labels


def imagenet_labels() -> tuple[str, ...]:
    """Return the names of ImageNet's thousand classes, in the order of their synsets."""
    return tuple((shipped_folder("catalogs") / "labels" / "imagenet_1000.txt").read_text(encoding="utf-8").splitlines())


def _own_labels(card: Card) -> tuple[str, ...]:
    from advisor.catalog.weights.fetching import fetch
    from advisor.downloads.files import FetchOptions
    from advisor.tflite.metadata import read_metadata

    file = fetch(card, FetchOptions(offline=True)).path
    metadata = read_metadata(file.read_bytes(), str(file))
    return metadata.labels if metadata else ()
