"""Measure files of earlier runs that may become the pick on a connected device,
which is asked once for all runs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from advisor.core import (
    HOST,
    AdvisorError,
    Evaluation,
    Status,
    Target,
    UsageError,
    plural,
    show_latency,
    show_seconds,
)
from advisor.devices import (
    DeviceProfile,
    DeviceTarget,
    NotOnUnit,
    Profiles,
    canonical,
    list_own_devices,
    load_known_devices,
    needs_export,
)
from advisor.engine._decide import decide_run
from advisor.engine._history.loaded_run import LoadedRun
from advisor.engine._pipeline.walker import run_coroutine
from advisor.engine._targets.beside import AT_ONCE, call_in_thread, keep_prediction
from advisor.engine._targets.device_prediction import MIN_BUDGET_PROBABILITY, DevicePredictor
from advisor.engine._targets.multi_device import (
    Throttled,
    mark_failed,
    mark_measured,
    time_over_connection,
)
from advisor.engine._targets.target_devices import TargetDevice
from advisor.store import artefact_problem, sha256_json

if TYPE_CHECKING:
    from advisor.devices import ConnectionSettings

MOST_FILES = 5
"""Files of a run that are measured on a device if the user says nothing else."""

# Of a file that fails on a device that is still there: it may have started again meanwhile.
ATTEMPTS = 2

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
    #: what may be sent to a cloud, as :class:`advisor.core.UploadOptions`
    upload: Mapping[str, Any] = field(default_factory=lambda: NO_UPLOAD)
    #: most files of each run that are measured on a device; 0 to predict all
    most_files: int = MOST_FILES
    limit_s: float = LIMIT_S  #: seconds after which no measurement begins

    def may_measure(self, device: TargetDevice) -> bool:
        """Return whether the files of a run are measured on a device:
        it is connected, and a cloud may get them.
        """
        connection = self.settings or device.profile.connection
        if (
            connection is None
            or device.runtime is not None
            or not self.most_files
            or not _is_measurable(device)
        ):
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
        stays = _describe_measured_before(evaluations)
        return (f"{name}: not measured{f', {stays}' if stays else ''}: {why}",)

    def select_device(
        self, selectors: Sequence[str], profiles: Profiles
    ) -> tuple[str, DeviceProfile, DeviceTarget]:
        """Return the one device that the options connect to;
        without a name, the phone says what it is.

        UsageError if they do not name one device that the connection fits,
        or another phone is attached.
        """
        settings = self.settings
        assert settings is not None, "the options name a connection"
        option = f"--{settings.way}"
        if not selectors and settings.way == "adb":
            attached = profiles.describe_attached(settings)
            try:
                profiles.profile(attached.name)
            except UsageError:
                return attached.name, attached, attached.target()
            # A phone that people call by a name is that device, whether or not it is attached.
            selectors = [attached.name]
        if len(selectors) != 1:
            problem = f"{len(selectors)} devices are named" if selectors else "no device is named"
            raise UsageError(
                f"{option} connects to one device, and {problem}",
                "name the one that it is: --device NAME",
            )
        (selector,) = selectors
        profile, target = profiles.require_installed(selector)
        named = TargetDevice(selector, profile, target)
        if named.runtime is not None or named.in_cloud:
            place = "this machine" if named.runtime is not None else "a device of a cloud"
            raise UsageError(
                f"{option} does not lead to {selector}, which is {place}", f"leave out {option}"
            )
        if not _is_measurable(named):
            raise UsageError(
                f"{profile.name}:{target.name} runs {target.runtime}, which cannot be measured"
                " over a connection",
                f"name a target with TensorFlow Lite, or leave out {option} for a prediction",
            )
        return selector, profile, target


class Tried(NamedTuple):
    """A file that was to be measured; with a ``reason``, its latency stays."""

    evaluation: Evaluation
    reason: str = ""


@dataclass(frozen=True)
class Finalists:
    """The evaluations of a run on a connected device,
    after those files were measured that may become its pick.

    ``rest`` says why the other files were not measured. ``ended``: a limit or the device ended it,
    so that another call goes on. ``gone`` counts the files that the run does not have any more.
    """

    evaluations: Evaluations
    tried: tuple[Tried, ...] = ()
    rest: str = ""
    ended: bool = False
    gone: int = 0

    @property
    def measured(self) -> Evaluations:
        """The evaluations that were measured now."""
        done = [result.evaluation for result in self.tried if not result.reason]
        return tuple(row for row in done if row.status is Status.OK)

    def hash_figures(self, predictions: str) -> str:
        """Return the hash of what the latencies depend on:
        that of the predictions, with all that were measured.
        """
        known = []
        for row in self.evaluations:
            if row.remote is not None and row.latency is not None:
                known.append([row.artefact_sha256, row.latency.value, row.remote.software])
        failed = [
            result.evaluation.artefact_sha256
            for result in self.tried
            if result.evaluation.status is Status.FAILED
        ]
        return (
            sha256_json([predictions, sorted(known), sorted(failed)])
            if known or failed
            else predictions
        )

    @property
    def settled(self) -> bool:
        """True if another try would measure nothing more."""
        return not self.ended and not any(result.reason for result in self.tried)


class ConnectedDevice:
    """A device over its connection: whether it is there,
    and what was measured on it for earlier runs.
    """

    def __init__(
        self, name: str, device: TargetDevice, measuring: Measuring, profiles: Profiles
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
        stays = _describe_measured_before(evaluations) or "its predictions stay"
        return (f"{self._name}: not measured, {stays}: {self.missing}",)

    def hash_conditions(self, predictions: str) -> str:
        """Return the hash of what measured figures and predictions depend on now;
        empty if the device is away.
        """
        # With a higher limit, further files are measured.
        return (
            ""
            if self.missing
            else sha256_json([predictions, self.software, self._measuring.most_files])
        )

    def measure_finalists(
        self, run: LoadedRun, evaluations: Evaluations, tell: Callable[[str], None]
    ) -> Finalists:
        """Measure the files that may become the pick of a run, the best first,
        until the limits of the user.

        A file keeps its latency if it is not in the run,
        or if the device goes away or becomes hot meanwhile.
        """
        rows = {evaluation.configuration.key: evaluation for evaluation in evaluations}
        gone = []
        for key, row in rows.items():
            if row.status is Status.OK and artefact_problem(run.folder, row):
                gone.append(key)
        done = {key for key, row in rows.items() if self._is_current(row)}
        most = self._measuring.most_files
        tried = list[Tried]()
        rest = ""
        while not self.missing and time.monotonic() < self._ends_at:
            if len(done) >= most:
                rest = f"the limit is {plural(most, 'file')} of a run (--measure)"
                break
            room = min(most - len(done), AT_ONCE if self.device.in_cloud else 1)
            batch = self._choose(run, rows, {*done, *gone}, room)
            if not batch:
                rest = "no other can become the pick"
                break
            results = self._try_all(run, batch, tell)
            tried += results
            for result in results:
                key = result.evaluation.configuration.key
                done.add(key)
                rows[key] = result.evaluation
        ended = (
            self.missing or f"the time limit of {show_seconds(self._measuring.limit_s)} is over"
        )
        return Finalists(tuple(rows.values()), tuple(tried), rest or ended, not rest, len(gone))

    def describe_finalists(self, finalists: Finalists) -> tuple[str, ...]:
        """Return in sentences what was measured for a run, and what was not."""
        label = self._name
        if self.missing and not finalists.tried:
            return self.explain_absence(finalists.evaluations)
        sentences = []
        if finalists.measured:
            figures = []
            for row in finalists.measured:
                figures.append(f"{_name_file(row)} {show_latency(row.latency)}")
            software = f" ({self.software})" if self.software else ""
            sentences.append(f"{label}{software}: measured {', '.join(figures)}")
        others = -finalists.gone
        for row in finalists.evaluations:
            others += row.status is Status.OK and not self._is_current(row)
        for evaluation, reason in finalists.tried:
            if reason:
                sentences.append(
                    f"{label}: the latency of {_name_file(evaluation)} stays: {reason}"
                )
                others -= 1
            elif evaluation.status is Status.FAILED:
                sentences.append(
                    f"{label}: {_name_file(evaluation)} does not run there: {evaluation.reason}"
                )
        if finalists.gone:
            sentences.append(
                f"{label}: {plural(finalists.gone, 'file')} not measured: no longer in the run"
            )
        if others > 0:
            sentences.append(f"{label}: {plural(others, 'file')} not measured: {finalists.rest}")
        return tuple(sentences)

    def _is_current(self, row: Evaluation) -> bool:
        """Return whether a latency was measured on this device with the software that it has
        now.
        """
        return (
            row.status is Status.OK
            and row.remote is not None
            and row.remote.software == self.software
        )

    def _choose(
        self, run: LoadedRun, rows: Mapping[str, Evaluation], done: set[str], room: int
    ) -> list[Evaluation]:
        """Return the files to measure next: the pick, then what would be it without the others;
        at most ``room``.
        """
        chosen = list[Evaluation]()
        while len(chosen) < room:
            key = self._find_next(run, rows, {*done, *(row.configuration.key for row in chosen)})
            if not key:
                break
            chosen.append(rows[key])
        return chosen

    def _find_next(self, run: LoadedRun, rows: Mapping[str, Evaluation], done: set[str]) -> str:
        """Return the key of the best file that is not done; empty if no other may become the
        pick.
        """
        question = replace(run.question, devices=(self.device.label,))
        limits = replace(question.limits, confidence=MIN_BUDGET_PROBABILITY)
        left = [row for key, row in rows.items() if key not in done]
        # First what is predicted to meet the limits,
        # then what might meet the budget with a small chance.
        for asked in (question, replace(question, limits=limits)):
            for candidates in (tuple(rows.values()), left):
                decision = decide_run(run.folder, candidates, asked, judged_first=False).decision
                pick = decision.pick
                if pick is not None and decision.feasible and pick.configuration.key not in done:
                    return pick.configuration.key
        return ""

    def _try_all(
        self, run: LoadedRun, rows: Sequence[Evaluation], tell: Callable[[str], None]
    ) -> list[Tried]:
        """Measure files: in turn on a device, at once in a cloud, which has many of a name."""
        for row in rows:
            tell(f"measuring {_name_file(row)} on {self._name}")

        async def measure() -> list[Tried]:
            # In threads that an interrupt leaves behind:
            # a job may wait for a device of a cloud for an hour.
            return await asyncio.gather(
                *(call_in_thread(partial(self._try, run, row)) for row in rows)
            )

        return run_coroutine(measure())

    def _try(self, run: LoadedRun, row: Evaluation) -> Tried:
        """Return a file as measured, as failed if it does not run there,
        or with its latency and why it stays.
        """
        known = self._measured.get(row.artefact_sha256)
        if known is not None:
            return Tried(with_latency_of(row, known))
        reason = ""
        for _ in range(ATTEMPTS):
            try:
                label, timing = time_over_connection(self.device, run.folder.path / row.artefact)
            except Throttled as error:
                return _keep(row, error.message)
            except NotOnUnit as error:
                return Tried(mark_failed(row, error.message))
            except AdvisorError as error:
                reason = error.message
                if self._is_away():
                    self.missing = reason
                # A cloud has tried again itself, and its queue may be long.
                if self.missing or self.device.in_cloud or time.monotonic() >= self._ends_at:
                    return _keep(row, reason)
            else:
                measured = mark_measured(row, timing, label, self.software)
                self._measured[row.artefact_sha256] = measured
                return Tried(measured)
        # The device is there and does not run the file, as in a search.
        return Tried(mark_failed(row, reason))

    def _is_away(self) -> bool:
        """Return whether the device does not answer any more; a cloud has others of its name."""
        connection = self.device.profile.connection
        return (
            connection is not None and not connection.in_cloud and bool(connection.ask().missing)
        )


@dataclass(frozen=True)
class Devices:
    """The devices to re-evaluate for, as the user named them, their predictor,
    and how they are measured.
    """

    targets: tuple[tuple[str, DeviceProfile, DeviceTarget], ...] = ()
    measuring: Measuring = Measuring()
    profiles: Profiles = field(default_factory=lambda: Profiles(()))
    _connected: dict[str, ConnectedDevice] = field(default_factory=dict, init=False)

    @classmethod
    def chosen(
        cls,
        selectors: Sequence[str],
        folders: Sequence[Path],
        settings: ConnectionSettings | None = None,
        *,
        upload: Mapping[str, Any] = NO_UPLOAD,
        most_files: int = MOST_FILES,
        limit_s: float = LIMIT_S,
    ) -> Devices:
        """Return the named devices, also those in ``folders``;
        without names all of ``folders`` and of the team.

        A device that the options connect to is asked at once: a wrong phone is an error before any
        work. The other arguments are those of :class:`Measuring`.
        """
        measuring = Measuring(settings, upload, most_files, limit_s)
        profiles = load_known_devices(folders)
        names = selectors or list_own_devices(profiles)
        if HOST in map(canonical, names):
            raise UsageError(
                "--device: 'host' is this machine, which is measured, not predicted",
                "leave it out",
            )
        if settings is not None:
            chosen = cls((measuring.select_device(selectors, profiles),), measuring, profiles)
            ((selector, profile, target),) = chosen.targets
            chosen.connect(selector, TargetDevice(profile.name, profile, target))
            return chosen
        return cls(
            tuple((name, *profiles.require_installed(name)) for name in names), measuring, profiles
        )

    def connect(self, selector: str, device: TargetDevice) -> ConnectedDevice | None:
        """Return the connection to a device, which is asked once for all runs;
        None if its files are predicted.
        """
        if not self.measuring.may_measure(device):
            return None
        if selector not in self._connected:
            self._connected[selector] = ConnectedDevice(
                selector, device, self.measuring, self.profiles
            )
        return self._connected[selector]

    @cached_property
    def predictor(self) -> DevicePredictor:
        """The predictor of latencies; all runs of the command share what it remembers."""
        return DevicePredictor()


def with_latency_of(row: Evaluation, measured: Evaluation) -> Evaluation:
    """Return an evaluation with what was measured of the same file on the same target."""
    return replace(
        row,
        latency=measured.latency,
        latency_p90=measured.latency_p90,
        memory=measured.memory or row.memory,
        timing=measured.timing,
        remote=measured.remote,
        latency_distribution=None,
        budget_probability=None,
    )


def with_earlier_timings(evaluations: Evaluations, earlier: Iterable[Evaluation]) -> Evaluations:
    """Return the evaluations, those of files that ran on the same target
    before with the latency from then.
    """
    known = {}
    for row in earlier:
        latency = row.latency
        if (
            row.status is Status.OK
            and row.remote is not None
            and latency is not None
            and row.artefact_sha256
        ):
            known[_identify(row)] = row
    updated = []
    for row in evaluations:
        measured = known.get(_identify(row))
        can_run = row.status is Status.OK and measured is not None
        updated.append(with_latency_of(row, measured) if can_run and measured is not None else row)
    return tuple(updated)


def with_day(evaluations: Iterable[Evaluation], day: str) -> list[Evaluation]:
    """Return the evaluations; a measured latency that does not say on which day has ``day``,
    that of its run.
    """
    dated = []
    for row in evaluations:
        latency, timing = row.latency, row.timing
        if (
            day
            and row.remote is not None
            and latency is not None
            and timing is not None
            and not timing.measured_at
        ):
            source = f"{latency.source}; measured on {day}"
            row = replace(
                row,
                latency=replace(latency, source=source),
                timing=replace(timing, measured_at=day),
            )
        dated.append(row)
    return dated


def _describe_measured_before(evaluations: Iterable[Evaluation]) -> str:
    """Return that earlier measurements stay, with their days;
    empty if all latencies are predicted.
    """
    days = set()
    for row in evaluations:
        if row.remote is not None and row.timing is not None:
            days.add(row.timing.measured_at[:10])
    if not days:
        return ""
    known = sorted(filter(None, days))
    return f"what was measured {'on ' + ', '.join(known) if known else 'before'} stays"


def _keep(row: Evaluation, reason: str) -> Tried:
    """Return a file with the latency that it has:
    a prediction says why, and an earlier timing has its date.
    """
    return Tried(row if row.remote is not None else keep_prediction(row, reason), reason)


def _identify(row: Evaluation) -> tuple[str, Target]:
    """Return a file and its target, by whatever name the user called the device."""
    return row.artefact_sha256, replace(row.configuration.target, device="")


def _name_file(row: Evaluation) -> str:
    return f"{row.configuration.card} {row.configuration.variant_name}"


def _is_measurable(device: TargetDevice) -> bool:
    return device.target.measurable or needs_export(device.target.runtime)
