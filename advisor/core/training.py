"""Names of the training recipes and which of them builds on which."""

from __future__ import annotations

NONE, HEAD, FINETUNE_TOP, FINETUNE_ALL = "none", "head", "finetune_top", "finetune_all"

TRAININGS = (NONE, HEAD, FINETUNE_TOP, FINETUNE_ALL)
"""From the lightest to the heaviest: the published weights as they are; a head on the published trunk; the last blocks
tuned as well; all of them."""

FINETUNED = (FINETUNE_TOP, FINETUNE_ALL)
"""Trainings of many minutes, which a card climbs to only on the evidence of its head."""


def in_order(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names from the lightest to the heaviest, each once."""
    return tuple(name for name in TRAININGS if name in names)
