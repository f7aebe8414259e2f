"""What the re-evaluations of several runs share, and the result of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.devices.profiles import HOST, DeviceProfile, DeviceTarget
from advisor.devices.profiles.listing import OWN, provenance
from advisor.devices.profiles.team import known_devices, own_folder
from advisor.engine.history.compare import Comparison, compare
from advisor.engine.history.loaded_run import LoadedRun, load_run
from advisor.engine.history.reevaluation.card_changes import Search
from advisor.engine.history.reevaluation.lineage import Child, Origin, latest_descendant, read_origin, write_child
from advisor.engine.targets.device_prediction import DevicePredictor
from advisor.engine.targets.selection import prefer_tflite

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Reevaluation:
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
        """Compare a new run with the one that it was made from."""
        return cls(before.name, device, causes, path, compare(before, load_run(path)), remarks)


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
        for name in names:
            if name == HOST:
                raise UsageError("--device: 'host' is this machine, which is measured, not predicted", "leave it out")
        return cls(tuple((name, *prefer_tflite(name, *profiles.select(name))) for name in names))

    @cached_property
    def predictor(self) -> DevicePredictor:
        """The predictor of latencies, loaded when it is first needed."""
        return DevicePredictor.load()


@dataclass
class Session:
    """What the re-evaluations of several runs share.

    Attributes:
        devices: the devices to re-evaluate for.
        search: runs a search over new cards.
        since_last: start from the run's latest re-evaluation instead of from the run itself.
        tell: is called with what is being done.
        known: origins of every run in the folder; new runs are added.
    """

    devices: Devices
    search: Search
    since_last: bool
    tell: Tell
    known: list[Origin] = field(default_factory=list)

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
