"""Whether a target takes an artefact at all: its form, its operators, its memory, its size."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.core.evaluation import Evaluation, Target
from advisor.core.file_features import FileFeatures
from advisor.core.forms import form_of
from advisor.core.quantity import Quantity
from advisor.core.units import show_bytes
from advisor.devices.profiles import DeviceProfile, DeviceTarget
from advisor.devices.profiles.compatibility import form_incompatibility


@dataclass(frozen=True)
class TargetDevice:
    """One target of one device, and the name under which evaluations on it are kept."""

    label: str
    profile: DeviceProfile
    target: DeviceTarget

    @property
    def identity(self) -> Target:
        """The identity under which evaluations are kept."""
        return self.target.of(self.label)


def unfit(form: str, place: TargetDevice) -> str:
    """Say why a target does not take a form, empty where it does."""
    reason = form_incompatibility(form, place.target)
    return f"{place.label}:{place.target.name} {reason}" if reason else ""


def misfit(evaluation: Evaluation, place: TargetDevice) -> str:
    """Say why an artefact cannot run on a target: its form, its operators, its memory, its size; empty where it can."""
    recipe, graph = evaluation.configuration.compression, evaluation.file_features
    form = graph.form if graph else form_of(recipe).name
    checks = [unfit(form, place), _too_large(evaluation, place)]
    if graph is not None:
        checks += [_lacks(graph, place), _too_hungry(graph, place), _over_ram(evaluation, place)]
    return next((reason for reason in checks if reason), "")


def _lacks(graph: FileFeatures, place: TargetDevice) -> str:
    taken = place.target.operators
    lacking = [name for name in graph.operators if name not in taken] if taken else []
    return f"{place.label}:{place.target.name} does not take {', '.join(lacking)}" if lacking else ""


def _too_hungry(graph: FileFeatures, place: TargetDevice) -> str:
    room = place.profile.limits.arena_bytes
    if room is None or graph.arena_bytes <= room:
        return ""
    return f"its activations take {show_bytes(graph.arena_bytes)}, {place.label} has {show_bytes(room)} for them"


def memory_of(evaluation: Evaluation, place: TargetDevice) -> Quantity | None:
    """Return the memory that an artefact is predicted to take there; None where its file was not read."""
    from advisor.devices.latency.table import column_of
    from advisor.devices.prediction.memory import predicted_memory

    graph = evaluation.file_features
    if graph is None:
        return None
    return predicted_memory(graph, column_of(place.profile, place.target, graph.form).kind)


def _over_ram(evaluation: Evaluation, place: TargetDevice) -> str:
    """Say where even the least that a file is predicted to take is more than all of the device's memory."""
    memory, room = memory_of(evaluation, place), place.profile.memory_bytes
    if memory is None or room is None or (memory.low or memory.value) <= room:
        return ""
    return f"it takes about {show_bytes(memory.value)} of memory, {place.label} has {show_bytes(room)} in all"


def _too_large(evaluation: Evaluation, place: TargetDevice) -> str:
    limits = place.profile.limits
    room = min((limit for limit in (limits.flash_bytes, limits.package_bytes) if limit is not None), default=None)
    if room is None or evaluation.size is None or evaluation.size.value <= room:
        return ""
    return f"its {show_bytes(evaluation.size.value)} do not fit into {show_bytes(room)} of {place.label}"
