"""Re-evaluate earlier runs for everything that changed since; nothing is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from advisor.core.codec import Written
from advisor.core.errors import AdvisorError, UsageError
from advisor.core.evaluation import Evaluation
from advisor.core.expectation import on_device
from advisor.devices.profiles import HOST, DeviceProfile, DeviceTarget
from advisor.devices.profiles.listing import OWN, known_devices, own_folder, provenance
from advisor.devices.profiles.runtimes import canonical, require_runtime
from advisor.engine.history.compare import Comparison, compare
from advisor.engine.history.loaded_run import LoadedRun, load_run
from advisor.engine.history.reevaluation.changes import (
    Changes,
    Child,
    Origin,
    find_changes,
    latest_descendant,
    read_origin,
    read_origins,
    write_child,
)
from advisor.engine.history.reevaluation.remeasurement import Remeasured, Tell, remeasure, run_here
from advisor.engine.question import Request, resolve
from advisor.engine.targets.device_prediction import DevicePredictor, before_measuring, environment_of, one_each
from advisor.engine.targets.target_devices import TargetDevice, at_threads, prefer_tflite, remark_of
from advisor.isolation import Scratch
from advisor.store import RunFolder

Search = Callable[[Request], RunFolder]
"""Runs a search and returns its run folder. It is passed in, because the search uses this room."""


@dataclass(frozen=True)
class Reevaluation(Written):
    """The result of one re-evaluation.

    Attributes:
        parent: name of the run.
        device: the device that it was evaluated for.
        causes: what changed since the run, in words; empty where nothing did.
        run: the new run, or the one that was made for the same changes before; None where nothing changed.
        comparison: the new run compared with its parent; None where there is no new run.
        remarks: what could not be done.
        error: why the run could not be read or evaluated, or empty.
    """

    entries = (
        "run=parent", "device", "causes", "new_run=run", "changed", "remarks", "error", "comparison",
    )  # fmt: skip

    parent: str
    device: str
    causes: tuple[str, ...] = ()
    run: Path | None = None
    comparison: Comparison | None = None
    remarks: tuple[str, ...] = ()
    error: str = ""

    @property
    def changed(self) -> bool:
        """True where the recommendation changed, or got worse."""
        return self.comparison is not None and self.comparison.recommends_otherwise


@dataclass(frozen=True)
class Devices:
    """The devices to re-evaluate for, and their predictor.

    Attributes:
        targets: ``device`` or ``device:target`` as the user named it, with profile and target.
    """

    targets: tuple[tuple[str, DeviceProfile, DeviceTarget], ...] = ()

    @classmethod
    def chosen(cls, selectors: Sequence[str], folders: Sequence[Path]) -> Devices:
        """Return the named devices; without names, every device of ``folders`` and of the team's folder.

        A name may be that of a shipped device, of one added with ``advisor devices add``, or of one in ``folders``.

        Raises:
            UsageError: an unknown device or target, or a profile that is refused.
        """
        if not selectors and not folders and not own_folder().is_dir():
            return cls()
        profiles = known_devices(folders)
        names = selectors or [name for name, profile in profiles.items() if provenance(profile) == OWN]
        if HOST in map(canonical, names):
            raise UsageError("--device: 'host' is this machine, which is measured, not predicted", "leave it out")
        found = [(name, *prefer_tflite(name, *profiles.select(name))) for name in names]
        for _, profile, _ in found:
            require_runtime(profile)
        return cls(tuple(found))

    @cached_property
    def predictor(self) -> DevicePredictor:
        """The predictor of latencies, loaded when it is first needed."""
        return DevicePredictor()


@dataclass
class Session:
    """The re-evaluation of one run or of several.

    Attributes:
        devices: the devices to re-evaluate for.
        search: runs a search over new cards.
        since_last: start from the run's latest re-evaluation instead of from the run itself.
        tell: is called with what is being done.
        known: origins of every run in the folder; new runs are added.
    """

    devices: Devices
    search: Search
    since_last: bool = False
    tell: Tell = lambda _text: None
    known: list[Origin] = field(default_factory=list, init=False)

    def reevaluate(self, run: Path) -> tuple[Reevaluation, ...]:
        """Re-evaluate a run: on this machine where its runtime, the machine or the catalogue changed, and on devices.

        Raises:
            UsageError: not a run folder, or a damaged one.
        """
        path = RunFolder.open(run).path
        self.known = list(read_origins(path.parent))
        return tuple(_reevaluate(self, read_origin(path.resolve())))

    def reevaluate_all(self, out: Path) -> Iterator[Reevaluation]:
        """Re-evaluate every search under ``out``, oldest first; one that cannot be read is reported and skipped.

        Raises:
            UsageError: no such folder.
        """
        if not out.is_dir():
            raise UsageError(f"--runs: '{out}' is not a folder", "name the folder that holds the runs, such as runs")
        self.known = list(read_origins(out))
        for origin in [origin for origin in self.known if not origin.parent]:
            try:
                yield from _reevaluate(self, origin)
            except (AdvisorError, OSError) as error:
                yield Reevaluation(origin.path.name, origin.device, error=getattr(error, "message", str(error)))

    def start_of(self, origin: Origin, device: str) -> Origin:
        """Return the run to start from: this one, or with ``since_last`` its latest descendant for the device."""
        return (latest_descendant(origin.root, device, self.known) if self.since_last else None) or origin

    def existing(self, parent: Origin, environment: str) -> Path | None:
        """Return the run that was made from ``parent`` for the same environment, or None."""
        return next((o.path for o in self.known if o.parent == parent.path.name and o.environment == environment), None)

    def add(self, parent: LoadedRun, origin: Origin, child: Child) -> Path:
        """Write a new run and return its folder."""
        path = write_child(parent, origin, child).path
        self.known.append(read_origin(path))
        return path


def _reevaluate(session: Session, origin: Origin) -> Iterator[Reevaluation]:
    if origin.device == HOST:
        yield _on_host(session, origin)
    for selector, profile, target in session.devices.targets:
        if origin.device in (HOST, selector):
            yield _on_device(session, origin, selector, TargetDevice(profile.name, profile, target))


def _on_device(session: Session, origin: Origin, selector: str, device: TargetDevice) -> Reevaluation:
    """Predict the run's artefacts on a device, or measure them with a runtime of this machine, and decide anew."""
    session.tell(f"{origin.path.name} on {selector}")
    start = session.start_of(origin, selector)
    environment = environment_of(device, lambda: session.devices.predictor)
    if start.environment == environment:
        return Reevaluation(start.path.name, selector)
    causes = (f"the device {selector} was {'changed' if start.device == selector else 'added'}",)
    before = load_run(start.path)
    path = session.existing(start, environment)
    if path is None:
        measured = load_run(_measured_origin(session, origin).path)
        evaluations = _evaluate_anew(session, measured, measured.evaluations, device)
        manifest = {"devices": {device.profile.name: device.profile.fingerprint()}}
        child = Child(evaluations, selector, environment, manifest, sources=(measured.folder.path,))
        path = session.add(before, start, child)
    remarks = tuple(filter(None, [remark_of(device)]))
    return Reevaluation(before.name, selector, causes, path, compare(before, load_run(path)), remarks)


