"""Find phones and boards by the names that people use,
and describe phones that nobody measured by their cores.

A phone of ``device_profiles/phones.csv`` has a system on chip, whose cores place its CPU targets.
A profile of the same phone is used instead.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType

from advisor.core import UsageError, plain, units
from advisor.devices._profiles.measurements import REQUIRED
from advisor.devices._profiles.socs import (
    Soc,
    cpu_targets,
    find_soc,
    instruction_set,
    npu_targets,
    plain_name,
    read_rows,
    split_names,
    title_with_maker,
)
from advisor.devices._profiles.values import DeviceProfile, DeviceTarget
from advisor.store import shipped_folder

PHONES_FILE = "phones.csv"
BOARDS_FILE = "boards.csv"

APPLE = "Apple"

_BRANDS = frozenset({"galaxy", "redmi", "poco", "moto", "motorola"})
"""First words of names that people leave out, besides the maker's: ``s24`` for ``Galaxy S24``."""

_NETWORK = re.compile(r"(5g|4g|lte|nfc)$")
_WITHOUT_5G = re.compile(
    r"Helio|SC\d|(?:UNISOC )?T(?:[36]|7250)|Exynos (?:7|850|9[568])|Kirin (?:[67]|8[01]|9[5-8])"
    r"|Snapdragon (?:[24][1-6]\d|6[0-8]\d|7[0-3]\d|8[0-5]\d|860)"
)
"""Systems on chip whose modem has no 5G, so that a phone with one is no ``5G``."""
_VARIANT = re.compile(r"\s*\(([^)]*)\)")
_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")
_FEWEST_LETTERS = 6  # of a code whose end is left out, such as SM-S921
_MOST_NEAREST = 3
APPLE_DEVICES = ("iphone", "ipad")
"""The beginnings of the plain names of Apple's devices."""

APPLE_CORES = (
    "[{core: A15 performance, count: 2, max_mhz: 3200}, {core: A15 efficiency, count: 4, max_mhz:"
    " 2000}]"
)
ANDROID_CORES = (
    "[{core: Cortex-X4, count: 1, max_mhz: 3300}, {core: Cortex-A720, count: 7, max_mhz: 2800}]"
)
"""Examples of the cores of a device that nobody knows by its name."""

_CUTOFF = 0.55  # similarity, as in :func:`advisor.core.nearest`
_LONGEST_SLUG = 40
_LONGEST = 80  # characters of a name that is compared with all known ones


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

    def search_keys(self) -> Iterator[str]:
        """Yield what people call it, as :func:`plain_name` writes names."""
        names = [self.name, self.base, *(code for code in self.codes if not code.endswith("*"))]
        variant = _VARIANT.search(self.name)
        if variant:
            names.append(f"{self.base} {variant[1].partition(' ')[0]}")  # galaxy s24 exynos
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


def find_device(name: str, profiles: Mapping[str, DeviceProfile]) -> DeviceProfile | None:
    """Return the profile of a phone or board by the name that people use, None if it is unknown.

    A profile of ``profiles`` is used before one that is predicted from the cores.

    Raises:
        UsageError: the name means several phones; the message lists them.
    """
    key = plain_name(name)
    if not key:
        return None
    named = []
    for profile in profiles.values():
        # This machine and its runtimes, which have no file, are known by their exact names alone.
        if profile.origin is not None and key in _profile_keys(profile):
            named.append(profile)
    if len(named) == 1:
        return named[0]
    board = profiles.get(_boards_by_key().get(key, ""))
    return board or find_phone(name, profiles)


def find_phone(name: str, profiles: Mapping[str, DeviceProfile]) -> DeviceProfile | None:
    """Return the profile of a phone of the table, as :func:`find_device` does."""
    phones = phones_named(name)
    known = list(filter(None, (_find_profile(phone, profiles) for phone in phones)))
    # Variants of one phone with other SoCs:
    # the measured one stands for the name, and its remark names the others.
    if known and len({phone.base for phone in phones}) == 1:
        return known[0]
    if len(phones) > 1:
        raise SeveralPhones(name, phones)
    return profile_of(phones[0]) if phones else None


def _profile_keys(profile: DeviceProfile) -> tuple[str, ...]:
    _maker, _, rest = profile.title.partition(" ")
    return plain_name(profile.name), plain_name(profile.title), plain_name(rest)


def _find_profile(
    phone: PhoneModel, profiles: Mapping[str, DeviceProfile]
) -> DeviceProfile | None:
    return profiles.get(phone.slug) or profiles.get(phone.profile)


def profile_of(phone: PhoneModel) -> DeviceProfile:
    """Return the profile of a phone that nobody measured:
    its SoC's cores, and CPU targets that they place.
    """
    soc = find_soc(phone.soc)
    assert soc is not None, f"the SoC of {phone.name} is not in the table"
    return _profile_from(
        soc, phone.slug, phone.title, title_with_maker(soc.maker, phone.soc), phone.memory_bytes
    )


def find_soc_profile(name: str) -> DeviceProfile | None:
    """Return the profile of a phone with a system on chip by the chip's name,
    None if it is unknown.
    """
    soc = find_soc(name)
    if soc is None:
        return None
    title = title_with_maker(soc.maker, soc.name)
    return _profile_from(soc, slug_of(soc.name), f"{title} phone", title, None)


