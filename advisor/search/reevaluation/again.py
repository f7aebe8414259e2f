"""Earlier runs, answered again for what changed since; nothing is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from advisor.core.errors import AdvisorError, UsageError
from advisor.core.evaluation import Evaluation
from advisor.core.joint import on_device
from advisor.devices.own import distinct, known_devices, own_folder
from advisor.devices.profiles import HOST, DeviceProfile, DeviceTarget, load_profiles
from advisor.search.compare import Comparison, compare
from advisor.search.elsewhere import Forecaster
from advisor.search.fitting import Place
from advisor.search.reevaluation import host
from advisor.search.reevaluation.cards import CardChanges, card_changes, evaluate_cards, merged, needs_search
from advisor.search.reevaluation.lineage import (
    Relation,
    made_already,
    newest,
    relation_of,
    relations,
    write_child,
)
from advisor.search.reevaluation.places import ENVIRONMENTS, Changed, changed_places, predicted_again
from advisor.search.stored import StoredRun, read_run
from advisor.search.targets import for_tflite, runtime_remark
from advisor.store import RunFolder
from advisor.store.hashing import sha256_json

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Reevaluation:
    """One run, answered again.

    Attributes:
        parent: name of the run.
        device: what it was answered for.
        causes: what changed since, in words; empty where nothing did.
        run: the new run, or the one that had been made for the same changes; None where nothing changed.
        comparison: the new answer held against the parent's; None where there is no new run.
        remarks: what could not be done.
        error: why the run could not be read or answered, or empty.
    """

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
    """The devices to answer for, and what predicts them.

    Attributes:
        targets: ``device`` or ``device:target`` as asked, with profile and target.
    """

    targets: tuple[tuple[str, DeviceProfile, DeviceTarget], ...] = ()

    @classmethod
    def chosen(cls, selectors: Sequence[str], folders: Sequence[Path]) -> Devices:
        """Return the devices named, or, where none is, every device of ``folders`` and of the team's own folder.

        A name may be that of a shipped device, of one added with ``advisor devices add``, or of one in ``folders``.

        Raises:
            UsageError: an unknown device or target, or a profile that is refused.
        """
        own = [own_folder()] if own_folder().is_dir() else []
        if not selectors and not folders and not own:
            return cls()
        profiles = known_devices(folders)
        names = selectors or [name for name in load_profiles(distinct([*own, *folders]), builtin=False) if name != HOST]
        for name in names:
            if name == HOST:
                raise UsageError("--device: 'host' is this machine, which is measured, not predicted", "leave it out")
        return cls(tuple((name, *for_tflite(name, *profiles.select(name))) for name in names))

    @cached_property
    def forecaster(self) -> Forecaster:
        """What predicts latencies, made when first needed."""
        return Forecaster.load()


@dataclass
class _Session:
    """What the re-evaluation of several runs shares."""

    out: Path
    devices: Devices
    since_last: bool
    tell: Tell
    known: list[Relation] = field(default_factory=list)

    def note(self, run: RunFolder) -> None:
        """Take a new run among the known ones."""
        self.known.append(relation_of(run.path, ()))


def reevaluate(
    run: Path, devices: Devices, since_last: bool = False, tell: Tell = lambda _text: None
) -> tuple[Reevaluation, ...]:
    """Answer one run again: on this machine where its runtime, the machine or the catalogue changed, and on devices.

    Args:
        run: the run folder.
        devices: devices to predict for.
        since_last: start from what was made of the run last, instead of from the run itself.
        tell: told what is being done.

    Raises:
        UsageError: not a run folder, or a damaged one.
    """
    path = RunFolder.open(run).path
    session = _Session(path.parent, devices, since_last, tell, list(relations(path.parent)))
    return tuple(_answers(session, relation_of(path, session.known)))


def reevaluate_all(
    out: Path, devices: Devices, since_last: bool = False, tell: Tell = lambda _text: None
) -> Iterator[Reevaluation]:
    """Answer every search under ``out`` again, oldest first; one that cannot be read is said and passed over.

    Raises:
        UsageError: no such folder.
    """
    if not out.is_dir():
        raise UsageError(f"--runs: '{out}' is not a folder", "name the folder that holds the runs, such as runs")
    session = _Session(out, devices, since_last, tell, list(relations(out)))
    for relation in [relation for relation in session.known if not relation.parent]:
        try:
            yield from _answers(session, relation)
        except (AdvisorError, OSError) as error:
            yield Reevaluation(relation.path.name, relation.device, error=getattr(error, "message", str(error)))


def _answers(session: _Session, relation: Relation) -> Iterator[Reevaluation]:
    if relation.device == HOST:
        yield _on_host(session, relation)
    for selector, profile, target in session.devices.targets:
        if relation.device in (HOST, selector):
            yield _on_device(session, relation, selector, profile, target)


def _on_device(
    session: _Session, relation: Relation, selector: str, profile: DeviceProfile, target: DeviceTarget
) -> Reevaluation:
    """Predict what the run's artefacts would do on a device, and decide anew."""
    session.tell(f"{relation.path.name} on {selector}")
    origin = relation if relation.device == HOST else _parent_of(session, relation)
    base = newest(relation.root, selector, session.known) if session.since_last else None
    environment = session.devices.forecaster.environment(profile, target)
    former = base or relation
    if former.environment == environment:
        return Reevaluation(former.path.name, selector)
    cause = f"the device {selector} was {'changed' if former.device == selector else 'added'}"
    existing = made_already(former.path.name, environment, session.known)
    place = Place(profile.name, profile, target)
    before, remarks = read_run(former.path), tuple(filter(None, [runtime_remark(place)]))
    if existing is not None:
        return _result(before, existing.path, selector, (cause,), remarks)
    source = read_run(origin.path)
    limits = source.request.limits
    evaluations = session.devices.forecaster.evaluate(source.evaluations, place, limits.latency_ms, limits.confidence)
    changes = {"devices": {profile.name: profile.fingerprint()}}
    child = write_child(before, former, evaluations, selector, environment, changes, sources=(source.folder.path,))
    session.note(child)
    return _result(before, child.path, selector, (cause,), remarks)


