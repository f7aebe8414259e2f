"""Evaluate artefacts on every device of the question, by measuring or by prediction.

A device that is connected, or runs on this machine, is measured. The others are predicted. The
search loop uses ``MultiDeviceEvaluator`` in place of the ``Evaluator`` of the pipeline. The run
folder takes one evaluation for each artefact and device.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial

from advisor.core import Configuration, Evaluation, FileFeatures, Status, Variant
from advisor.engine._execution import Executor
from advisor.engine._pipeline.evaluation.evaluator import Evaluator
from advisor.engine._question.values import Question
from advisor.engine._targets.beside import BesideSearch
from advisor.engine._targets.device_measurement import (
    before_measuring,
    check_arena,
    measure_here,
    measure_over_connection,
)
from advisor.engine._targets.device_prediction import DevicePredictor, environment_of
from advisor.engine._targets.device_rows import (
    find_worst_cases,
    select_rows,
    with_required_figures,
)
from advisor.engine._targets.target_devices import TargetDevice, TargetDevices
from advisor.store import RunFolder


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

    async def drop(self, cards: Collection[str] | None = None) -> None:
        """End evaluations that are not done; see :meth:`Evaluator.drop`."""
        await self._evaluator.drop(cards)

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
        """The reasons for which devices of clouds have not measured all files."""
        return self._beside.remarks

    def newest(self, evaluation: Evaluation) -> Evaluation:
        """Return the evaluation, or what a device of a cloud has measured in place of its
        prediction.
        """
        return self._beside.measured.get(evaluation.configuration, evaluation)

    def forget_failures(self) -> None:
        """Let what has failed run again; see :meth:`.Walker.forget_failures`."""
        self._evaluator.walker.forget_failures()

    @property
    def environments(self) -> dict[str, str]:
        """Hash of what the predictions for each device depend on, by name of the device."""
        environments = {}
        for device in self._targets.devices:
            environments[device.label] = environment_of(device, self._predictor)
        return environments

    async def evaluate(self, configuration: Configuration) -> Evaluation:
        """Return the evaluation on the leading device;
        evaluations on the other devices go into the run.
        """
        from advisor.devices import read_features

        evaluation = await self._evaluator.evaluate(configuration)
        if evaluation.status is not Status.OK:
            return evaluation
        sha256 = evaluation.artefact_sha256
        if sha256 not in self._features:
            path = self._run.path / evaluation.artefact
            self._features[sha256] = await asyncio.to_thread(read_features, path)
        evaluation = replace(evaluation, file_features=self._features[sha256])
        if not self._targets.devices:
            return evaluation
        # Once for all thread counts of this machine.
        artefact = evaluation.variant
        if artefact not in self._other_devices:
            task = asyncio.ensure_future(self._evaluate_devices(evaluation))
            self._other_devices[artefact] = task
        # Several thread counts wait for one task, so the end of one of them must not cancel it.
        others = await asyncio.shield(self._other_devices[artefact])
        if self._targets.host:
            return evaluation
        return next(row for row in others if row.configuration.target == configuration.target)

    async def time_again(self, evaluation: Evaluation) -> Evaluation:
        """Return a finalist on this machine with a longer timing."""
        return await self._evaluator.time_again(evaluation)

    def on_worst_device(self, evaluation: Evaluation) -> Evaluation:
        """Return the figures for the study: those on the device on which the file is worst."""
        task = self._other_devices.get(evaluation.variant)
        if task is None or not task.done():
            return evaluation
        rows = [evaluation]
        for row in task.result():
            if row.configuration != evaluation.configuration:
                rows.append(self.newest(row))
        worst_rows = find_worst_cases(rows, self._question.devices)
        required = {}
        for device in self._question.limits.must_run_on:
            required[device] = select_rows(rows, device)
        # A file that lacks a figure on one device has no worst case.
        (worst,) = with_required_figures(worst_rows[:1] or [evaluation], required)
        return replace(worst, configuration=evaluation.configuration)

    async def _evaluate_devices(self, evaluation: Evaluation) -> tuple[Evaluation, ...]:
        """Return the evaluations of a file on all devices, and append them to the run."""
        jobs = [self._evaluate_on(evaluation, device) for device in self._targets.devices]
        rows = await asyncio.gather(*jobs)
        for device, row in zip(self._targets.devices, rows, strict=True):
            # The search itself appends the evaluation on the leading device.
            if device is not self._targets.lead:
                self._run.append(self.newest(row))
        return tuple(rows)

    async def _evaluate_on(self, evaluation: Evaluation, device: TargetDevice) -> Evaluation:
        """Return the evaluation of a file on a device:
        measured here or over a connection, else predicted.
        """
        walker = self._evaluator.walker
        stages = self._evaluator.stages_of(evaluation.configuration)
        if device.runtime is not None:
            before = before_measuring(evaluation, device)
            if before.status is not Status.OK or device.local is None:
                return before
            return await measure_here(walker, before, stages.measured_in(device.local))
        limits = self._question.limits
        (predicted,) = self._predictor.evaluate(
            [evaluation], device, limits.latency_ms, limits.confidence
        )
        if predicted.status is not Status.OK:
            return predicted
        # The computed arena, which costs nothing, has rejected files before:
        # only the others run in the interpreter.
        if device.local is not None:
            stage = stages.checked_in(device.target.runtime)
            predicted = await check_arena(walker, predicted, device, stage)
        if predicted.status is not Status.OK or device.profile.connection is None:
            return predicted
        path = self._run.path / evaluation.artefact
        if device.in_cloud:
            measure = partial(measure_over_connection, predicted, device, path)
            self._beside.begin(device.label, predicted, measure)
            return predicted
        subject = f"{evaluation.configuration.variant_name} of {evaluation.configuration.card}"
        with self._doing(f"measuring {subject} on {device.label}"):
            return await asyncio.to_thread(
                self._executor.on_device,
                device.profile.name,
                measure_over_connection,
                predicted,
                device,
                path,
            )
