"""Find catalogue files, read their cards, look cards up by name, family or glob,
and name the labels of a card.

Validated cards are kept as JSON in the cache folder; a large catalogue then opens many times
faster. What is kept belongs to the exact text of a file and to the exact code that read it.
Anything that does not fit, damaged files too, is ignored and written again; this cannot fail a
command.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from advisor.catalog import _architectures as architectures
from advisor.catalog._cards import Card, Conversion, GraphReference, Preprocessing, Published
from advisor.core import StageError, UsageError, nearest, show_bytes
from advisor.downloads import MemberFile, WeightSource
from advisor.store import (
    YamlDocument,
    cache_root,
    read_text,
    read_yaml,
    shipped_folder,
    write_atomically,
)

BACKGROUND = "background"
LARGE = 500_000
"""Files with more characters take a noticeable part of a second to read for the first time."""

_log = logging.getLogger(__name__)
_FOLDER = "catalogues"
_MOST_FILES = 64
# The code that makes cards of a text: kept cards of another version do not count.
_READERS = (
    "_cards.py",
    "../downloads/_files.py",
    "_catalogue.py",
    "_schema.py",
    "../store/_yamlfile.py",
)
_LIST_HINT = "`advisor catalog list` shows every card"

_NEW_FILE = """\
# Your own model cards: `advisor search` and `advisor catalog` read this file beside those that
# are shipped.
family: own
paper: not stated
licence: not stated
cards:
"""

_CARD = tuple(field.name for field in fields(Card))
_SOURCE = tuple(field.name for field in fields(WeightSource))


def list_shipped_files() -> tuple[Path, ...]:
    """Return the shipped ``catalogs/*.yaml``, in the order of their names."""
    return tuple(sorted(shipped_folder("catalogs").glob("*.yaml")))


def config_root() -> Path:
    """Return the user's folder of settings:
    ``$ADVISOR_CONFIG_DIR``, or where the platform keeps them.
    """
    chosen = os.environ.get("ADVISOR_CONFIG_DIR")
    if not chosen:
        return user_config_path("advisor")
    return Path(os.path.expanduser(chosen))  # noqa: PTH111 -- an unknown user is no error


def user_catalogue_file() -> Path:
    """Return the user's own catalogue file, whether or not it is there."""
    return config_root() / "catalog.yaml"


def with_card(file: Path, entry: Mapping[str, Any]) -> str:
    """Return the text of the catalogue ``file`` (a new one where there is none)
    with ``entry`` as its last card.

    Comments and the order of keys stay as they are.
    """
    import yaml

    # As text: dumping the whole file again would lose the comments that people keep in it.
    begins = _NEW_FILE
    column = 2
    if file.is_file():
        begins = read_text(file)
        column = _find_column(file)
    dumped = yaml.safe_dump([dict(entry)], sort_keys=False, allow_unicode=True, width=110)
    indented = [f"{' ' * column}{line}\n" for line in dumped.splitlines()]
    return begins.rstrip("\n") + "\n" + "".join(indented)


def _find_column(file: Path) -> int:
    """Return the column of the dashes of ``cards``, which must be the file's last key."""
    import yaml

    root = read_yaml(file).root
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    key, cards = pairs[-1] if pairs else (None, None)
    if (
        key is None
        or key.value != "cards"
        or not isinstance(cards, yaml.SequenceNode)
        or cards.flow_style
    ):
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
        return _read(path, path.absolute(), read_text(path), _Listener(tell))
    from advisor.catalog._schema import read_cards

    document, cards = read_cards(path, wrong)
    return CardFile(document, tuple(cards.values()), tuple(cards))


@dataclass(frozen=True)
class _Listener:
    # The listener is not compared, because it does not change the cards.
    tell: Callable[[str], None] | None = field(compare=False)


# A process asks for the same cards again and again.
@lru_cache(maxsize=64)
def _read(path: Path, place: Path, text: str, listener: _Listener) -> CardFile:
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
        """Return the card called ``name`` (``UsageError``: no such card; the nearest name is
        given).
        """
        if name not in self._cards:
            raise UsageError(
                f"no model card is called '{name}'{nearest(name, self._cards)}", _LIST_HINT
            )
        return self._cards[name]

    def select(self, patterns: Sequence[str]) -> tuple[Card, ...]:
        """Return the cards that match any
        of ``patterns`` (a name, a family, or a glob over names), in order.
        """
        wanted: set[str] = set()
        for pattern in patterns:
            matching = set()
            for name in self._cards:
                if fnmatchcase(name, pattern) or name == pattern:
                    matching.add(name)
            matching |= {card.name for card in self._cards.values() if card.family == pattern}
            if not matching:
                known = (*self._cards, *self.families)
                raise UsageError(
                    f"no model card or family matches '{pattern}'{nearest(pattern, known)}",
                    _LIST_HINT,
                )
            wanted |= matching
        return tuple(card for card in self._cards.values() if card.name in wanted)


def load_catalogue(
    extra: Sequence[Path] = (), tell: Callable[[str], None] | None = None
) -> Catalogue:
    """Read the shipped cards, those of the user's own catalogue,
    and those of ``extra`` catalogue files.

    ``tell`` is called with a line about a large file that is read for the first time,
    which takes seconds.

    Raises:
        UsageError: a file that does not hold to the schema (file, line, nearest valid key), or a
            name used twice.
    """
    files = [read_catalogue_file(path, tell=tell) for path in catalogue_paths(extra)]
    for error in find_repeated_names(files):
        raise error
    cards = list[Card]()
    for file in files:
        cards += file.cards
    return Catalogue(cards)


def catalogue_paths(extra: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Return every file that :func:`load_catalogue` reads, each once, in its order."""
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
    """Return the card's class names in label order:
    ImageNet's, after ``background`` where the card counts one.

    A card of a user's own file has the names that are written in that file.
    """
    labels = (*([BACKGROUND] * card.label_offset), *imagenet_labels())
    if card.own_file:
        from advisor.catalog._weights.fetching import fetch_weights
        from advisor.downloads import FetchOptions
        from advisor.tflite import read_metadata

        file = fetch_weights(card, FetchOptions(offline=True)).path
        metadata = read_metadata(file.read_bytes(), str(file))
        labels = metadata.labels if metadata else ()
    if len(labels) != card.classes:
        raise StageError(
            f"{card.name} has {card.classes} classes, and {len(labels)} names of classes are known"
        )
    return labels


def imagenet_labels() -> tuple[str, ...]:
    """Return the names of ImageNet's thousand classes, in the order of their synsets."""
    return tuple(
        (shipped_folder("catalogs") / "labels" / "imagenet_1000.txt")
        .read_text(encoding="utf-8")
        .splitlines()
    )


def recall_cards(path: Path, text: str) -> tuple[tuple[Card, ...], tuple[int, ...]] | None:
    """Return the cards of the file ``path`` that holds ``text``, and their indices in it,
    if they were read before.
    """
    try:
        stored = read_text(_place(path))
        # A digest beside the key: a process that ends while it writes may leave half a body.
        key, digest, body = stored.split("\n", 2)
        if key != _key(path, text) or digest != _digest(body):
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
    place = _place(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        content = "\n".join((_key(path, text), _digest(body), body))
        # Catalogues move and disappear.
        write_atomically(place, content, _MOST_FILES)
    except OSError as error:
        _log.debug("the cards of %s are not remembered: %s", path, error)


def _place(path: Path) -> Path:
    return cache_root() / _FOLDER / f"{_digest(str(path.absolute()))[:32]}.json"


def _key(path: Path, text: str) -> str:
    return _digest("\0".join((_hash_readers(), str(path.absolute()), text)))


@lru_cache(maxsize=1)
def _hash_readers() -> str:
    """Return a hash of what the reading depends on beside the file:
    its code, and the names of architectures.
    """
    code = [(Path(__file__).parent / name).read_text(encoding="utf-8") for name in _READERS]
    return _digest("\0".join([*code, *architectures.NAMES]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _card_from_row(row: list[Any]) -> Card:
    values = dict(zip(_CARD, row, strict=True))
    mean, std = values["preprocessing"]
    values["preprocessing"] = Preprocessing(tuple(mean), tuple(std))
    values["arguments"] = tuple((name, value) for name, value in values["arguments"])
    values["published"] = tuple(Published(*entry) for entry in values["published"])
    values["weights"] = tuple(map(_source_from_row, values["weights"]))
    values["conversion"] = Conversion(*values["conversion"]) if values["conversion"] else None
    values["graph"] = GraphReference(*values["graph"]) if values["graph"] else None
    return Card(**values)


def _source_from_row(row: list[Any]) -> WeightSource:
    values = dict(zip(_SOURCE, row, strict=True))
    values["file"] = MemberFile(*values["file"])
    values["companions"] = tuple(MemberFile(*entry) for entry in values["companions"])
    return WeightSource(**values)
