"""The cards together: read from the shipped files and the user's own, looked up by name, family or glob."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from advisor.catalog import architectures, shipped
from advisor.catalog.cards import Card, WeightSource
from advisor.catalog.own import own_catalogue
from advisor.catalog.remembered import recall, remember
from advisor.core.errors import UsageError, nearest
from advisor.core.units import show_bytes
from advisor.store.yamlfile import Document, read_text, read_yaml

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

Entry = TypeVar("Entry", bound="BaseModel")


class Catalogue(Mapping[str, Card]):
    """Cards by name, in the order in which they were read."""

    def __init__(self, cards: Sequence[Card]) -> None:
        self._cards = {card.name: card for card in cards}

    def __getitem__(self, name: str) -> Card:
        return self._cards[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._cards)

    def __len__(self) -> int:
        return len(self._cards)

    @property
    def families(self) -> tuple[str, ...]:
        """The families, each once, in the order of their first card."""
        return tuple(dict.fromkeys(card.family for card in self._cards.values()))

    def card(self, name: str) -> Card:
        """The card called ``name``.

        Raises:
            UsageError: no such card; the nearest name is given.
        """
        if name not in self._cards:
            raise UsageError(f"no model card is called '{name}'{nearest(name, self._cards)}", _LIST_HINT)
        return self._cards[name]

    def select(self, patterns: Sequence[str]) -> tuple[Card, ...]:
        """The cards that any of ``patterns`` (a name, a family, or a glob over names) means, each once, in order.

        Raises:
            UsageError: a pattern that means no card; the nearest name or family is given.
        """
        wanted: set[str] = set()
        for pattern in patterns:
            found = {card.name for card in self._cards.values() if _means(pattern, card)}
            if not found:
                known = (*self._cards, *self.families)
                raise UsageError(f"no model card or family matches '{pattern}'{nearest(pattern, known)}", _LIST_HINT)
            wanted |= found
        return tuple(card for card in self._cards.values() if card.name in wanted)


LARGE = 500_000
"""Characters from which reading a file for the first time takes a noticeable part of a second."""

_LIST_HINT = "`advisor catalog list` shows every card"


def load_catalogue(extra: Sequence[Path] = (), tell: Callable[[str], None] | None = None) -> Catalogue:
    """Read the shipped cards, those of the user's own catalogue, and those of ``extra`` files.

    Args:
        extra: catalogue files.
        tell: told of a large file that is read for the first time, which takes seconds.

    Raises:
        UsageError: a file that does not hold to the schema (file, line, nearest valid key), or a name used twice.
    """
    with _without_collection():
        files = [read_catalogue_file(path, tell=tell) for path in catalogue_paths(extra)]
    for error in repeated_names(files):
        raise error
    return Catalogue([card for file in files for card in file.cards])


def catalogue_paths(extra: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Every file that :func:`load_catalogue` reads, each once, in its order."""
    own = [path for path in (own_catalogue(),) if path.is_file()]
    paths = (*shipped.catalogue_files(), *own, *(Path(path) for path in extra))
    return tuple({path.resolve(): path for path in paths}.values())


@dataclass(frozen=True, slots=True, eq=False)
class CardFile:
    """The cards of one catalogue file, and the lines at which they begin."""

    document: Document
    cards: tuple[Card, ...]
    indices: tuple[int, ...]

    def place(self, position: int) -> str:
        """``file:line`` of the card at ``position`` of ``cards``."""
        return f"{self.document.path}:{self.document.line(('cards', self.indices[position]))}"


def repeated_names(files: Sequence[CardFile]) -> Iterator[UsageError]:
    """What is wrong with names: an error for each that an earlier card has taken."""
    first: dict[str, tuple[CardFile, int]] = {}
    for file in files:
        for position, card in enumerate(file.cards):
            before, at = first.setdefault(card.name, (file, position))
            if (before, at) != (file, position):
                yield UsageError(
                    f"{file.place(position)}: the name '{card.name}' is already taken ({before.place(at)})",
                    "give the card a name of its own",
                )


@contextmanager
def _without_collection() -> Iterator[None]:
    """Pause the search for garbage cycles: it walks every node of a big file again and again and frees none."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def _means(pattern: str, card: Card) -> bool:
    return pattern in (card.name, card.family) or fnmatchcase(card.name, pattern)


def read_catalogue_file(
    path: Path, wrong: list[UsageError] | None = None, tell: Callable[[str], None] | None = None
) -> CardFile:
    """The cards of one file; names may repeat, also those of other files.

    Args:
        path: the file.
        wrong: takes what is wrong with single cards, which are left out then; without it the first mistake is raised.
        tell: told before a large file is read for the first time.

    Raises:
        UsageError: the file does not hold to the schema.
    """
    if wrong is not None:
        return _read_file(path, wrong)
    text = read_text(path)
    known = recall(path, text)
    if known is not None:
        return CardFile(Document(path, None, text), *known)
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
            cards[index] = _read_card(shared | entry, document, index)
        except UsageError as error:
            if wrong is None:
                raise
            wrong.append(error)
    return CardFile(document, tuple(cards.values()), tuple(cards))


def _read_card(values: dict[str, Any], document: Document, index: int) -> Card:
    from advisor.catalog.schema import CardEntry

    place = ("cards", index)
    card = _anchored(_validated(CardEntry, values, document, place).card(), document.path.parent)
    if card.architecture not in architectures.names():
        raise UsageError(
            f"{document.path}:{document.line(place)}: no architecture is called '{card.architecture}'"
            f"{nearest(card.architecture, architectures.names())}"
        )
    return card


def _anchored(card: Card, folder: Path) -> Card:
    """The card with the paths of a user's own files counted from the catalogue's ``folder``."""
    if not any(source.kind == "file" for source in card.weights):
        return card
    return replace(card, weights=tuple(_anchored_source(source, folder) for source in card.weights))


def _anchored_source(source: WeightSource, folder: Path) -> WeightSource:
    if source.kind != "file":
        return source
    members = (source.file, *source.companions)
    first, *others = (replace(member, path=str(folder.absolute() / member.path)) for member in members)
    return replace(source, file=first, companions=tuple(others))


def _validated(schema: type[Entry], values: Any, document: Document, place: tuple[str | int, ...]) -> Entry:
    from pydantic import ValidationError

    try:
        return schema.model_validate(values)
    except ValidationError as error:
        raise _explained(error, schema, document, place) from None


def _explained(
    error: ValidationError, schema: type[BaseModel], document: Document, place: tuple[str | int, ...]
) -> UsageError:
    # A misspelt key is also a missing one: the misspelling is what the user must hear of.
    errors = sorted(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    first = errors[0]
    location = first["loc"]
    line = document.line((*place, *location))
    if place and location and _absent(document, place, location):
        line = document.line(("defaults", *location)) if location[0] in document.values.get("defaults", {}) else line
    name = ".".join(str(step) for step in location) or "the file"
    if first["type"] == "extra_forbidden":
        return UsageError(f"{document.path}:{line}: unknown key '{name}'{nearest(str(location[-1]), _keys(schema))}")
    value = "" if first["type"] == "missing" else f" (found {_short(first['input'])})"
    return UsageError(f"{document.path}:{line}: {name}: {first['msg']}{value}")


def _absent(document: Document, place: tuple[str | int, ...], location: Sequence[str | int]) -> bool:
    entry = document.values["cards"][place[1]]
    return location[0] not in entry


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
