"""Expect the accuracy of a card before it is measured, and order the cards by it.

The order of a plan, the scheduler's first belief and the preview rest on these figures. They
decide what is tried first, what is never tried, and when a search by the rule ends. The pick is
chosen by measured figures alone.
"""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from advisor.catalog import Card
from advisor.core import Gain, TrainingName, form_of, recipe_of

FEWEST_PUBLISHED = 20
"""Number of published figures that the regression needs."""

MIDDLING = 50.0
"""Prior top-1 in % of a card without counts."""

FEW_IMAGES = 600.0
MANY = 1.3
"""Images with which fine-tuning gains half as much as with very many, and the gain with very many
over the recipe's, which is that of about two thousand. EfficientNet-Lite0 lost 4 and 17 % of its
head's errors with two draws of 200 images of TrashNet, 18 % with 400, and 39 % with 1,769
(decision 0048).
"""


def most_promising_first(cards: Sequence[Card], spread: bool = False) -> tuple[Card, ...]:
    """Return the cards by published accuracy and MACs, one Pareto front after another.

    The most accurate cards of a front come first. With ``spread``, for a task of which the
    published accuracy says little, each next card is in the middle of the largest gap: any first
    few are small and large ones.
    """
    fronts = list[list[Card]]()
    least_macs = list[int]()
    best_first = sorted(cards, key=_rank_key)
    for (_, macs), equal in groupby(best_first, key=_rank_key):
        # Each front before it has a card that dominates these.
        place = bisect_right(least_macs, macs)
        if place == len(fronts):
            fronts.append([])
            least_macs.append(macs)
        fronts[place] += equal
        least_macs[place] = macs
    ordered = list[Card]()
    for front in fronts:
        ordered += _halve_gaps(front) if spread else front
    return tuple(ordered)


def _rank_key(card: Card) -> tuple[float, int]:
    """Return what orders cards: the most accurate first, then those with the fewest MACs."""
    return -(card.top1() or 0.0), card.macs


def _halve_gaps(cards: Sequence[Card]) -> Iterator[Card]:
    """Yield the middle one, then those of both halves, and so on."""
    gaps = deque([(0, len(cards))])
    while gaps:
        start, end = gaps.popleft()
        if start < end:
            middle = (start + end) // 2
            yield cards[middle]
            gaps += [(start, middle), (middle + 1, end)]


def prior_accuracy(card: Card, recipe: str) -> float:
    """Return the published top-1 in % of a compression, else of float less its usual drop,
    else what is usual.
    """
    published = card.top1("int8") if recipe == "int8" else None
    # A published figure of the int8 file includes its drop;
    # a usual drop is an average over other networks.
    if published:
        return published
    float_top1 = card.top1() or estimate_top1(card)
    return float_top1 - form_of(recipe).drop


def estimate_top1(card: Card) -> float:
    """Return the ImageNet top-1 in % that a card of such multiply-accumulates,
    parameters and input usually has.
    """
    weights = _fit_top1()
    if not weights or not card.macs or not card.params:
        return MIDDLING
    terms = _list_size_terms(card)
    top1 = sum(weight * term for weight, term in zip(weights, terms, strict=True))
    # The law has no upper end, and no network has more than 95 %.
    return min(max(top1, 0.0), 95.0)


def _list_size_terms(card: Card) -> tuple[float, ...]:
    """Return what the usual accuracy of a card is a sum of:
    a constant, and logarithms of its size.
    """
    return 1.0, math.log(card.macs), math.log(card.params), math.log(card.input_size)


@lru_cache(maxsize=1)
def _fit_top1() -> tuple[float, ...]:
    """Return the weights of :func:`_list_size_terms`:
    least squares over the shipped cards with published figures.
    """
    import numpy as np

    from advisor.catalog import Catalogue

    known = []
    for card in Catalogue.load().values():
        if card.top1() and card.macs and card.params:
            known.append(card)
    # Four weights from fewer figures would follow the noise of single papers.
    if len(known) < FEWEST_PUBLISHED:
        return ()
    facts = list(map(_list_size_terms, known))
    top1 = [card.top1() for card in known]
    weights = np.linalg.lstsq(np.array(facts), np.array(top1, dtype=float), rcond=None)[0]
    return tuple(map(float, weights))


def shift_of(training: str, images: int, measured: Gain | None = None) -> tuple[float, float]:
    """Return what a recipe adds to the logarithm of the error of the head alone,
    and its standard deviation.

    ``measured`` is the gain of fine-tuning for a task where that is known.
    Otherwise it is the recipe's, and less from few images.
    """
    recipe = recipe_of(training)
    if recipe.quick_head:
        head = recipe_of(TrainingName.HEAD)
        return -math.log(1.0 - head.gain), head.spread
    if recipe.over != TrainingName.HEAD:
        return 0.0, 0.0
    gain, spread = recipe.gain, recipe.spread
    if recipe.tunes_backbone and measured:
        gain, spread = measured
    elif recipe.tunes_backbone:
        gain *= MANY * images / (images + FEW_IMAGES)
    return math.log(1.0 - gain), spread / (1.0 - gain)
