"""Earlier runs, answered again for what changed since; nothing is trained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from advisor.core.errors import AdvisorError, UsageError
from advisor.devices.profiles import HOST
from advisor.engine.history.reevaluation.lineage import Relation, relation_of, relations
from advisor.engine.history.reevaluation.on_device import answer_elsewhere
from advisor.engine.history.reevaluation.on_host import answer_here
from advisor.engine.history.reevaluation.session import Devices, Reevaluation, Session, Tell
from advisor.store import RunFolder

__all__ = ["Devices", "Reevaluation", "reevaluate", "reevaluate_all"]


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
    session = Session(devices, since_last, tell, list(relations(path.parent)))
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
    session = Session(devices, since_last, tell, list(relations(out)))
    for relation in [relation for relation in session.known if not relation.parent]:
        try:
            yield from _answers(session, relation)
        except (AdvisorError, OSError) as error:
            yield Reevaluation(relation.path.name, relation.device, error=getattr(error, "message", str(error)))


def _answers(session: Session, relation: Relation) -> Iterator[Reevaluation]:
    if relation.device == HOST:
        yield answer_here(session, relation)
    for selector, profile, target in session.devices.targets:
        if relation.device in (HOST, selector):
            yield answer_elsewhere(session, relation, selector, profile, target)
