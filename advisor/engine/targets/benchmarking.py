"""Where ``advisor benchmark`` measures: this machine's CPU, its GPU, or a device of the profiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError, nearest
from advisor.devices.profiles import HOST, DeviceProfile, DeviceTarget

if TYPE_CHECKING:
    from advisor.devices.connections.settings import ConnectionSettings
    from advisor.measurement.on_device.findings import DeviceBenchmark

KINDS = ("cpu", "gpu", "npu", "tpu")


def is_elsewhere(device: str = "", accelerator: str = "", reach: ConnectionSettings | None = None) -> bool:
    """Tell whether something else than this machine's CPU is meant.

    Raises:
        UsageError: an accelerator that is none, or that this machine is not asked for.
    """
    if accelerator and accelerator not in KINDS:
        raise UsageError(
            f"unknown accelerator '{accelerator}'{nearest(accelerator, KINDS)}",
            f"to measure on: {', '.join(KINDS)}; advisor profile FILE --accelerator NAME computes what others take",
        )
    if reach is not None and device in ("", HOST):
        raise UsageError("--ssh and --adb reach a device: name its profile", "write --device NAME")
    if device not in ("", HOST):
        return True
    if accelerator in ("npu", "tpu"):
        raise UsageError(
            f"no {accelerator} of this machine can be measured",
            "--device predicts for devices with one; advisor profile FILE --accelerator NAME says what it would take",
        )
    return accelerator == "gpu"


def elsewhere(
    models: Sequence[str | Path],
    device: str = "",
    accelerator: str = "",
    reach: ConnectionSettings | None = None,
    profiles: Sequence[str | Path] = (),
    threads: Sequence[int] = (),
    effort: str = "quick",
    tell: Callable[[str], None] = lambda _text: None,
) -> DeviceBenchmark:
    """Measure files on this machine's GPU, or on a device over its connection; predict where there is none.

    Args:
        models: one or more files.
        device: name of a profile or ``name:target``; empty for this machine.
        accelerator: kind of the target that is meant, where ``device`` names none.
        reach: how the device is reached, where not as its profile says.
        profiles: further folders of device profiles.
        threads: thread counts, the target's own where there is none.
        effort: name of the effort.
        tell: is told what is being done.

    Raises:
        UsageError: an option is not valid, or not one file can be measured.
    """
    from advisor.measurement.latency.timing import effort_named

    effort_named(effort)
    if device in ("", HOST):
        from advisor.measurement.on_device.gpu import benchmark_on_gpu

        return benchmark_on_gpu(models, effort, tell)
    from advisor.devices.connections import agent
    from advisor.devices.prediction.cached import device_predictor
    from advisor.devices.profiles.team import known_devices
    from advisor.measurement.on_device.benchmark import benchmark_on_device

    profile, target = known_devices([Path(folder) for folder in profiles]).select(device)
    target = _of_kind(profile, target, accelerator, ":" in device)
    way = reach or profile.connection
    connection = way.connect(Path(agent.__file__), target.accelerator) if way else None
    return benchmark_on_device(models, profile, target, connection, device_predictor, threads, effort, tell)


def _of_kind(profile: DeviceProfile, target: DeviceTarget, kind: str, named: bool) -> DeviceTarget:
    """Return the target of the kind that is asked for: the one named, else the first of that kind.

    Raises:
        UsageError: there is none.
    """
    if not kind or target.accelerator == kind:
        return target
    fitting = [each for each in profile.targets if each.accelerator == kind]
    if named or not fitting:
        kinds = ", ".join(dict.fromkeys(each.accelerator for each in profile.targets))
        place = f"{profile.name}:{target.name} is no" if named else f"{profile.name} has no"
        raise UsageError(f"{place} {kind} target", f"its targets are of the kinds {kinds}")
    return fitting[0]
