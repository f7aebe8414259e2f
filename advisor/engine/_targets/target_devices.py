"""Devices of a question: their selection,
and whether they can run an artefact (form, operators, memory, size).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import (
    HOST,
    AmbiguousInput,
    Evaluation,
    Quantity,
    Reading,
    Target,
    UsageError,
    form_of,
    show_bytes,
)
from advisor.devices import (
    MICRO_RUNTIME,
    DeviceProfile,
    DeviceTarget,
    LocalRuntime,
    Profiles,
    SeveralPhones,
    host_profile,
    list_remarks,
    load_known_devices,
    local_runtimes,
    phone_remarks,
    remark_unmeasured,
    runtime_remark,
)
from advisor.engine._pipeline.materials import LocalTarget
from advisor.engine._question.values import Question
from advisor.measurement import find_interpreter, interpreter_of

if TYPE_CHECKING:
    from advisor.devices import Connection
    from advisor.engine._question.values import Execution


@dataclass(frozen=True)
class TargetDevice:
    """One target of one device; ``label`` is the device as the user named it,
    and evaluations carry this name.
    """

    label: str
    profile: DeviceProfile
    target: DeviceTarget

    @property
    def identity(self) -> Target:
        """The target that evaluations on this device carry."""
        return self.target.of(self.label)

    @property
    def runtime(self) -> LocalRuntime | None:
        """The runtime of this machine that the device is; it is measured without a prediction.
        None for another.
        """
        return local_runtimes().get(self.profile.name)

    @property
    def local(self) -> LocalTarget | None:
        """The target if files run on this machine for it:
        it is a runtime, or has an interpreter here. None if not.
        """
        # Microcontrollers run nowhere here, but their interpreter does: it checks the arena.
        if self.runtime is None and find_interpreter(self.target.runtime) is None:
            return None
        return LocalTarget(self.profile.name, self.target)

    @property
    def in_cloud(self) -> bool:
        """True if the device is in a cloud:
        it is measured beside the search, and keeps its prediction otherwise.
        """
        return self.profile.connection is not None and self.profile.connection.in_cloud

    def allow_upload(self, execution: Execution) -> TargetDevice:
        """Return the device with what may be sent to it if it is in a cloud."""
        connection = self.profile.connection
        if connection is None or not connection.in_cloud:
            return self
        return replace(
            self,
            profile=replace(self.profile, connection=connection.allow_upload(vars(execution))),
        )

    def connect(self) -> Connection:
        """Return what measures files on the device, which is connected."""
        if self.runtime is not None:
            return self.runtime.connect(self.target)
        assert self.profile.connection is not None, "the device is connected"
        return self.profile.connection.connect(self.target.accelerator)


@dataclass(frozen=True)
class TargetDevices:
    """The devices that the models of one search must run on:
    this machine (``host``), those of ``--device``, then the others.
    """

    host: bool
    devices: tuple[TargetDevice, ...] = ()

    @property
    def in_cloud(self) -> tuple[TargetDevice, ...]:
        """The devices of clouds."""
        return tuple(device for device in self.devices if device.in_cloud)

    def allow_upload(self, execution: Execution) -> TargetDevices:
        """Return the devices with what may be sent to those of clouds."""
        return replace(
            self, devices=tuple(device.allow_upload(execution) for device in self.devices)
        )

    @property
    def lead(self) -> TargetDevice | None:
        """The device whose configurations the study proposes; None if it is this machine."""
        return None if self.host else self.devices[0]

    @property
    def remarks(self) -> tuple[str, ...]:
        """Limits of the latencies: an unknown processor of this machine, a phone that nobody
        measured, or a runtime that is not for the files.
        """
        texts = list(list_remarks(host_profile()) if self.host else ())
        for device in self.devices:
            texts += remarks_of(device)
        return tuple(dict.fromkeys(texts))


def select_targets(question: Question) -> TargetDevices:
    """Return the devices of a question;
    a UsageError if one, or a folder of profiles, is unknown or not valid.
    """
    for folder in question.profiles:
        if not folder.is_dir():
            raise UsageError(
                f"--profiles: '{folder}' is not a folder", "give a folder that holds *.yaml files"
            )
    asked = [(device, "--device") for device in question.devices if device != HOST]
    asked += [
        (device, "--must-run-on")
        for device in question.limits.must_run_on
        if device not in question.devices
    ]
    # Reading all profiles takes a second, which a search for this machine alone need not pay.
    profiles = load_known_devices(question.profiles) if asked else Profiles(())
    devices = []
    for device, option in asked:
        try:
            devices.append(_select(device, profiles, option))
        except UsageError as error:
            # Only --device can be asked again on a terminal;
            # for --must-run-on the error lists the phones.
            if isinstance(error.__cause__, SeveralPhones) and option == "--device":
                raise _ask_phone(
                    device, question.devices, error.message, error.__cause__
                ) from None
            raise
    targets = list[TargetDevice]()
    for selected in devices:
        targets += at_threads(selected, question.thread_counts)
    return TargetDevices(HOST in question.devices, tuple(targets))


def _ask_phone(
    device: str, devices: Sequence[str], message: str, error: SeveralPhones
) -> AmbiguousInput:
    """Return the question which phone a name means; the other devices of the question stay."""
    _name, colon, target = device.partition(":")
    readings = []
    for phone in error.phones:
        chosen = []
        for other in devices:
            chosen.append(f"{phone.slug}{colon}{target}" if other == device else other)
        meaning = (
            f"the {phone.title}"
            if phone.soc in phone.title
            else f"the {phone.title} with the {phone.soc}"
        )
        readings.append(Reading({"device": ",".join(chosen)}, meaning))
    return AmbiguousInput(
        message, readings, "name the phone by its code, which Settings > About phone shows"
    )


def at_threads(device: TargetDevice, counts: Sequence[int]) -> tuple[TargetDevice, ...]:
    """Return a runtime of this machine once for each thread count, as ``host`` is measured;
    another device as it is.
    """
    # A target that the user named, such as host:onnxruntime:cpu-x1, keeps its own thread count.
    if (
        device.runtime is None
        or device.label != device.profile.name
        or device.target.accelerator != "cpu"
    ):
        return (device,)
    kind = device.target.runtime, device.target.accelerator
    alike = (
        target for target in device.profile.targets if (target.runtime, target.accelerator) == kind
    )
    names = {count: f"cpu-x{count}" for count in counts} | {
        target.threads: target.name for target in alike
    }
    # The most threads first: the first device is the one that the study proposes.
    targets = (
        replace(device.target, name=names[count], threads=count)
        for count in sorted(counts, reverse=True)
    )
    return tuple(replace(device, target=target) for target in targets)


def select_devices(
    selectors: Sequence[str], folders: Sequence[Path], option: str
) -> tuple[TargetDevice, ...]:
    """Return the device and target of each ``device`` or ``device:target``.

    An unknown one, this machine, and a runtime of it that is not installed are UsageErrors.
    """
    if not selectors:
        return ()
    profiles = load_known_devices(folders)
    return tuple(_select(selector, profiles, option) for selector in selectors)


def _select(selector: str, profiles: Profiles, option: str) -> TargetDevice:
    try:
        profile, target = profiles.require_installed(selector)
        if profile.name == HOST:
            raise UsageError(
                f"'{selector}' is this machine, which is measured and not predicted", "remove it"
            )
        return TargetDevice(selector, profile, target)
    except UsageError as error:
        # With its cause, by which select_targets knows that several phones have this name.
        raise UsageError(f"{option}: {error.message}", error.hint) from error


def remarks_of(device: TargetDevice) -> tuple[str, ...]:
    """Return what limits the latencies on a device:
    nothing was measured on it, or what :func:`remark_of` tells.
    """
    phone = (
        f"{device.label}: {remark}" for remark in phone_remarks(device.profile, device.target)
    )
    unmeasured = remark_unmeasured(device.profile, device.target)
    return (*phone, *filter(None, [remark_of(device), unmeasured]))


def remark_of(device: TargetDevice) -> str:
    """Return which build latencies belong to, or that they are another runtime's,
    or that arenas are only computed.
    """
    if device.runtime is not None:
        return ""
    interpreter = interpreter_of(device.target.runtime)
    other_runtime = runtime_remark(
        f"{device.profile.name}:{device.target.name}", device.target.runtime
    )
    # At most one remark: another runtime makes the build unimportant.
    if other_runtime or interpreter is None or interpreter.available():
        return other_runtime or device.profile.build_remark(device.target)
    return (
        f"{device.label}: files are not run in {interpreter.NAME}, arenas are computed;"
        f" {interpreter.INSTALL}"
    )


def form_rejection(form: str, device: TargetDevice) -> str:
    """Return why a target does not run a form, with the target's name; empty if it does."""
    reason = device.target.incompatibility(form)
    # The label may name a target already: ``rk3588:npu``.
    if reason:
        return f"{device.profile.name}:{device.target.name} {reason}"
    return ""


