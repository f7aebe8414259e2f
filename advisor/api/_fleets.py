"""The public functions for one app on many phones: answer a run for a fleet again, and verify the
files of a fleet on a device.

``advisor reevaluate --fleet`` and ``advisor verify`` call them. The work is that of the
integration with the entry point ``tiers``, which this module only declares (:class:`Fleets`):
its methods are a contract with that integration.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from advisor.core import load_integration

if TYPE_CHECKING:
    from advisor.devices import ConnectionSettings

GROUP = "advisor.fleets"
NAME = "tiers"
"""The entry point of :class:`Fleets`."""


class FleetComparison(Protocol):
    """The change of a run's answer by a new fleet or new profiles."""

    @property
    def run(self) -> Path:
        """The new run; its bundle has the new files."""

    @property
    def changed(self) -> bool:
        """True if a file changes, so that the app needs a new version."""

    @property
    def share(self) -> float:
        """Share of the users whose phone gets another file."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The change in words."""

    def to_json(self) -> dict[str, object]:
        """Return the change as plain JSON values, with the phones and the files that change."""


class FleetVerification(Protocol):
    """The files of a bundle on a device, and the one that the selector chooses there."""

    @property
    def good(self) -> bool:
        """True if no file computes something else, and the chosen one meets the budget."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The result in words."""

    def to_json(self) -> dict[str, object]:
        """Return the result as plain JSON values."""


class Fleets(Protocol):
    """Chooses the files that serve a fleet of phones."""

    def read_fleet(self, text: str, profiles: Sequence[Path] = ()) -> object:
        """Read a table of phones, or raise a ``UsageError``."""

    def reevaluate_fleet(self, run: Path, fleet: str) -> FleetComparison:
        """Answer a run for another fleet in a new run."""

    def verify_bundle(
        self, device: str, bundle: Path, settings: ConnectionSettings | None
    ) -> FleetVerification:
        """Run the test vectors of a bundle on a device, and time its files there."""


def require_fleet(text: str, profiles: Sequence[Path]) -> None:
    """Raise a ``UsageError`` if a table of phones cannot be read."""
    _find_fleets().read_fleet(text, profiles)


def reevaluate_fleet(run: str | Path, fleet: str) -> FleetComparison:
    """Answer a run for a fleet that changed, or whose device profiles changed.
    Nothing is measured or trained.

    The new answer is a new run, whose bundle has the new files.

    ::

        import advisor
        change = advisor.reevaluate_fleet("runs/latest", "fleet.csv")
        print(change.changed, change.share, change.sentences)

    Args:
        run: the run folder.
        fleet: a table of phones, or the name of a shipped one (``phones-2026``).

    Raises:
        UsageError: no run folder, one that does not prove itself, or a fleet that cannot be read.
        StageError: the run has no file.
    """
    from advisor.reporting import write_own
    from advisor.store import RunFolder

    change = _find_fleets().reevaluate_fleet(Path(run), fleet)
    write_own(RunFolder.open(change.run))
    return change


def verify(
    device: str, bundle: str | Path, *, connection: ConnectionSettings | None = None
) -> FleetVerification:
    """Run the test vectors of a bundle with the files of a fleet on a device,
    and time each file there.

    Args:
        device: name of the device.
        bundle: folder of the bundle.
        connection: the connection. Default: that of the device's profile.

    Raises:
        UsageError: no such bundle, an unknown device, or no connection.
        StageError: the device could not run the files.
    """
    return _find_fleets().verify_bundle(device, Path(bundle), connection)


def _find_fleets() -> Fleets:
    fleets: Fleets = load_integration(GROUP, NAME)
    return fleets
