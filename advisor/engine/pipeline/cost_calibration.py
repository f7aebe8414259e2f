"""Calibrate rough costs: how fast this machine does the stages of a search, learnt from those it has done."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.engine.pipeline.names import StageName
from advisor.measurement import host
from advisor.store import cache_root
from advisor.store.files import write_atomically

MOST = 30.0
"""A ratio beyond this says more about a disturbance than about the machine."""

KEPT = 7
"""Of so many searches the median counts: one that ran beside a backup, or a card unlike others, decides nothing."""


@dataclass(frozen=True)
class Ratio:
    """What a stage took in one search over its rough price, and whether other work disturbed that search."""

    value: float
    disturbed: bool = False


class CostCalibration:
    """Seconds that stages took over their rough price, by stage, kept for the next plan.

    Searches on a quiet machine count before those that other work disturbed, however many of these there are.

    Args:
        file: where it is kept; by default in the cache, one a machine.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or cache_root() / f"pace-{host.describe().fingerprint}.json"
        self._ratios = _read(self._file)
        self.pace: Mapping[StageName, float] = {stage: _typical(ratios) for stage, ratios in self._ratios.items()}
        self._priced: dict[StageName, float] = {}

    def note(self, stage: StageName, price_s: float) -> None:
        """Take note of a stage that was done, of which the plan thought that it takes ``price_s``."""
        self._priced[stage] = self._priced.get(stage, 0.0) + price_s

    def keep(self, spent: Mapping[StageName, float], disturbed: bool = False) -> None:
        """Compare with the seconds that were spent by stage, and keep the ratio."""
        new = dict(self._ratios)
        for stage, seconds in spent.items():
            price = self._priced.get(stage, 0.0)
            if price > 0 and seconds > 0:
                ratio = self.pace.get(stage, 1.0) * seconds / price  # the plan's prices are paced already
                kept = Ratio(min(max(ratio, 1 / MOST), MOST), disturbed)
                new[stage] = _shortened((*new.get(stage, ()), kept))
        if new != self._ratios:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            rows = {stage: [[each.value, each.disturbed] for each in ratios] for stage, ratios in new.items()}
            write_atomically(self._file, json.dumps(rows, indent=1, sort_keys=True) + "\n")


def _shortened(ratios: tuple[Ratio, ...]) -> tuple[Ratio, ...]:
    """Return the last of each kind, so that a busy week does not push the quiet ones out."""
    return tuple(
        each
        for place, each in enumerate(ratios)
        if sum(later.disturbed == each.disturbed for later in ratios[place + 1 :]) < KEPT
    )


def _typical(ratios: tuple[Ratio, ...]) -> float:
    quiet = [ratio.value for ratio in ratios if not ratio.disturbed]
    return statistics.median(quiet or [ratio.value for ratio in ratios])


def _read(file: Path) -> dict[StageName, tuple[Ratio, ...]]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    rows = data.items() if isinstance(data, dict) else ()
    found = {StageName(stage): tuple(_ratios(value)) for stage, value in rows if stage in set(StageName)}
    return {stage: ratios for stage, ratios in found.items() if ratios}


def _ratios(value: Any) -> list[Ratio]:
    """Return the ratios of one stage; what is damaged is left out."""
    pairs = [row for row in value if isinstance(row, list) and len(row) == 2] if isinstance(value, list) else []
    return [Ratio(float(r), bool(d)) for r, d in pairs if isinstance(r, int | float) and 0 < r <= MOST]
