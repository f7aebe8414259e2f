"""Judge an artefact for a microcontroller by the real interpreter of TensorFlow Lite Micro on this machine."""

from __future__ import annotations

from dataclasses import replace

from advisor.core.evaluation import Evaluation, Status
from advisor.engine.pipeline.events import StageAborted
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stage import Stage
from advisor.engine.pipeline.walker import Walker
from advisor.engine.targets.target_devices import TargetDevice, arena_too_large
from advisor.measurement.micro.check import MicroCheck


async def checked(walker: Walker, predicted: Evaluation, device: TargetDevice, stage: Stage[MicroCheck]) -> Evaluation:
    """Return the evaluation with the measured arena, or ``skipped`` or ``failed`` with the reason.

    It is skipped if the interpreter does not run the file or the arena is larger than the device's memory for it.
    """
    try:
        found = await walker.run(stage)
    except StageAborted as end:
        return replace(predicted, status=end.status, stage=end.stage, reason=end.reason)
    return with_arena(predicted, device, found)


def with_arena(predicted: Evaluation, device: TargetDevice, found: MicroCheck) -> Evaluation:
    """Return the evaluation with the measured arena, or ``skipped`` with the reason."""
    reason = found.reason or arena_too_large(found.arena_bytes, device, "tensor arena takes")
    if reason:
        return replace(predicted, status=Status.SKIPPED, stage=StageName.PREDICT, reason=reason)
    return replace(predicted, memory=found.arena)
