"""Choose what measures files for ``advisor benchmark --device``:
this machine's GPU or runtimes, or a connection to a device.

``advisor.api.benchmark_device`` calls :func:`benchmark_device`. Everything that can be refused is
refused before a device or a cloud is asked, and nothing is sent without leave.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from advisor.core import HOST, UsageError, nearest
from advisor.devices import (
    LITERT,
    Connection,
    DeviceProfile,
    DeviceTarget,
    HostConnection,
    Predictor,
    Profiles,
    canonical,
    load_known_devices,
    local_runtimes,
    prefer_tflite,
    require_runtime,
)
from advisor.measurement._latency.timing import effort_named, parse_threads
from advisor.measurement._on_device.benchmark import benchmark_on_device
from advisor.measurement._on_device.gpu import benchmark_on_gpu
from advisor.measurement._on_device.in_runtimes import RuntimeHere, benchmark_in_runtimes

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
    threads: Sequence[int | str],
    effort: str,
    tell: Callable[[str], None],
    upload: Mapping[str, Any],
) -> DeviceBenchmark:
    """Measure files on this machine's GPU or on a device over its connection;
    without a connection, predict.

    The arguments are those of :func:`advisor.api.benchmark_device`, which says what it raises;
    ``upload`` are those of :meth:`advisor.devices.ConnectionSettings.allow_upload`.
    """
    counts = parse_threads(threads)
    names = [canonical(name.strip()) for name in device.split(",")]
    if len(names) > 1:
        _refuse_other_devices(names, accelerator, settings)
        return _benchmark_runtimes(models, names, counts, effort, tell)
    (device,) = names
    _refuse_combination(models, device, accelerator, settings)
    # An unknown effort is refused before a device or a cloud is asked for anything.
    effort_named(effort)
    known = load_known_devices(profiles)
    if device in ("", HOST) and not _is_attached(settings, device):
        return benchmark_on_gpu(models, effort, tell)
    profile, target = _select_target(known, device, accelerator, settings)
    connection_settings = settings or profile.connection
    if settings is not None and settings.way == "adb":
        known.refuse_other_phone(profile, settings)
    if connection_settings is not None:
        connection_settings = connection_settings.allow_upload(upload)
        # Before the connection is made: without leave, nothing is sent.
        connection_settings.require_leave(models, len(counts) or 1)
    return benchmark_on_device(
        models,
        profile,
        target,
        _open_connection(profile, target, connection_settings),
        Predictor.load,
        counts,
        effort,
        tell,
        keeps_prediction=connection_settings is not None and connection_settings.in_cloud,
    )


def _select_target(
    known: Profiles, device: str, accelerator: str, settings: ConnectionSettings | None
) -> tuple[DeviceProfile, DeviceTarget]:
    """Return the device and the target to measure; refuse a runtime that cannot run here."""
    if _is_attached(settings, device):
        profile = known.describe_attached(settings)
        target = profile.target()
    else:
        profile, target = known.select(device)
    require_runtime(profile)
    if profile.kind == "microcontroller":
        profile, target = prefer_tflite(device, profile, target)
    return profile, _select_kind(profile, target, accelerator, ":" in device)


def _open_connection(
    profile: DeviceProfile, target: DeviceTarget, settings: ConnectionSettings | None
) -> Connection | None:
    """Return what measures on a target: its connection, or its runtime on this machine;
    None if its latency is predicted.
    """
    if settings:
        return settings.connect(target.accelerator)
    runtime = require_runtime(profile)
    return runtime.connect(target) if runtime else None


def _is_attached(
    settings: ConnectionSettings | None, device: str
) -> TypeGuard[ConnectionSettings]:
    """Return whether the device is the phone that ``--adb`` alone names:
    it says itself what it is.
    """
    return not device and settings is not None and settings.way == "adb"


def _refuse_other_devices(
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


def _benchmark_runtimes(
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


def _refuse_combination(
    models: Sequence[str | Path],
    device: str,
    accelerator: str,
    settings: ConnectionSettings | None,
) -> None:
    """Refuse a device, an accelerator and a connection that do not go together (UsageError)."""
    profile = "advisor profile"
    for model in models[:1]:
        profile = f"{profile} {shlex.quote(str(model))}"
    if accelerator and accelerator not in KINDS:
        raise UsageError(
            f"unknown accelerator '{accelerator}'{nearest(accelerator, KINDS)}",
            f"accelerators: {', '.join(KINDS)}; {profile} --accelerator NAME analyses the others",
        )
    if device not in ("", HOST) or _is_attached(settings, device):
        return
    if settings is not None:
        hint = "add --device NAME; without it, --adb alone asks the phone what it is"
        raise UsageError("--ssh and --adb need the name of a device", hint)
    if accelerator in ("npu", "tpu"):
        raise UsageError(
            f"advisor cannot measure the {accelerator} of this machine",
            f"--device predicts for devices that have one; {profile} --accelerator NAME analyses"
            " a file",
        )
    if accelerator != "gpu":
        raise UsageError(
            "this machine's CPU is not a device",
            "use benchmark, or name a device or --accelerator gpu",
        )


def _select_kind(
    profile: DeviceProfile, target: DeviceTarget, kind: str, named: bool
) -> DeviceTarget:
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
