"""Everything that changed since a run (this machine, devices, the catalogue),
and the run that is made for it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from advisor.catalog import load_catalogue
from advisor.core import HOST, AdvisorError, Evaluation, UsageError
from advisor.devices import ConnectionSettings, runtime_of
from advisor.engine._history.loaded_run import LoadedRun
from advisor.engine._history.manifest import card_hash
from advisor.engine._history.run_inputs import CATALOGS, INPUTS, read_section
from advisor.engine._pipeline.materials import list_versions
from advisor.engine._space.resolved import RUNTIME, choose_cards
from advisor.engine._targets.device_prediction import DevicePredictor, environment_of
from advisor.engine._targets.target_devices import (
    TargetDevice,
    TargetDevices,
    select_devices,
    select_targets,
)
from advisor.measurement import host
from advisor.store import RunFolder, chain_lines, sha256_json
from advisor.version import __version__

ENVIRONMENTS = "targets"
"""Name in the manifest of the hash of what the predictions for each device depend on, by
device.
"""


@dataclass(frozen=True)
class CardChanges:
    """Differences of the catalogue from the one that a run used,
    with the hash of every card of the question.

    Only cards that the run evaluated count as changed. ``remark`` says why this is not known.
    """

    hashes: Mapping[str, str]
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    remark: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Added and changed cards."""
        return (*self.added, *self.changed)


