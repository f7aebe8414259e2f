"""Tell whether a target can run an artefact: its form, its operators, its memory and its size."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.core.evaluation import Evaluation, Target
from advisor.core.file_features import FileFeatures
from advisor.core.forms import form_of
from advisor.core.quantity import Quantity
from advisor.core.units import show_bytes
from advisor.devices.profiles import DeviceProfile, DeviceTarget


@dataclass(frozen=True)
class TargetDevice:
    """One target of one device.

    Attributes:
        label: the device as the user named it; evaluations carry this name.
        profile: the device.
        target: its target.
    """

    label: str
    profile: DeviceProfile
    target: DeviceTarget

    @property
    def identity(self) -> Target:
        """The target that evaluations on this device carry."""
        return self.target.of(self.label)


def form_rejection(form: str, device: TargetDevice) -> str:
    """Return why a target does not run a form, with the target's name; empty if it does."""
    reason = device.target.incompatibility(form)
    return f"{device.label}:{device.target.name} {reason}" if reason else ""


def rejection(evaluation: Evaluation, device: TargetDevice) -> str:
    """Return why an artefact cannot run on a target; empty if it can."""
    recipe, file = evaluation.configuration.compression, evaluation.file_features
    form = file.form if file else form_of(recipe).name
    checks = [form_rejection(form, device), _file_too_large(evaluation, device)]
    if file is not None:
        checks += [
            _missing_operators(file, device),
            _activations_too_large(file, device),
            _memory_too_small(evaluation, device),
        ]
    return next((reason for reason in checks if reason), "")


def memory_of(evaluation: Evaluation, device: TargetDevice) -> Quantity | None:
    """Return the memory in bytes that an artefact is predicted to take on a device; None if its file was not read."""
    from advisor.devices.latency.table import column_of
    from advisor.devices.prediction.memory import predicted_memory

    file = evaluation.file_features
    if file is None:
        return None
    return predicted_memory(file, column_of(device.profile, device.target, file.form).kind)


def _missing_operators(file: FileFeatures, device: TargetDevice) -> str:
    supported = device.target.operators
    missing = [name for name in file.operators if name not in supported] if supported else []
    return f"{device.label}:{device.target.name} does not support {', '.join(missing)}" if missing else ""


def _activations_too_large(file: FileFeatures, device: TargetDevice) -> str:
    limit = device.profile.limits.arena_bytes
    if limit is None or file.arena_bytes <= limit:
        return ""
    return f"its activations take {show_bytes(file.arena_bytes)}, {device.label} has {show_bytes(limit)} for them"


def _memory_too_small(evaluation: Evaluation, device: TargetDevice) -> str:
    """Return a reason if even the lower end of the predicted memory is more than the device has."""
    memory, installed = memory_of(evaluation, device), device.profile.memory_bytes
    if memory is None or installed is None or (memory.low or memory.value) <= installed:
        return ""
    return f"it takes about {show_bytes(memory.value)} of memory, {device.label} has {show_bytes(installed)} in total"


def _file_too_large(evaluation: Evaluation, device: TargetDevice) -> str:
    limits = device.profile.limits
    limit = min((each for each in (limits.flash_bytes, limits.package_bytes) if each is not None), default=None)
    if limit is None or evaluation.size is None or evaluation.size.value <= limit:
        return ""
    return f"its {show_bytes(evaluation.size.value)} do not fit into the {show_bytes(limit)} of {device.label}"
