"""The phones and boards of the shipped tables, and which of them a name may mean.

People write names with and without the maker, with a code, or only in part. ``phones.py`` looks
names up here (:func:`phones_named`, :func:`find_board`). It refuses a name that several phones
have, with all of them (:class:`SeveralPhones`), unless they are variants of one phone and one of
them was measured: that one stands for the name.

The slugs of the phones (:func:`slug_of`) are the names of their profiles. Users write them in
commands and request files, so they stay.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from advisor.core import UsageError, plain, units
from advisor.devices._profiles.socs import (
    plain_name,
    read_rows,
    split_names,
    title_with_maker,
)
from advisor.store import shipped_folder

PHONES_FILE = "phones.csv"
BOARDS_FILE = "boards.csv"

_VARIANT = re.compile(r"\s*\(([^)]*)\)")

_BRANDS = frozenset({"galaxy", "redmi", "poco", "moto", "motorola"})
"""First words of names that people leave out, besides the maker's: ``s24`` for ``Galaxy S24``."""

_NETWORK = re.compile(r"(5g|4g|lte|nfc)$")
_WITHOUT_5G = re.compile(
    r"Helio|SC\d|(?:UNISOC )?T(?:[36]|7250)|Exynos (?:7|850|9[568])|Kirin (?:[67]|8[01]|9[5-8])"
    r"|Snapdragon (?:[24][1-6]\d|6[0-8]\d|7[0-3]\d|8[0-5]\d|860)"
)
"""Systems on chip whose modem has no 5G, so that a phone with one is no ``5G``."""

_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")
_FEWEST_LETTERS = 6  # of a code whose end is left out, such as SM-S921


@dataclass(frozen=True)
class PhoneModel:
    """A phone of ``device_profiles/phones.csv``.

    Attributes:
        maker: its maker.
        name: its name; brackets contain the SoC if the phone is sold with several.
        codes: ``Build.MODEL``, ``Build.DEVICE``, ``hw.machine`` and further names; ``*`` stands
            for any ending.
        year: year of its release.
        soc: its system on chip, a name that :func:`advisor.devices._profiles.socs.find_soc` knows.
        memory_bytes: the least memory that it is sold with, None if it is not known.
        profile: name of the shipped profile of the same phone, empty if there is none.
        source: what its facts were compared with.
    """

    maker: str
    name: str
    codes: tuple[str, ...]
    year: int
    soc: str
    memory_bytes: int | None
    profile: str
    source: str

    @property
    def slug(self) -> str:
        """The name of its profile: ``galaxy-s24-exynos-2400``."""
        return slug_of(self.name)

    @property
    def title(self) -> str:
        """Its name with its maker's."""
        return title_with_maker(self.maker, self.name)

    @property
    def base(self) -> str:
        """Its name without the SoC, which all variants of the phone have."""
        return _VARIANT.sub("", self.name)

    @property
    def variant(self) -> str:
        """The SoC that its name has in brackets; empty if the phone is sold with one only."""
        match = _VARIANT.search(self.name)
        return match[1] if match else ""

    def search_keys(self) -> Iterator[str]:
        """Yield what people call it, as :func:`plain_name` writes names."""
        names = [self.name, self.base, *(code for code in self.codes if not code.endswith("*"))]
        if self.variant:
            family = self.variant.partition(" ")[0]
            names.append(f"{self.base} {family}")  # galaxy s24 exynos
        for name in names:
            for text in (name, _without_brand(self.maker, name)):
                yield plain_name(text)
                yield plain_name(f"{self.maker} {text}")

    def code_starts(self) -> Iterator[str]:
        """Yield the beginnings of its codes that stand for several."""
        for code in self.codes:
            if code.endswith("*"):
                yield plain_name(code)


class SeveralPhones(UsageError):
    """A name that several phones have,
    which are sold with other systems on chip or by other makers.
    """

    def __init__(self, name: str, phones: Sequence[PhoneModel]) -> None:
        listed = ", ".join(f"{phone.slug} ({phone.soc})" for phone in phones)
        super().__init__(
            f"'{plain(name)}' may be several phones: {listed}",
            "name one of them, or the phone by its code, which Settings > About phone shows",
        )
        self.phones = tuple(phones)


