"""Find catalogue files, read their cards, and look cards up by name, family or glob.

Commands and the search begin with :meth:`Catalogue.load`. `_schema.py` reads the YAML of a file
for the first time, `_parsed_cache.py` keeps its cards. The user's own catalogue gets new cards by
:func:`with_card`. Names of cards stand in runs and in users' files, so they stay.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from advisor.catalog._cards import Card
from advisor.catalog._parsed_cache import recall_cards, remember_cards
from advisor.core import StageError, UsageError, nearest, show_bytes
from advisor.store import YamlDocument, read_text, shipped_folder

BACKGROUND = "background"
LARGE = 500_000
"""Files with more characters take a noticeable part of a second to read for the first time."""

_LIST_HINT = "`advisor catalog list` shows every card"

_NEW_FILE = """\
# Your own model cards: `advisor search` and `advisor catalog` read this file beside those that
# are shipped.
family: own
paper: not stated
licence: not stated
cards:
"""


def list_shipped_files() -> tuple[Path, ...]:
    """Return the shipped ``catalogs/*.yaml``, in the order of their names."""
    return tuple(sorted(shipped_folder("catalogs").glob("*.yaml")))


def config_root() -> Path:
    """Return the user's folder of settings: ``$ADVISOR_CONFIG_DIR``, or that of the platform."""
    chosen = os.environ.get("ADVISOR_CONFIG_DIR")
    if not chosen:
        return user_config_path("advisor")
    return Path(os.path.expanduser(chosen))  # noqa: PTH111 -- an unknown user is no error


def user_catalogue_file() -> Path:
    """Return the user's own catalogue file, whether or not it is there."""
    return config_root() / "catalog.yaml"


def with_card(file: Path, entry: Mapping[str, Any]) -> str:
    """Return the text of the catalogue ``file`` with ``entry`` as its last card.

    Where there is no file, it is the text of a new one. Comments and the order of keys stay
    as they are.
    """
    import yaml

    # As text: dumping the whole file again would lose the comments that people keep in it.
    text = _NEW_FILE
    column = 2
    if file.is_file():
        text = read_text(file)
        column = _find_column(file)
    dumped = yaml.safe_dump([dict(entry)], sort_keys=False, allow_unicode=True, width=110)
    indented = [f"{' ' * column}{line}\n" for line in dumped.splitlines()]
    return text.rstrip("\n") + "\n" + "".join(indented)


def _find_column(file: Path) -> int:
    """Return the column of the dashes of ``cards``, which must be the file's last key."""
    import yaml

    root = YamlDocument.read(file).root
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    key, cards = pairs[-1] if pairs else (None, None)
    is_last = key is not None and key.value == "cards"
    if not is_last or not isinstance(cards, yaml.SequenceNode) or cards.flow_style:
        raise UsageError(
            f"{file}: a card can be added where 'cards' is the last key, with a dash before each"
            " card",
            "move 'cards' to the end, or name another file with --into",
        )
    return int(cards.start_mark.column)


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

    ``wrong`` receives the errors of single cards, which are skipped; without it the first error is
    raised. ``tell`` is called with a line before a large file is read for the first time.

    Raises:
        UsageError: the file does not hold to the schema.
    """
    if wrong is None:
        return _read_once(path, path.absolute(), read_text(path), _Listener(tell))
    from advisor.catalog._schema import read_cards

    document, cards = read_cards(path, wrong)
    return CardFile(document, tuple(cards.values()), tuple(cards))


@dataclass(frozen=True)
class _Listener:
    # The listener is not compared, because it does not change the cards.
    tell: Callable[[str], None] | None = field(compare=False)


# A process asks for the same cards again and again.
@lru_cache(maxsize=64)
def _read_once(path: Path, place: Path, text: str, listener: _Listener) -> CardFile:
    known = recall_cards(place, text)
    if known is not None:
        return CardFile(YamlDocument(path, None, text), *known)
    # Only where the reading is felt: a line about every file would be noise.
    if listener.tell is not None and len(text) > LARGE:
        listener.tell(f"reading {path.name} for the first time ({show_bytes(len(text))})")
    from advisor.catalog._schema import read_cards

    document, cards = read_cards(path)
    remember_cards(place, document.text, tuple(cards.values()), tuple(cards))
    return CardFile(document, tuple(cards.values()), tuple(cards))


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
        """Return the card called ``name``; the UsageError for an unknown one names the nearest."""
        if name not in self._cards:
            raise UsageError(
                f"no model card is called '{name}'{nearest(name, self._cards)}", _LIST_HINT
            )
        return self._cards[name]

    def select(self, patterns: Sequence[str]) -> tuple[Card, ...]:
        """Return the cards that match any of ``patterns``, in their order.

        A pattern is a name, a family, or a glob over names.
        """
        wanted: set[str] = set()
        for pattern in patterns:
            matching = set()
            for card in self._cards.values():
                if fnmatchcase(card.name, pattern) or pattern in (card.name, card.family):
                    matching.add(card.name)
            if not matching:
                known = (*self._cards, *self.families)
                raise UsageError(
                    f"no model card or family matches '{pattern}'{nearest(pattern, known)}",
                    _LIST_HINT,
                )
            wanted |= matching
        return tuple(card for card in self._cards.values() if card.name in wanted)

    @classmethod
    def load(
        cls, extra: Sequence[Path] = (), tell: Callable[[str], None] | None = None
    ) -> Catalogue:
        """Read the shipped cards, those of the user's own catalogue, and those of ``extra`` files.

        ``tell`` is called with a line about a large file that is read for the first time,
        which takes seconds.

        Raises:
            UsageError: a file that does not hold to the schema (file, line, nearest valid key), or
            a
                name used twice.
        """
        files = [read_catalogue_file(path, tell=tell) for path in catalogue_paths(extra)]
        for error in find_repeated_names(files):
            raise error
        cards = list[Card]()
        for file in files:
            cards += file.cards
        return cls(cards)


def catalogue_paths(extra: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Return every file that :meth:`Catalogue.load` reads, each once, in its order."""
    user_files = [path for path in (user_catalogue_file(),) if path.is_file()]
    paths = (*list_shipped_files(), *user_files, *map(Path, extra))
    # By the real path: one file named twice would be refused for its repeated names.
    return tuple({os.path.realpath(path): path for path in paths}.values())


def find_repeated_names(files: Sequence[CardFile]) -> Iterator[UsageError]:
    """Yield an error for each name that an earlier card has."""
    first: dict[str, tuple[CardFile, int]] = {}
    for file in files:
        for position, card in enumerate(file.cards):
            first_file, first_position = first.setdefault(card.name, (file, position))
            if (first_file, first_position) != (file, position):
                taken_at = first_file.place(first_position)
                yield UsageError(
                    f"{file.place(position)}: the name '{card.name}' is already taken"
                    f" ({taken_at})",
                    "give the card a name of its own",
                )


def read_published_labels(card: Card) -> tuple[str, ...]:
    """Return the names of the card's classes, in the order of its labels.

    They are ImageNet's, after ``background`` where the card counts one. A card of a user's own
    file has the names that are written in that file.
    """
    labels = (*([BACKGROUND] * card.label_offset), *imagenet_labels())
    if card.own_file:
        from advisor.catalog._weights.fetching import fetch_weights
        from advisor.store import FetchOptions
        from advisor.tflite import Metadata

        file = fetch_weights(card, FetchOptions(offline=True)).path
        metadata = Metadata.read(file.read_bytes(), str(file))
        labels = metadata.labels if metadata else ()
    if len(labels) != card.classes:
        raise StageError(
            f"{card.name} has {card.classes} classes, and {len(labels)} names of classes are known"
        )
    return labels


def imagenet_labels() -> tuple[str, ...]:
    """Return the names of ImageNet's thousand classes, in the order of their synsets."""
    path = shipped_folder("catalogs") / "labels" / "imagenet_1000.txt"
    return tuple(path.read_text(encoding="utf-8").splitlines())
