"""Re-evaluate earlier runs for everything that changed since; nothing is trained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from advisor.core.errors import AdvisorError, UsageError
from advisor.devices.profiles import HOST
from advisor.engine.history.reevaluation.card_changes import Search
from advisor.engine.history.reevaluation.lineage import Origin, read_origin, read_origins
from advisor.engine.history.reevaluation.on_device import reevaluate_on_device
from advisor.engine.history.reevaluation.on_host import reevaluate_on_host
from advisor.engine.history.reevaluation.session import Devices, Reevaluation, Session, Tell
from advisor.store import RunFolder

__all__ = ["Devices", "Reevaluation", "reevaluate", "reevaluate_all"]


def reevaluate(
    run: Path, devices: Devices, search: Search, since_last: bool = False, tell: Tell = lambda _text: None
) -> tuple[Reevaluation, ...]:
    """Re-evaluate one run: on this machine where its runtime, the machine or the catalogue changed, and on devices.

    Args:
        run: the run folder.
        devices: devices to predict for.
        search: runs a search over new cards.
        since_last: start from the run's latest re-evaluation instead of from the run itself.
        tell: is called with what is being done.

    Raises:
        UsageError: not a run folder, or a damaged one.
    """
    path = RunFolder.open(run).path
    session = Session(devices, search, since_last, tell, list(read_origins(path.parent)))
    return tuple(_reevaluate(session, read_origin(path.resolve())))


def reevaluate_all(
    out: Path, devices: Devices, search: Search, since_last: bool = False, tell: Tell = lambda _text: None
) -> Iterator[Reevaluation]:
    """Re-evaluate every search under ``out``, oldest first; one that cannot be read is reported and skipped.

    Raises:
        UsageError: no such folder.
    """
    if not out.is_dir():
        raise UsageError(f"--runs: '{out}' is not a folder", "name the folder that holds the runs, such as runs")
    session = Session(devices, search, since_last, tell, list(read_origins(out)))
    for origin in [origin for origin in session.known if not origin.parent]:
        try:
            yield from _reevaluate(session, origin)
        except (AdvisorError, OSError) as error:
            yield Reevaluation(origin.path.name, origin.device, error=getattr(error, "message", str(error)))


def _reevaluate(session: Session, origin: Origin) -> Iterator[Reevaluation]:
    if origin.device == HOST:
        yield reevaluate_on_host(session, origin)
    for selector, profile, target in session.devices.targets:
        if origin.device in (HOST, selector):
            yield reevaluate_on_device(session, origin, selector, profile, target)
