"""Describe the devices of a device cloud:
by a known profile of the same phone, or by the chip that the cloud names.

``loading.Profiles`` calls :func:`select_in_cloud` for a name that begins with a cloud's. The
profile has the connection to the cloud; what may be sent there is the user's word alone.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from advisor.core import AdvisorError, UsageError
from advisor.devices._connections.clouds import (
    ask_devices,
    cloud_named,
    require_device,
    split_selector,
)
from advisor.devices._connections.settings import ConnectionSettings
from advisor.devices._profiles.attached import ACCELERATORS, LONGEST_NAME, find_known
from advisor.devices._profiles.phone_names import slug_of
from advisor.devices._profiles.phones import describe_by_hand
from advisor.devices._profiles.socs import (
    Soc,
    cpu_targets,
    find_soc,
    instruction_set,
    title_with_maker,
)
from advisor.devices._profiles.values import DeviceProfile, DeviceTarget

_log = logging.getLogger(__name__)

_IN_BRACKETS = re.compile(r"\s*\([^()]*\)")


def select_in_cloud(
    selector: str, profiles: Mapping[str, DeviceProfile]
) -> tuple[DeviceProfile, DeviceTarget]:
    """Return device and target of ``aihub:Samsung Galaxy S24:tflite-npu``,
    without a target the default one.

    If the cloud does not answer, a phone that is known by its name is described without it: its
    prediction stands, and the reason is logged.

    Raises:
        UsageError: the cloud has no such device (the message names the nearest), or does not
            answer and the device is not known by its name; its chip is unknown.
    """
    cloud, device, target = split_selector(selector)
    devices = ask_devices(cloud)
    if isinstance(devices, AdvisorError):
        profile = _describe_unlisted(cloud, device, devices, profiles)
    else:
        name = require_device(cloud, device, devices)
        profile = describe_listed(cloud, name, devices[name], profiles)
    return profile, profile.target(target)


def list_in_cloud(cloud: str, profiles: Mapping[str, DeviceProfile]) -> tuple[DeviceProfile, ...]:
    """Return the devices of a cloud, named as ``--device`` takes them;
    those without a known chip have no cores.

    Raises:
        UsageError: an unknown cloud, or a token that is missing or refused.
        StageError: the cloud does not answer.
    """
    cloud_named(cloud)
    devices = ask_devices(cloud)
    if isinstance(devices, AdvisorError):
        raise devices
    listed = []
    for device, chips in sorted(devices.items()):
        profile = _describe_device(cloud, device, chips, profiles)
        listed.append(replace(profile, name=f"{cloud}:{device}"))
    return tuple(listed)


def describe_listed(
    cloud: str, device: str, chips: Sequence[str], profiles: Mapping[str, DeviceProfile]
) -> DeviceProfile:
    """Return the profile of a device that the cloud lists, by the names of its chip;
    UsageError for unknown chips.
    """
    profile = _describe_device(cloud, device, chips, profiles)
    if not profile.cores:
        raise UsageError(
            f"the chip of {device} is not known: {', '.join(chips) or 'the cloud names none'}",
            describe_by_hand(device, f"{cloud}: {device}"),
        )
    return profile


def _describe_unlisted(
    cloud: str, device: str, problem: AdvisorError, profiles: Mapping[str, DeviceProfile]
) -> DeviceProfile:
    """Return the known profile of a device of a cloud that does not answer;
    UsageError if there is none.
    """
    known = find_known((_IN_BRACKETS.sub("", device),), (), profiles)
    if known is None:
        by_hand = describe_by_hand(device, f"{cloud}: {device}")
        raise UsageError(
            f"{cloud}:{device} cannot be looked up: {problem.message}",
            problem.hint or f"try again when it answers; or {by_hand}",
        ) from problem
    _log.warning("%s:%s is predicted: %s", cloud, device, problem.message)
    return _add_connection(cloud, device, known)


def _describe_device(
    cloud: str, device: str, chips: Sequence[str], profiles: Mapping[str, DeviceProfile]
) -> DeviceProfile:
    known = find_known((_IN_BRACKETS.sub("", device),), chips, profiles)
    if known is not None:
        return _add_connection(cloud, device, known)
    soc = next(filter(None, map(find_soc, chips)), None)
    return _add_connection(cloud, device, _describe_by_chip(device, chips, soc))


def _describe_by_chip(device: str, chips: Sequence[str], soc: Soc | None) -> DeviceProfile:
    cores = soc.cores if soc else ()
    targets = cpu_targets(cores)
    title = title_with_maker(soc.maker, soc.name) if soc else next(iter(chips), device)
    return DeviceProfile(
        name=slug_of(device)[:LONGEST_NAME].strip("-"),
        title=device,
        kind="phone",
        soc=title,
        targets=targets,
        default_target=targets[-1].name,
        isa=instruction_set(cores) if cores else "",
        cores=cores,
        npu=soc.npu if soc else "",
    )


def _add_connection(cloud: str, device: str, profile: DeviceProfile) -> DeviceProfile:
    """Return a profile with the connection to its cloud,
    and with all units that can be tried there.
    """
    targets = {target.name: target for target in profile.targets}
    for target in (*cpu_targets(profile.cores), *ACCELERATORS):
        targets.setdefault(target.name, target)
    return replace(
        profile,
        title=device,
        targets=tuple(targets.values()),
        sources=(*profile.sources, f"a device of {cloud_named(cloud).title}"),
        connection=ConnectionSettings(cloud, device),
    )
