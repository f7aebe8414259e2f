"""Fill the cache with the weights of many cards, for a machine that will be offline."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from advisor.catalog.cards import Card
from advisor.catalog.weights.fetching import fetch
from advisor.core.errors import WeightsError
from advisor.downloads.cache import Cache
from advisor.downloads.files import FetchOptions, WeightsFile, WeightSource

AT_A_TIME = 4


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result for one card's weights.

    Attributes:
        card: name of the card.
        path: the file, None if it could not be fetched.
        source: where it came from: ``cache``, ``mirror ...``, a package, an address.
        sha256: its hash.
        cached: it is in the cache, so that it will be there offline.
        reason: why it could not be fetched, or is not in the cache.
        hint: what the user can do about it.
    """

    card: str
    path: Path | None = None
    source: str = ""
    sha256: str = ""
    cached: bool = False
    reason: str = ""
    hint: str = ""


def fetch_all(cards: Sequence[Card], options: FetchOptions) -> tuple[Fetched, ...]:
    """Fetch the weights of ``cards``, several at a time, and keep them in the cache; a user's mirror is copied into it.

    Raises:
        UsageError: a mirror that does not exist.
    """
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return tuple(pool.map(partial(_fetch, options), cards))


def _fetch(options: FetchOptions, card: Card) -> Fetched:
    try:
        found = fetch(card, options)
    except WeightsError as error:
        return Fetched(card.name, reason=error.message, hint=error.hint)
    source = _source_of(card, found)
    if not source.file.key:
        reason = "used from the mirror and not kept: its hash is not on the card"
        return Fetched(card.name, found.path, found.source, found.sha256, reason=reason)
    kept = _kept(source, found, options)
    return Fetched(card.name, kept.path, found.source, kept.sha256, cached=True)


def _source_of(card: Card, found: WeightsFile) -> WeightSource:
    same = (found.member, found.format, found.port)
    return next(
        s for s in card.weights if (s.file.path, s.format, s.port) == same and s.file.sha256 in ("", found.sha256)
    )


def _kept(source: WeightSource, found: WeightsFile, options: FetchOptions) -> WeightsFile:
    """Return the file in the cache; a file in a mirror is copied there and checked again."""

    def copy(folder: Path) -> None:
        for member in source.members:
            beside = found.path if member is source.file else found.path.parent / member.name
            shutil.copyfile(beside, folder / member.name)

    return Cache(options.cache_root).find_or_fill(source, found.source, copy)