def explain_rejection(evaluation: Evaluation, device: TargetDevice) -> str:
    """Return why an artefact cannot run on a target: the first reason of :func:`_list_file_rules`;
    empty if it can.
    """
    return next(filter(None, (reason(evaluation, device) for reason in _list_file_rules())), "")


def memory_of(evaluation: Evaluation, device: TargetDevice) -> Quantity | None:
    """Return the memory in bytes that an artefact is predicted to take on a device.

    None if its file was not read, or if the device is a runtime of this machine,
    where memory is measured.
    """
    from advisor.devices import predict_memory_on

    file = evaluation.file_features
    if file is None or device.runtime is not None:
        return None
    return predict_memory_on(device.profile, device.target, file)


def _other_form(evaluation: Evaluation, device: TargetDevice) -> str:
    file = evaluation.file_features
    form = file.form if file else form_of(evaluation.configuration.compression).name
    return form_rejection(form, device)


def _missing_operators(evaluation: Evaluation, device: TargetDevice) -> str:
    supported = device.target.operators
    file = evaluation.file_features
    missing = []
    if file and supported:
        missing = [name for name in file.operators if name not in supported]
    if missing:
        return f"{device.profile.name}:{device.target.name} does not support {', '.join(missing)}"
    return ""


def _activations_too_large(evaluation: Evaluation, device: TargetDevice) -> str:
    from advisor.devices import arena_of

    file = evaluation.file_features
    if file is None:
        return ""
    if device.target.runtime == MICRO_RUNTIME:
        return arena_too_large(arena_of(file, MICRO_RUNTIME), device, "tensor arena takes")
    return arena_too_large(file.arena_bytes, device, "activations take")


