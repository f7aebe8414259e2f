"""Names that a shell completes: cards, devices, recipes and other choices, and run folders."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

Complete = Callable[[str], list[str]]


def of(option: str) -> Complete:
    """Return the completion of an option of a search; of several names joined by commas, the last is completed."""

    def complete(incomplete: str) -> list[str]:
        from advisor.api.options import choices

        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in _matching(choices(option), last)]

    return complete


def runs(incomplete: str) -> list[str]:
    """Return the run folders below the folder that is named, ``runs`` by default."""
    folder = Path(incomplete.rpartition("/")[0] or "runs")
    with suppress(OSError):
        return _matching((str(path.parent) for path in sorted(folder.glob("*/request.yaml"))), incomplete)
    return []


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
