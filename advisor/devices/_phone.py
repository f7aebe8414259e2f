"""Add an attached phone: read what it is, get the tool that times models there,
and time one network on each unit.

``advisor devices add --usb`` prints :class:`AddedPhone`, whose keys are a JSON document. Units
that run nothing of the network are left out of the profile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from advisor.catalog import Catalogue
from advisor.core import StageError, UsageError, show_bytes
from advisor.devices._calibration.networks import convert_card, with_timings
from advisor.devices._connections.adb import connect_phone
from advisor.devices._connections.attached import AttachedPhone, read_phone
from advisor.devices._connections.protocol import MeasurementJob, Timing, lock_device
from advisor.devices._connections.settings import ConnectionSettings
from advisor.devices._connections.tool import check_tool, fetch_tool
from advisor.devices._kernels import Tell
from advisor.devices._profiles import DeviceProfile, DeviceTarget
from advisor.devices._profiles.attached import describe_phone
from advisor.devices._profiles.storing import (
    NewDevice,
    load_known_devices,
    own_folder,
    store_profile,
)
from advisor.isolation import ChildPool, Scratch
from advisor.store import FetchOptions

NETWORK = "mobilenet_v2_1.0_224"
"""The network that is timed first: every unit that runs networks at all runs all of its operators,
it is among the measured networks that predictions know, and it has 14 MB.
"""

FORMS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("float32", "int8"),
    "gpu": ("float32",),
    "npu": ("int8",),
}
"""The forms that are timed on each unit: those that it computes without converting them."""

_LIMIT_S = 120.0


@dataclass(frozen=True)
class UnitTiming:
    """The network on one unit of a phone in one form; without a latency, ``failure`` says why."""

    target: str  #: name of the target, such as ``tflite-gpu``
    form: str  #: ``float32`` or ``int8``
    latency_ms: float | None = None  #: median of the runs
    start_ms: float | None = None  #: time to load the network and to prepare the unit
    #: operators that the unit's delegate took, and all; None if the tool does not tell
    delegated: tuple[int, int] | None = None
    placement: str = ""  #: how many operators an accelerator ran, in words; empty for the CPU
    failure: str = ""  #: why there is no latency


@dataclass(frozen=True)
class AddedPhone:
    """A phone that was added, and what was measured on it."""

    device: NewDevice  #: its profile, and where it was stored
    phone: AttachedPhone  #: what it says of itself
    tool: str  #: the tool that measured: its file, source, size and hash in words
    timings: tuple[UnitTiming, ...]  #: the first network on each unit

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "device": self.device.profile.name,
            "path": str(self.device.path),
            "replaced": self.device.replaced,
            "phone": asdict(self.phone),
            "tool": self.tool,
            "network": NETWORK,
            "timings": list(map(asdict, self.timings)),
        }


def add_phone(
    serial: str,
    benchmark_model: Path | None,
    fetch: FetchOptions,
    *,
    name: str,
    into: Path | None,
    replace_profile: bool,
    tell: Tell,
) -> AddedPhone:
    """Add an attached phone; see :func:`advisor.devices.add_phone`."""
    tell("asking the phone what it is")
    phone = read_phone(serial)
    folder = into or own_folder()
    connection = ConnectionSettings("adb", phone.serial, benchmark_model=benchmark_model)
    profile = describe_phone(phone, load_known_devices(), connection, name)
    _refuse_other(profile, folder, replace_profile)
    tool = _describe_tool(phone, benchmark_model, fetch, tell)
    measured, timings = _time_units(profile, tell)
    device = store_profile(measured, folder)
    return AddedPhone(device, phone, tool, timings)


def _refuse_other(profile: DeviceProfile, folder: Path, replace_profile: bool) -> None:
    """Refuse to replace the profile of another phone that has this name;
    that of the same phone may be replaced.
    """
    path = folder / f"{profile.name}.yaml"
    if replace_profile or not path.is_file():
        return
    stored = load_known_devices([folder])[profile.name].connection
    connection = profile.connection
    if stored is not None and connection is not None and stored.address == connection.address:
        return
    raise UsageError(
        f"the device '{profile.name}' already exists in {path}, and it is not this phone",
        "give this one another name with --name, or replace the profile with --force",
    )


def _describe_tool(
    phone: AttachedPhone, own_tool: Path | None, fetch: FetchOptions, tell: Tell
) -> str:
    """Return the tool for the phone in words, fetched where the user names none."""
    if own_tool is not None:
        check_tool(own_tool, phone.abi)
        return f"{own_tool}"
    tell("looking for TensorFlow Lite's benchmark_model")
    program = fetch_tool(phone.abi, replace(fetch, progress=partial(_tell_progress, tell)))
    day = f", fetched on {program.fetched}" if program.fetched else ""
    return f"{program.source}{day}: {show_bytes(program.size_bytes)}, SHA-256 {program.sha256}"


def _tell_progress(tell: Tell, name: str, done: int, total: int | None) -> None:
    tell(f"fetching {name}: {show_bytes(done)}" + (f" of {show_bytes(total)}" if total else ""))


def _time_units(
    profile: DeviceProfile, tell: Tell
) -> tuple[DeviceProfile, tuple[UnitTiming, ...]]:
    """Time the network on each unit;
    return the profile with the latencies, without the accelerators that failed.
    """
    connection = profile.connection
    assert connection is not None, "the caller made the connection"
    card = Catalogue.load()[NETWORK]
    rows: list[UnitTiming] = []
    targets = list(profile.targets)
    with Scratch() as work, lock_device(f"adb {connection.address}"):
        with ChildPool(work / "log") as pool:
            files = convert_card(pool, card, ("float32", "int8"), work, tell)
        for target in _list_units(profile):
            timed: dict[tuple[str, str], Timing] = {}
            for form in FORMS[target.accelerator]:
                tell(f"timing {NETWORK} {form} on {target.name}")
                try:
                    timing = _time_file(connection, target, files[NETWORK, form])
                except StageError as error:
                    rows.append(UnitTiming(target.name, form, failure=error.message))
                    continue
                timed[NETWORK, form] = timing
                delegated = timing.details["delegated"]
                row = UnitTiming(
                    target.name,
                    form,
                    timing.median_ms,
                    timing.load_ms,
                    delegated,
                    timing.placement,
                )
                rows.append(row)
            if timed:
                profile = with_timings(profile, target, timed)
            elif target.accelerator != "cpu":
                targets.remove(target)
    if all(row.failure for row in rows):
        raise StageError(
            f"adb {connection.address}: {rows[0].failure}",
            "keep the phone awake and cool, and try again",
        )
    return replace(profile, targets=tuple(targets)), tuple(rows)


def _list_units(profile: DeviceProfile) -> Sequence[DeviceTarget]:
    """Return the target of each unit that the tool is asked for:
    the CPU with the usual threads, then accelerators.
    """
    accelerators = [
        target for target in profile.targets if target.name in ("tflite-gpu", "tflite-npu")
    ]
    return [profile.target(), *accelerators]


def _time_file(connection: ConnectionSettings, target: DeviceTarget, file: Path) -> Timing:
    job = MeasurementJob((file,), (target.threads,), "quick", _LIMIT_S, target.runtime)
    (timing,) = connect_phone(connection, target.accelerator).measure(job)
    return timing
