"""Names and order of the training recipes."""

from __future__ import annotations

NONE, HEAD = "none", "head"
FINETUNE_CACHED, FINETUNE_TOP, FINETUNE_ALL = "finetune_cached", "finetune_top", "finetune_all"

HEAD_SUBSET = "head_subset"
"""A first look at large data sets: the head alone, trained in float on some of the images. It decides which cards are
trained on all images, and is never the answer."""

TRAININGS = (NONE, HEAD_SUBSET, HEAD, FINETUNE_CACHED, FINETUNE_TOP, FINETUNE_ALL)
"""From the lightest to the heaviest: the published weights; a new head on the published backbone, trained on some of
the images, then on all; the last blocks fine-tuned on cached maps of the layers below; the last two thirds of the
layers fine-tuned on augmented images; all layers fine-tuned."""

CHOOSABLE = (NONE, HEAD, FINETUNE_CACHED, FINETUNE_TOP, FINETUNE_ALL)
"""Recipes that a user may choose."""

DEFAULT = (HEAD, FINETUNE_CACHED)
"""Recipes of a search with images whose user chose none."""

FINETUNED = (FINETUNE_CACHED, FINETUNE_TOP, FINETUNE_ALL)
"""Recipes that take minutes: a card is fine-tuned only if its head was promising."""

NAMED = (HEAD_SUBSET, *FINETUNED)
"""Recipes that the name of a candidate mentions; the others are the default."""


def in_order(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names from the lightest to the heaviest, each once."""
    return tuple(name for name in TRAININGS if name in names)