@dataclass(frozen=True)
class Board:
    """A board of ``device_profiles/boards.csv``:
    its name, further names, and the profile that describes it.
    """

    name: str
    names: tuple[str, ...]
    profile: str


def slug_of(name: str) -> str:
    """Return a name as a device's: small letters, digits and hyphens."""
    return _NOT_IN_SLUG.sub("-", name.casefold().replace("+", " plus")).strip("-")


def _without_brand(maker: str, name: str) -> str:
    """Return a name without its brand if the rest is still a name (``s24``),
    and the whole name if not (``14``).
    """
    brand, _, rest = name.partition(" ")
    short = plain_name(rest)
    stands_alone = short[:1].isalpha() and any(char.isdigit() for char in short)
    return rest if stands_alone and brand.casefold() in {*_BRANDS, maker.casefold()} else name


@cache
def read_phones() -> tuple[PhoneModel, ...]:
    """Return the phones of the shipped table."""
    phones = []
    for row in read_rows(shipped_folder("device_profiles") / PHONES_FILE):
        memory_bytes = units.size_bytes(row["memory"], "memory") if row["memory"] else None
        phones.append(
            PhoneModel(
                row["maker"],
                row["name"],
                split_names(row["codes"]),
                int(row["year"]),
                row["soc"],
                memory_bytes,
                row["profile"],
                row["source"],
            )
        )
    return tuple(phones)


@cache
def read_boards() -> tuple[Board, ...]:
    """Return the boards of the shipped table."""
    rows = read_rows(shipped_folder("device_profiles") / BOARDS_FILE)
    return tuple(Board(row["name"], split_names(row["names"]), row["profile"]) for row in rows)


@cache
def _phones_by_key() -> Mapping[str, tuple[PhoneModel, ...]]:
    phones: dict[str, dict[str, PhoneModel]] = defaultdict(dict)
    for phone in read_phones():
        for key in phone.search_keys():
            phones[key][phone.name] = phone
    return MappingProxyType({key: tuple(named.values()) for key, named in phones.items()})


@cache
def _phones_without_network() -> Mapping[str, tuple[PhoneModel, ...]]:
    phones: dict[str, dict[str, PhoneModel]] = defaultdict(dict)
    for key, named in _phones_by_key().items():
        phones[_NETWORK.sub("", key)].update((phone.name, phone) for phone in named)
    return MappingProxyType({key: tuple(named.values()) for key, named in phones.items()})


def find_board(name: str) -> str:
    """Return the name of the profile that describes a board; empty if no board has this name."""
    return _boards_by_key().get(plain_name(name), "")


@cache
def _boards_by_key() -> Mapping[str, str]:
    profiles = {}
    for board in read_boards():
        for name in (board.name, *board.names):
            profiles[plain_name(name)] = board.profile
    return MappingProxyType(profiles)


def phones_named(name: str) -> tuple[PhoneModel, ...]:
    """Return the phones that a name may mean: several if it is ambiguous, none if it is unknown.

    Case, spaces, hyphens and the maker do not matter. ``5G`` and ``4G`` at the end matter where
    both phones exist, and a phone whose chip has no 5G is no ``5G``.
    """
    key = plain_name(name)
    if not key:
        return ()
    exact = _phones_by_key().get(key, ())
    network = _NETWORK.search(key)
    relaxed = _phones_without_network().get(_NETWORK.sub("", key), ())
    if network and network[1] == "5g":
        relaxed = tuple(phone for phone in relaxed if not _WITHOUT_5G.match(phone.soc))
    elif network and network[1] in ("4g", "lte"):
        relaxed = tuple(phone for phone in relaxed if _WITHOUT_5G.match(phone.soc)) or relaxed
    if exact:
        # "a54" may also be the Galaxy A54 5G, but not the OPPO A54 5G.
        makers = {phone.maker for phone in exact}
        return (*exact, *(phone for phone in relaxed if phone.maker not in makers))
    phones = []
    for phone in read_phones():
        if any(map(key.startswith, phone.code_starts())):
            phones.append(phone)
    coded = tuple(phones)
    if coded:
        return coded
    if relaxed:
        return relaxed
    if len(key) < _FEWEST_LETTERS or not any(char.isdigit() for char in key):
        return ()
    phones = []
    for phone in read_phones():
        if any(plain_name(code).startswith(key) for code in phone.codes):
            phones.append(phone)
    return tuple(phones)
