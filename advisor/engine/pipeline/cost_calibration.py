"""Calibration of rough costs by the seconds that stages of earlier searches took on this machine."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from advisor.engine.pipeline.names import StageName
from advisor.measurement import host
from advisor.store import cache_root
from advisor.store.files import write_atomically

MOST = 30.0
"""A ratio beyond this says more about a disturbance than about the machine."""

SEARCHES = 7
"""Number of searches whose median counts: one disturbed search, or an unusual card, decides nothing."""


@dataclass(frozen=True)
class Ratio:
    """Seconds of a stage in one search over its rough price, with a mark if other work disturbed the search."""

    value: float
    disturbed: bool = False


class CostCalibration:
    """Seconds that stages took over their rough price, by stage, stored for the next plan.

    Searches on a quiet machine count before those that other work disturbed, however many of these there are.

    Args:
        file: JSON file of the ratios; by default one for each machine, in the cache.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or cache_root() / f"pace-{host.describe().fingerprint}.json"
        self._ratios = _read(self._file)
        self.pace: Mapping[StageName, float] = {stage: _typical(ratios) for stage, ratios in self._ratios.items()}
        self._priced: dict[StageName, float] = {}

    def note(self, stage: StageName, price_s: float) -> None:
        """Record a stage that was done, with the seconds that the plan expected."""
        self._priced[stage] = self._priced.get(stage, 0.0) + price_s

    def keep(self, spent: Mapping[StageName, float], disturbed: bool = False) -> None:
        """Compare with the seconds that were spent by stage, and keep the ratio."""
        new = dict(self._ratios)
        for stage, seconds in spent.items():
            price = self._priced.get(stage, 0.0)
            if price > 0 and seconds > 0:
                ratio = self.pace.get(stage, 1.0) * seconds / price  # the plan's prices are paced already
                bounded = Ratio(min(max(ratio, 1 / MOST), MOST), disturbed)
                new[stage] = _latest((*new.get(stage, ()), bounded))
        if new != self._ratios:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            rows = {stage: [[each.value, each.disturbed] for each in ratios] for stage, ratios in new.items()}
            write_atomically(self._file, json.dumps(rows, indent=1, sort_keys=True) + "\n")


def _latest(ratios: tuple[Ratio, ...]) -> tuple[Ratio, ...]:
    """Return the last ratios of each kind, so that a busy week does not displace the quiet ones."""
    quiet = [ratio for ratio in ratios if not ratio.disturbed]
    disturbed = [ratio for ratio in ratios if ratio.disturbed]
    return (*quiet[-SEARCHES:], *disturbed[-SEARCHES:])


def _typical(ratios: tuple[Ratio, ...]) -> float:
    quiet = [ratio.value for ratio in ratios if not ratio.disturbed]
    return statistics.median(quiet or [ratio.value for ratio in ratios])


def _read(file: Path) -> dict[StageName, tuple[Ratio, ...]]:
    """Return the ratios by stage; none if the file is missing or damaged."""
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
        known = {StageName(stage): pairs for stage, pairs in rows.items() if pairs and stage in set(StageName)}
        return {
            stage: tuple(Ratio(float(value), bool(disturbed)) for value, disturbed in pairs)
            for stage, pairs in known.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
