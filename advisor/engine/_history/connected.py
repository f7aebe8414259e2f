"""Measure files of earlier runs that may become the pick on a connected device.

A re-evaluation makes one ``ConnectedDevice`` for each device, which asks it once for all runs, and
calls ``measure_finalists`` for each run. The hashes of ``hash_conditions`` and ``hash_figures``
are kept in manifests: a change of their content measures every run once more.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from advisor.core import AdvisorError, Evaluation, Status, plural, show_latency, show_seconds
from advisor.devices import NotOnUnit, Profiles, needs_export
from advisor.engine._decide import decide_run
from advisor.engine._execution import call_in_own_thread
from advisor.engine._history.earlier_timings import describe_earlier, with_latency_of
from advisor.engine._history.loaded_run import LoadedRun
from advisor.engine._pipeline.walker import run_coroutine
from advisor.engine._targets.beside import AT_ONCE, keep_prediction
from advisor.engine._targets.device_measurement import (
    Throttled,
    mark_failed,
    mark_measured,
    time_over_connection,
)
from advisor.engine._targets.device_prediction import MIN_BUDGET_PROBABILITY
from advisor.engine._targets.target_devices import TargetDevice
from advisor.store import Problem, sha256_json

if TYPE_CHECKING:
    from advisor.devices import ConnectionSettings

MOST_FILES = 5
"""Files of a run that are measured on a device if the user says nothing else."""

ATTEMPTS = 2
"""Attempts to measure a file that fails on a device which is still there: the device may have
started again meanwhile.
"""

LIMIT_S = 600.0
"""Seconds after which no measurement begins on a device if the user says nothing else."""

NO_UPLOAD: Mapping[str, Any] = MappingProxyType(
    {"upload": False, "upload_images": None, "cloud_limit": ""}
)

Evaluations = tuple[Evaluation, ...]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Measuring:
    """The options for measuring files of earlier runs on devices."""

    #: connection that the options name; None for that of each profile
    settings: ConnectionSettings | None = None
    #: what may be sent to a cloud, as :class:`.UploadOptions`
    upload: Mapping[str, Any] = field(default_factory=lambda: NO_UPLOAD)
    #: most files of each run that are measured on a device; 0 to predict all
    most_files: int = MOST_FILES
    limit_s: float = LIMIT_S  #: seconds after which no measurement begins

    def may_measure(self, device: TargetDevice) -> bool:
        """Return whether the files of a run are measured on a device:
        it is connected, and a cloud may get them.
        """
        connection = self.settings or device.profile.connection
        if connection is None or not self.most_files:
            return False
        # A runtime of this machine is measured here, see `remeasurement.py`.
        if device.runtime is not None or not is_measurable(device):
            return False
        return not connection.in_cloud or connection.allow_upload(self.upload).upload.files

    def explain_prediction(
        self, name: str, device: TargetDevice, evaluations: Iterable[Evaluation]
    ) -> tuple[str, ...]:
        """Return why files are not measured on a connected device that might run them,
        and what counts instead.
        """
        if (self.settings or device.profile.connection) is None or self.may_measure(device):
            return ()
        why = f"{device.target.runtime} cannot be measured over a connection"
        if not self.most_files:
            why = "--measure 0 asks no device"
        elif device.in_cloud:
            why = "nothing is sent to a cloud without --upload"
        result = "not measured"
        earlier = describe_earlier(evaluations)
        if earlier:
            result = f"{result}, {earlier}"
        return (f"{name}: {result}: {why}",)


class Attempt(NamedTuple):
    """A file that was to be measured; with a ``reason``, its latency stays."""

    evaluation: Evaluation
    reason: str = ""


@dataclass(frozen=True)
class Finalists:
    """The evaluations of a run on a connected device,
    after those files were measured that may become its pick.

    Attributes:
        evaluations: all evaluations of the run on the device.
        attempts: the files that were to be measured.
        stop_reason: why the other files were not measured.
        cut_short: a limit or the device ended it, so that another call goes on.
        files_gone: number of files that the run does not have any more.
    """

    evaluations: Evaluations
    attempts: tuple[Attempt, ...] = ()
    stop_reason: str = ""
    cut_short: bool = False
    files_gone: int = 0

    @property
    def measured(self) -> Evaluations:
        """The evaluations that were measured now."""
        measured = []
        for evaluation, reason in self.attempts:
            if not reason and evaluation.status is Status.OK:
                measured.append(evaluation)
        return tuple(measured)

    def hash_figures(self, predictions: str) -> str:
        """Return the hash of what the latencies depend on:
        that of the predictions, with all that were measured.
        """
        known = []
        for row in self.evaluations:
            if row.remote is not None and row.latency is not None:
                known.append([row.artefact_sha256, row.latency.value, row.remote.software])
        failed = []
        for evaluation, _reason in self.attempts:
            if evaluation.status is Status.FAILED:
                failed.append(evaluation.artefact_sha256)
        # Without a measurement, a run is current as long as the predictions are.
        if not known and not failed:
            return predictions
        return sha256_json([predictions, sorted(known), sorted(failed)])

    @property
    def is_complete(self) -> bool:
        """True if another attempt would measure nothing more."""
        return not self.cut_short and not any(attempt.reason for attempt in self.attempts)


class ConnectedDevice:
    """A device over its connection: whether it is there,
    and what was measured on it for earlier runs.

    ``software`` is what the device says of its system, ``missing`` why it cannot be measured;
    empty if it is there.
    """

    def __init__(
        self,
        name: str,
        device: TargetDevice,
        measuring: Measuring,
        profiles: Profiles,
    ) -> None:
        connection = measuring.settings or device.profile.connection
        assert connection is not None, "the device is connected"
        self._name = name  # as the user wrote it: of a cloud's device, the profile has another
        self._measuring = measuring
        self._ends_at = time.monotonic() + measuring.limit_s
        self._measured: dict[str, Evaluation] = {}
        if connection.in_cloud:
            connection = connection.allow_upload(measuring.upload)
        by_options = measuring.settings is not None
        self.software = ""
        self.missing = ""
        try:
            # An impossible tool or unit is reported before the device is asked for anything.
            connection.connect(device.target.accelerator)
            if by_options and connection.way == "adb":
                profiles.refuse_other_phone(device.profile, connection)
            presence = connection.ask()
            connection = presence.settings
            self.software = presence.software
            self.missing = presence.missing
        except AdvisorError as error:
            # The user gave the options now, so a failure is an error.
            # A profile names what was there at its time.
            if by_options:
                raise
            self.missing = error.message
        self.device = replace(device, profile=replace(device.profile, connection=connection))
        # If a cloud does not answer, the selection of the device has said so already.
        if self.missing and not connection.in_cloud:
            _log.warning("%s is not measured, and its figures stay: %s", name, self.missing)

    def explain_absence(self, evaluations: Iterable[Evaluation]) -> tuple[str, ...]:
        """Return why nothing can be measured now, and what counts instead;
        empty if the device is there.
        """
        if not self.missing:
            return ()
        figures = describe_earlier(evaluations) or "its predictions stay"
        return (f"{self._name}: not measured, {figures}: {self.missing}",)

    def hash_conditions(self, predictions: str) -> str:
        """Return the hash of what measured figures and predictions depend on now;
        empty if the device is away.
        """
        if self.missing:
            return ""
        # With a higher limit, further files are measured.
        return sha256_json([predictions, self.software, self._measuring.most_files])

    def measure_finalists(
        self, run: LoadedRun, evaluations: Evaluations, tell: Callable[[str], None]
    ) -> Finalists:
        """Measure the files that may become the pick of a run, the best first,
        until the limits of the user.

        A file keeps its latency if it is not in the run,
        or if the device goes away or becomes hot meanwhile.
        """
        rows = {evaluation.configuration.key: evaluation for evaluation in evaluations}
        gone = set()
        for key, row in rows.items():
            if row.status is Status.OK and Problem.find_in_artefact(run.folder, row):
                gone.add(key)
        # What an earlier call measured with the same software counts towards the limit.
        done = {key for key, row in rows.items() if self._is_current(row)}
        most = self._measuring.most_files
        at_once = AT_ONCE if self.device.in_cloud else 1
        attempts = list[Attempt]()
        stop_reason = ""
        while not self.missing and time.monotonic() < self._ends_at:
            if len(done) >= most:
                stop_reason = f"the limit is {plural(most, 'file')} of a run (--measure)"
                break
            batch = self._choose_files(run, rows, done | gone, min(most - len(done), at_once))
            if not batch:
                stop_reason = "no other can become the pick"
                break
            results = self._measure_files(run, batch, tell)
            attempts += results
            for attempt in results:
                key = attempt.evaluation.configuration.key
                done.add(key)
                rows[key] = attempt.evaluation
        cut_short = not stop_reason
        if cut_short:
            limit = f"the time limit of {show_seconds(self._measuring.limit_s)} is over"
            stop_reason = self.missing or limit
        return Finalists(tuple(rows.values()), tuple(attempts), stop_reason, cut_short, len(gone))

    def describe_finalists(self, finalists: Finalists) -> tuple[str, ...]:
        """Return in sentences what was measured for a run, and what was not."""
        label = self._name
        if self.missing and not finalists.attempts:
            return self.explain_absence(finalists.evaluations)
        sentences = []
        if finalists.measured:
            figures = []
            for row in finalists.measured:
                figures.append(f"{_name_file(row)} {show_latency(row.latency)}")
            software = f" ({self.software})" if self.software else ""
            sentences.append(f"{label}{software}: measured {', '.join(figures)}")
        # Files without a current latency that no other sentence names.
        others = -finalists.files_gone
        for row in finalists.evaluations:
            others += row.status is Status.OK and not self._is_current(row)
        for evaluation, reason in finalists.attempts:
            file = _name_file(evaluation)
            if reason:
                sentences.append(f"{label}: the latency of {file} stays: {reason}")
                others -= 1
            elif evaluation.status is Status.FAILED:
                sentences.append(f"{label}: {file} does not run there: {evaluation.reason}")
        if finalists.files_gone:
            files = plural(finalists.files_gone, "file")
            sentences.append(f"{label}: {files} not measured: no longer in the run")
        if others > 0:
            files = plural(others, "file")
            sentences.append(f"{label}: {files} not measured: {finalists.stop_reason}")
        return tuple(sentences)

    def _is_current(self, row: Evaluation) -> bool:
        """Return whether a latency was measured on this device with its present software."""
        if row.status is not Status.OK or row.remote is None:
            return False
        return row.remote.software == self.software

    def _choose_files(
        self,
        run: LoadedRun,
        rows: Mapping[str, Evaluation],
        done: set[str],
        most: int,
    ) -> list[Evaluation]:
        """Return at most ``most`` files to measure next: the pick,
        then what would be it without the others.
        """
        keys = list[str]()
        while len(keys) < most:
            key = self._find_next(run, rows, done.union(keys))
            if not key:
                break
            keys.append(key)
        return [rows[key] for key in keys]

    def _find_next(self, run: LoadedRun, rows: Mapping[str, Evaluation], done: set[str]) -> str:
        """Return the key of the best file that is not done;
        empty if no other may become the pick.
        """
        question = replace(run.question, devices=(self.device.label,))
        limits = replace(question.limits, confidence=MIN_BUDGET_PROBABILITY)
        left = [row for key, row in rows.items() if key not in done]
        # First what is predicted to meet the limits,
        # then what might meet the budget with a small chance.
        for stated in (question, replace(question, limits=limits)):
            for candidates in (tuple(rows.values()), left):
                decision = decide_run(run.folder, candidates, stated, judged_first=False).decision
                pick = decision.pick
                if pick is not None and decision.feasible and pick.configuration.key not in done:
                    return pick.configuration.key
        return ""

    def _measure_files(
        self, run: LoadedRun, rows: Sequence[Evaluation], tell: Callable[[str], None]
    ) -> list[Attempt]:
        """Measure files: in turn on a device, at once in a cloud, which has many of a name."""
        for row in rows:
            tell(f"measuring {_name_file(row)} on {self._name}")

        async def measure() -> list[Attempt]:
            # In threads that an interrupt leaves behind:
            # a job may wait for a device of a cloud for an hour.
            jobs = [call_in_own_thread(self._measure_file, run, row) for row in rows]
            return await asyncio.gather(*jobs)

        return run_coroutine(measure())

    def _measure_file(self, run: LoadedRun, row: Evaluation) -> Attempt:
        """Return a file as measured, as failed if it does not run there,
        or with its latency and why it stays.
        """
        known = self._measured.get(row.artefact_sha256)
        if known is not None:
            return Attempt(with_latency_of(row, known))
        reason = ""
        for _ in range(ATTEMPTS):
            try:
                label, timing = time_over_connection(self.device, run.folder.path / row.artefact)
            except Throttled as error:
                return _keep_latency(row, error.message)
            except NotOnUnit as error:
                return Attempt(mark_failed(row, error.message))
            except AdvisorError as error:
                reason = error.message
                if self._is_away():
                    self.missing = reason
                # A cloud has tried again itself, and its queue may be long.
                if self.missing or self.device.in_cloud or time.monotonic() >= self._ends_at:
                    return _keep_latency(row, reason)
            else:
                measured = mark_measured(row, timing, label, self.software)
                self._measured[row.artefact_sha256] = measured
                return Attempt(measured)
        # The device is there and does not run the file, as in a search.
        return Attempt(mark_failed(row, reason))

    def _is_away(self) -> bool:
        """Return whether the device does not answer any more; a cloud has others of its name."""
        connection = self.device.profile.connection
        if connection is None or connection.in_cloud:
            return False
        return bool(connection.ask().missing)


def _keep_latency(row: Evaluation, reason: str) -> Attempt:
    """Return a file with the latency that it has:
    a prediction says why, and an earlier timing has its date.
    """
    if row.remote is None:
        row = keep_prediction(row, reason)
    return Attempt(row, reason)


def _name_file(row: Evaluation) -> str:
    return f"{row.configuration.card} {row.configuration.variant_name}"


def is_measurable(device: TargetDevice) -> bool:
    """Return whether files can be timed on a target over a connection, if need be as exports."""
    return device.target.measurable or needs_export(device.target.runtime)
