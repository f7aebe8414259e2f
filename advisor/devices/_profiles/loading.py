"""Load all device profiles, and select a device and a target by name.

Commands and searches get :class:`Profiles` from ``storing.load_known_devices`` and ask it for what
the user named: a profile, a phone or board as people call it, a chip, or a device of a cloud.
"""

import csv
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from advisor.core import AdvisorError, Problems, UsageError, nearest, visible
from advisor.devices._connections.settings import ConnectionSettings
from advisor.devices._profiles import phones
from advisor.devices._profiles.plausibility import (
    find_contradictions,
    warn_of_doubts,
)
from advisor.devices._profiles.reading import (
    find_shipped_profiles,
    load_shipped,
    read_folder,
    read_profile,
)
from advisor.devices._profiles.runtimes import (
    LITERT,
    canonical,
    profiles_here,
    require_runtime,
)
from advisor.devices._profiles.values import (
    HOST,
    DeviceProfile,
    DeviceTarget,
)


class Profiles(dict[str, DeviceProfile]):
    """Device profiles by name, which a ``device:target`` text can select."""

    def __init__(self, profiles: Iterable[DeviceProfile]) -> None:
        super().__init__((profile.name, profile) for profile in profiles)

    def profile(self, name: str) -> DeviceProfile:
        """Return the profile called ``name``, or of the phone, board,
        SoC or device of a cloud that people call so.

        UsageError: an unknown name (the message names the nearest),
        or one that several phones have.
        """
        known = canonical(name)
        # An exact name of a profile comes before what people call a phone.
        if known in self:
            return self[known]
        if ConnectionSettings.names_cloud(name):
            return self._select_in_cloud(name)[0]
        profile = phones.find_device(name, self) or phones.find_soc_profile(name)
        if profile is None:
            raise self._unknown(name)
        return profile

    def select(self, selector: str) -> tuple[DeviceProfile, DeviceTarget]:
        """Return the device and target of ``galaxy-s24`` (its default target),
        ``galaxy-s24:qnn-npu`` or ``galaxy-s24:npu``.
        """
        name = canonical(selector)
        if name in self:
            return self[name], self[name].target()
        if ConnectionSettings.names_cloud(name):
            return self._select_in_cloud(name)
        device, _, target = name.rpartition(":")
        if not device:
            profile = self.profile(name)
            return profile, profile.target()
        profile = self.profile(device)
        if device == HOST and not profile.has_target(target):
            raise self._unknown(name)
        if not profile.has_target(target):
            # Of some phones only the NPU or the CPU was measured,
            # and their other processors are known.
            predicted = phones.describe_unmeasured(profile)
            profile = predicted if predicted and predicted.has_target(target) else profile
        return profile, profile.target(target)

    def describe_attached(self, connection: ConnectionSettings) -> DeviceProfile:
        """Return the profile of a phone that is attached over adb, by what it says of itself.

        UsageError: the phone cannot be used, or its processor is not known. StageError:
        it does not answer.
        """
        from advisor.devices._connections.attached import read_phone
        from advisor.devices._profiles.attached import describe_phone

        phone = read_phone(connection.address)
        return describe_phone(phone, self, replace(connection, address=phone.serial))

    def refuse_other_phone(self, profile: DeviceProfile, connection: ConnectionSettings) -> None:
        """Raise a UsageError if the attached phone and the profile are of two phones,
        as far as both are known.
        """
        from advisor.devices._connections.attached import SeveralAttached, read_phone
        from advisor.devices._profiles.attached import find_known

        try:
            phone = read_phone(connection.address)
        except SeveralAttached:
            raise
        except AdvisorError:
            return  # a phone that is away is no other phone
        attached = find_known((phone.model, phone.device), phone.soc, self)
        meant = find_known((profile.title, profile.name), (profile.soc,), self)
        # A profile of one's own may describe a phone that no table knows.
        if attached is None or meant is None or attached.title == meant.title:
            return
        raise UsageError(
            f"the attached phone {phone.serial} is a {attached.title}, and {profile.name} is the"
            f" {meant.title}",
            f"name this one: --device {attached.name}, or attach the other",
        )

    def require_installed(self, selector: str) -> tuple[DeviceProfile, DeviceTarget]:
        """Return a device and a target, by default one for ``.tflite`` files;
        refuse a runtime that is missing.
        """
        profile, target = prefer_tflite(selector, *self.select(selector))
        require_runtime(profile)
        return profile, target

    def _select_in_cloud(self, selector: str) -> tuple[DeviceProfile, DeviceTarget]:
        from advisor.devices._profiles.clouds import select_in_cloud

        return select_in_cloud(selector, self)

    def _unknown(self, name: str) -> UsageError:
        near = phones.nearest_names(name, self)
        listed = f"nearest: {', '.join(near)}; " if near else ""
        return UsageError(
            "unknown device"
            f" '{visible(name)}'{nearest(name, (LITERT, *phones.device_names(), *self))}",
            f"{listed}advisor devices list [--phones] shows them all; {phones.two_lines(name)}",
        )


def prefer_tflite(
    selector: str, profile: DeviceProfile, target: DeviceTarget
) -> tuple[DeviceProfile, DeviceTarget]:
    """Return a target that runs ``.tflite`` files if the selector names no target
    and the device has one.
    """
    # Files of a search are `.tflite`, and some phones have a default target that runs another
    # format. The first colon ends the cloud's name.
    named = selector.count(":") > ConnectionSettings.names_cloud(selector)
    if named or target.takes_tflite:
        return profile, target
    tflite = [other for other in profile.targets if other.takes_tflite]
    return profile, max(tflite, key=lambda other: other.threads, default=target)


def load_profiles(folders: Iterable[Path] = ()) -> Profiles:
    """Load the profile of this machine, the shipped profiles and those in ``folders``.

    A profile in a folder replaces a shipped one of the same name.
    Two folders must not contain the same name.
    """
    profiles = {**profiles_here(), **load_shipped()}
    own_profiles: dict[str, DeviceProfile] = {}
    for folder in folders:
        for name, profile in read_folder(folder, read_checked_profile).items():
            if name in own_profiles:
                raise UsageError(
                    f"the device '{name}' is in both {own_profiles[name].origin} and"
                    f" {profile.origin}",
                    "keep one of the two",
                )
            profiles.pop(name, None)
            own_profiles[name] = profile
    return Profiles([*profiles.values(), *own_profiles.values()])


def read_checked_profile(path: Path) -> DeviceProfile:
    """Read one profile (:func:`read_profile`), and compare it with the shipped ones.

    Known models are those of the shipped features and measurements, and those of the catalogue,
    also of your own. A row must not name another one, the latencies of a target not be in another
    unit, the cores not contradict the SoC. The error has one line for each.
    """
    from advisor.catalog import Catalogue

    macs: dict[str, float | None] = {}
    for profile in load_shipped().values():
        for row in profile.measurements:
            macs[row.model] = None
    macs |= {card.name: float(card.macs) for card in Catalogue.load().values()}
    with (find_shipped_profiles() / "model_features.csv").open(
        newline="", encoding="utf-8"
    ) as file:
        macs |= {row["name"]: float(row["macs"]) for row in csv.DictReader(file)}
    profile = read_profile(path, macs)
    problems = Problems()
    for error in find_contradictions(profile, macs):
        problems.add(error)
    problems.raise_any()
    warn_of_doubts(profile)
    return profile
