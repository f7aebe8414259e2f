"""Calibration of rough costs by the seconds that stages of earlier searches took on this machine."""

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from advisor.core.codec import parse
from advisor.core.errors import UsageError
from advisor.core.training import recipe_of
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stage import EventKind, Stage, StageEvent
from advisor.measurement import host
from advisor.store import cache_root
from advisor.store.files import write_atomically
from advisor.store.jsonfile import read_json

MOST = 30.0
"""A ratio beyond this says more about a disturbance than about the machine."""

SEARCHES = 7
"""Number of searches whose median counts: one disturbed search, or an unusual card, decides nothing."""


class CostRatio(NamedTuple):
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
        self.pace: Mapping[StageName, float] = _with_trainings(
            {stage: _typical(ratios) for stage, ratios in self._ratios.items()}
        )
        self._worked: dict[Stage[Any], tuple[float, float]] = {}

    def note(self, event: StageEvent, price_s: float) -> None:
        """Record what happened to a stage.

        A training that a limit or an interrupt ends counts with its finished epochs and their share of the price.

        Args:
            event: what happened.
            price_s: seconds that the plan expected of the whole stage.
        """
        done, planned = event.epochs
        if event.kind is EventKind.CACHED:
            self._worked.pop(event.stage, None)
        elif event.kind is EventKind.DONE and not planned:
            self._worked[event.stage] = price_s, event.seconds
        elif event.kind in (EventKind.DONE, EventKind.EPOCH):
            self._worked[event.stage] = price_s * done / planned, event.seconds

    def observed(self) -> float:
        """Return the seconds that a stage of this search took over those that its plan expected; 1 before any.

        It is the median over the kinds of stages: some depend on more than the speed of the machine.
        """
        ratios = [seconds / price_s for price_s, seconds in self._by_stage().values() if price_s > 0]
        return statistics.median(ratios) if ratios else 1.0

    def _by_stage(self) -> dict[StageName, tuple[float, float]]:
        """Return the expected seconds of each kind of stage, and those that it took."""
        found: dict[StageName, tuple[float, float]] = {}
        for stage, (price_s, seconds) in self._worked.items():
            before_s, took_s = found.get(stage.name, (0.0, 0.0))
            found[stage.name] = before_s + price_s, took_s + seconds
        return found

    def keep(self, disturbed: bool = False) -> None:
        """Compare the expected seconds with those that were spent, stage by stage, and keep the ratios."""
        new = dict(self._ratios)
        for stage, (price, seconds) in self._by_stage().items():
            if price > 0 and seconds > 0:
                ratio = self.pace.get(stage, 1.0) * seconds / price  # the plan's prices are paced already
                bounded = CostRatio(min(max(ratio, 1 / MOST), MOST), disturbed)
                new[stage] = _latest((*new.get(stage, ()), bounded))
        if new != self._ratios:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            rows = {stage: [list(each) for each in ratios] for stage, ratios in new.items()}
            write_atomically(self._file, json.dumps(rows, indent=1, sort_keys=True) + "\n")


def _with_trainings(pace: Mapping[StageName, float]) -> Mapping[StageName, float]:
    """Return the ratios, with those of fine-tunings that were never run here.

    Such a fine-tuning has the ratio of the others, else the median of all stages.
    """
    trainings = [stage for stage in StageName if recipe_of(stage).tunes_backbone]
    known = [pace[stage] for stage in trainings if stage in pace]
    if not known and StageName.FEATURES in pace:
        known = list(pace.values())
    return {**dict.fromkeys(trainings, statistics.median(known)), **pace} if known else pace


def _latest(ratios: tuple[CostRatio, ...]) -> tuple[CostRatio, ...]:
    """Return the last ratios of each kind, so that a busy week does not displace the quiet ones."""
    quiet = [ratio for ratio in ratios if not ratio.disturbed]
    disturbed = [ratio for ratio in ratios if ratio.disturbed]
    return (*quiet[-SEARCHES:], *disturbed[-SEARCHES:])


def _typical(ratios: tuple[CostRatio, ...]) -> float:
    quiet = [ratio.value for ratio in ratios if not ratio.disturbed]
    return statistics.median(quiet or [ratio.value for ratio in ratios])


def _read(file: Path) -> dict[StageName, tuple[CostRatio, ...]]:
    """Return the ratios by stage; none if the file is missing or damaged."""
    try:
        rows: Mapping[str, tuple[CostRatio, ...]] = parse(Mapping[str, tuple[CostRatio, ...]], read_json(file))
    except (UsageError, ValueError, TypeError):
        return {}
    return {StageName(stage): ratios for stage, ratios in rows.items() if ratios and stage in set(StageName)}
