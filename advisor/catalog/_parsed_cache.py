"""Keep the cards of catalogue files as JSON in the cache folder, and read them back.

`_catalogue.py` calls it for each file: a large catalogue then opens many times faster. The kept
cards belong to the exact text of a file and to the exact code that read it, whose modules
``_READERS`` lists: add a module there if it decides what a card is. A file that does not fit,
damaged ones too, is ignored and written again; this cannot fail a command.
"""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from advisor.catalog import _architectures as architectures
from advisor.catalog._cards import Card, Conversion, GraphReference, Preprocessing, Published
from advisor.core import UsageError
from advisor.store import MemberFile, WeightSource, cache_root, read_text, write_atomically

_log = logging.getLogger(__name__)

_FOLDER = "catalogues"

_MOST_FILES = 64

# The code that makes cards of a text: kept cards of another version do not count.
_READERS = (
    "_cards.py",
    "_catalogue.py",
    "_parsed_cache.py",
    "_schema.py",
    "../store/_downloads/files.py",
    "../store/_yamlfile.py",
)

_CARD_FIELDS = tuple(field.name for field in fields(Card))

_SOURCE_FIELDS = tuple(field.name for field in fields(WeightSource))


def recall_cards(path: Path, text: str) -> tuple[tuple[Card, ...], tuple[int, ...]] | None:
    """Return the kept cards of the file ``path`` that holds ``text``, and their indices in it.

    None if the file was not read before, or not with this text.
    """
    try:
        stored = read_text(_locate_file(path))
        # A digest beside the key: a process that ends while it writes may leave half a body.
        key, digest, body = stored.split("\n", 2)
        if key != _make_key(path, text) or digest != _hash_text(body):
            return None
        rows, indices = json.loads(body)
        return tuple(map(_card_from_row, rows)), tuple(indices)
    except (UsageError, ValueError, TypeError, RecursionError) as error:
        _log.debug("no remembered cards of %s: %s", path, error)
        return None


def remember_cards(path: Path, text: str, cards: Sequence[Card], indices: Sequence[int]) -> None:
    """Write the ``cards`` that were read from ``text``, atomically."""

    # A dataclass as the list of its fields, in their order, as _card_from_row takes it.
    def list_values(value: Any) -> list[Any]:
        return [getattr(value, field.name) for field in fields(value)]

    body = json.dumps([cards, indices], default=list_values, separators=(",", ":"))
    place = _locate_file(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        content = "\n".join((_make_key(path, text), _hash_text(body), body))
        # Catalogues move and disappear.
        write_atomically(place, content, _MOST_FILES)
    except OSError as error:
        _log.debug("the cards of %s are not remembered: %s", path, error)


def _locate_file(path: Path) -> Path:
    return cache_root() / _FOLDER / f"{_hash_text(str(path.absolute()))[:32]}.json"


def _make_key(path: Path, text: str) -> str:
    return _hash_text("\0".join((_hash_readers(), str(path.absolute()), text)))


@lru_cache(maxsize=1)
def _hash_readers() -> str:
    """Return a hash of the code that reads a file, and of the names of architectures."""
    code = [(Path(__file__).parent / name).read_text(encoding="utf-8") for name in _READERS]
    return _hash_text("\0".join([*code, *architectures.NAMES]))


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _card_from_row(row: list[Any]) -> Card:
    values = dict(zip(_CARD_FIELDS, row, strict=True))
    mean, std = values["preprocessing"]
    values["preprocessing"] = Preprocessing(tuple(mean), tuple(std))
    values["arguments"] = tuple((name, value) for name, value in values["arguments"])
    values["published"] = tuple(Published(*entry) for entry in values["published"])
    values["weights"] = tuple(map(_source_from_row, values["weights"]))
    values["conversion"] = Conversion(*values["conversion"]) if values["conversion"] else None
    values["graph"] = GraphReference(*values["graph"]) if values["graph"] else None
    return Card(**values)


def _source_from_row(row: list[Any]) -> WeightSource:
    values = dict(zip(_SOURCE_FIELDS, row, strict=True))
    values["file"] = MemberFile(*values["file"])
    values["companions"] = tuple(MemberFile(*entry) for entry in values["companions"])
    return WeightSource(**values)
