"""Evaluate artefacts on every device of the question: measured if it is connected, else
predicted.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from advisor.core import (
    AdvisorError,
    Configuration,
    Evaluation,
    FileFeatures,
    Provenance,
    Quantity,
    StageError,
    Status,
    TimingFacts,
    Variant,
    show_latency,
)
from advisor.engine._execution import Executor
from advisor.engine._pipeline.evaluation.evaluator import Evaluator
from advisor.engine._pipeline.stage import Stage, StageAborted, StageName
from advisor.engine._pipeline.stages.other_runtimes import RuntimeFigures, memory_of, remote_facts
from advisor.engine._pipeline.walker import Walker
from advisor.engine._question.values import Question
from advisor.engine._targets.beside import BesideSearch
from advisor.engine._targets.device_prediction import (
    DevicePredictor,
    before_measuring,
    environment_of,
)
from advisor.engine._targets.device_rows import on_device, with_required_figures, worst_case
from advisor.engine._targets.target_devices import TargetDevice, TargetDevices, arena_too_large
from advisor.measurement import MicroCheck
from advisor.store import RunFolder

if TYPE_CHECKING:
    from advisor.devices import Timing

Result = TypeVar("Result")

_NORMAL_P90 = 1.2816
"""The 90th percentile of the standard normal distribution."""


class Throttled(StageError):
    """The device slowed down steadily while a file ran."""


def measure_over_connection(before: Evaluation, device: TargetDevice, model: Path) -> Evaluation:
    """Return the evaluation with latency and memory on a device that is connected, or ``failed``.

    A prediction never replaces a failed measurement. The reason names the predicted latency of the
    evaluation ``before``, and the search continues.
    """
    try:
        label, timing = time_over_connection(device, model)
    except AdvisorError as error:
        return mark_failed(before, error.message)
    return mark_measured(before, timing, label)


def time_over_connection(device: TargetDevice, model: Path) -> tuple[str, Timing]:
    """Return the timing of a file on a device that is connected, with the connection's label.

    Raises:
        Throttled: the device became too hot; its figure would be wrong.
        AdvisorError: the device is away, or the file did not run there.
    """
    from advisor.devices import MeasurementJob, lock_device

    target = device.target
    job = MeasurementJob((model,), (target.threads,), runtime=target.runtime)
    connection = device.connect()
    # A cloud has many devices of a name, and a queue for them: its jobs need not take turns here.
    with nullcontext() if device.in_cloud else lock_device(connection.label):
        (timing,) = connection.measure(job)
    # A hot device is slower than the app will find it, so its figure is not kept (decision 0105).
    if timing.throttled:
        raise Throttled(f"{connection.label}: {timing.throttled}; let the device cool down")
    return connection.label, timing


async def measure_here(
    walker: Walker, before: Evaluation, stage: Stage[RuntimeFigures]
) -> Evaluation:
    """Return the evaluation with the figures of another runtime of this machine,
    or ``failed`` with the reason.
    """
    return await _after(walker, before, stage, lambda figures: figures.apply_to(before))


async def check_arena(
    walker: Walker, predicted: Evaluation, device: TargetDevice, stage: Stage[MicroCheck]
) -> Evaluation:
    """Return the evaluation with the measured arena, or ``skipped`` or ``failed`` with the
    reason.
    """
    return await _after(
        walker, predicted, stage, lambda check: with_arena(predicted, device, check)
    )


async def _after(
    walker: Walker, before: Evaluation, stage: Stage[Result], then: Callable[[Result], Evaluation]
) -> Evaluation:
    try:
        return then(await walker.run(stage))
    except StageAborted as end:
        return replace(before, status=end.status, stage=end.stage, reason=end.reason)


def with_arena(predicted: Evaluation, device: TargetDevice, check: MicroCheck) -> Evaluation:
    """Return the evaluation with the measured arena;
    ``skipped`` if the file does not run, or it is too large.
    """
    reason = check.reason or arena_too_large(check.arena_bytes, device, "tensor arena takes")
    if reason:
        return replace(predicted, status=Status.SKIPPED, stage=StageName.PREDICT, reason=reason)
    return replace(predicted, memory=check.arena)


def mark_failed(before: Evaluation, reason: str) -> Evaluation:
    """Return the evaluation of a file that was not measured,
    with the reason and its predicted latency.
    """
    prediction = f"; {show_latency(before.latency)}" if before.latency else ""
    return replace(
        before, status=Status.FAILED, stage=StageName.TIMING, reason=f"{reason}{prediction}"
    )


def mark_measured(
    before: Evaluation, timing: Timing, label: str, software: str = ""
) -> Evaluation:
    """Return the evaluation with what was measured over the connection ``label``
    on a device with this software.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    where = f"{timing.runtime} on {label}, measured on {now[:10]}"
    source = "; ".join(filter(None, (where, software, *timing.remarks, timing.placement)))
    return replace(
        before,
        latency=Quantity(
            timing.median_ms, "ms", Provenance.MEASURED, n=timing.runs, source=source
        ),
        latency_p90=Quantity(
            _p90(timing), "ms", Provenance.MEASURED, n=timing.runs, source=source
        ),
        memory=memory_of(timing, source) or before.memory,
        timing=TimingFacts(load_ms=timing.load_ms, first_ms=timing.first_ms, measured_at=now),
        remote=replace(remote_facts(timing, label), software=software),
        latency_distribution=None,
        budget_probability=None,
    )


