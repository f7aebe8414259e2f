"""Return a prior of a card's accuracy: published, else what cards of its size usually have."""

from __future__ import annotations

import math
from functools import lru_cache

from advisor.catalog.cards import Card
from advisor.core.forms import form_of

FEWEST_PUBLISHED = 20
"""Number of published figures that the regression needs."""

MIDDLING = 50.0
"""Prior top-1 in % of a card without counts."""


def prior_accuracy(card: Card, recipe: str) -> float:
    """Return the published top-1 in % of a compression, else of float less its usual drop, else what is usual."""
    own = card.top1("int8") if recipe == "int8" else None
    return own or (card.top1() or expected_top1(card)) - form_of(recipe).drop


def expected_top1(card: Card) -> float:
    """Return the ImageNet top-1 in % that a card of such multiply-accumulates, parameters and input usually has."""
    law = _law()
    if not law or not card.macs or not card.params:
        return MIDDLING
    value = sum(weight * fact for weight, fact in zip(law, _facts(card), strict=True))
    return min(max(value, 0.0), 95.0)


def _facts(card: Card) -> tuple[float, ...]:
    return 1.0, math.log(card.macs), math.log(card.params), math.log(card.input_size)


@lru_cache(maxsize=1)
def _law() -> tuple[float, ...]:
    """Return the weights of :func:`_facts`: least squares over the shipped cards with published figures."""
    import numpy as np

    from advisor.catalog.catalogue import load_catalogue

    known = [card for card in load_catalogue().values() if card.top1() and card.macs and card.params]
    if len(known) < FEWEST_PUBLISHED:
        return ()
    facts, top1 = [_facts(card) for card in known], [card.top1() for card in known]
    weights = np.linalg.lstsq(np.array(facts), np.array(top1, dtype=float), rcond=None)[0]
    return tuple(float(weight) for weight in weights)
