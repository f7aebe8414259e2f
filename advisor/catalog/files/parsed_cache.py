"""Cache validated cards as JSON in the cache folder; a large catalogue then opens many times faster.

What is remembered belongs to the exact text of a file and to the exact code that read it. Anything that does not fit,
damaged files too, is ignored and written again; nothing here can fail a command.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from advisor.catalog import architectures
from advisor.catalog.cards import Card, Conversion, Preprocessing, Published
from advisor.downloads.files import MemberFile, WeightSource
from advisor.store.files import write_atomically

_log = logging.getLogger(__name__)

_FOLDER = "catalogues"
_MOST_FILES = 64
_READERS = (
    *("../cards.py", "../../downloads/files.py", "reading.py", "parsed_cache.py", "schema.py"),
    "../../store/yamlfile.py",
)


def recall(path: Path, text: str) -> tuple[tuple[Card, ...], tuple[int, ...]] | None:
    """Return the cards of the file ``path`` that holds ``text``, and their indices in it, if they were read before."""
    try:
        stored = _place(path).read_text(encoding="utf-8")
        key, digest, body = stored.split("\n", 2)
        if key != _key(path, text) or digest != _digest(body):
            return None
        rows, indices = json.loads(body)
        return tuple(_card(row) for row in rows), tuple(indices)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        _log.debug("no remembered cards of %s: %s", path, error)
        return None


def remember(path: Path, text: str, cards: Sequence[Card], indices: Sequence[int]) -> None:
    """Write the ``cards`` that were read from ``text``, atomically."""
    body = json.dumps([cards, indices], default=_row, separators=(",", ":"))
    place = _place(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, "\n".join((_key(path, text), _digest(body), body)))
        _prune(place.parent)
    except OSError as error:
        _log.debug("the cards of %s are not remembered: %s", path, error)


def _prune(folder: Path) -> None:
    """Remove the entries that were used longest ago, as catalogues move and disappear."""
    newest = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest[_MOST_FILES:]:
        path.unlink(missing_ok=True)


def _place(path: Path) -> Path:
    from advisor.store.cache import cache_root

    return cache_root() / _FOLDER / f"{_digest(str(path.absolute()))[:32]}.json"


def _key(path: Path, text: str) -> str:
    return _digest("\0".join((_readers(), str(path.absolute()), text)))


@lru_cache(maxsize=1)
def _readers() -> str:
    """Return a hash of what the reading depends on beside the file: its code, and the names of architectures.

    Raises:
        OSError: the code is not there as files.
    """
    folder = Path(__file__).parent
    return _digest(
        "\0".join([*((folder / name).read_text(encoding="utf-8") for name in _READERS), *architectures.NAMES])
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _row(value: Any) -> list[Any]:
    """Return a dataclass as the list of its fields."""
    return [getattr(value, field.name) for field in fields(value)]


def _card(row: list[Any]) -> Card:
    values = dict(zip(_CARD, row, strict=True))
    mean, std = values["preprocessing"]
    values["preprocessing"] = Preprocessing(tuple(mean), tuple(std))
    values["arguments"] = tuple((name, value) for name, value in values["arguments"])
    values["published"] = tuple(Published(*entry) for entry in values["published"])
    values["weights"] = tuple(_source(entry) for entry in values["weights"])
    values["conversion"] = Conversion(*values["conversion"]) if values["conversion"] else None
    return Card(**values)


def _source(row: list[Any]) -> WeightSource:
    values = dict(zip(_SOURCE, row, strict=True))
    values["file"] = MemberFile(*values["file"])
    values["companions"] = tuple(MemberFile(*entry) for entry in values["companions"])
    return WeightSource(**values)


_CARD = tuple(field.name for field in fields(Card))
_SOURCE = tuple(field.name for field in fields(WeightSource))
