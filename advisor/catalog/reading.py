"""Read catalogue files into cards, and keep validated cards in the cache folder, so that they open faster.

What is remembered belongs to the exact text of a file and to the exact code that read it. Anything that does not fit,
damaged files too, is ignored and written again; nothing here can fail a command.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from advisor.catalog import architectures
from advisor.catalog.cards import Card, Conversion, Preprocessing, Published
from advisor.core.errors import UsageError, nearest
from advisor.core.units import show_bytes
from advisor.downloads.files import MemberFile, WeightSource
from advisor.store.files import write_atomically
from advisor.store.yamlfile import YamlDocument, read_text, read_yaml

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError


# Cache validated cards as JSON in the cache folder; a large catalogue then opens many times faster.
#
# What is remembered belongs to the exact text of a file and to the exact code that read it. Anything that does not
# fit, damaged files too, is ignored and written again; nothing here can fail a command.

_log = logging.getLogger(__name__)

_FOLDER = "catalogues"
_MOST_FILES = 64
_READERS = ("cards.py", "../downloads/files.py", "reading.py", "schema.py", "../store/yamlfile.py")


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


Entry = TypeVar("Entry", bound="BaseModel")

LARGE = 500_000
"""Files with more characters take a noticeable part of a second to read for the first time."""


@dataclass(frozen=True, slots=True, eq=False)
class CardFile:
    """The cards of one catalogue file, and the lines at which they begin."""

    document: YamlDocument
    cards: tuple[Card, ...]
    indices: tuple[int, ...]

    def place(self, position: int) -> str:
        """Return ``file:line`` of the card at ``position`` of ``cards``."""
        return self.document.at(("cards", self.indices[position]))


def read_catalogue_file(
    path: Path, wrong: list[UsageError] | None = None, tell: Callable[[str], None] | None = None
) -> CardFile:
    """Return the cards of one file; names may repeat, also those of other files.

    Args:
        path: the file.
        wrong: list that receives the errors of single cards, which are skipped; without it the first error is raised.
        tell: called with a line before a large file is read for the first time.

    Raises:
        UsageError: the file does not hold to the schema.
    """
    if wrong is not None:
        return _read_file(path, wrong)
    text = read_text(path)
    known = recall(path, text)
    if known is not None:
        return CardFile(YamlDocument(path, None, text), *known)
    if tell is not None and len(text) > LARGE:
        tell(f"reading {path.name} for the first time ({show_bytes(len(text))})")
    file = _read_file(path, None)
    remember(path, file.document.text, file.cards, file.indices)
    return file


def _read_file(path: Path, wrong: list[UsageError] | None) -> CardFile:
    from advisor.catalog.schema import CatalogueFile

    document = read_yaml(path)
    file = _validated(CatalogueFile, document.values, document, ())
    header = {"family": file.family, "paper": file.paper, "licence": file.licence}
    shared = {key: value for key, value in header.items() if value is not None} | file.defaults
    cards: dict[int, Card] = {}
    for index, entry in enumerate(file.cards):
        try:
            cards[index] = _read_card(shared | entry, document, index, Path(file.folder or path.parent))
        except UsageError as error:
            if wrong is None:
                raise
            wrong.append(error)
    return CardFile(document, tuple(cards.values()), tuple(cards))


def _read_card(values: dict[str, Any], document: YamlDocument, index: int, folder: Path) -> Card:
    from advisor.catalog.schema import CardEntry

    place = ("cards", index)
    card = _anchored(_validated(CardEntry, values, document, place).value(), folder)
    if card.architecture not in architectures.NAMES:
        raise UsageError(
            f"{document.at(place)}: no architecture is called '{card.architecture}'"
            f"{nearest(card.architecture, architectures.NAMES)}",
            f"architectures: {', '.join(architectures.NAMES)}",
        )
    return card


def _anchored(card: Card, folder: Path) -> Card:
    """Return the card with the paths of a user's own files counted from ``folder``."""
    if all(source.kind != "file" for source in card.weights):
        return card
    return replace(card, weights=tuple(_anchored_source(source, folder) for source in card.weights))


def _anchored_source(source: WeightSource, folder: Path) -> WeightSource:
    if source.kind != "file":
        return source
    first, *others = (replace(member, path=str(folder.absolute() / member.path)) for member in source.members)
    return replace(source, file=first, companions=tuple(others))


def _validated(schema: type[Entry], values: Any, document: YamlDocument, place: tuple[str | int, ...]) -> Entry:
    from pydantic import ValidationError

    try:
        return schema.model_validate(values)
    except ValidationError as error:
        raise _explained(error, schema, document, place) from None


def _explained(
    error: ValidationError, schema: type[BaseModel], document: YamlDocument, place: tuple[str | int, ...]
) -> UsageError:
    # A misspelt key is also a missing one: the misspelling is the error to show.
    first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    location = first["loc"]
    line = document.line((*place, *location))
    if place and location and location[0] not in document.values["cards"][place[1]]:
        line = document.line(("defaults", *location)) if location[0] in document.values.get("defaults", {}) else line
    name = ".".join(str(step) for step in location) or "the file"
    if first["type"] == "extra_forbidden":
        keys = _keys(schema)
        problem = f"{document.path}:{line}: unknown key '{name}'{nearest(str(location[-1]), keys)}"
        return UsageError(problem, f"keys: {', '.join(keys)}")
    value = "" if first["type"] == "missing" else f" (found {_short(first['input'])})"
    return UsageError(f"{document.path}:{line}: {name}: {first['msg']}{value}", "docs/catalogue.md lists the keys")


def _keys(schema: type[BaseModel]) -> list[str]:
    from advisor.catalog import schema as entries

    nested: list[type[BaseModel]] = [
        entries.PreprocessingEntry,
        entries.PublishedEntry,
        entries.SourceEntry,
        entries.MemberEntry,
    ]
    return [name for model in (schema, *nested) for name in model.model_fields]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
