"""Describe devices, predict latency and memory on them, and connect to real ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, Unpack, get_args, get_type_hints

from advisor._python import speak_python
from advisor.core import DEVICES, QUESTION, RUNNING, DeviceBenchmarkKeywords, Option, Place, bounded, takes_options

if TYPE_CHECKING:
    import pandas as pd

    from advisor.devices._calibration import Calibrated
    from advisor.devices._profiles import DeviceProfile
    from advisor.devices._profiles.listing import NewDevice


# The public functions of ``advisor.devices``: list profiles, show, add and remove one, calibrate a device.
#
# ::
#
#     import advisor
#     for profile in advisor.devices.list_devices():
#         print(profile.name, profile.kind, profile.soc)

Folders = Sequence[str | Path]

_SHARED: Mapping[str, Option] = {
    name: get_args(hint)[1] for name, hint in get_type_hints(DeviceBenchmarkKeywords, include_extras=True).items()
}


@speak_python
def list_devices(*, profiles: Folders = (), phones: bool = False) -> tuple[DeviceProfile, ...]:
    """Return the known device profiles: this machine, then all others by name.

    Args:
        profiles: further folders of your own device profiles.
        phones: return the phones that are known by their names instead, in the order of their makers. The profile of
            a phone that nobody measured is predicted from the cores of its system on chip.

    Raises:
        UsageError: a profile that is refused.
    """
    from advisor.devices._profiles import HOST
    from advisor.devices._profiles.listing import load_known_devices

    if phones:
        from advisor.devices._profiles.phones import list_phones

        return list_phones(load_known_devices(profiles))
    profiles_found = load_known_devices(profiles).values()
    return tuple(
        sorted(profiles_found, key=lambda profile: (profile.name != HOST, profile.origin is not None, profile.name))
    )


@speak_python
def to_frame(*, profiles: Folders = ()) -> pd.DataFrame:
    """Return the targets of :func:`list_devices` as a table for pandas; units are in the names of its columns.

    Args:
        profiles: further folders of your own device profiles.

    Raises:
        UsageError: a profile that is refused.
    """
    from advisor.devices._profiles.listing import COLUMNS, target_rows
    from advisor.store import build_frame

    return build_frame(COLUMNS, (row for profile in list_devices(profiles=profiles) for row in target_rows(profile)))


@speak_python
def show(name: str, *, profiles: Folders = ()) -> DeviceProfile:
    """Return one device profile: processor, limits, targets and known measurements.

    Args:
        name: name of the device, or of a phone, a board or a system on chip as people write it: ``Pixel 8``.
        profiles: further folders of your own device profiles.

    Raises:
        UsageError: no device has this name (the message names the most similar one), several phones have it, or a
            profile is refused.
    """
    from advisor.devices._profiles.listing import load_known_devices

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
    from advisor.devices._profiles.listing import add_profile

    return add_profile(file, into, replace=force)


@speak_python
def remove(name: str, *, folder: str | Path | None = None) -> tuple[Path, ...]:
    """Remove one of your own device profiles with its measurements; return the removed files.

    Args:
        name: name of the device.
        folder: folder that holds the profile. Default: your own folder.

    Raises:
        UsageError: the folder has no such device, or the profile is a shipped one.
    """
    from advisor.devices._profiles.listing import remove_profile

    return remove_profile(name, folder)


class CalibrateKeywords(TypedDict, total=False):
    """The options of :func:`calibrate`."""

    ssh: Annotated[str, _SHARED["ssh"]]
    adb: Annotated[str, _SHARED["adb"]]
    here: Annotated[bool, Option(DEVICES, "", "The device is this machine.", False)]
    python: Annotated[str, _SHARED["python"]]
    benchmark_model: Annotated[Place, _SHARED["benchmark_model"]]
    cores: Annotated[str, _SHARED["cores"]]
    models: Annotated[int, Option(RUNNING, "N", "Number of models to measure.", 5)]
    candidates: Annotated[
        Sequence[str], Option(RUNNING, "NAMES", "Names, families or globs of the networks to choose from.", (), "all")
    ]
    kernels: Annotated[
        bool, Option(RUNNING, "", "First time the operators of the candidates; their sum predicts a network.", False)
    ]
    budget: Annotated[str, Option(QUESTION, "TIME", "Latency budget to choose the models for, such as 50ms.", "")]
    profiles: Annotated[Folders, _SHARED["profiles"]]


@speak_python
@takes_options(CalibrateKeywords, stated=True)
def calibrate(
    device: str, *, tell: Callable[[str], None] | None = None, **options: Unpack[CalibrateKeywords]
) -> Calibrated:
    """Measure the most informative models on a device and add the measurements to its profile.

    Every model is measured in float32 and in int8, if the target runs both. A shipped profile is first copied to your
    own profiles.

    ::

        import advisor
        found = advisor.devices.calibrate("our-board", ssh="pi@board.local", kernels=True)
        for report in found.reports:
            print(report.form, report.median_before, report.median_after)

    Args:
        device: name of a device, or ``name:target``.
        tell: called with a line about each step.

    Raises:
        UsageError: an unknown device, a target that cannot be calibrated, or an invalid connection.
        StageError: the device could not be measured, or it slowed down. Only kernels that were timed are kept.
    """
    from advisor.catalog import load_catalogue
    from advisor.core import require_training, units
    from advisor.devices import _calibration as calibration
    from advisor.devices._connections.settings import ConnectionSettings
    from advisor.devices._prediction import device_predictor
    from advisor.devices._profiles.listing import load_known_devices

    budget_ms = units.milliseconds(options["budget"], "--budget") if options["budget"] else None
    wanted = bounded("models", options["models"])
    profile, target = load_known_devices(options["profiles"]).select(device)
    calibration.check_target(profile, target)
    stated = ConnectionSettings.from_options(
        options["ssh"], options["adb"], options["here"], options["python"], options["benchmark_model"], options["cores"]
    )
    connection = (stated or profile.connection or ConnectionSettings()).connect()
    cards = load_catalogue().select(options["candidates"] or ("*",))
    if any(card.needs_converter for card in cards):
        require_training("a calibration by models without a graph file")
    names = [card.name for card in cards]
    say, kernels = tell or (lambda _text: None), options["kernels"]
    return calibration.calibrate(
        profile, target, connection, device_predictor(), wanted, say, names, kernels=kernels, budget_ms=budget_ms
    )


__all__ = ["add", "calibrate", "list_devices", "remove", "show", "to_frame"]
