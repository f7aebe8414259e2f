"""What the re-evaluation of several runs shares, and what each comes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.devices.profiles import HOST, DeviceProfile, DeviceTarget, load_profiles
from advisor.devices.profiles.team import distinct, known_devices, own_folder
from advisor.engine.history.compare import Comparison, compare
from advisor.engine.history.loaded_run import LoadedRun, read_run
from advisor.engine.history.reevaluation.lineage import Child, Relation, made_already, newest, relation_of, write_child
from advisor.engine.targets.device_prediction import DevicePredictor
from advisor.engine.targets.selection import prefer_tflite

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

    @classmethod
    def of(
        cls, before: LoadedRun, path: Path, device: str, causes: tuple[str, ...], remarks: tuple[str, ...] = ()
    ) -> Reevaluation:
        """Hold a new run against the one that it was made from."""
        return cls(before.name, device, causes, path, compare(before, read_run(path)), remarks)


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
        return cls(tuple((name, *prefer_tflite(name, *profiles.select(name))) for name in names))

    @cached_property
    def forecaster(self) -> DevicePredictor:
        """What predicts latencies, made when first needed."""
        return DevicePredictor.load()


@dataclass
class Session:
    """What the re-evaluation of several runs shares.

    Attributes:
        devices: the devices to answer for.
        since_last: start from what was made of a run last, instead of from the run itself.
        tell: told what is being done.
        known: every run in the folder, those that are made meanwhile too.
    """

    devices: Devices
    since_last: bool
    tell: Tell
    known: list[Relation] = field(default_factory=list)

    def former(self, relation: Relation, device: str) -> Relation:
        """Return the run to start from: this one, or with ``since_last`` the latest of its descent for the device."""
        return (newest(relation.root, device, self.known) if self.since_last else None) or relation

    def made(self, former: Relation, environment: str) -> Path | None:
        """Return the run that was made of another under the same environment, or None."""
        existing = made_already(former.path.name, environment, self.known)
        return existing.path if existing else None

    def make(self, parent: LoadedRun, former: Relation, child: Child) -> Path:
        """Write a new run and take it among the known ones."""
        path = write_child(parent, former, child).path
        self.known.append(relation_of(path, ()))
        return path
