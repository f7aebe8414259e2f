"""Re-evaluate earlier runs for everything that changed since: predict, measure and score again;
nothing is trained.

``advisor reevaluate`` makes one ``Session`` for all its runs. For each run it finds what changed
and which run to start from, evaluates this machine first and then each device, and writes each
answer as a new run beside the parent, which stays as it is. The work on files is in
``remeasurement.py`` (this machine) and ``connected.py`` (devices over a connection).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from advisor.core import HOST, AdvisorError, Evaluation, UsageError, plural
from advisor.engine._history.changes import Changes, find_changes
from advisor.engine._history.chosen_devices import Devices
from advisor.engine._history.compare import Comparison, Reevaluation
from advisor.engine._history.connected import ConnectedDevice, Finalists
from advisor.engine._history.earlier_timings import with_day, with_earlier_timings
from advisor.engine._history.loaded_run import LoadedRun
from advisor.engine._history.origins import (
    Child,
    Origin,
    find_latest_descendant,
    read_origin,
    read_origins,
)
from advisor.engine._history.remeasurement import (
    Answers,
    Evaluations,
    Tell,
    judge_pick,
    remeasure_files,
    run_here,
)
from advisor.engine._question import Request, resolve
from advisor.engine._targets.device_measurement import before_measuring
from advisor.engine._targets.device_prediction import environment_of
from advisor.engine._targets.device_rows import one_each, select_rows
from advisor.engine._targets.target_devices import TargetDevice, at_threads, remarks_of
from advisor.isolation import Scratch
from advisor.store import RunFolder

Search = Callable[[Request], RunFolder]
"""Runs a search and returns its run folder. It is passed in, because the search uses this room."""


class Reports(Protocol):
    """Writes the report files of runs that have none.
    It is passed in, because the reports use this room.
    """

    def write(self, run: LoadedRun) -> None:
        """Write the files of a run, now or while other runs are answered."""

    def wait(self) -> None:
        """Return when the files of all runs are written."""


@dataclass(frozen=True)
class _DeviceTask:
    """The re-evaluation of one run for one device.

    Attributes:
        origin: the run that the user named.
        start: the run to compare with: ``origin``, or its latest re-evaluation for the device.
        selector: the device as the user wrote it.
        device: its profile and target.
        connected: its connection; None if its files are predicted, or run on this machine.
        predictions: hash of what predictions for the device depend on now.
        conditions: hash of what measurements on it depend on now; empty if nothing can be
            measured on it over a connection.
    """

    origin: Origin
    start: Origin
    selector: str
    device: TargetDevice
    connected: ConnectedDevice | None
    predictions: str
    conditions: str

    @property
    def place(self) -> TargetDevice:
        """The device with the connection that measures it, if one does."""
        # The options may connect to a device whose profile names no connection.
        if self.connected is not None and self.conditions:
            return self.connected.device
        return self.device

    @property
    def cause(self) -> str:
        """The reason in words why the run is answered again."""
        change = "changed" if self.start.device == self.selector else "added"
        return f"the device {self.selector} was {change}"

    def explain_measuring(self, finalists: Finalists) -> str:
        """Return the reason in words after files were measured."""
        if self.start.device == self.selector and self.start.predictions == self.predictions:
            return f"{plural(len(finalists.measured), 'file')} measured on {self.selector}"
        return self.cause


@dataclass
class Session:
    """The re-evaluation of one run or of several,
    or with ``since_last`` of their latest re-evaluations.

    Attributes:
        devices: the devices that the user named, beside this machine.
        search: searches among cards that are new in the catalogue.
        since_last: start from the latest re-evaluation of a run in place of the run itself.
        tell: is called with a line about each step.
        reports: writes the reports of new runs; None for no reports.
        known: all runs in the folder of the runs, oldest first, with those of this session.
    """

    devices: Devices
    search: Search
    since_last: bool = False
    tell: Tell = lambda _text: None
    reports: Reports | None = None
    known: list[Origin] = field(default_factory=list, init=False)
    _opened: dict[Path, RunFolder] = field(default_factory=dict, init=False)
    _loaded: dict[Path, LoadedRun] = field(default_factory=dict, init=False)

    def reevaluate(self, run: Path) -> tuple[Reevaluation, ...]:
        """Re-evaluate a run: on this machine where its runtime,
        the machine or the catalogue changed; on devices.
        """
        folder = RunFolder.open(run)
        self._opened[folder.path] = folder
        self.known = list(read_origins(folder.path.parent))
        return tuple(self._reevaluate_origin(read_origin(folder.path)))

    def reevaluate_all(self, out: Path) -> Iterator[Reevaluation]:
        """Re-evaluate every search under ``out``, oldest first;
        one that cannot be read is reported and skipped.
        """
        if not out.is_dir():
            hint = (
                "name the folder that holds your runs; advisor search makes the first one in runs/"
            )
            raise UsageError(f"--runs: '{out}' is not a folder", hint)
        self.known = list(read_origins(out))
        # Only searches: their re-evaluations are found from them.
        # The list is a copy, as new runs are added to `known`.
        searches = [origin for origin in self.known if not origin.parent]
        for origin in searches:
            try:
                yield from self._reevaluate_origin(origin)
            except (AdvisorError, OSError) as error:
                message = getattr(error, "message", str(error))
                yield Reevaluation(origin.path.name, origin.device, error=message)

    def _reevaluate_origin(self, origin: Origin) -> Iterator[Reevaluation]:
        """Yield the re-evaluation of one run on this machine, then on each device:
        those start from its new run.
        """
        self._loaded.clear()
        if origin.device == HOST:
            outcome = self._evaluate_host(origin)
            yield outcome
            # Devices start from the host's new run,
            # so an error there leaves them nothing to start from.
            if outcome.error:
                return
        for selector, device in self.devices.named:
            # A run for one device is answered again for that device alone.
            if origin.device in (HOST, selector):
                yield self._evaluate_device(origin, selector, device)

    def _load_run(self, path: Path) -> LoadedRun:
        """Return a run, which all devices of one origin share."""
        if path not in self._loaded:
            self._loaded[path] = LoadedRun.load(self._opened.get(path, path))
        return self._loaded[path]

    def _load_searched(self, origin: Origin) -> LoadedRun:
        """Return the run with the files:
        a run for another device has predictions, and no files.
        """
        source: Origin | None = origin
        if origin.device != HOST:
            source = find_latest_descendant(origin.root, HOST, self.known)
        if source is None:
            why = f"the search '{origin.root}' that '{origin.path.name}' came from is gone"
            raise UsageError(why, "search again")
        return self._load_run(source.path)

    def _find_start(self, origin: Origin, device: str) -> Origin:
        """Return the run to start from: this one,
        or with ``since_last`` its latest descendant for the device.
        """
        latest = None
        if self.since_last:
            latest = find_latest_descendant(origin.root, device, self.known)
        return latest or origin

    def _find_child(self, parent: Origin, fits: Callable[[Origin], bool]) -> RunFolder | None:
        """Return the latest run that was made from ``parent`` and fits, or None."""
        for origin in reversed(self.known):
            if origin.parent == parent.path.name and fits(origin):
                return RunFolder.open(origin.path)
        return None

    def _write_child(self, parent: LoadedRun, start: Origin, child: Child) -> RunFolder:
        """Return the new run with the content of a child."""
        run = child.write(parent, start)
        self.known.append(read_origin(run.path))
        return run

    def _compare_with_parent(
        self,
        before: LoadedRun,
        device: str,
        causes: tuple[str, ...],
        child: RunFolder,
        remarks: tuple[str, ...],
    ) -> Reevaluation:
        """Return a run that was made now or before, compared with its parent;
        its report is written if it has none.
        """
        after = LoadedRun.load(child)
        comparison = Comparison.of_runs(before, after)
        if self.reports:
            self.reports.write(after)
        return Reevaluation(before.name, device, causes, child.path, comparison, remarks)

    def _evaluate_host(self, origin: Origin) -> Reevaluation:
        """Measure again what a new runtime or machine made outdated,
        and evaluate new cards that need no training.
        """
        start = self._find_start(origin, HOST)
        run = self._load_run(start.path)
        run.require_proof()
        if run.too_early:
            return Reevaluation(run.name, HOST, error=run.too_early)
        changes = find_changes(run, self.devices.predictor)
        causes = changes.causes
        remarks = changes.remarks
        if not changes.need_work:
            return Reevaluation(run.name, HOST, causes, remarks=remarks)
        child = self._find_child(start, lambda known: known.environment == changes.environment)
        if child is None:
            self.tell(f"{run.name}: {'; '.join(causes)}")
            child, more_remarks = self._make_host_run(start, changes)
            remarks = (*remarks, *more_remarks)
        return self._compare_with_parent(run, HOST, causes, child, remarks)

    def _make_host_run(self, start: Origin, changes: Changes) -> tuple[RunFolder, tuple[str, ...]]:
        """Return the new run, and what could not be done."""
        run = changes.run
        evaluations = run.evaluations
        remarks = tuple[str, ...]()
        answers: Answers = {}
        if changes.host:
            evaluations, answers, remarks = self._remeasure_host(run)
        # Timings of this machine are new by now, and the predictions start from them.
        evaluations = self._replace_devices(run, evaluations, changes.devices)
        with ExitStack() as stack:
            sources: tuple[Path, ...] = ()
            if changes.new_cards:
                folder = stack.enter_context(Scratch())
                try:
                    searched = evaluate_cards(run, changes.new_cards, folder, self.search)
                    sources = (searched.path,)
                    evaluations = merge_evaluations(evaluations, searched.evaluations())
                except AdvisorError as error:
                    names = ", ".join(changes.new_cards)
                    remarks = (*remarks, f"{names} could not be evaluated: {error.message}")
            # The new run takes files from the folder of this search, which is removed then.
            child = Child(
                evaluations, HOST, changes.environment, changes.manifest, answers, sources
            )
            return self._write_child(run, start, child), remarks

    def _remeasure_host(self, run: LoadedRun) -> tuple[Evaluations, Answers, tuple[str, ...]]:
        """Measure the files of a run on this machine; rows of other devices stay as they are."""
        # Measuring needs a quiet machine.
        if self.reports:
            self.reports.wait()
        rows_here = select_rows(run.evaluations, HOST)
        rows_elsewhere = []
        for evaluation in run.evaluations:
            if evaluation.configuration.target.device != HOST:
                rows_elsewhere.append(evaluation)
        measured, answers, remarks = remeasure_files(
            replace(run, evaluations=rows_here), self.tell
        )
        return (*measured, *rows_elsewhere), answers, remarks

    def _replace_devices(
        self, run: LoadedRun, evaluations: Evaluations, devices: Sequence[TargetDevice]
    ) -> Evaluations:
        """Return the evaluations; those on some devices are made again from the others."""
        names = {device.label for device in devices}
        others = []
        for evaluation in evaluations:
            if evaluation.configuration.target.device not in names:
                others.append(evaluation)
        replaced = list[Evaluation]()
        for device in devices:
            replaced += self._evaluate_artefacts(run, evaluations, device)
        return (*others, *replaced)

    def _evaluate_artefacts(
        self, run: LoadedRun, evaluations: Sequence[Evaluation], device: TargetDevice
    ) -> Evaluations:
        """Return each artefact of the run on a device:
        predicted, or measured on this machine, in a runtime or an interpreter.
        """
        if device.runtime is not None:
            artefacts = one_each(evaluations)
            measured = list[Evaluation]()
            for target in at_threads(device, run.question.thread_counts):
                before = [before_measuring(evaluation, target) for evaluation in artefacts]
                measured += run_here(run, before, target, self.tell)
            return tuple(measured)
        limits = run.question.limits
        predicted = self.devices.predictor.evaluate(
            evaluations, device, limits.latency_ms, limits.confidence
        )
        if device.local:
            return run_here(run, predicted, device, self.tell)
        return predicted

    def _evaluate_device(
        self, origin: Origin, selector: str, device: TargetDevice
    ) -> Reevaluation:
        """Answer for a device, unless its answer is known:
        measured there, in a runtime of this machine, or predicted.
        """
        self.tell(f"{origin.path.name} on {selector}")
        connected = self.devices.connect(selector, device)
        predictions = environment_of(device, self.devices.predictor)
        conditions = connected.hash_conditions(predictions) if connected else ""
        start = self._find_start(origin, selector)
        # The hashes hold all that the figures depend on.
        # If they are equal, the same figures would come out.
        if start.is_current(predictions, conditions):
            return Reevaluation(start.path.name, selector)
        before = self._load_run(start.path)
        # No new run is made of one that has changed:
        # its figures would look as if they had been measured.
        before.require_proof()
        task = _DeviceTask(origin, start, selector, device, connected, predictions, conditions)
        # An interrupted command is repeated: what it made before is shown and not made again.
        latest = find_latest_descendant(origin.root, selector, self.known)
        # A later answer may have timings of a device that is away now.
        child = self._find_child(
            start, lambda known: known == latest and known.is_current(predictions, conditions)
        )
        if child is None:
            return self._evaluate_finalists(task, before)
        remarks = tuple[str, ...]()
        if not conditions:
            evaluations = child.evaluations()
            remarks = self._explain_figures(task, evaluations)
            if connected is not None:
                remarks = (*remarks, *connected.explain_absence(evaluations))
        return self._compare_with_parent(before, selector, (task.cause,), child, remarks)

    def _evaluate_finalists(self, task: _DeviceTask, before: LoadedRun) -> Reevaluation:
        """Evaluate the files for a device, and write a new run if their figures are others."""
        start = task.start
        searched = self._load_searched(task.origin)
        finalists, remarks = self._measure_finalists(task, searched)
        environment = finalists.hash_figures(task.predictions)
        if environment == start.environment:
            return Reevaluation(start.path.name, task.selector, remarks=remarks)
        child = self._find_child(start, lambda known: known.environment == environment)
        if child is None:
            evaluations, answers = judge_pick(
                searched, finalists.evaluations, task.selector, self.tell
            )
            profile = task.device.profile
            settled = task.conditions if finalists.is_complete else ""
            content = Child(
                evaluations,
                task.selector,
                environment,
                {
                    "devices": {profile.name: profile.fingerprint()},
                    "connections": task.device.connections,
                },
                answers,
                (searched.folder.path,),
                {"predictions": task.predictions, "settled": settled},
            )
            child = self._write_child(before, start, content)
        causes = (task.explain_measuring(finalists),)
        return self._compare_with_parent(before, task.selector, causes, child, remarks)

    def _measure_finalists(
        self, task: _DeviceTask, searched: LoadedRun
    ) -> tuple[Finalists, tuple[str, ...]]:
        """Return the evaluations on a device, measured where it is connected, and remarks."""
        evaluations = self._evaluate_artefacts(searched, searched.evaluations, task.place)
        earlier = self._list_earlier(task, searched)
        evaluations = with_earlier_timings(evaluations, earlier)
        remarks = tuple[str, ...]()
        if not task.conditions:
            remarks = self._explain_figures(task, evaluations)
        if task.connected is None:
            return Finalists(evaluations), remarks
        finalists = task.connected.measure_finalists(searched, evaluations, self.tell)
        return finalists, (*remarks, *task.connected.describe_finalists(finalists))

    def _explain_figures(
        self, task: _DeviceTask, evaluations: Sequence[Evaluation]
    ) -> tuple[str, ...]:
        """Return what limits the predictions on a device, and why its files are not measured."""
        reasons = self.devices.measuring.explain_prediction(
            task.selector, task.device, evaluations
        )
        # What limits predictions is of no use to a reader of measured latencies.
        if any(evaluation.remote is not None for evaluation in evaluations):
            return reasons
        return (*remarks_of(task.device), *reasons)

    def _list_earlier(self, task: _DeviceTask, searched: LoadedRun) -> list[Evaluation]:
        """Return what was evaluated on a device before, each with its day, later ones last."""
        runs = [searched]
        latest = find_latest_descendant(task.origin.root, task.selector, self.known)
        if latest is not None:
            runs.append(self._load_run(latest.path))
        earlier = list[Evaluation]()
        for run in runs:
            day = str(run.manifest.get("updated", ""))[:10]
            # The user may call the device by another name than its profile.
            for name in {task.selector, task.device.label}:
                earlier += with_day(select_rows(run.evaluations, name), day)
        return earlier


def evaluate_cards(
    run: LoadedRun, names: Sequence[str], folder: Path, search: Search
) -> RunFolder:
    """Search over some cards alone, and return the run:
    of a run without images, so that nothing is trained.
    """
    question = run.question
    paths = {
        "catalog": list(map(str, question.catalog)),
        "profiles": list(map(str, question.profiles)),
    }
    # The limit of trials was for the whole search, and would leave out forms of the new cards.
    forced = {"candidates": list(names), "out": str(folder), "max_trials": 0}
    return search(resolve({**run.request.written, **paths, **forced}))


def merge_evaluations(earlier: Sequence[Evaluation], later: Sequence[Evaluation]) -> Evaluations:
    """Return all evaluations; of two with the same key, the later one."""
    latest = {}
    for evaluation in (*earlier, *later):
        latest[evaluation.configuration.key] = evaluation
    return tuple(latest.values())
