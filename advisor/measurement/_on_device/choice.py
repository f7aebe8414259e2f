"""Choose what measures files for ``advisor benchmark``:
this machine's GPU or runtimes, or a connection to a device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from advisor.core import HOST, UsageError, nearest
from advisor.devices import (
    LITERT,
    DeviceProfile,
    DeviceTarget,
    HostConnection,
    canonical,
    device_predictor,
    load_known_devices,
    local_runtimes,
    prefer_tflite,
    require_runtime,
)
from advisor.measurement._latency.timing import effort_named
from advisor.measurement._on_device.benchmark import (
    RuntimeHere,
    benchmark_in_runtimes,
    benchmark_on_device,
)
from advisor.measurement._on_device.gpu import benchmark_on_gpu

if TYPE_CHECKING:
    from advisor.devices import ConnectionSettings
    from advisor.measurement._on_device import DeviceBenchmark

KINDS = ("cpu", "gpu", "npu", "tpu")


def benchmark_device(
    models: Sequence[str | Path],
    device: str,
    accelerator: str,
    settings: ConnectionSettings | None,
    profiles: Sequence[str | Path],
    threads: Sequence[int],
    effort: str,
    tell: Callable[[str], None],
    upload: Mapping[str, Any],
) -> DeviceBenchmark:
    """Measure files on this machine's GPU or on a device over its connection;
    without a connection, predict.

    The arguments are those of :func:`advisor.api.benchmark_device`, which says what it raises;
    ``upload`` are those of :meth:`advisor.devices.ConnectionSettings.allow_upload`.
    """
    names = [canonical(name.strip()) for name in device.split(",")]
    if len(names) > 1:
        _check_runtimes(names, accelerator, settings)
        return _in_runtimes(models, names, threads, effort, tell)
    (device,) = names
    _check(device, accelerator, settings)
    # An unknown effort is refused before a device or a cloud is asked for anything.
    effort_named(effort)
    known = load_known_devices(profiles)
    if _is_attached(settings, device):
        profile = known.describe_attached(settings)
        target = profile.target()
    elif device in ("", HOST):
        return benchmark_on_gpu(models, effort, tell)
    else:
        profile, target = known.select(device)
    runtime = require_runtime(profile)
    if profile.kind == "microcontroller":
        profile, target = prefer_tflite(device, profile, target)
    target = _of_kind(profile, target, accelerator, ":" in device)
    chosen = settings or profile.connection
    if settings is not None and settings.way == "adb":
        known.refuse_other_phone(profile, settings)
    if chosen is not None:
        chosen = chosen.allow_upload(upload)
        # Before the connection is made: without leave, nothing is sent.
        chosen.require_leave(models, len(threads) or 1)
    connection = None
    if chosen:
        connection = chosen.connect(target.accelerator)
    elif runtime:
        connection = runtime.connect(target)
    in_cloud = chosen is not None and chosen.in_cloud
    return benchmark_on_device(
        models,
        profile,
        target,
        connection,
        device_predictor,
        threads,
        effort,
        tell,
        keeps_prediction=in_cloud,
    )


def _is_attached(
    settings: ConnectionSettings | None, device: str
) -> TypeGuard[ConnectionSettings]:
    """Return whether the device is the phone that ``--adb`` alone names:
    it says itself what it is.
    """
    return not device and settings is not None and settings.way == "adb"


def _check_runtimes(
    names: Sequence[str], accelerator: str, settings: ConnectionSettings | None
) -> None:
    for name in names:
        if name != HOST and name not in local_runtimes():
            valid = (LITERT, *local_runtimes())
            raise UsageError(
                f"--device: '{name}' is no runtime of this machine{nearest(name, valid)}",
                f"several names compare runtimes of this machine: {', '.join(valid)}; name other"
                " devices one at a time",
            )
    if accelerator not in ("", "cpu") or settings is not None:
        raise UsageError(
            "runtimes of this machine take no --accelerator, --ssh or --adb",
            "leave these options out",
        )


def _in_runtimes(
    models: Sequence[str | Path],
    names: Sequence[str],
    threads: Sequence[int],
    effort: str,
    tell: Callable[[str], None],
) -> DeviceBenchmark:
    profiles = load_known_devices()
    chosen = []
    for name in dict.fromkeys(names):
        profile, target = profiles.select(name)
        runtime = require_runtime(profile)
        connection = runtime.connect(target) if runtime else HostConnection()
        chosen.append(RuntimeHere(LITERT if name == HOST else name, target.runtime, connection))
    return benchmark_in_runtimes(models, chosen, threads or (1,), effort, tell)


def _check(device: str, accelerator: str, settings: ConnectionSettings | None) -> None:
    """Refuse a device, an accelerator and a connection that do not go together (UsageError)."""
    if accelerator and accelerator not in KINDS:
        raise UsageError(
            f"unknown accelerator '{accelerator}'{nearest(accelerator, KINDS)}",
            f"accelerators: {', '.join(KINDS)}; advisor profile FILE --accelerator NAME analyses"
            " the others",
        )
    if device not in ("", HOST) or _is_attached(settings, device):
        return
    if settings is not None:
        hint = "add --device NAME; without it, --adb alone asks the phone what it is"
        raise UsageError("--ssh and --adb need the name of a device", hint)
    if accelerator in ("npu", "tpu"):
        raise UsageError(
            f"advisor cannot measure the {accelerator} of this machine",
            "--device predicts for devices that have one; advisor profile FILE --accelerator NAME"
            " analyses a file",
        )
    if accelerator != "gpu":
        raise UsageError(
            "this machine's CPU is not a device",
            "use benchmark, or name a device or --accelerator gpu",
        )


def _of_kind(profile: DeviceProfile, target: DeviceTarget, kind: str, named: bool) -> DeviceTarget:
    """Return the named target if it is of the wanted kind;
    without a named target, the first of that kind.
    """
    if not kind or target.accelerator == kind:
        return target
    matching = [target for target in profile.targets if target.accelerator == kind]
    if named or not matching:
        kinds = ", ".join(dict.fromkeys(target.accelerator for target in profile.targets))
        subject = f"{profile.name}:{target.name} is no" if named else f"{profile.name} has no"
        raise UsageError(f"{subject} {kind} target", f"kinds of its targets: {kinds}")
    return matching[0]
