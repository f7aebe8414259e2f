"""Load the catalogue from the shipped files and the user's own, and look cards up by name, family or glob."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from advisor.catalog.cards import Card
from advisor.catalog.catalogue_files import shipped_files, user_catalogue_file
from advisor.catalog.files.reading import CardFile, read_catalogue_file
from advisor.core.errors import UsageError, nearest


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
        """Return the card called ``name``.

        Raises:
            UsageError: no such card; the nearest name is given.
        """
        if name not in self._cards:
            raise UsageError(f"no model card is called '{name}'{nearest(name, self._cards)}", _LIST_HINT)
        return self._cards[name]

    def select(self, patterns: Sequence[str]) -> tuple[Card, ...]:
        """Return the cards that match any of ``patterns`` (a name, a family, or a glob over names), in order.

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


_LIST_HINT = "`advisor catalog list` shows every card"


def load_catalogue(extra: Sequence[Path] = (), tell: Callable[[str], None] | None = None) -> Catalogue:
    """Read the shipped cards, those of the user's own catalogue, and those of ``extra`` files.

    Args:
        extra: catalogue files.
        tell: called with a line about a large file that is read for the first time, which takes seconds.

    Raises:
        UsageError: a file that does not hold to the schema (file, line, nearest valid key), or a name used twice.
    """
    files = [read_catalogue_file(path, tell=tell) for path in catalogue_paths(extra)]
    for error in repeated_names(files):
        raise error
    return Catalogue([card for file in files for card in file.cards])


def catalogue_paths(extra: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Return every file that :func:`load_catalogue` reads, each once, in its order."""
    own = [path for path in (user_catalogue_file(),) if path.is_file()]
    paths = (*shipped_files(), *own, *(Path(path) for path in extra))
    return tuple({path.resolve(): path for path in paths}.values())


def repeated_names(files: Sequence[CardFile]) -> Iterator[UsageError]:
    """Yield an error for each name that an earlier card has."""
    first: dict[str, tuple[CardFile, int]] = {}
    for file in files:
        for position, card in enumerate(file.cards):
            before, at = first.setdefault(card.name, (file, position))
            if (before, at) != (file, position):
                yield UsageError(
                    f"{file.place(position)}: the name '{card.name}' is already taken ({before.place(at)})",
                    "give the card a name of its own",
                )


def _means(pattern: str, card: Card) -> bool:
    return pattern in (card.name, card.family) or fnmatchcase(card.name, pattern)
