"""Find the profile of a phone or board, and describe phones that nobody measured by their cores.

A phone of ``device_profiles/phones.csv`` has a system on chip, whose cores place its CPU targets.
A profile of the same phone is used instead. The remarks and hints of this module are shown with
every prediction for a phone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches

from advisor.devices._profiles.measurements import REQUIRED
from advisor.devices._profiles.phone_names import (
    PHONES_FILE,
    PhoneModel,
    SeveralPhones,
    find_board,
    phones_named,
    read_boards,
    read_phones,
    slug_of,
)
from advisor.devices._profiles.socs import (
    Soc,
    cpu_targets,
    find_soc,
    instruction_set,
    npu_targets,
    plain_name,
    title_with_maker,
)
from advisor.devices._profiles.values import DeviceProfile, DeviceTarget
from advisor.store import shipped_folder

_MOST_NEAREST = 3  # Names that an error about an unknown one lists
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
    board = profiles.get(find_board(name))
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
    soc: Soc,
    name: str,
    title: str,
    soc_title: str,
    memory_bytes: int | None,
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
        if phone.profile == profile and phone.variant:
            return phones_named(phone.base)
    return ()


def how_to_measure(profile: DeviceProfile) -> str:
    """Return how to measure a device of which nothing was measured."""
    if profile.connecting_option.startswith("--ssh"):
        return f"measure it: advisor devices calibrate {profile.name} {profile.connecting_option}"
    if not profile.connecting_option:
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
    """Return the lines that describe a device with a connection and unknown cores."""
    lines = two_lines(name).replace("or write two lines", "write these lines", 1)
    return f"{lines}\n  connection: {{{connection}}}"


def two_lines(name: str) -> str:
    """Return the two lines that describe an unknown device, and what to do with them."""
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
