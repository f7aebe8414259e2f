"""Say why a file cannot run on a target: its form, size, operators, activations or memory.

A search asks before it predicts or measures a file on a device, so that the evaluation has the
reason in place of figures. To add a rule, write a function ``(evaluation, device)`` that returns
the reason or an empty text, and add a line in ``_list_file_rules``.
"""

from collections.abc import Callable
from functools import cache

from advisor.core import Evaluation, Quantity, form_of, show_bytes
from advisor.engine._targets.target_devices import TargetDevice


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
    for explain in _list_file_rules():
        reason = explain(evaluation, device)
        if reason:
            return reason
    return ""


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


def _explain_form(evaluation: Evaluation, device: TargetDevice) -> str:
    """Return why the target does not run the form of a file."""
    file = evaluation.file_features
    form = file.form if file else form_of(evaluation.configuration.compression).name
    return form_rejection(form, device)


def _explain_operators(evaluation: Evaluation, device: TargetDevice) -> str:
    """Return which operators of a file the target does not run."""
    supported = device.target.operators
    file = evaluation.file_features
    missing = []
    if file and supported:
        missing = [name for name in file.operators if name not in supported]
    if missing:
        return f"{device.profile.name}:{device.target.name} does not support {', '.join(missing)}"
    return ""


def _explain_activations(evaluation: Evaluation, device: TargetDevice) -> str:
    """Return why the activations of a file do not fit, or the arena of a microcontroller."""
    file = evaluation.file_features
    if file is None:
        return ""
    what = "tensor arena takes" if device.target.is_micro else "activations take"
    return arena_too_large(device.target.arena_of(file), device, what)


def arena_too_large(arena_bytes: int, device: TargetDevice, what: str) -> str:
    """Return why a device has not enough memory for an arena; empty if it has.
    ``what`` is the reason's subject and verb.
    """
    limit = device.profile.limits.arena_bytes
    if limit is None or arena_bytes <= limit:
        return ""
    return f"its {what} {show_bytes(arena_bytes)}, {device.label} has room for {show_bytes(limit)}"


def _explain_memory(evaluation: Evaluation, device: TargetDevice) -> str:
    """Return why even the lower end of the predicted memory is more than the device has."""
    memory = memory_of(evaluation, device)
    installed = device.profile.memory_bytes
    if memory is None or installed is None or (memory.low or memory.value) <= installed:
        return ""
    return (
        f"it takes about {show_bytes(memory.value)} of memory, {device.label} has"
        f" {show_bytes(installed)} in total"
    )


def _explain_file_size(evaluation: Evaluation, device: TargetDevice) -> str:
    """Return why the device has no room for a file."""
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
        _explain_form,
        _explain_file_size,
        _explain_operators,
        _explain_activations,
        _explain_memory,
    )