def arena_too_large(arena_bytes: int, device: TargetDevice, what: str) -> str:
    """Return why a device has not enough memory for an arena; empty if it has.
    ``what`` is the reason's subject and verb.
    """
    limit = device.profile.limits.arena_bytes
    if limit is None or arena_bytes <= limit:
        return ""
    return f"its {what} {show_bytes(arena_bytes)}, {device.label} has room for {show_bytes(limit)}"


def _memory_too_small(evaluation: Evaluation, device: TargetDevice) -> str:
    """Return a reason if even the lower end of the predicted memory is more than the device
    has.
    """
    memory = memory_of(evaluation, device)
    installed = device.profile.memory_bytes
    if memory is None or installed is None or (memory.low or memory.value) <= installed:
        return ""
    return (
        f"it takes about {show_bytes(memory.value)} of memory, {device.label} has"
        f" {show_bytes(installed)} in total"
    )


def _file_too_large(evaluation: Evaluation, device: TargetDevice) -> str:
    limit = device.profile.limits.file_bytes
    if limit is None or evaluation.size is None or evaluation.size.value <= limit:
        return ""
    return (
        f"its {show_bytes(evaluation.size.value)} do not fit into the {show_bytes(limit)} of"
        f" {device.label}"
    )


@cache
def _list_file_rules() -> tuple[Callable[[Evaluation, TargetDevice], str], ...]:
    """Return the rules that reject a file on a target, in the order of asking.

    The last three need a file that was read.
    """
    return (
        _other_form,
        _file_too_large,
        _missing_operators,
        _activations_too_large,
        _memory_too_small,
    )
