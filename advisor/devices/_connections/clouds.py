"""Device clouds: phones of others, which run the files that people send.

An integration implements :class:`DeviceCloud`, and an entry point names it. A cloud is asked for
its devices when the first of them is named, and only once in a process. A search goes on with the
prediction of a device whose cloud does not answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING, Protocol

from advisor.core import (
    AdvisorError,
    StageError,
    UsageError,
    load_integration,
    nearest,
    show_seconds,
    visible,
)
from advisor.devices._connections.protocol import Connection, MeasurementJob, Presence, Timing, Way

if TYPE_CHECKING:
    from advisor.devices._connections.settings import ConnectionSettings

CLOUDS = "advisor.device_clouds"
"""Entry points of :class:`DeviceCloud`, by the name that stands before a device:
``aihub:Samsung Galaxy S24``.
"""

CLOUD_NAMES = ("aihub", "devicefarm")
"""The names of those entry points. They are listed here because the schema of profiles names them,
and a build makes it before the package with its entry points is installed.
"""

ASK_S = 60.0
"""Seconds that a cloud may take to list its devices."""

LONGEST_NAME = 120
SHOWN = 5  # Devices that an error lists


class DeviceCloud(Protocol):
    """A cloud with devices; its package need not be installed before it is asked for something."""

    @property
    def title(self) -> str:
        """The name of the cloud for people, such as ``Qualcomm AI Hub``."""

    def list_devices(self) -> Mapping[str, tuple[str, ...]]:
        """Return the names of the chip of each device, by the name of the device.

        Raises:
            UsageError: a package or a token is missing, or the token is refused.
            StageError: the cloud does not answer.
        """

    def connect(self, settings: ConnectionSettings, accelerator: str) -> Connection:
        """Return what sends files to a device, the ``address`` of the settings.

        It refuses a job (UsageError) as long as the settings do not allow to send files. It need
        not measure the files of one job in turn, and several jobs may run at once.
        """


def split_selector(selector: str) -> tuple[str, str, str]:
    """Return cloud, device and target of ``aihub:Samsung Galaxy S24:tflite-npu``.

    The target is empty if it is not named, and all three are for what is in no cloud.
    """
    cloud, colon, rest = selector.partition(":")
    if not colon or cloud not in CLOUD_NAMES:
        return "", "", ""
    device, _, target = rest.partition(":")
    return cloud, device.strip(), target.strip()


def cloud_named(name: str) -> DeviceCloud:
    """Return a cloud; the UsageError for an unknown one names the nearest."""
    if name not in CLOUD_NAMES:
        raise UsageError(
            f"unknown device cloud '{visible(name)}'{nearest(name, CLOUD_NAMES)}",
            f"clouds: {', '.join(CLOUD_NAMES)}",
        )
    cloud: DeviceCloud = load_integration(CLOUDS, name)
    return cloud


@cache
def ask_devices(cloud: str) -> Mapping[str, tuple[str, ...]] | AdvisorError:
    """Return the devices of a cloud as :meth:`DeviceCloud.list_devices` does,
    or why they are not known.

    A process asks a cloud once. A client tries again for minutes if a cloud says nothing, so it is
    left after :data:`ASK_S`: whoever waits has the prediction in its place.
    """
    answers = list[Mapping[str, tuple[str, ...]] | AdvisorError]()
    faults = list[Exception]()

    def ask() -> None:
        try:
            answers.append(cloud_named(cloud).list_devices())
        except AdvisorError as error:
            answers.append(error)
        except Exception as error:  # the caller raises it again
            faults.append(error)

    asking = Thread(target=ask, name=f"ask-{cloud}", daemon=True)
    asking.start()
    asking.join(ASK_S)
    if faults:
        raise faults[0]
    if not answers:
        return StageError(
            f"{cloud_named(cloud).title} did not answer within {show_seconds(ASK_S)}"
        )
    return answers[0]


def require_device(cloud: str, device: str, devices: Mapping[str, tuple[str, ...]]) -> str:
    """Return the name of a device as its cloud writes it;
    the UsageError for an unknown one names the nearest.
    """
    names = {name.casefold(): name for name in devices}
    known = names.get(device.casefold())
    if known is not None:
        return known
    shown = ", ".join(sorted(devices)[:SHOWN])
    raise UsageError(
        f"{cloud_named(cloud).title} has no device '{visible(device)}'{nearest(device, devices)}",
        f"advisor devices list --cloud {cloud} shows all {len(devices)}: {shown}, ...",
    )


def check_device_name(name: str) -> None:
    """Refuse a text that is no name of a device:
    too long, or with characters that are not printed.
    """
    if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise UsageError(
            f"{name!r:.80} is not the name of a device", "write it as the cloud's list has it"
        )


@dataclass(frozen=True)
class _Unreachable:
    """The connection to a device of a cloud that did not list its devices."""

    label: str
    problem: AdvisorError

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """Raise what the cloud's client said."""
        del job
        raise self.problem


def way_to(cloud: str) -> Way:
    """Return the way to the devices of a cloud, which is imported when a device is connected."""

    def connect(settings: ConnectionSettings, accelerator: str) -> Connection:
        devices = ask_devices(cloud)
        if isinstance(devices, AdvisorError):
            return _Unreachable(f"{cloud} {settings.address}", devices)
        device = require_device(cloud, settings.address, devices)
        return cloud_named(cloud).connect(replace(settings, address=device), accelerator)

    def ask(settings: ConnectionSettings) -> Presence:
        devices = ask_devices(cloud)
        if isinstance(devices, AdvisorError):
            raise devices
        # A cloud does not tell which release of the runtime its devices have.
        return Presence(
            replace(settings, address=require_device(cloud, settings.address, devices))
        )

    return Way(f"name of a device of the cloud {cloud}", check_device_name, connect, ask)
