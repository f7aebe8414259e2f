"""Re-evaluate a run on this machine: everything that a new runtime, machine, device or catalogue made outdated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from advisor.core.errors import AdvisorError
from advisor.core.worst_case import on_device
from advisor.devices.profiles import HOST
from advisor.engine.history.documents import section
from advisor.engine.history.loaded_run import LoadedRun, load_run
from advisor.engine.history.reevaluation.card_changes import (
    CardChanges,
    evaluate_cards,
    find_card_changes,
    merge_evaluations,
    needs_training,
)
from advisor.engine.history.reevaluation.device_changes import (
    ENVIRONMENTS,
    DeviceChanges,
    find_device_changes,
    predict_again,
)
from advisor.engine.history.reevaluation.lineage import Child, Origin
from advisor.engine.history.reevaluation.remeasurement import (
    Remeasured,
    find_host_changes,
    host_environment,
    host_manifest,
    remeasure,
)
from advisor.engine.history.reevaluation.session import Reevaluation, Session
from advisor.store.files import sha256_json


@dataclass(frozen=True)
class _Changes:
    """What changed since a run.

    Attributes:
        run: the run.
        host: what changed on this machine, in words; empty where its measurements still hold.
        devices: other devices whose predictions would be others now.
        cards: model cards that were added or changed.
    """

    run: LoadedRun
    host: tuple[str, ...]
    devices: DeviceChanges
    cards: CardChanges

    @property
    def new_cards(self) -> tuple[str, ...]:
        """The cards to evaluate: none where they would have to be trained."""
        return () if needs_training(self.run) else self.cards.names

    @property
    def need_work(self) -> bool:
        """True where something is to be measured, predicted or evaluated."""
        return bool(self.host or self.new_cards or self.devices.devices)

    @property
    def causes(self) -> tuple[str, ...]:
        """What changed, in words."""
        return (*self.host, *self.devices.causes, *_card_causes(self.cards))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is not known, and what a re-evaluation does not do."""
        return (*_card_remarks(self.run, self.cards), *filter(None, [self.devices.remark]))

    @cached_property
    def environment(self) -> str:
        """Hash of what the figures would depend on now."""
        return sha256_json([host_environment(), dict(self.cards.hashes), dict(self.devices.environments)])

    @property
    def manifest(self) -> dict[str, object]:
        """Entries of the manifest that differ from the run's."""
        entries = {**host_manifest(section(self.run.manifest, "versions")), "cards": dict(self.cards.hashes)}
        environments = dict(self.devices.environments)
        return {**entries, ENVIRONMENTS: environments} if environments else entries


def reevaluate_on_host(session: Session, origin: Origin) -> Reevaluation:
    """Measure again what a new runtime or machine made outdated, and evaluate new cards that need no training."""
    start = session.start_of(origin, HOST)
    changes = _find_changes(session, start)
    run, causes, remarks = changes.run, changes.causes, changes.remarks
    if not changes.need_work:
        return Reevaluation(run.name, HOST, causes, remarks=remarks)
    path = session.existing(start, changes.environment)
    if path is None:
        session.tell(f"{run.name}: {'; '.join(causes)}")
        path, more = _write_new_run(session, start, changes)
        remarks = (*remarks, *more)
    return Reevaluation.of(run, path, HOST, causes, remarks)


def _find_changes(session: Session, start: Origin) -> _Changes:
    run = load_run(start.path)
    host = find_host_changes(run) if HOST in run.question.devices else ()
    return _Changes(run, host, find_device_changes(run, lambda: session.devices.predictor), find_card_changes(run))


def _write_new_run(session: Session, start: Origin, changes: _Changes) -> tuple[Path, tuple[str, ...]]:
    """Return the folder of the new run, and what could not be done."""
    run, devices = changes.run, changes.devices.devices
    measured = _remeasured(session, changes)
    evaluations, remarks = measured.evaluations, measured.remarks
    if devices:
        evaluations = predict_again(run, evaluations, devices, session.devices.predictor)
    with ExitStack() as stack:
        sources: tuple[Path, ...] = ()
        if changes.new_cards:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            try:
                new = evaluate_cards(run, changes.new_cards, folder, session.search)
                sources, evaluations = (new.path,), merge_evaluations(evaluations, new.evaluations())
            except AdvisorError as error:
                remarks = (*remarks, f"{', '.join(changes.new_cards)} could not be evaluated: {error.message}")
        child = Child(evaluations, HOST, changes.environment, changes.manifest, measured.answers, sources)
        return session.add(run, start, child), remarks


def _remeasured(session: Session, changes: _Changes) -> Remeasured:
    """Return the run's evaluations; those on this machine are measured again where they are outdated."""
    run = changes.run
    if not changes.host:
        return Remeasured(run.evaluations)
    measured = remeasure(replace(run, evaluations=on_device(run.evaluations, HOST)), session.tell)
    others = (e for e in run.evaluations if e.configuration.target.device != HOST)
    return replace(measured, evaluations=(*measured.evaluations, *others))


def _card_causes(cards: CardChanges) -> Iterator[str]:
    if cards.added:
        yield f"new in the catalogue: {', '.join(cards.added)}"
    if cards.changed:
        yield f"changed in the catalogue: {', '.join(cards.changed)}"


def _card_remarks(run: LoadedRun, cards: CardChanges) -> Iterator[str]:
    if cards.remark:
        yield cards.remark
    if cards.names and needs_training(run):
        yield (
            f"{', '.join(cards.names)} would have to be trained, which a re-evaluation never does: "
            f"advisor search --request {run.folder.path}/request.yaml"
        )
