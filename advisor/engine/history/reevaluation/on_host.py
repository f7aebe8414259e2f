"""A run answered on this machine: what another runtime, machine or catalogue made outdated is evaluated again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Evaluation
from advisor.core.worst_case import on_device
from advisor.devices.profiles import HOST
from advisor.engine.history.loaded_run import LoadedRun, read_run
from advisor.engine.history.reevaluation import host
from advisor.engine.history.reevaluation.cards import CardChanges, card_changes, evaluate_cards, merged, needs_search
from advisor.engine.history.reevaluation.device_changes import ENVIRONMENTS, Changed, changed_places, predicted_again
from advisor.engine.history.reevaluation.lineage import Child, Relation
from advisor.engine.history.reevaluation.session import Reevaluation, Session
from advisor.store.hashing import sha256_json


@dataclass(frozen=True)
class _Outdated:
    """What changed since a run.

    Attributes:
        run: the run.
        here: what changed of this machine, in words; empty where its figures still hold.
        places: other devices of which something else is known.
        cards: model cards that were added or changed.
    """

    run: LoadedRun
    here: tuple[str, ...]
    places: Changed
    cards: CardChanges

    @property
    def new_cards(self) -> tuple[str, ...]:
        """The cards to evaluate: none where they would have to be trained."""
        return () if needs_search(self.run) else self.cards.names

    @property
    def calls_for_work(self) -> bool:
        """True where something is to be measured, predicted or evaluated."""
        return bool(self.here or self.new_cards or self.places.places)

    @property
    def causes(self) -> tuple[str, ...]:
        """What changed, in words."""
        return (*self.here, *self.places.causes, *_card_causes(self.cards))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is not known, and what a re-evaluation does not do."""
        return (*_card_remarks(self.run, self.cards), *filter(None, [self.places.remark]))

    @cached_property
    def environment(self) -> str:
        """Hash of what the figures would rest on now."""
        return sha256_json([host.environment(), dict(self.cards.hashes), dict(self.places.environments)])

    @property
    def manifest_changes(self) -> dict[str, Any]:
        """Entries of the manifest that are not as they were."""
        changes = {**host.manifest_changes(host.versions_of(self.run)), "cards": dict(self.cards.hashes)}
        places = self.places.environments
        return {**changes, ENVIRONMENTS: dict(places)} if places else changes


def answer_here(session: Session, relation: Relation) -> Reevaluation:
    """Measure again what another runtime or machine made outdated, and evaluate new cards where none is trained."""
    former = session.former(relation, HOST)
    outdated = _outdated(session, former)
    before, causes, remarks = outdated.run, outdated.causes, outdated.remarks
    if not outdated.calls_for_work:
        return Reevaluation(before.name, HOST, causes, remarks=remarks)
    path = session.made(former, outdated.environment)
    if path is None:
        session.tell(f"{before.name}: {'; '.join(causes)}")
        path, more = _made(session, former, outdated)
        remarks = (*remarks, *more)
    return Reevaluation.of(before, path, HOST, causes, remarks)


def _outdated(session: Session, former: Relation) -> _Outdated:
    run = read_run(former.path)
    here = tuple(host.causes(run)) if HOST in run.question.devices else ()
    return _Outdated(run, here, changed_places(run, lambda: session.devices.forecaster), card_changes(run))


def _made(session: Session, former: Relation, outdated: _Outdated) -> tuple[Path, tuple[str, ...]]:
    """Make the new run; returns its folder, and what could not be done."""
    run, places = outdated.run, outdated.places.places
    evaluations, answers, remarks = _measured(session, outdated)
    if places:
        evaluations = predicted_again(run, evaluations, places, session.devices.forecaster)
    with ExitStack() as stack:
        sources: tuple[Path, ...] = ()
        if outdated.new_cards:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            try:
                newer = evaluate_cards(run, outdated.new_cards, folder)
                sources, evaluations = (newer.path,), merged(evaluations, newer.evaluations())
            except AdvisorError as error:
                remarks = (*remarks, f"{', '.join(outdated.new_cards)} could not be evaluated: {error.message}")
        child = Child(evaluations, HOST, outdated.environment, outdated.manifest_changes, answers, sources)
        return session.make(run, former, child), remarks


def _measured(
    session: Session, outdated: _Outdated
) -> tuple[tuple[Evaluation, ...], dict[str, list[int]], tuple[str, ...]]:
    """Return the run's evaluations, those of this machine measured again where they are outdated; answers; remarks."""
    run = outdated.run
    if not outdated.here:
        return run.evaluations, {}, ()
    own = on_device(run.evaluations, HOST)
    measured, answers, remarks = host.measure_again(replace(run, evaluations=own), session.tell)
    others = (e for e in run.evaluations if e.configuration.target.device != HOST)
    return (*measured, *others), answers, remarks


def _card_causes(cards: CardChanges) -> Iterator[str]:
    if cards.added:
        yield f"new in the catalogue: {', '.join(cards.added)}"
    if cards.changed:
        yield f"changed in the catalogue: {', '.join(cards.changed)}"


def _card_remarks(run: LoadedRun, cards: CardChanges) -> Iterator[str]:
    if cards.remark:
        yield cards.remark
    if cards.names and needs_search(run):
        yield (
            f"{', '.join(cards.names)} would have to be trained, which a re-evaluation never does: "
            f"advisor search --request {run.folder.path}/request.yaml"
        )
