"""Bound the size of a card's file before it is made, and say whether that fits on a device."""

from __future__ import annotations

from advisor.catalog.cards import Card
from advisor.core.forms import form_of
from advisor.core.units import show_bytes
from advisor.engine.targets.target_devices import TargetDevice, form_rejection

LEAST_SHARE = 0.95
"""Least share of the parameters' bytes that is left after batch normalisation is folded into the convolutions."""

HEAD_FEATURES, HEAD_SHARE = 2049, 0.8
"""Size of the published classifier, which a head of the user's classes replaces: at most 2,048 features and a bias for
each class, and at most this share of a network's parameters (ShuffleNetV2 0.5: 75 %)."""


def least_size(card: Card, recipe: str, *, new_head: bool) -> float:
    """Return the least possible bytes of the file: parameters x bytes, less what is folded or replaced.

    Args:
        card: the model card.
        recipe: the compression recipe.
        new_head: the classifier is replaced by one of the user's classes.
    """
    params = float(max(card.params, 1))
    if new_head:
        params -= min(HEAD_FEATURES * card.classes, HEAD_SHARE * params)
    return LEAST_SHARE * params * form_of(recipe).bytes


def card_rejection(card: Card, recipe: str, device: TargetDevice) -> str:
    """Return why no file of a card can run on a device, whatever its head; empty if one may."""
    reason = form_rejection(form_of(recipe).name, device)
    least, room = least_size(card, recipe, new_head=True), device.profile.limits.file_bytes
    if reason or room is None or card.own_file or least <= room:
        return reason
    return f"its file has at least {show_bytes(least)}, {device.label} has room for {show_bytes(room)}: not trained"