def _measured_origin(session: Session, origin: Origin) -> Origin:
    """Return the run on this machine that a device's run came from."""
    found = origin if origin.device == HOST else latest_descendant(origin.root, HOST, session.known)
    if found is None:
        raise UsageError(f"the search '{origin.root}' that '{origin.path.name}' came from is gone", "search again")
    return found


def _on_host(session: Session, origin: Origin) -> Reevaluation:
    """Measure again what a new runtime or machine made outdated, and evaluate new cards that need no training."""
    start = session.start_of(origin, HOST)
    run = load_run(start.path)
    changes = find_changes(run, lambda: session.devices.predictor)
    causes, remarks = changes.causes, changes.remarks
    if not changes.need_work:
        return Reevaluation(run.name, HOST, causes, remarks=remarks)
    path = session.existing(start, changes.environment)
    if path is None:
        session.tell(f"{run.name}: {'; '.join(causes)}")
        path, more = _write_new_run(session, start, changes)
        remarks = (*remarks, *more)
    return Reevaluation(run.name, HOST, causes, path, compare(run, load_run(path)), remarks)


def _write_new_run(session: Session, start: Origin, changes: Changes) -> tuple[Path, tuple[str, ...]]:
    """Return the folder of the new run, and what could not be done."""
    run, devices = changes.run, changes.devices
    measured = _remeasured(session, changes)
    evaluations, remarks = measured.evaluations, measured.remarks
    if devices:
        evaluations = _evaluate_again(session, run, evaluations, devices)
    with ExitStack() as stack:
        sources: tuple[Path, ...] = ()
        if changes.new_cards:
            folder = stack.enter_context(Scratch())
            try:
                new = evaluate_cards(run, changes.new_cards, folder, session.search)
                sources, evaluations = (new.path,), merge_evaluations(evaluations, new.evaluations())
            except AdvisorError as error:
                remarks = (*remarks, f"{', '.join(changes.new_cards)} could not be evaluated: {error.message}")
        child = Child(evaluations, HOST, changes.environment, changes.manifest, measured.answers, sources)
        return session.add(run, start, child), remarks


