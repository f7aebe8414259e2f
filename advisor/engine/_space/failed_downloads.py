"""Remember the weights that could not be downloaded.

A plan opens no connection, and lists only what a search can have. So a search notes in a file of
the cache what it could not fetch, and a plan leaves these cards out for a day.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from advisor.core import UsageError, units
from advisor.store import cache_root, read_json, write_atomically

FILE = "failed-downloads.json"
"""File in the cache: by card, when its weights could not be downloaded."""

FRESH = timedelta(days=1)
"""Age up to which a failure counts: the network of a machine may change."""


def note_failures(failed: Collection[str], fetched: Collection[str]) -> None:
    """Write which cards' weights could not be downloaded now,
    and forget those of cards that have them.

    A cache that cannot be written notes nothing.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    known = _read_fresh()
    still_missing = {card: at for card, at in known.items() if card not in fetched}
    times = {**still_missing, **dict.fromkeys(failed, now)}
    if times != known:
        document = {card: at.isoformat() for card, at in times.items()}
        text = json.dumps(document, indent=2)
        with contextlib.suppress(OSError):
            cache_root().mkdir(parents=True, exist_ok=True)
            write_atomically(cache_root() / FILE, text + "\n")


def read_failures() -> dict[str, str]:
    """Return the cards whose weights could not be downloaded of late,
    and say so in words that are the same for all.
    """
    fresh = _read_fresh()
    if not fresh:
        return {}
    last = units.show_time(max(fresh.values()))
    return dict.fromkeys(
        fresh, f"could not be downloaded (last attempt {last}); a search tries again"
    )


def _read_fresh() -> dict[str, datetime]:
    """Return the times that are not older than :data:`FRESH`;
    none of a file that is damaged or not there.
    """
    try:
        document: Any = read_json(cache_root() / FILE)
        times = {card: datetime.fromisoformat(at) for card, at in document.items()}
        now = datetime.now(UTC)
        return {card: at for card, at in times.items() if now - at <= FRESH}
    except (UsageError, AttributeError, TypeError, ValueError):
        return {}
