"""The public functions of ``advisor.devices``: list profiles, show, add and remove one, add a
phone, calibrate a device.

Commands and users call them, and ``advisor`` documents them. Each function imports what it needs
when it is called, so that ``import advisor`` and the help of commands stay fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from advisor._python import speak_python
from advisor.core import AddPhoneKeywords, CalibrateKeywords, parse_count, takes_options

if TYPE_CHECKING:
    import pandas as pd

    from advisor.devices._calibration.calibrating import Calibrated
    from advisor.devices._connections.protocol import Connection
    from advisor.devices._phone import AddedPhone
    from advisor.devices._profiles import DeviceProfile, Profiles
    from advisor.devices._profiles.storing import NewDevice

Folders = Sequence[str | Path]


@speak_python
def list_devices(
    *, profiles: Folders = (), phones: bool = False, cloud: str = ""
) -> tuple[DeviceProfile, ...]:
    """Return the known device profiles: this machine, then all others by name.

    Args:
        profiles: further folders of your own device profiles.
        phones: return the phones that are known by their names instead, in the order of their
            makers. The profile of a phone that nobody measured is predicted from the cores of its
            system on chip.
        cloud: return the devices of this device cloud instead, such as ``aihub``, by the names
            that ``--device`` takes.

    Raises:
        UsageError: a profile that is refused, an unknown cloud, or one whose client or token is
            missing.
        StageError: the cloud does not answer.
    """
    from advisor.devices._profiles import HOST
    from advisor.devices._profiles.storing import load_known_devices

    if cloud:
        from advisor.devices._profiles.clouds import list_in_cloud

        return list_in_cloud(cloud, load_known_devices(profiles))

    if phones:
        from advisor.devices._profiles.phones import list_phones

        return list_phones(load_known_devices(profiles))

    def place(profile: DeviceProfile) -> tuple[bool, bool, str]:
        """This machine comes first, then its other runtimes, which have no file."""
        return profile.name != HOST, profile.origin is not None, profile.name

    return tuple(sorted(load_known_devices(profiles).values(), key=place))


@speak_python
def to_frame(*, profiles: Folders = ()) -> pd.DataFrame:
    """Return the targets of :func:`list_devices` as a table for pandas.

    Units are in the names of its columns.

    Args:
        profiles: further folders of your own device profiles.

    Raises:
        UsageError: a profile that is refused.
    """
    from advisor.devices._profiles.listing import COLUMNS, target_rows
    from advisor.store import build_frame

    rows = []
    for profile in list_devices(profiles=profiles):
        rows += target_rows(profile)
    return build_frame(COLUMNS, rows)


@speak_python
def show(name: str, *, profiles: Folders = ()) -> DeviceProfile:
    """Return one device profile: processor, limits, targets and known measurements.

    Args:
        name: name of the device, or of a phone, a board or a system on chip as people write it:
            ``Pixel 8``.
        profiles: further folders of your own device profiles.

    Raises:
        UsageError: no device has this name (the message names the most similar one), several
            phones have it, or a profile is refused.
    """
    from advisor.devices._profiles.storing import load_known_devices

    return load_known_devices(profiles).profile(name)


@speak_python
def add(file: str | Path, *, into: str | Path | None = None, force: bool = False) -> NewDevice:
    """Check a device profile and copy it with its measurements to your own profiles.

    Args:
        file: the profile (YAML). Its measurements lie beside it in a CSV file of the same name.
        into: folder that takes the profile. Default: your own folder, which every command reads.
        force: replace your profile of the same name.

    Raises:
        UsageError: the profile is refused (the message gives file and line), or the name is taken.
    """
    from advisor.devices._profiles.storing import add_profile

    return add_profile(file, into, replace=force)


@speak_python
@takes_options(AddPhoneKeywords, stated=True)
def add_phone(
    *, tell: Callable[[str], None] | None = None, **options: Unpack[AddPhoneKeywords]
) -> AddedPhone:
    """Add a phone that is attached by USB:
    read what it is, and time a first network on its CPU, GPU and NPU.

    ::

        import advisor
        added = advisor.devices.add_phone()
        for timing in added.timings:
            print(timing.target, timing.form, timing.latency_ms, timing.delegated, timing.failure)

    The profile has the connection, so a search with this device measures its candidates on the
    phone. An accelerator that runs no operator of the network is left out of the profile.

    Args:
        tell: called with a line about each step.

    Raises:
        UsageError: no phone, several, or one that cannot be used; an unknown processor; no
            benchmark_model; or the name is that of another phone's profile.
        StageError: adb or the phone failed.
    """
    from advisor.devices._phone import add_phone as add_attached
    from advisor.store import FetchOptions

    own_tool, folder = options["benchmark_model"], options["into"]
    return add_attached(
        options["adb"],
        Path(own_tool) if own_tool else None,
        FetchOptions(offline=options["offline"], mirror=options["mirror"] or None),
        name=options["name"],
        into=Path(folder) if folder else None,
        replace_profile=options["force"],
        tell=tell or (lambda _text: None),
    )


@speak_python
def remove(name: str, *, folder: str | Path | None = None) -> tuple[Path, ...]:
    """Remove one of your own device profiles with its measurements; return the removed files.

    Args:
        name: name of the device.
        folder: folder that holds the profile. Default: your own folder.

    Raises:
        UsageError: the folder has no such device, or the profile is a shipped one.
    """
    from advisor.devices._profiles.storing import remove_profile

    return remove_profile(name, folder)


@speak_python
@takes_options(CalibrateKeywords, stated=True)
def calibrate(
    device: str, *, tell: Callable[[str], None] | None = None, **options: Unpack[CalibrateKeywords]
) -> Calibrated:
    """Measure the most informative models on a device and add the measurements to its profile.

    Every model is measured in float32 and in int8, if the target runs both.
    A shipped profile is first copied to your own profiles.

    ::

        import advisor
        result = advisor.devices.calibrate("our-board", ssh="pi@board.local", kernels=True)
        for report in result.reports:
            print(report.form, report.median_before, report.median_after)

    Args:
        device: name of a device, or ``name:target``.
        tell: called with a line about each step.

    Raises:
        UsageError: an unknown device, a target that cannot be calibrated, an invalid connection,
            or another phone.
        StageError: the device could not be measured, or it slowed down. Only kernels that were
            timed are kept.
    """
    from advisor.core import units
    from advisor.devices._calibration import calibrating
    from advisor.devices._prediction import Predictor
    from advisor.devices._profiles.storing import load_known_devices

    budget_ms = None
    if options["budget"]:
        budget_ms = units.parse_milliseconds(options["budget"], "--budget")
    wanted = parse_count("models", options["models"])
    profiles = load_known_devices(options["profiles"])
    profile, target = profiles.select(device)
    calibrating.check_target(profile, target)
    connection = _connect_device(profiles, profile, options)
    candidates = _select_candidates(options["candidates"])
    return calibrating.calibrate(
        profile,
        target,
        connection,
        Predictor.load(),
        wanted,
        tell or (lambda _text: None),
        candidates,
        kernels=options["kernels"],
        budget_ms=budget_ms,
    )


def _connect_device(
    profiles: Profiles, profile: DeviceProfile, options: CalibrateKeywords
) -> Connection:
    """Return the connection of the options, or of the profile; refuse another phone."""
    from advisor.devices._connections.settings import ConnectionSettings

    stated = ConnectionSettings.from_options(
        options["ssh"],
        options["adb"],
        options["here"],
        options["python"],
        options["benchmark_model"],
        options["cores"],
    )
    # Figures of another phone would be among the measurements of this one from now on.
    if stated is not None and stated.way == "adb":
        profiles.refuse_other_phone(profile, stated)
    settings = stated or profile.connection or ConnectionSettings()
    settings = settings.allow_upload(options)
    settings.require_leave()
    return settings.connect()


def _select_candidates(patterns: Sequence[str]) -> list[str]:
    """Return the names of the cards to choose from: those of the patterns, or all."""
    from advisor.catalog import Catalogue
    from advisor.core import require_training

    cards = Catalogue.load().select(patterns or ("*",))
    if any(card.needs_converter for card in cards):
        require_training("a calibration by models without a graph file")
    return [card.name for card in cards]


__all__ = ["add", "add_phone", "calibrate", "list_devices", "remove", "show", "to_frame"]
