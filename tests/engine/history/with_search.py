"""Re-evaluation with the search of the product, as the API puts them together."""

from collections.abc import Iterator
from pathlib import Path

from advisor.engine import Devices, Progress, Reevaluation, Request, Session, run_search
from advisor.store import RunFolder


def search(request: Request) -> RunFolder:
    return run_search(request, Progress()).run


def reevaluate(run: Path, devices: Devices, since_last: bool = False) -> tuple[Reevaluation, ...]:
    return Session(devices, search, since_last).reevaluate(run)


def reevaluate_all(out: Path, devices: Devices, since_last: bool = False) -> Iterator[Reevaluation]:
    return Session(devices, search, since_last).reevaluate_all(out)
