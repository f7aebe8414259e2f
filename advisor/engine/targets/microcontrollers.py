"""Check an artefact for a microcontroller with the real interpreter of TensorFlow Lite Micro on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Evaluation, Status
from advisor.devices.profiles import MICRO_RUNTIME
from advisor.engine.pipeline.names import StageName
from advisor.engine.targets.target_devices import TargetDevice, arena_too_large
from advisor.measurement.micro import check as micro


def needs_check(device: TargetDevice) -> bool:
    """Return whether files for this device can be checked: it runs TensorFlow Lite Micro, and the extra is there."""
    return device.target.runtime == MICRO_RUNTIME and micro.available()


def checked(predicted: Evaluation, device: TargetDevice, model: Path) -> Evaluation:
    """Return the evaluation with the measured arena, or ``skipped`` or ``failed`` with the reason.

    It is skipped if the interpreter does not run the file or the arena is larger than the device's memory for it.
    """
    try:
        found = micro.check(model)
    except AdvisorError as error:
        return replace(predicted, status=Status.FAILED, stage=StageName.TIMING, reason=error.message)
    reason = found.reason or arena_too_large(found.arena_bytes, device, "tensor arena takes")
    if reason:
        return replace(predicted, status=Status.SKIPPED, stage=StageName.PREDICT, reason=reason)
    return replace(predicted, memory=found.arena)


def checked_all(folder: Path, predicted: Iterable[Evaluation], device: TargetDevice) -> tuple[Evaluation, ...]:
    """Return the evaluations of a run folder checked, where their files are still there."""
    return tuple(
        checked(each, device, folder / each.artefact)
        if each.status is Status.OK and (folder / each.artefact).is_file()
        else each
        for each in predicted
    )
