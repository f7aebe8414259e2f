"""Names of the training recipes and which of them builds on which."""

from __future__ import annotations

NONE, HEAD, FINETUNE_TOP, FINETUNE_ALL = "none", "head", "finetune_top", "finetune_all"

HEAD_SUBSET = "head_subset"
"""A first look at large sets: the head alone, learnt from some of the pictures, in float; it decides who learns from
all of them and is no answer."""

TRAININGS = (NONE, HEAD_SUBSET, HEAD, FINETUNE_TOP, FINETUNE_ALL)
"""From the lightest to the heaviest: the published weights; a head on the published backbone, of some of the
pictures, then of all; the last blocks tuned as well; all of them."""

CHOOSABLE = (NONE, HEAD, FINETUNE_TOP, FINETUNE_ALL)
"""Those that a user may name."""

FINETUNED = (FINETUNE_TOP, FINETUNE_ALL)
"""Trainings of many minutes, which a card climbs to only on the evidence of its head."""


NAMED = (HEAD_SUBSET, *FINETUNED)
"""Trainings that a candidate's name says; the others are what is expected of it."""


def in_order(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names from the lightest to the heaviest, each once."""
    return tuple(name for name in TRAININGS if name in names)
