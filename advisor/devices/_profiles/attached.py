"""Describe an attached phone as a device:
by a known profile, its system on chip, or the cores that it reports.

``devices add --usb`` writes the result as a profile; ``--adb`` without a device measures with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from advisor.core import UsageError
from advisor.devices._connections.attached import AttachedPhone
from advisor.devices._connections.settings import ConnectionSettings
from advisor.devices._profiles.cores import find_core_of_part
from advisor.devices._profiles.phone_names import PhoneModel, SeveralPhones, slug_of
from advisor.devices._profiles.phones import describe_by_hand, find_device
from advisor.devices._profiles.socs import (
    Soc,
    cpu_targets,
    find_soc,
    instruction_set,
    title_with_maker,
)
from advisor.devices._profiles.values import Cluster, DeviceProfile, DeviceTarget

ACCELERATORS = (
    DeviceTarget("tflite-gpu", "tflite", "gpu", precisions=("float32", "float16")),
    DeviceTarget("tflite-npu", "tflite", "npu", precisions=("float32", "int8")),
)
"""Targets that ``benchmark_model`` can be asked for on a phone besides its CPU. Whether the phone
has them shows when a network is timed there.
"""

LONGEST_NAME = 40


def describe_phone(
    phone: AttachedPhone,
    profiles: Mapping[str, DeviceProfile],
    connection: ConnectionSettings,
    name: str = "",
) -> DeviceProfile:
    """Return the profile of an attached phone with its connection, its CPU targets,
    and those of accelerators to try.

    The facts and the measurements of a known profile of the same phone stay. The cores are those
    that the phone reports, because their clocks are its own; else those of its system on chip.

    Args:
        phone: what the phone says of itself.
        profiles: the known devices.
        connection: how to reach it again.
        name: name of the profile; by default that of the phone.

    Raises:
        UsageError: neither its model nor its system on chip is known, and it does not tell its
            cores.
    """
    known = find_known((phone.model, phone.device), phone.soc, profiles)
    soc = next(filter(None, map(find_soc, phone.soc)), None)
    # A profile says more of the cores than the system on chip alone.
    described = known or soc
    cores = read_clusters(phone) or (described.cores if described else ())
    if not cores:
        raise UsageError(
            f"the processor of {phone.maker} {phone.model} is not known:"
            f" {', '.join(phone.soc) or 'it has no name'}",
            describe_by_hand(phone.model, f"adb: {phone.serial}"),
        )
    facts = known or _describe_unknown(phone, soc)
    on_cpu = cpu_targets(cores)
    source = f"read from the phone over adb: Android {phone.android or 'of an unknown version'}"
    return replace(
        facts,
        name=name or facts.name,
        isa=facts.isa or instruction_set(cores),
        cores=cores,
        targets=_merge_targets(facts.targets, on_cpu),
        default_target=on_cpu[-1].name,
        memory_bytes=phone.memory_bytes or facts.memory_bytes,
        sources=tuple(dict.fromkeys((*facts.sources, source))),
        predicted_from="",
        connection=connection,
    )


def _describe_unknown(phone: AttachedPhone, soc: Soc | None) -> DeviceProfile:
    """Return the profile of a phone that nobody described, without cores and targets."""
    title = title_with_maker(phone.maker, phone.model)
    chip = next(iter(phone.soc), title)
    if soc:
        chip = title_with_maker(soc.maker, soc.name)
    return DeviceProfile(
        name=slug_of(title)[:LONGEST_NAME].strip("-"),
        title=title,
        kind="phone",
        soc=chip,
        targets=(),
        default_target="",
        npu=soc.npu if soc else "",
    )


def _merge_targets(
    known: Sequence[DeviceTarget], on_cpu: Sequence[DeviceTarget]
) -> tuple[DeviceTarget, ...]:
    """Return the known targets, those of the CPU in their place, and accelerators to try."""
    targets = {target.name: target for target in (*known, *on_cpu)}
    for accelerator in ACCELERATORS:
        targets.setdefault(accelerator.name, accelerator)
    return tuple(targets.values())


def read_clusters(phone: AttachedPhone) -> tuple[Cluster, ...]:
    """Return the cores that a phone reports, fastest first;
    none if one of them is unknown or asleep.
    """
    cores = []
    for implementer, part, mhz in phone.processors:
        core = find_core_of_part(implementer, part)
        if core is None:
            return ()
        cores.append((core.macs * (mhz or core.mhz), core.name, mhz))
    cores.sort(key=lambda core: (-core[0], core[1]))
    clusters = []
    for (_, name, mhz), group in groupby(cores):
        clusters.append(Cluster(name, len(list(group)), mhz))
    return tuple(clusters)


def find_known(
    names: Sequence[str], chips: Sequence[str], profiles: Mapping[str, DeviceProfile]
) -> DeviceProfile | None:
    """Return the known profile of a phone by one of its names;
    of several phones, that with one of the chips.

    A chip may be named without what its maker adds for one phone:
    ``Snapdragon 8 Gen 3`` is also the one ``for Galaxy``.
    """
    chip_names = _name_chips(chips)
    for name in filter(None, names):
        try:
            profile = find_device(name, profiles)
        except SeveralPhones as several:
            fitting = [variant for variant in several.phones if _has_chip(variant, chip_names)]
            profile = find_device(fitting[0].slug, profiles) if len(fitting) == 1 else None
        if profile is not None:
            return profile
    return None


def _has_chip(phone: PhoneModel, chip_names: tuple[str, ...]) -> bool:
    # An empty tuple is no beginning of any name.
    return any(name.startswith(chip_names) for name in _name_chips([phone.soc]))


def _name_chips(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the known ones of some systems on chip as the table writes them."""
    return tuple(soc.name for soc in map(find_soc, names) if soc is not None)