@dataclass(frozen=True)
class Changes:
    """What changed since a run: this machine in words, cards,
    and devices whose predictions would be others now.

    ``environments`` hash what the predictions depend on now, by device;
    ``device_remark`` says why that is not known.
    """

    run: LoadedRun
    host: tuple[str, ...]
    cards: CardChanges
    devices: tuple[TargetDevice, ...] = ()
    environments: Mapping[str, str] = field(default_factory=dict)
    device_remark: str = ""

    @property
    def new_cards(self) -> tuple[str, ...]:
        """The cards to evaluate: none where they would have to be trained,
        because the run has images.
        """
        if self.run.question.data is None:
            return self.cards.names
        return ()

    @property
    def need_work(self) -> bool:
        """True where something is to be measured, predicted or evaluated."""
        return bool(self.host or self.new_cards or self.devices)

    @property
    def causes(self) -> tuple[str, ...]:
        """The changes in words."""
        causes = [
            *self.host,
            *(f"the device {device.label} was changed" for device in self.devices),
        ]
        cards = {"new": self.cards.added, "changed": self.cards.changed}
        return (
            *causes,
            *(
                f"{how} in the catalogue: {', '.join(names)}"
                for how, names in cards.items()
                if names
            ),
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """Facts that are not known, and work that a re-evaluation does not do."""
        untrained = ""
        if self.cards.names and not self.new_cards:
            untrained = (
                f"{', '.join(self.cards.names)} would have to be trained, which a re-evaluation"
                " never does: advisor search --request"
                f" {shlex.quote(str(self.run.folder.path))}/request.yaml"
            )
        return tuple(filter(None, (self.cards.remark, untrained, self.device_remark)))

    @cached_property
    def environment(self) -> str:
        """Hash of what the figures would depend on now."""
        machine = sha256_json([list_versions(RUNTIME), host.describe().fingerprint])
        return sha256_json([machine, dict(self.cards.hashes), dict(self.environments)])

    @property
    def manifest(self) -> dict[str, object]:
        """Entries of the manifest that differ from the run's."""
        entries = {
            **host_manifest(read_section(self.run.manifest, "versions")),
            "cards": dict(self.cards.hashes),
        }
        if self.environments:
            return {**entries, ENVIRONMENTS: dict(self.environments)}
        return entries


def find_changes(run: LoadedRun, predictor: DevicePredictor) -> Changes:
    """Compare what a run's figures depended on with what they would depend on now.

    A device that was measured over its connection keeps its measurements,
    unless it is a runtime of this machine.
    """
    host_changes = _host_changes(run) if HOST in run.question.devices else ()
    changes = Changes(run, host_changes, find_card_changes(run))
    then = read_section(run.manifest, ENVIRONMENTS)
    measured = set()
    for e in run.evaluations:
        if e.remote is not None:
            measured.add(e.configuration.target.device)
    # A device over a connection is not here to be asked, so its measurements stay;
    # a runtime of this machine is.
    names = []
    for name in then:
        if name != HOST and (name not in measured or runtime_of(name) is not None):
            names.append(name)
    if not names:
        return changes
    try:
        devices = select_devices(names, run.question.profiles, "--device")
    except UsageError as error:
        return replace(
            changes, device_remark=f"the devices of the run cannot be read: {error.message}"
        )
    now = {device.label: environment_of(device, predictor) for device in devices}
    changed = tuple(device for device in devices if then[device.label] != now[device.label])
    return replace(changes, devices=changed, environments={**then, **now})


def _host_changes(run: LoadedRun) -> tuple[str, ...]:
    """Return why the measurements of a run are outdated, in words; empty where they are not."""
    changes = []
    then = read_section(run.manifest, "versions").get(RUNTIME)
    now = list_versions(RUNTIME)[RUNTIME]
    # A manifest without the runtime, damaged or of another version, proves no change.
    if then is not None and then != now:
        changes.append(f"{RUNTIME} {then} -> {now}")
    before = read_section(run.manifest, "host")
    this_machine = host.describe()
    # The same holds for the machine.
    fingerprint = before.get("fingerprint", this_machine.fingerprint)
    if fingerprint != this_machine.fingerprint:
        changes.append(
            f"machine {before.get('cpu')} ({fingerprint}) -> {this_machine.cpu}"
            f" ({this_machine.fingerprint})"
        )
    return tuple(changes)


def host_manifest(versions_before: Mapping[str, str]) -> dict[str, object]:
    """Return the entries of the manifest about this machine and its runtime;
    other versions stay as they were.
    """
    return {
        "versions": {**versions_before, **list_versions(RUNTIME)},
        "host": host.describe().to_json(),
    }


def find_card_changes(run: LoadedRun) -> CardChanges:
    """Compare the cards that the run considered with the catalogue."""
    considered = run.manifest.get("cards")
    question = run.question
    try:
        targets = (
            TargetDevices(host=True) if HOST in question.devices else select_targets(question)
        )
        cards = choose_cards(question, load_catalogue(question.catalog), targets)
    except AdvisorError as error:
        return CardChanges({}, remark=f"the catalogue cannot be read: {error.message}")
    now = {card.name: card_hash(card) for card in cards}
    if not isinstance(considered, Mapping):
        return CardChanges(now, remark="the run does not say which cards it considered")
    evaluated = {evaluation.configuration.card for evaluation in run.evaluations}
    # A card that the run considered but never evaluated has no figure
    # that its change could make outdated.
    known = []
    for name in now:
        if name in evaluated and name in considered:
            known.append(name)
    added = tuple(name for name in now if name not in considered)
    return CardChanges(now, added, tuple(name for name in known if considered[name] != now[name]))


@dataclass(frozen=True)
class Origin:
    """The origin of a run, as its manifest says:
    names of its parent, empty for a search, and of the first search.

    ``environment`` hashes what its figures for ``device`` depend on, empty for a search;
    ``predictions`` hashes what its predictions alone depend on. ``settled`` hashes this with the
    software of a connected device, if all files were measured there that may become the pick.
    ``updated`` is in ISO 8601.
    """

    path: Path
    parent: str
    root: str
    device: str
    environment: str
    updated: str
    predictions: str = ""
    settled: str = ""

    def is_current(self, predictions: str, settled: str) -> bool:
        """Return whether the figures depend on the same as now;
        ``settled`` is empty if nothing can be measured now.
        """
        return self.settled == settled if settled else self.predictions == predictions


def read_origins(out: Path) -> tuple[Origin, ...]:
    """Return the origin of every run under ``out``, oldest first;
    incomplete run folders are left out.
    """
    paths = sorted(out.iterdir()) if out.is_dir() else []
    # `latest` is a link to one of the runs, which would count twice.
    origins = []
    for path in paths:
        if not path.is_symlink() and (path / "request.yaml").is_file():
            origins.append(read_origin(path))
    return tuple(sorted(origins, key=lambda origin: (origin.updated, origin.path.name)))


def read_origin(path: Path) -> Origin:
    """Return the origin of one run."""
    manifest = RunFolder(path).read_json("manifest.json")
    facts = read_section(manifest, "reevaluated")
    # Runs of versions that measured nothing here have predictions alone.
    predicted = facts.get("environment", "")
    usual = {
        "parent": "",
        "root": path.name,
        "device": HOST,
        "environment": "",
        "predictions": predicted,
        "settled": "",
    }
    known = {name: str(facts.get(name, value)) for name, value in usual.items()}
    return Origin(path, **known, updated=str(manifest.get("updated", "")))


def latest_descendant(root: str, device: str, known: Sequence[Origin]) -> Origin | None:
    """Return the latest run that came from ``root`` and answers for ``device``;
    it may be the root itself.
    """
    for origin in reversed(known):
        if origin.root == root and origin.device == device:
            return origin
    return None


@dataclass(frozen=True)
class Child:
    """The content of a run that is made from another one, for a device.

    ``manifest`` has the entries that differ from the parent's, ``answers`` the new answers on the
    hold-out by path within the run. Files are taken from the parent and from ``sources``.
    ``origin`` has the further entries of :class:`Origin`.
    """

    evaluations: Sequence[Evaluation]
    device: str
    environment: str
    manifest: Mapping[str, object]
    answers: Mapping[str, Sequence[float]] = field(default_factory=dict)
    sources: Sequence[Path] = ()
    origin: Mapping[str, str] = field(default_factory=dict)


def write_child(parent: LoadedRun, origin: Origin, child: Child) -> RunFolder:
    """Write a new run beside its parent, with which it shares unchanged files;
    the request is written last.

    Its name has ``again`` and the device.
    """
    # Without the time of the first search, because the new folder begins with its own.
    name = re.sub(r"^\d{8}-\d{6}-", "", origin.root)
    # ``latest`` stays the search's, so that exporting it ships what somebody decided.
    run = RunFolder.create(
        parent.folder.path.parent, f"{name[:20]} again {child.device}", is_latest=False
    )
    facts = {
        "parent": parent.name,
        "root": origin.root,
        "device": child.device,
        "environment": child.environment,
        **child.origin,
    }
    updated = datetime.now(UTC).isoformat(timespec="microseconds")
    entries = {
        **parent.manifest,
        **child.manifest,
        "advisor": __version__,
        "updated": updated,
        "reevaluated": facts,
    }
    for file, labels in child.answers.items():
        run.keep_answers(Path(file).stem, labels)
    for source in (parent.folder.path, *child.sources):
        _share_files(source, run, child.evaluations)
    run.write(run.evaluations_file.name, chain_lines(child.evaluations)[0])
    run.write_json("manifest.json", entries)
    device = parent.request.written["device"] if child.device == HOST else child.device
    request = {**parent.request.written, "device": device}
    if ConnectionSettings.names_cloud(str(device)):
        # A search that opened no connection does not forbid
        # to ask about a device of a cloud afterwards.
        request["offline"] = False
    # Last, because a folder without a request is not taken for a run:
    # a kill before leaves nothing that looks complete.
    run.write_request(request)
    run.reseal("request.yaml")
    return run


def _share_files(source: Path, run: RunFolder, evaluations: Sequence[Evaluation]) -> None:
    """Link the files of the earlier run that the evaluations name into the new run;
    none from outside of the run.
    """
    names = {"dataset.json", "split.json", INPUTS}
    # Only what an evaluation names is shared:
    # a run folder may also hold what its user has put there.
    names |= {f"{CATALOGS}/{file.name}" for file in (source / CATALOGS).glob("*.yaml")}
    names |= {evaluation.artefact for evaluation in evaluations if evaluation.artefact}
    for evaluation in evaluations:
        for copy in (evaluation.unknown, evaluation.on_all):
            if copy is not None and copy.file:
                names.add(copy.file)
        for answers in (evaluation.answers, evaluation.holdout_answers):
            if answers is not None:
                names.update(filter(None, (answers.file, answers.shares)))
    for name in sorted(names):
        file = source / name
        # Names come from a file that may have been edited:
        # a link or `..` must not take files from elsewhere.
        if file.is_file() and file.resolve().is_relative_to(source.resolve()):
            run.share(file, name)
