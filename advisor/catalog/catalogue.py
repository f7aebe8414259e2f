"""Find catalogue files, load their cards, look cards up by name, family or glob, and name the labels of a card."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from advisor.catalog.cards import Card
from advisor.catalog.reading import CardFile, read_catalogue_file
from advisor.core.errors import StageError, UsageError, nearest
from advisor.store.files import shipped_folder

_NEW_FILE = """\
# Your own model cards: `advisor search` and `advisor catalog` read this file beside the shipped ones.
family: own
paper: not stated
licence: not stated
cards:
"""


def shipped_files() -> tuple[Path, ...]:
    """Return the shipped ``catalogs/*.yaml``, in the order of their names."""
    return tuple(sorted(shipped_folder("catalogs").glob("*.yaml")))


def config_root() -> Path:
    """Return the user's folder of settings: ``$ADVISOR_CONFIG_DIR``, or where the platform keeps them."""
    chosen = os.environ.get("ADVISOR_CONFIG_DIR")
    return Path(chosen).expanduser() if chosen else user_config_path("advisor")


def user_catalogue_file() -> Path:
    """Return the user's own catalogue file, whether or not it is there."""
    return config_root() / "catalog.yaml"


def with_card(file: Path, entry: Mapping[str, Any]) -> str:
    """Return the text of the catalogue ``file`` (a new one where there is none) with ``entry`` as its last card.

    Comments and the order of keys stay as they are.

    Raises:
        UsageError: the file is not a catalogue whose last key is a ``cards`` list of one card a block.
    """
    if not file.is_file():
        return _NEW_FILE + _block(entry, 2)
    text = file.read_text(encoding="utf-8")
    return text.rstrip("\n") + "\n" + _block(entry, _column(file))


def _column(file: Path) -> int:
    """Return the column of the dashes of ``cards``, which must be the file's last key."""
    import yaml

    from advisor.store.yamlfile import read_yaml

    root = read_yaml(file).root
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    key, cards = pairs[-1] if pairs else (None, None)
    if key is None or key.value != "cards" or not isinstance(cards, yaml.SequenceNode) or cards.flow_style:
        raise UsageError(
            f"{file}: a card can be added where 'cards' is the last key, with a dash before each card",
            "move 'cards' to the end, or name another file with --into",
        )
    return int(cards.start_mark.column)


def _block(entry: Mapping[str, Any], column: int) -> str:
    import yaml

    dumped = yaml.safe_dump([dict(entry)], sort_keys=False, allow_unicode=True, width=110)
    return "".join(f"{' ' * column}{line}\n" for line in dumped.splitlines())


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


BACKGROUND = "background"


def published_labels(card: Card) -> tuple[str, ...]:
    """Return the card's class names in label order: ImageNet's, after ``background`` where the card counts one.

    A card of a user's own file has the names that are written in that file.

    Raises:
        StageError: the card has another number of classes.
        WeightsError: a user's own file that is not there.
    """
    labels = _own_labels(card) if card.own_file else (*([BACKGROUND] * card.label_offset), *imagenet_labels())
    if len(labels) != card.classes:
        raise StageError(f"{card.name} has {card.classes} classes, and {len(labels)} names of classes are known")
    return labels


def imagenet_labels() -> tuple[str, ...]:
    """Return the names of ImageNet's thousand classes, in the order of their synsets."""
    return tuple((shipped_folder("catalogs") / "labels" / "imagenet_1000.txt").read_text(encoding="utf-8").splitlines())


def _own_labels(card: Card) -> tuple[str, ...]:
    from advisor.catalog.weights.fetching import fetch
    from advisor.downloads.files import FetchOptions
    from advisor.tflite.metadata import read_metadata

    file = fetch(card, FetchOptions(offline=True)).path
    metadata = read_metadata(file.read_bytes(), str(file))
    return metadata.labels if metadata else ()