def _remeasured(session: Session, changes: Changes) -> Remeasured:
    """Return the run's evaluations; those on this machine are measured again where they are outdated."""
    run = changes.run
    if not changes.host:
        return Remeasured(run.evaluations)
    measured = remeasure(replace(run, evaluations=on_device(run.evaluations, HOST)), session.tell)
    others = (e for e in run.evaluations if e.configuration.target.device != HOST)
    return replace(measured, evaluations=(*measured.evaluations, *others))


def _evaluate_again(
    session: Session, run: LoadedRun, evaluations: Sequence[Evaluation], devices: Sequence[TargetDevice]
) -> tuple[Evaluation, ...]:
    """Return the evaluations; those on ``devices`` are predicted or measured anew."""
    names = {device.label for device in devices}
    others = [e for e in evaluations if e.configuration.target.device not in names]
    anew = [e for device in devices for e in _evaluate_anew(session, run, evaluations, device)]
    return (*others, *anew)


def _evaluate_anew(
    session: Session, run: LoadedRun, evaluations: Sequence[Evaluation], device: TargetDevice
) -> tuple[Evaluation, ...]:
    """Return each artefact of the run on a device: predicted, or measured with a runtime of this machine.

    Files for a microcontroller run in its interpreter on this machine.
    """
    if device.runtime is not None:
        devices = at_threads(device, run.question.thread_counts)
        made = one_each(evaluations)
        return tuple(
            found
            for each in devices
            for found in run_here(run, [before_measuring(one, each) for one in made], each, session.tell)
        )
    limits = run.question.limits
    predicted = session.devices.predictor.evaluate(evaluations, device, limits.latency_ms, limits.confidence)
    return run_here(run, predicted, device, session.tell) if device.local else predicted


def evaluate_cards(run: LoadedRun, names: Sequence[str], folder: Path, search: Search) -> RunFolder:
    """Search over some cards alone, and return the run with its evaluations and artefacts.

    Args:
        run: a run without images: nothing is trained.
        names: cards to evaluate.
        folder: takes the new run.
        search: runs the search.

    Raises:
        AdvisorError: no weights are available.
    """
    question = run.question
    paths = {"catalog": list(map(str, question.catalog)), "profiles": list(map(str, question.profiles))}
    own = {"candidates": list(names), "out": str(folder), "max_trials": 0}
    return search(resolve({**run.request.written, **paths, **own}))


def merge_evaluations(earlier: Sequence[Evaluation], later: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Return all evaluations; of two with the same key, the later one."""
    by_key = {evaluation.configuration.key: evaluation for evaluation in (*earlier, *later)}
    return tuple(by_key.values())