def _parent_of(session: _Session, relation: Relation) -> Relation:
    """Return the run on this machine that a device's run came from."""
    found = newest(relation.root, HOST, session.known)
    if found is None:
        raise UsageError(f"the search '{relation.root}' that '{relation.path.name}' came from is gone", "search again")
    return found


def _on_host(session: _Session, relation: Relation) -> Reevaluation:
    """Measure again what another runtime or machine made outdated, and evaluate new cards where none is trained."""
    base = newest(relation.root, HOST, session.known) if session.since_last else None
    former = base or relation
    before = read_run(former.path)
    here = HOST in before.request.devices
    outdated, cards = host.causes(before) if here else (), card_changes(before)
    moved = changed_places(before, lambda: session.devices.forecaster)
    causes = (*outdated, *moved.causes, *_card_causes(cards))
    remarks = (*_card_remarks(before, cards), *filter(None, [moved.remark]))
    todo = () if needs_search(before) else cards.names
    if not outdated and not todo and not moved.places:
        return Reevaluation(before.name, HOST, causes, remarks=remarks)
    environment = sha256_json([host.environment(), dict(cards.hashes), dict(moved.environments)])
    existing = made_already(former.path.name, environment, session.known)
    if existing is not None:
        return _result(before, existing.path, HOST, causes, remarks)
    session.tell(f"{before.name}: {'; '.join(causes)}")
    child, more = _measured(session, before, former, environment, cards, bool(outdated), todo, moved)
    session.note(child)
    return _result(before, child.path, HOST, causes, (*remarks, *more))


def _measured(
    session: _Session,
    before: StoredRun,
    former: Relation,
    environment: str,
    cards: CardChanges,
    outdated: bool,
    todo: Sequence[str],
    moved: Changed,
) -> tuple[RunFolder, tuple[str, ...]]:
    evaluations: tuple[Evaluation, ...] = before.evaluations
    answers: dict[str, Any] = {}
    remarks: tuple[str, ...] = ()
    if outdated:
        own = on_device(before.evaluations, HOST)
        measured, answers, remarks = host.measure_again(replace(before, evaluations=own), session.tell)
        evaluations = (*measured, *(e for e in before.evaluations if e.configuration.target.device != HOST))
    if moved.places:
        evaluations = predicted_again(before, evaluations, moved.places, session.devices.forecaster)
    with ExitStack() as stack:
        sources = []
        if todo:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            try:
                newer = evaluate_cards(before, todo, folder)
                sources, evaluations = [newer.path], merged(evaluations, newer.evaluations())
            except AdvisorError as error:
                remarks = (*remarks, f"{', '.join(todo)} could not be evaluated: {error.message}")
        changes = {**host.manifest_changes(host.versions_of(before)), "cards": dict(cards.hashes)}
        changes |= {ENVIRONMENTS: dict(moved.environments)} if moved.environments else {}
        child = write_child(before, former, evaluations, HOST, environment, changes, answers, sources)
    return child, remarks


def _card_causes(cards: CardChanges) -> Iterator[str]:
    if cards.added:
        yield f"new in the catalogue: {', '.join(cards.added)}"
    if cards.changed:
        yield f"changed in the catalogue: {', '.join(cards.changed)}"


def _card_remarks(run: StoredRun, cards: CardChanges) -> Iterator[str]:
    if cards.remark:
        yield cards.remark
    if cards.names and needs_search(run):
        yield (
            f"{', '.join(cards.names)} would have to be trained, which a re-evaluation never does: "
            f"advisor search --request {run.folder.path}/request.yaml"
        )


def _result(
    before: StoredRun, path: Path, device: str, causes: tuple[str, ...], remarks: tuple[str, ...] = ()
) -> Reevaluation:
    return Reevaluation(before.name, device, causes, path, compare(before, read_run(path)), remarks)