def _p90(timing: Timing) -> float:
    """Return the 90th percentile of the runs in ms;
    from mean and deviation if the tool reports no single runs.
    """
    if "p90_ms" in timing.details:
        return float(max(timing.median_ms, timing.details["p90_ms"]))
    blocks = timing.details.get("blocks", ())
    walls = []
    for block in blocks:
        for wall in block["wall_ns"]:
            walls.append(float(wall) / 1e6)
    # Tools of other runtimes report mean and deviation alone.
    if len(walls) > 1:
        return statistics.quantiles(walls, n=10)[-1]
    spread = timing.details.get("std_ms", 0.0)
    most = timing.details.get("max_ms", timing.median_ms)
    # A 90th percentile lies between the median and the slowest run, however skewed the times are.
    return float(max(timing.median_ms, min(timing.median_ms + _NORMAL_P90 * spread, most)))


class MultiDeviceEvaluator:
    """Evaluates configurations on the leading device,
    and each artefact on every other device of the question once.

    The run takes the evaluations on the other devices, each as soon as it is known. ``doing``
    shows for a block what is measured there.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        targets: TargetDevices,
        predictor: DevicePredictor,
        question: Question,
        run: RunFolder,
        executor: Executor,
        doing: Callable[[str], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._executor = executor
        self._doing = doing
        self._evaluator = evaluator
        self._targets = targets
        self._predictor = predictor
        self._question = question
        self._run = run
        self._beside = BesideSearch(run)
        self._other_devices: dict[Variant, asyncio.Task[tuple[Evaluation, ...]]] = {}
        self._features: dict[str, FileFeatures] = {}

    def stop_screening(self) -> None:
        """From now on, evaluate also what cannot meet the latency budget."""
        self._evaluator.screening = False

    async def drop(self) -> None:
        """End all evaluations that are not done; see :meth:`Evaluator.drop`."""
        await self._evaluator.drop()

    @property
    def measures_beside(self) -> bool:
        """True while devices of clouds measure beside the search."""
        return self._beside.works

    async def finish_beside(self) -> None:
        """Wait for the devices of clouds;
        if this is cancelled, what they have not measured keeps its prediction.
        """
        await self._beside.finish()

    @property
    def remarks(self) -> tuple[str, ...]:
        """The reasons for which devices of clouds have measured only a part of the files, or
        none.
        """
        return self._beside.remarks

    def newest(self, evaluation: Evaluation) -> Evaluation:
        """Return the evaluation, or what a device of a cloud has measured
        in place of its prediction.
        """
        return self._beside.measured.get(evaluation.configuration, evaluation)

    def forget_failures(self) -> None:
        """Let what has failed run again; see :meth:`Walker.forget_failures`."""
        self._evaluator.walker.forget_failures()

    @property
    def environments(self) -> dict[str, str]:
        """Hash of what the predictions for each device depend on, by name of the device."""
        return {
            device.label: environment_of(device, self._predictor)
            for device in self._targets.devices
        }

    async def evaluate(self, configuration: Configuration) -> Evaluation:
        """Return the evaluation on the leading device;
        evaluations on the other devices go into the run.
        """
        from advisor.devices import read_features

        made = await self._evaluator.evaluate(configuration)
        if made.status is not Status.OK:
            return made
        if made.artefact_sha256 not in self._features:
            features = await asyncio.to_thread(read_features, self._run.path / made.artefact)
            self._features[made.artefact_sha256] = features
        made = replace(made, file_features=self._features[made.artefact_sha256])
        if not self._targets.devices:
            return made
        artefact = made.variant  # once for all thread counts of this machine
        if artefact not in self._other_devices:
            self._other_devices[artefact] = asyncio.ensure_future(self._evaluate_devices(made))
        # Several thread counts wait for one task, so the end of one of them must not cancel it.
        others = await asyncio.shield(self._other_devices[artefact])
        if self._targets.host:
            return made
        return next(e for e in others if e.configuration.target == configuration.target)

    async def time_again(self, evaluation: Evaluation) -> Evaluation:
        """Return a finalist on this machine with a longer timing."""
        return await self._evaluator.time_again(evaluation)

    def on_worst_device(self, evaluation: Evaluation) -> Evaluation:
        """Return the figures for the study: those on the device on which the file is worst."""
        task = self._other_devices.get(evaluation.variant)
        if task is None or not task.done():
            return evaluation
        others = (
            self.newest(e) for e in task.result() if e.configuration != evaluation.configuration
        )
        on_all = [evaluation, *others]
        rows = worst_case(on_all, self._question.devices)
        required = {
            device: on_device(on_all, device) for device in self._question.limits.must_run_on
        }
        (worst,) = with_required_figures(rows[:1] or [evaluation], required)
        return replace(worst, configuration=evaluation.configuration)

    async def _evaluate_devices(self, made: Evaluation) -> tuple[Evaluation, ...]:
        evaluations = await asyncio.gather(
            *(self._evaluate_on(made, device) for device in self._targets.devices)
        )
        for device, evaluation in zip(self._targets.devices, evaluations, strict=True):
            # The search itself appends the evaluation on the leading device.
            if device is not self._targets.lead:
                self._run.append(self.newest(evaluation))
        return tuple(evaluations)

    async def _evaluate_on(self, made: Evaluation, device: TargetDevice) -> Evaluation:
        """Return the evaluation of a file on a device:
        measured here or over a connection, else predicted.
        """
        walker = self._evaluator.walker
        stages = self._evaluator.stages_of(made.configuration)
        if device.runtime is not None:
            before = before_measuring(made, device)
            if before.status is not Status.OK or device.local is None:
                return before
            return await measure_here(walker, before, stages.measured_in(device.local))
        limits = self._question.limits
        (predicted,) = self._predictor.evaluate(
            [made], device, limits.latency_ms, limits.confidence
        )
        if predicted.status is not Status.OK:
            return predicted
        # The computed arena, which costs nothing, has rejected files before:
        # only the others run in the interpreter.
        if device.local is not None:
            predicted = await check_arena(
                walker, predicted, device, stages.checked_in(device.target.runtime)
            )
        if predicted.status is not Status.OK or device.profile.connection is None:
            return predicted
        path = self._run.path / made.artefact
        if device.in_cloud:
            self._beside.begin(
                device.label, predicted, partial(measure_over_connection, predicted, device, path)
            )
            return predicted
        name = device.profile.name
        subject = f"{made.configuration.variant_name} of {made.configuration.card}"
        with self._doing(f"measuring {subject} on {device.label}"):
            return await asyncio.to_thread(
                self._executor.on_device, name, measure_over_connection, predicted, device, path
            )
