"""List cards as rows of a table, and fetch the weights of many cards.

`advisor catalog list` and `fetch` and the tables of other rooms show these rows. ``COLUMNS`` are
columns of a table that users read, and the keys of :meth:`CardRow.to_json` those of a document.
"""

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from advisor.catalog._cards import Card
from advisor.catalog._catalogue import Catalogue
from advisor.catalog._weights.fetching import fetch_weights
from advisor.core import Quantity, WeightsError, WeightsFile
from advisor.store import DownloadCache, FetchOptions, Mirror, WeightSource

_CELLS = {
    "card": "card.name",
    "family": "card.family",
    "licence": "card.licence",
    "input_px": "card.input_size",
    "params": "card.params",
    "macs": "card.macs",
    "classes": "card.classes",
    "top1_percent": "top1",
    "top1_int8_percent": "top1_int8",
    "top1_int8_qat_percent": "top1_int8_qat",
    "size_bytes": "size_bytes",
    "weights": "weights",
    "weights_here": "here",
}
COLUMNS: tuple[str, ...] = tuple(_CELLS)
"""Columns of :func:`advisor.catalog.to_frame`."""

BYTES_A_VALUE = 4
"""A float32 file holds little besides its values."""

AT_A_TIME = 4


@dataclass(frozen=True, slots=True)
class CardRow:
    """One card in a table."""

    card: Card  #: the card
    here: bool  #: its weights are on this machine (their hash is checked when they are used)
    #: of a float file in ms on the device of a front: measured, published or predicted;
    #: None in a plain list
    latency: Quantity | None = None

    @property
    def top1(self) -> float | None:
        """Published top-1 of the float model in percent."""
        return self.card.top1()

    @property
    def top1_int8(self) -> float | None:
        """Published top-1 of an int8 model in percent."""
        return self.card.top1("int8")

    @property
    def top1_int8_qat(self) -> float | None:
        """The same of weights from quantization-aware training, other than the float model's."""
        return self.card.top1("int8_qat")

    @property
    def size_bytes(self) -> int:
        """Rough size of a float32 file: four bytes a parameter."""
        return BYTES_A_VALUE * self.card.params

    @property
    def weights(self) -> tuple[str, ...]:
        """The places of its weights in a few words, in their order."""
        return tuple(map(place_of, self.card.weights))

    def to_row(self) -> dict[str, object]:
        """Return a row of a table, with the names of :data:`COLUMNS`."""
        cells = {name: attrgetter(path)(self) for name, path in _CELLS.items()}
        return cells | {"weights": ", ".join(self.weights)}

    def to_json(self) -> dict[str, Any]:
        """Return the row and the whole card as plain values."""
        latency = {"latency": self.latency.to_json()} if self.latency else {}
        return {
            **card_json(self.card),
            "size_bytes": self.size_bytes,
            "weights_here": self.here,
            **latency,
        }


def list_rows(catalogue: Catalogue, options: FetchOptions) -> tuple[CardRow, ...]:
    """Return a row for each card, in the order of the catalogue."""
    return tuple(CardRow(card, is_here(card, options)) for card in catalogue.values())


def card_json(card: Card) -> dict[str, Any]:
    """Return the card as plain values, with the keys of a catalogue file."""
    plain = asdict(card)
    plain["arguments"] = card.keywords
    for entry, source in zip(plain["weights"], card.weights, strict=True):
        entry["label"] = source.label
    return plain


def is_here(card: Card, options: FetchOptions | None = None) -> bool:
    """Return whether the card's weights are on this machine; nothing is read."""
    options = options or FetchOptions()
    path = options.mirror_path
    cache = DownloadCache(options.cache_root)
    mirror = None if path is None else Mirror(path)
    for source in card.weights:
        own_file = source.kind == "file" and Path(source.file.path).is_file()
        if own_file or cache.holds(source) or (mirror is not None and mirror.holds(source)):
            return True
    return False


def place_of(source: WeightSource) -> str:
    """Return where a source is, in a few words: host of an address, package, or file's name."""
    if source.url:
        host = urlsplit(source.url).netloc.rpartition("@")[2] or source.url
        return host if source.file.key else f"{host} (no hash: your copy)"
    return f"{source.kind} {source.package or source.file.name}"


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result for one card's weights."""

    card: str  #: name of the card
    path: Path | None = None  #: the file, None if it could not be fetched
    source: str = ""  #: where it came from: ``cache``, ``mirror ...``, a package, an address
    sha256: str = ""  #: its hash
    cached: bool = False  #: it is in the cache, so that it will be there offline
    reason: str = ""  #: why it could not be fetched, or is not in the cache
    hint: str = ""  #: what the user can do about it


def fetch_all(cards: Sequence[Card], options: FetchOptions) -> tuple[Fetched, ...]:
    """Fetch the weights of ``cards``, several at a time, into the cache.

    Files of a user's mirror are copied into it.
    """
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return tuple(pool.map(partial(_fetch_card, options), cards))


def _find_source(card: Card, weights: WeightsFile) -> WeightSource:
    """Return the source of the card that a file is of."""
    fetched = (weights.member, weights.format, weights.port)
    sources = []
    for source in card.weights:
        if (source.file.path, source.format, source.port) == fetched:
            sources.append(source)
    # A file in the mirror may fit several sources of the card: its hash decides, where one has it.
    return next(source for source in sources if source.file.sha256 in ("", weights.sha256))


def _fetch_card(options: FetchOptions, card: Card) -> Fetched:
    try:
        weights = fetch_weights(card, options, any_format=True)
    except WeightsError as error:
        return Fetched(card.name, reason=error.message, hint=error.hint)
    source = _find_source(card, weights)
    if not source.file.key:
        reason = "used from the mirror and not kept: its hash is not on the card"
        return Fetched(card.name, weights.path, weights.source, weights.sha256, reason=reason)

    # The cache checks the copy again: the file in the mirror may have changed since.
    def copy(folder: Path) -> None:
        for member in source.members:
            beside = weights.path if member is source.file else weights.path.parent / member.name
            shutil.copyfile(beside, folder / member.name)

    in_cache = DownloadCache(options.cache_root).find_or_fill(source, weights.source, copy)
    return Fetched(card.name, in_cache.path, weights.source, in_cache.sha256, cached=True)
