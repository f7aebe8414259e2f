"""Locate the weights that a search would use, without fetching them.

``advisor plan`` and the check of a time limit ask it: which cards have their weights on this
machine, which would be downloaded, and why others are left out. The order and the number of the
cards are those of ``find_weights`` (``_space/weights.py``), which the search itself calls.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.catalog import Card
from advisor.core import WeightsFile
from advisor.engine._space.candidates import Candidates
from advisor.engine._space.failed_downloads import read_failures
from advisor.engine._space.resolved import Resolved
from advisor.store import FetchOptions

RANDOM_WEIGHTS = "no weights: measured with random ones, its published accuracy is quoted"


@dataclass(frozen=True)
class LocatedWeights:
    """The cards that would be tried, with their weights on disk.

    ``downloads`` are bytes by card, 0 if its weights are on disk, None if the size is not known.
    """

    candidates: Candidates
    downloads: Mapping[str, int | None] = field(default_factory=dict)


def locate_candidates(resolved: Resolved) -> LocatedWeights:
    """Return the cards that a search would try.

    Cards whose download failed of late are left out,
    unless the user named them or there are no others.
    """
    failures = {} if resolved.question.candidates else read_failures()
    located = _locate_without(resolved, failures)
    if located.downloads or not failures:
        return located
    return _locate_without(resolved, {})


def _locate_without(resolved: Resolved, failures: Mapping[str, str]) -> LocatedWeights:
    """Return the cards that a search would try, without those of ``failures``.

    ``failures`` says by card why its weights could not be downloaded.
    """
    from advisor.catalog import locate_weights

    question = resolved.question
    offline = resolved.execution.offline
    options = _make_options(resolved)
    downloads: dict[str, int | None] = {}
    files: dict[str, WeightsFile | None] = {}
    missing: dict[str, str] = {}
    for card in resolved.cards:
        # A search stops looking for weights there too, so later cards are no part of the plan.
        if len(downloads) == resolved.cards_to_try:
            break
        file = locate_weights(card, options)
        sizes_bytes = [] if offline else _list_download_sizes(card)
        if file is not None:
            downloads[card.name] = 0
            files[card.name] = file
        elif sizes_bytes and card.name in failures:
            missing[card.name] = failures[card.name]
        elif sizes_bytes:
            downloads[card.name] = sizes_bytes[0]
        elif question.candidates and question.data is None:
            # Measured with fixed-seed random weights, quoted with its published accuracy.
            downloads[card.name] = 0
            missing[card.name] = RANDOM_WEIGHTS
        else:
            option = " (--offline)" if offline else ""
            missing[card.name] = f"weights not on this machine{option}"
    cards = tuple(card for card in resolved.cards if card.name in downloads)
    return LocatedWeights(Candidates(cards, files, missing), downloads)


def _list_download_sizes(card: Card) -> list[int | None]:
    """Return the bytes of each source of a card's weights that can be downloaded, in order."""
    sizes_bytes = []
    for source in card.weights:
        # The hub states the hash of a file itself, so the card need not.
        if source.file.checkable or source.kind == "huggingface":
            sizes_bytes.append(source.file.size_bytes)
    return sizes_bytes


def count_spare(resolved: Resolved, candidates: Candidates) -> int:
    """Return how many other cards have their weights here,
    which a search tries if a download fails.
    """
    from advisor.catalog import locate_weights

    if resolved.question.candidates or len(candidates.weights) == len(candidates.cards):
        return 0
    options = _make_options(resolved)
    count = 0
    for card in resolved.cards:
        if card not in candidates.cards:
            count += locate_weights(card, options) is not None
    return count


def _make_options(resolved: Resolved) -> FetchOptions:
    """Return how a search would fetch weights."""
    execution = resolved.execution
    return FetchOptions(offline=execution.offline, mirror=execution.mirror)
