"""Fetch the weights of the cards of a search, several at a time.

``run_search`` calls :func:`find_weights` before it plans; with ``--offline``, the preparation
calls it to refuse a search that has no weights here. What fails is remembered for a day
(``failed_downloads.py``), so that a plan leaves it out.
"""

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from advisor.catalog import Card, all_missing
from advisor.core import WeightsError, WeightsFile
from advisor.engine._space.candidates import Candidates
from advisor.engine._space.failed_downloads import note_failures
from advisor.engine._space.question_images import Say
from advisor.engine._space.resolved import Resolved
from advisor.store import FetchOptions

AS_IT_IS = (
    "is judged as it is, not trained; its figures are too high if it has learnt from your images"
)
"""Remark on a user's own detector or finished file among the candidates."""

DOWNLOADS = 4  # Cards whose weights are fetched at the same time


class LateWeights(WeightsError):
    """A time limit ended a download. What has arrived is kept for the next command."""


def find_weights(resolved: Resolved, say: Say, ends_at: float = math.inf) -> Candidates:
    """Fetch the weights of the cards, several at a time:
    of all that the user named, else of the first ones.

    A card without weights stays a candidate if the user named it and gave no images: latency,
    memory and operators do not depend on weights. Downloads end at ``ends_at`` of the monotonic
    clock.

    Raises:
        WeightsError: no card is left.
    """
    cards = resolved.cards
    most = resolved.cards_to_try
    options = FetchOptions(
        offline=resolved.execution.offline, mirror=resolved.execution.mirror, ends_at=ends_at
    )
    outcomes = _fetch_in_rounds(cards, most, options, say)
    weights: dict[str, WeightsFile | None] = {}
    errors: dict[str, WeightsError] = {}
    for name, outcome in outcomes.items():
        if isinstance(outcome, WeightsError):
            errors[name] = outcome
        else:
            weights[name] = outcome
    if not options.offline:
        # A download that the time limit ended says nothing about its source.
        failed = [name for name, error in errors.items() if not isinstance(error, LateWeights)]
        note_failures(failed, weights)
    if resolved.question.candidates and resolved.question.data is None:
        weights.update(dict.fromkeys(errors))
    if not weights:
        raise _explain_missing(errors, options)
    chosen = tuple(card for card in cards if card.name in weights)[:most]
    return Candidates(chosen, weights, {name: error.message for name, error in errors.items()})


def _fetch_in_rounds(
    cards: Sequence[Card], most: int, options: FetchOptions, say: Say
) -> dict[str, WeightsFile | WeightsError]:
    """Return the weights of cards, or why they are missing, until ``most`` cards have some.

    Each round asks for :data:`DOWNLOADS` cards at once: the next ones are asked only if some of
    these have no weights.
    """
    late = LateWeights("its weights did not arrive within the time limit", "give it more time")
    outcomes: dict[str, WeightsFile | WeightsError] = {}
    available = 0
    pool = ThreadPoolExecutor(DOWNLOADS)
    try:
        for start in range(0, len(cards), DOWNLOADS):
            jobs = {}
            for card in cards[start : start + DOWNLOADS]:
                jobs[card.name] = pool.submit(_fetch, card, options, say)
            left_s = None
            if not math.isinf(options.ends_at):
                left_s = max(0.0, options.ends_at - time.monotonic())
            done, _late = wait(jobs.values(), left_s)
            for name, job in jobs.items():
                # The download ends at the same moment, so nobody waits for it.
                outcome = job.result() if job in done else late
                outcomes[name] = outcome
                available += not isinstance(outcome, WeightsError)
            if available >= most or time.monotonic() >= options.ends_at:
                break
    finally:
        # Not a `with` block, which would wait for the downloads that the limit has left behind.
        pool.shutdown(wait=False, cancel_futures=True)
    return outcomes


def _fetch(card: Card, options: FetchOptions, say: Say) -> WeightsFile | WeightsError:
    """Return the weights of a card, or why there are none."""
    from advisor.catalog import fetch_weights

    try:
        say(f"fetching weights of {card.name}")
        if card.is_finished:
            say(f"{card.name} {AS_IT_IS}")
        return fetch_weights(card, options)
    except WeightsError as error:
        return error


def _explain_missing(errors: Mapping[str, WeightsError], options: FetchOptions) -> WeightsError:
    """Return the error for a search of which no card has weights."""
    if time.monotonic() >= options.ends_at:
        return WeightsError(
            "no weights arrived within the time limit",
            "run the command again: what has arrived is kept; or first: advisor catalog fetch",
        )
    if len(errors) > 1:
        return all_missing(errors, options)
    return next(iter(errors.values()))