def _profile_from(
    soc: Soc, name: str, title: str, soc_title: str, memory_bytes: int | None
) -> DeviceProfile:
    targets = cpu_targets(soc.cores)
    return DeviceProfile(
        name=name,
        title=title,
        kind="phone",
        soc=soc_title,
        targets=(*targets, *_gpu_targets(soc.name), *npu_targets(soc.npu)),
        default_target=targets[-1].name,
        isa=instruction_set(soc.cores),
        cores=soc.cores,
        npu=soc.npu,
        memory_bytes=memory_bytes,
        sources=(
            (
                f"{PHONES_FILE} and socs.csv in device_profiles, which name what each figure was"
                " compared with"
            ),
        ),
        origin=shipped_folder("device_profiles") / PHONES_FILE,
        predicted_from=soc_title,
    )


def _gpu_targets(soc: str) -> tuple[DeviceTarget, ...]:
    """Return the target on a system on chip's GPU, whose table only few devices need."""
    from advisor.devices._profiles.gpus import gpu_targets

    return gpu_targets(soc)


def describe_unmeasured(profile: DeviceProfile) -> DeviceProfile | None:
    """Return a profile with the targets on a phone's CPU and GPU that its own lacks;
    None if there are none.

    Nothing was measured on these targets,
    so their latencies are predicted from the cores and the peak arithmetic.
    """
    if profile.kind != "phone" or not profile.cores:
        return None
    on_cpu = () if profile.find_on("cpu") else cpu_targets(profile.cores)
    on_gpu = () if profile.find_on("gpu") else _gpu_targets(profile.soc)
    targets = (*on_gpu, *on_cpu)
    if not targets:
        return None
    return replace(
        profile,
        targets=targets,
        default_target=targets[-1].name,
        measurements=(),
        predicted_from=profile.soc,
    )


def phone_remarks(profile: DeviceProfile, target: DeviceTarget | None = None) -> tuple[str, ...]:
    """Return what a user must know of a phone:
    that nothing was measured on it, or that it is sold with other SoCs.

    ``target`` is the one that latencies are of; None stands for its CPU.
    """
    if profile.predicted_from:
        known = f"the cores of {profile.predicted_from}"
        if target is not None and target.accelerator == "npu":
            known = f"the generation of its NPU, {profile.npu}"
        if target is not None and target.accelerator == "gpu":
            known = f"the peak arithmetic of the GPU of {profile.predicted_from}"
        return (
            f"predicted from {known}; nothing was measured on it, so intervals are wide",
            how_to_measure(profile),
        )
    others = [phone for phone in _list_variants(profile.name) if phone.profile != profile.name]
    if not others:
        return ()
    listed = ", ".join(f"{phone.slug} ({', '.join(phone.codes)})" for phone in others)
    return (f"this is the phone with {profile.soc}; it is also sold as {listed}",)


def _list_variants(profile: str) -> tuple[PhoneModel, ...]:
    """Return the phones that are sold under the name of a profile's phone;
    none if there is one only.
    """
    for phone in read_phones():
        if phone.profile == profile and _VARIANT.search(phone.name):
            return phones_named(phone.base)
    return ()


def how_to_measure(profile: DeviceProfile) -> str:
    """Return how to measure a device of which nothing was measured."""
    if profile.kind in ("board", "module", "computer"):
        return f"measure it: advisor devices calibrate {profile.name} --ssh USER@ADDRESS"
    if profile.kind != "phone" or profile.soc.startswith(APPLE):
        columns = ", ".join(REQUIRED)
        return (
            "measure it: write latencies of your app on it into a CSV beside your own profile"
            f" ({columns})"
        )
    return "measure it: attach it by USB, then type: advisor devices add --usb"


def list_phones(profiles: Mapping[str, DeviceProfile]) -> tuple[DeviceProfile, ...]:
    """Return the profiles of the phones of the table:
    one of ``profiles`` where there is one, else a predicted one.
    """
    phones = {}
    for phone in read_phones():
        # Several variants may share a measured profile, which is listed once.
        profile = _find_profile(phone, profiles) or profile_of(phone)
        phones[profile.name] = profile
    return tuple(phones.values())


def device_names() -> tuple[str, ...]:
    """Return the names of the phones that no profile describes, as a shell completes them."""
    return tuple(phone.slug for phone in read_phones() if not phone.profile)


def nearest_names(name: str, profiles: Iterable[str]) -> tuple[str, ...]:
    """Return the names of devices that are nearest to an unknown one, the nearest first."""
    shown: dict[str, str] = {}
    for known in (
        *profiles,
        *(board.name for board in read_boards()),
        *(phone.name for phone in read_phones()),
    ):
        shown[plain_name(known)] = known
    matches = get_close_matches(
        plain_name(name[:_LONGEST]), shown, n=_MOST_NEAREST, cutoff=_CUTOFF
    )
    return tuple(shown[match] for match in matches)


def describe_by_hand(name: str, connection: str) -> str:
    """Return the lines that describe a device that can be reached, but whose cores are not
    known.
    """
    lines = two_lines(name).replace("or write two lines", "write these lines", 1)
    return f"{lines}\n  connection: {{{connection}}}"


def two_lines(name: str) -> str:
    """Return the two lines that describe a device that no table knows, and what to do with
    them.
    """
    slug = slug_of(name)[:_LONGEST_SLUG].strip("-") or "phone"
    if "-" not in slug:
        # A number alone is no text in YAML, and "host" is this machine.
        slug = f"our-{slug}"
    # The example is that of a device of the same maker: no iPhone has a Cortex.
    is_apple = plain_name(name).startswith(APPLE_DEVICES)
    return (
        f"or write two lines into {slug}.yaml, then: advisor devices add {slug}.yaml\n"
        f"  name: {slug}\n"
        f"  cores: {APPLE_CORES if is_apple else ANDROID_CORES}"
    )
