"""Measure files on devices of clouds beside the search, which goes on with their predictions.

``MultiDeviceEvaluator`` begins a measurement after it has predicted a file. The run takes what
comes later: a line of ``evaluations.jsonl`` that replaces the prediction.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from advisor.core import Configuration, Evaluation, Status, plural
from advisor.engine._execution import call_in_own_thread
from advisor.store import RunFolder

AT_ONCE = 8
"""Files that wait for clouds at the same time; a cloud refuses too many jobs of one user."""

LATE = "the cloud had not answered when the search ended"


class BesideSearch:
    """The files that clouds measure beside a search.
    The run takes what they measured, in place of the prediction.
    """

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._tasks: list[asyncio.Task[None]] = []
        self._begun = Counter[str]()
        self._reasons: dict[str, Counter[str]] = {}
        self.measured: dict[Configuration, Evaluation] = {}

    @property
    def works(self) -> bool:
        """True while a cloud has files."""
        return any(not task.done() for task in self._tasks)

    @property
    def remarks(self) -> tuple[str, ...]:
        """A sentence for each device and reason for which files keep their prediction."""
        remarks = []
        for device, reasons in self._reasons.items():
            for reason, count in reasons.items():
                files = plural(self._begun[device], "file")
                remarks.append(
                    f"{device}: {count} of {files} were not measured, and their prediction stays:"
                    f" {reason}"
                )
        return tuple(remarks)

    def begin(self, device: str, predicted: Evaluation, measure: Callable[[], Evaluation]) -> None:
        """Begin to measure; ``measure`` blocks,
        and returns a failed evaluation if there is no figure.
        """
        self._begun[device] += 1
        self._tasks.append(asyncio.ensure_future(self._measure(device, predicted, measure)))

    async def finish(self) -> None:
        """Wait until all files are measured, or have failed."""
        await asyncio.gather(*self._tasks)

    async def _measure(
        self, device: str, predicted: Evaluation, measure: Callable[[], Evaluation]
    ) -> None:
        """Measure a file, and append the evaluation to the run; a failure keeps the prediction."""
        reason = LATE
        try:
            async with self._slots:
                evaluation = await call_in_own_thread(measure)
            reason = evaluation.reason
        finally:
            # Also reached if the search ends first and cancels this task:
            # the run then keeps the prediction.
            if reason:
                evaluation = keep_prediction(predicted, reason)
                self._reasons.setdefault(device, Counter())[reason] += 1
            self.measured[predicted.configuration] = evaluation
            self._run.append(evaluation)


def keep_prediction(predicted: Evaluation, reason: str) -> Evaluation:
    """Return a predicted evaluation whose latency also says why it was not measured."""
    assert predicted.status is Status.OK
    assert predicted.latency is not None, "a device of a cloud has a prediction"
    source = f"not measured: {reason}"
    if predicted.latency.source:
        source = f"{predicted.latency.source}; {source}"
    return replace(predicted, latency=replace(predicted.latency, source=source))
