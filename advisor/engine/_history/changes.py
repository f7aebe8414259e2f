"""Find everything that changed since a run: this machine, devices, the catalogue.

A re-evaluation calls ``find_changes`` first. The hashes of environments are kept in manifests:
what they are made of must stay, or every run is evaluated once more.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from advisor.catalog import Catalogue
from advisor.core import HOST, AdvisorError, UsageError
from advisor.devices import runtime_of
from advisor.engine._history.loaded_run import LoadedRun
from advisor.engine._history.manifest import card_hash
from advisor.engine._history.run_inputs import read_section
from advisor.engine._pipeline.materials import list_versions
from advisor.engine._space.candidates import choose_cards
from advisor.engine._space.resolved import RUNTIME
from advisor.engine._targets.device_prediction import DevicePredictor, environment_of
from advisor.engine._targets.target_devices import (
    TargetDevice,
    TargetDevices,
    select_targets,
)
from advisor.measurement import host
from advisor.store import sha256_json

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

    Attributes:
        run: the run that is compared with now.
        host: what changed on this machine, in words; empty where nothing did.
        cards: what changed in the catalogue.
        devices: the devices whose predictions would be others now.
        environments: hash of what the predictions depend on now, by device.
        device_remark: why the devices are not known; empty if they are.
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
        causes = list(self.host)
        for device in self.devices:
            causes.append(f"the device {device.label} was changed")
        if self.cards.added:
            causes.append(f"new in the catalogue: {', '.join(self.cards.added)}")
        if self.cards.changed:
            causes.append(f"changed in the catalogue: {', '.join(self.cards.changed)}")
        return tuple(causes)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Facts that are not known, and work that a re-evaluation does not do."""
        untrained = ""
        if self.cards.names and not self.new_cards:
            folder = shlex.quote(str(self.run.folder.path))
            untrained = (
                f"{', '.join(self.cards.names)} would have to be trained, which a re-evaluation"
                f" never does: advisor search --request {folder}/request.yaml"
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
    host_changes = _find_host_changes(run) if HOST in run.question.devices else ()
    changes = Changes(run, host_changes, find_card_changes(run))
    then = read_section(run.manifest, ENVIRONMENTS)
    measured = set()
    for evaluation in run.evaluations:
        if evaluation.remote is not None:
            measured.add(evaluation.configuration.target.device)
    # A device over a connection is not here to be asked, so its measurements stay;
    # a runtime of this machine is.
    names = []
    for name in then:
        if name != HOST and (name not in measured or runtime_of(name) is not None):
            names.append(name)
    if not names:
        return changes
    try:
        devices = TargetDevice.select(names, run.question.profiles, "--device")
    except UsageError as error:
        remark = f"the devices of the run cannot be read: {error.message}"
        return replace(changes, device_remark=remark)
    now = {device.label: environment_of(device, predictor) for device in devices}
    changed = tuple(device for device in devices if then[device.label] != now[device.label])
    return replace(changes, devices=changed, environments={**then, **now})


def _find_host_changes(run: LoadedRun) -> tuple[str, ...]:
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
        # With this machine among the devices, no card is left out for another device.
        if HOST in question.devices:
            targets = TargetDevices(host=True)
        else:
            targets = select_targets(question)
        cards = choose_cards(question, Catalogue.load(question.catalog), targets)
    except AdvisorError as error:
        return CardChanges({}, remark=f"the catalogue cannot be read: {error.message}")
    now = {card.name: card_hash(card) for card in cards}
    if not isinstance(considered, Mapping):
        return CardChanges(now, remark="the run does not say which cards it considered")
    evaluated = {evaluation.configuration.card for evaluation in run.evaluations}
    # A card that the run considered but never evaluated has no figure
    # that its change could make outdated.
    added = []
    changed = []
    for name, digest in now.items():
        if name not in considered:
            added.append(name)
        elif name in evaluated and considered[name] != digest:
            changed.append(name)
    return CardChanges(now, tuple(added), tuple(changed))
