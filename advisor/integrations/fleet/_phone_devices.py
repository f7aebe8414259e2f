"""Find what is known of a phone: its profile, or the cores of its processor.

``_phones.py`` calls :func:`find_device` for each row of a fleet. A phone that nobody measured is
predicted from its cores, so the answer says which measured phone is nearest. ``_rules.py`` orders
phones by :func:`compute_speed`. What ``how_found`` says is written to ``recommendation.json``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

from advisor.core import Problems, UsageError, nearest, units
from advisor.devices import (
    Cluster,
    DeviceProfile,
    DeviceTarget,
    Profiles,
    Soc,
    clusters_of,
    find_phone,
    target_vector,
)
from advisor.engine import TargetDevice
from advisor.integrations.fleet.selector import plain

THREADS = 4
"""CPU threads with which an app runs a file, or as many as the phone has cores."""


@cache
def index_socs() -> Mapping[str, Soc]:
    """Return the shipped systems on chip by each of their names, see :func:`.selector.plain`."""
    socs = {}
    for soc in Soc.read_all():
        for name in (soc.name, *soc.names):
            socs[plain(name)] = soc
    return socs


def list_names(profiles: Profiles) -> Iterator[str]:
    """Yield the names by which a row of a fleet can be known."""
    yield from profiles
    for soc in index_socs().values():
        yield soc.name


def find_device(
    name: str, row: Mapping[str, str], profiles: Profiles, problems: Problems
) -> tuple[TargetDevice | None, str]:
    """Return what predictions are made for, and how it was found.

    Of an unknown phone, it is None and the reason. Errors of the row are added to ``problems``.
    """
    try:
        memory = None
        if row.get("memory"):
            memory = units.size_bytes(row["memory"], "memory")
        cores = clusters_of(row["cores"]) if row.get("cores") else ()
        profile, how_found, target = _find_profile(name, cores, profiles)
        if profile is None:
            return None, how_found
        # Precedence: column "runtime", target behind the colon of the name, CPU.
        if row.get("runtime"):
            target = profile.target(row["runtime"])
        elif target is None:
            target = cpu_target(profile)
    except UsageError as error:
        problems.add(UsageError(f"--fleet, '{name}': {error.message}", error.hint))
        return None, ""
    if target is None:
        return None, "its cores are not known"
    # A target that was made for this phone is its only one,
    # and predictions look it up in the profile.
    if target not in profile.targets:
        profile = replace(profile, targets=(target,), default_target=target.name)
    if memory:
        profile = replace(profile, memory_bytes=memory)
    return TargetDevice(name, profile, target), how_found


def _find_profile(
    name: str, cores: tuple[Cluster, ...], profiles: Profiles
) -> tuple[DeviceProfile | None, str, DeviceTarget | None]:
    """Return the profile of a phone, how it was found, and the target that its name asks for.

    The profile and the target are None where there is none.
    """
    # A name may end with a target, such as pixel-6:litert-gpu.
    device, _, target = name.rpartition(":")
    titles = {profile.title.casefold(): profile for profile in profiles.values()}
    profile = profiles.get(device or name) or titles.get(name.casefold())
    if profile is not None:
        asked_target = profile.target(target) if device else None
        return profile, "profile", asked_target
    # Phones come before SoCs: iPhone 13 is a phone,
    # and hw.machine of phones with an A14 begins with iPhone13.
    phone = None if cores else find_phone(device or name, profiles)
    if phone is not None:
        asked_target = phone.target(target) if device else None
        return phone, _describe_source(phone, profiles), asked_target
    soc = index_socs().get(plain(name))
    phones_by_soc = {}
    for phone_profile in profiles.values():
        if phone_profile.kind == "phone":
            phones_by_soc[plain(phone_profile.soc)] = phone_profile
    same_soc = phones_by_soc.get(plain(name))
    if cores or soc is not None:
        soc_cores = soc.cores if soc else ()
        soc_name = same_soc.soc if same_soc else name
        phone = DeviceProfile(
            plain(name), name, "phone", soc_name, (), "", isa="armv8.2-a", cores=cores or soc_cores
        )
        near, times = nearest_device(phone, profiles)
        if not near:
            return phone, "soc", None
        known_by = "cores" if cores else "soc"
        return phone, f"{known_by}, {times:.2f} times from {near}", None
    if same_soc is not None:
        return same_soc, "profile", None
    return None, f"unknown{nearest(name, list_names(profiles))}", None


def _describe_source(profile: DeviceProfile, profiles: Profiles) -> str:
    """Return how a phone is known: by its profile, or by its cores with the nearest CPU."""
    if not profile.predicted_from:
        return "profile"
    near, times = nearest_device(profile, profiles)
    if near:
        return f"phone, {times:.2f} times from {near}"
    return "phone"


def cpu_target(profile: DeviceProfile) -> DeviceTarget | None:
    """Return the target of LiteRT on a phone's CPU, as apps run it; None without known cores."""
    count = min(THREADS, sum(cluster.count for cluster in profile.cores))
    tflite_targets = [target for target in profile.targets if target.takes_tflite]
    cpu_targets = [target for target in tflite_targets if target.accelerator == "cpu"]
    if not profile.cores:
        return max(cpu_targets, key=lambda target: target.threads, default=None)
    for target in cpu_targets:
        if target.threads == count:
            return target
    name = f"litert-cpu-x{count}"
    return DeviceTarget(
        name, "tflite", "cpu", count, "", ("float32", "float16", "int8"), kernels="xnnpack"
    )


def nearest_device(phone: DeviceProfile, profiles: Profiles) -> tuple[str, float]:
    """Return the device whose CPU is nearest, and the ratio of their speeds (1 or more).

    The speed is that of :func:`compute_speed`. Empty and 1 if no other phone's cores are known.
    """
    phone_speed = compute_speed(phone)
    if not phone_speed:
        return "", 1.0
    log_ratios = dict[str, float]()
    for profile in profiles.values():
        if profile.kind != "phone" or not profile.cores:
            continue
        speed = compute_speed(profile)
        if speed:
            log_ratios[profile.name] = abs(math.log(speed / phone_speed))
    if not log_ratios:
        return "", 1.0
    name = min(log_ratios, key=log_ratios.__getitem__)
    return name, math.exp(log_ratios[name])


def compute_speed(profile: DeviceProfile) -> float:
    """Return 10^9 float32 multiply-accumulates a second of the cores that run, in theory.

    It is 0 if they are not known.
    """
    target = cpu_target(profile)
    vector = target_vector(profile, target, "float32") if target else None
    return math.exp(vector[0]) if vector else 0.0
