"""How much an earlier run's pictures are like those of this question: what its accuracies say about it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

STRANGERS = 0.3
"""Of sets that share neither pictures nor class names. Networks that are good on one set of photographs tend to be good
on another: on three test sets of 337 classifiers the ranks correlate (``benchmarks/results/sampler_timm_pool.md``)."""

SAME_CLASSES = 0.9
"""Of sets with the same class names and other pictures."""


@dataclass(frozen=True)
class DataFacts:
    """What is compared of two sets of pictures.

    Attributes:
        fingerprint: hash of the pictures and their labels; empty where it is not known.
        classes: names of the classes.
        images: hashes of the pictures.
    """

    fingerprint: str
    classes: frozenset[str]
    images: frozenset[str] = frozenset()


def likeness(own: DataFacts, other: DataFacts) -> float:
    """Return from :data:`STRANGERS` to 1 for the same pictures.

    It is the largest of: the share of the smaller set's pictures that are in both, and the share of class names in
    common (Jaccard) as far as names can tell.
    """
    if own.fingerprint and own.fingerprint == other.fingerprint:
        return 1.0
    names = _jaccard(_plain(own.classes), _plain(other.classes))
    smaller = min(len(own.images), len(other.images))
    shared = len(own.images & other.images) / smaller if smaller else 0.0
    return max(shared, STRANGERS * (1.0 - names) + SAME_CLASSES * names)


def _jaccard(first: Collection[str], second: Collection[str]) -> float:
    either = set(first) | set(second)
    return len(set(first) & set(second)) / len(either) if either else 0.0


def _plain(names: Collection[str]) -> set[str]:
    """Names as people mean them: ``Glass_Bottles`` and ``glass bottles`` are one."""
    return {" ".join(name.replace("_", " ").replace("-", " ").lower().split()) for name in names}
