"""Count the hashes and published figures that a check of the catalogue could use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.catalog.cards import Card, WeightSource
from advisor.catalog.weights.options import FetchOptions
from advisor.catalog.weights.store import Cache


@dataclass(frozen=True, slots=True)
class Verified:
    """What the check could use.

    Attributes:
        counts: published parameters and MACs that cards were compared with.
        strong: sources whose file or archive is known by SHA-256 or SHA-384.
        weak: sources known by an MD5 or the first digits of a hash.
        unknown: sources without a hash, which are never downloaded.
        sourceless: cards without any source, whose weights only a file of the user's own can be.
        hashed: cards whose file in the cache was hashed and is the one on the card.
        damaged: cards whose file in the cache is another one.
    """

    counts: int
    strong: int
    weak: int
    unknown: int
    sourceless: tuple[str, ...]
    hashed: tuple[str, ...]
    damaged: tuple[str, ...]


def verified(cards: Sequence[Card]) -> Verified:
    """Count what the cards state, and hash what the cache holds of their weights."""
    sources = [source for card in cards for source in card.weights]
    strengths = [_strength(source) for source in sources]
    cache = Cache(FetchOptions().cache_root)
    kept = [(card.name, source) for card in cards for source in card.weights if cache.holds(source)]
    found = {(name, cache.find(source) is not None) for name, source in kept}
    return Verified(
        counts=sum((row.params is not None) + (row.macs is not None) for card in cards for row in card.published),
        strong=strengths.count("strong"),
        weak=strengths.count("weak"),
        unknown=strengths.count(""),
        sourceless=tuple(card.name for card in cards if not card.weights),
        hashed=tuple(sorted(name for name, right in found if right)),
        damaged=tuple(sorted(name for name, right in found if not right)),
    )


def _strength(source: WeightSource) -> str:
    members = (source.file, *source.companions)
    if all(member.strong or member.archive for member in members):
        return "strong"
    return "weak" if all(member.key for member in members) else ""
