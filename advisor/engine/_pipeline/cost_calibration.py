"""Correct the prices of stages by the seconds that they took on this machine.

A search reads a :class:`CostCalibration` when it begins, tells it what each stage took, and writes
the ratios at its end, for the next plan. The ratios are of CPU seconds, because a busy machine
prices work like a quiet one. Seconds by the clock (``wall``) tell how much longer jobs wait now.
The file in the cache holds rows of :class:`CostRatio`: the order of its fields is that of a row.
"""

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from advisor.core import UsageError, parse, recipe_of
from advisor.engine._pipeline.cost import training_walls
from advisor.engine._pipeline.stage import Stage, StageName
from advisor.engine._pipeline.stage_events import EventKind, StageEvent
from advisor.measurement import host
from advisor.store import cache_root, read_json, write_atomically

MOST = 30.0  # A ratio beyond this says more about a disturbance than about the machine

# Number of searches whose median counts:
# one disturbed search, or an unusual card, decides nothing.
SEARCHES = 7

LOADED = 1.6
"""Seconds by the clock of jobs over those on a quiet machine from which on other programs keep it
busy.
"""

RECENT_S = 5.0
"""Seconds of work by the clock after which the load that an earlier job met counts half. It is
also the weight of a quiet machine at the start of a search.
"""

PACE_S = 20.0
STAGE_S = 3.0
"""Planned seconds of work that weigh as much as the plan in the pace of a search, and as much as
the pace of the search in the pace of one kind of stage.
"""


class CostRatio(NamedTuple):
    """The cost of a kind of stage in one search: a row of the file in the cache.

    ``value``: its CPU seconds over its rough price. ``disturbed``: other work disturbed the
    search. ``wall``: wall seconds of a CPU second, below 1 where a job uses several cores.
    """

    value: float
    disturbed: bool = False
    wall: float = 1.0


class StageWork(NamedTuple):
    """The work of jobs: its price in the plan, and the CPU and wall seconds that it took.

    A measurement has the machine alone, and its CPU seconds are its wall seconds.
    """

    price_s: float = 0.0
    cpu_s: float = 0.0
    wall_s: float = 0.0


@dataclass(frozen=True)
class Paces:
    """The seconds that stages take in one search over those that its plan expects.

    ``work`` has the planned CPU seconds and those taken of each kind of stage that has run.
    """

    work: Mapping[StageName, tuple[float, float]]

    def of(self, name: StageName) -> float:
        """Return the seconds that a stage of a kind takes for each planned second.

        A kind without a figure has the pace of the search, in which large stages count most: they
        are limited by the speed of the machine, small ones by much else.
        """
        planned_s, took_s = self.work.get(name, (0.0, 0.0))
        return (took_s + STAGE_S * self.usual) / (planned_s + STAGE_S)

    @cached_property
    def usual(self) -> float:
        """The pace of the search: that of all its stages together."""
        planned_s = sum(planned for planned, _ in self.work.values())
        took_s = sum(took for _, took in self.work.values())
        return (took_s + PACE_S) / (planned_s + PACE_S)


class MachineLoad:
    """The slowdown of jobs now against a quiet machine; recent jobs count most.

    Before the first job, it is the larger of a ``slowdown`` that was measured, and of what a quota
    makes of it: ``part`` is the part (0-1) of one core that the quota leaves.
    """

    def __init__(self, slowdown: float = 1.0, part: float = 1.0) -> None:
        self._usual_s = RECENT_S
        self._took_s = RECENT_S * max(slowdown, 1.0 / part)

    def note(self, usual_s: float, took_s: float) -> None:
        """Note work that takes ``usual_s`` wall seconds on a quiet machine, and took ``took_s``
        here.
        """
        weight_of_earlier = 0.5 ** (usual_s / RECENT_S)
        self._usual_s = weight_of_earlier * self._usual_s + usual_s
        self._took_s = weight_of_earlier * self._took_s + took_s

    @property
    def slowdown(self) -> float:
        """Wall seconds that jobs take now over those that they take on a quiet machine."""
        return self._took_s / self._usual_s


class CostCalibration:
    """CPU seconds that stages took over their rough price, by stage, stored for the next plan.

    Only measurements, which have the machine alone, count wall seconds. Searches on a quiet
    machine count before those that other work disturbed, however many of these there are. The JSON
    ``file`` is by default one for each machine, in the cache. ``slowdown`` and ``part`` are those
    of :class:`MachineLoad`, and ``cores`` are those of the search.

    Attributes:
        pace: CPU seconds of each stage over its rough price.
        wall: wall seconds of each stage over its CPU seconds on a quiet machine: at most 1, as
            nothing else delays it.
    """

    def __init__(
        self,
        file: Path | None = None,
        slowdown: float = 1.0,
        part: float = 1.0,
        cores: int = 1,
    ) -> None:
        self._file = file or cache_root() / f"cpu-{host.describe().fingerprint}.json"
        self._ratios = _read_ratios(self._file)
        self.pace: Mapping[StageName, float] = _with_trainings(self._medians("value"))
        self.wall: Mapping[StageName, float] = {
            name: min(1.0, wall) for name, wall in self._medians("wall").items()
        }
        self._usual_wall = {**training_walls(cores), **self.wall}
        self._worked: dict[Stage[Any], StageWork] = {}
        self._known_paces: Paces | None = None
        self._load = MachineLoad(slowdown, part)
        self._part = part

    def _medians(self, field: str) -> dict[StageName, float]:
        medians = {}
        for stage, ratios in self._ratios.items():
            # Searches on a busy machine count only where there is no other.
            usable = _select_ratios(ratios, disturbed=False) or ratios
            medians[stage] = statistics.median(getattr(ratio, field) for ratio in usable)
        return medians

    @property
    def slowdown(self) -> float:
        """Wall seconds that jobs take now over those that they take on a quiet machine;
        see :class:`MachineLoad`.
        """
        return self._load.slowdown

    @property
    def is_loaded(self) -> bool:
        """True if other programs keep the machine so busy that jobs wait for them."""
        return self.slowdown > LOADED

    def note(self, event: StageEvent, price_s: float) -> None:
        """Record what happened to a stage, of which the plan expected ``price_s`` CPU seconds.

        A training that a limit or an interrupt ends counts with the share of its seconds that it
        has done, which it knows after its first steps; else with its finished epochs.
        """
        done, planned = event.epochs
        self._known_paces = None
        if event.kind is EventKind.CACHED:
            self._worked.pop(event.stage, None)
        elif event.kind in (EventKind.DONE, EventKind.EPOCH):
            before = self._worked.get(event.stage, StageWork())
            share = event.share or (done / planned if planned else 1.0)
            now = StageWork(price_s * share, event.cpu_s, event.seconds)
            self._worked[event.stage] = now
            if not event.stage.resources.alone:
                usual_s = (now.cpu_s - before.cpu_s) * self._usual_wall.get(event.stage.name, 1.0)
                self._load.note(usual_s, now.wall_s - before.wall_s)

    def observed(self, name: StageName) -> float:
        """Return the wall seconds that a stage of a kind takes now over those that its plan
        expects.
        """
        if name is StageName.TIMING:
            return self._timing_slowdown * self.observed_cpu(name)
        return self._planned_slowdown * self.observed_cpu(name)

    def observed_cpu(self, name: StageName) -> float:
        """Return the CPU seconds that a stage of a kind takes over those that its plan expects."""
        return self._paces.of(name)

    def expect_s(self, name: StageName, price_s: float) -> float:
        """Return the wall seconds of stages of a kind,
        which follow each other and have a rough price in CPU seconds.
        """
        cpu_s = price_s * self.pace.get(name, 1.0)
        return cpu_s * self._usual_wall.get(name, 1.0) * self.slowdown

    def wall_of_cpu_s(self, name: StageName) -> float:
        """Return the wall seconds of a CPU second of a stage, as plans expect them now."""
        return self._planned_slowdown * self._usual_wall.get(name, 1.0)

    @property
    def _timing_slowdown(self) -> float:
        """The factor on the seconds of timings, whose pace is one of wall seconds already.

        A timing ends after the same seconds beside other programs. Only a quota stretches it, and
        the first one shows by how much.
        """
        has_timed = any(stage.resources.alone for stage in self._worked)
        return 1.0 if has_timed else 1.0 / self._part

    @property
    def _planned_slowdown(self) -> float:
        """The :attr:`slowdown` that plans reckon with.

        Other programs count from :data:`LOADED` on:
        less than that, the jobs of a search itself cost each other.
        """
        return self.slowdown if self.is_loaded else 1.0

    @property
    def _paces(self) -> Paces:
        if self._known_paces is None:
            works = self._sum_by_name()
            self._known_paces = Paces(
                {name: (work.price_s, work.cpu_s) for name, work in works.items()}
            )
        return self._known_paces

    def _sum_by_name(self) -> dict[StageName, StageWork]:
        sums: dict[StageName, StageWork] = {}
        for stage, work in self._worked.items():
            before = sums.get(stage.name, StageWork())
            sums[stage.name] = StageWork(
                before.price_s + work.price_s,
                before.cpu_s + work.cpu_s,
                before.wall_s + work.wall_s,
            )
        return sums

    def keep(self, disturbed: bool = False) -> None:
        """Compare the expected CPU seconds with those that were spent, stage by stage,
        and keep the ratios.
        """
        new = dict(self._ratios)
        for stage, work in self._sum_by_name().items():
            if work.price_s > 0 and work.cpu_s > 0:
                # The plan's prices are paced already.
                ratio = self.pace.get(stage, 1.0) * work.cpu_s / work.price_s
                wall = work.wall_s / work.cpu_s
                bounded = CostRatio(_limit_ratio(ratio), disturbed, _limit_ratio(wall))
                ratios = (*new.get(stage, ()), bounded)
                # A busy week does not displace the quiet ones.
                quiet = _select_ratios(ratios, disturbed=False)
                busy = _select_ratios(ratios, disturbed=True)
                new[stage] = (*quiet[-SEARCHES:], *busy[-SEARCHES:])
        if new != self._ratios:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            rows = {}
            for stage, ratios in new.items():
                rows[stage] = list(map(list, ratios))
            write_atomically(self._file, json.dumps(rows, indent=1, sort_keys=True) + "\n")


def _limit_ratio(ratio: float) -> float:
    return min(max(ratio, 1 / MOST), MOST)


def _with_trainings(pace: Mapping[StageName, float]) -> Mapping[StageName, float]:
    """Return the ratios, with those of fine-tunings that were never run here.

    Such a fine-tuning has the ratio of the others, else the median of all stages.
    """
    trainings = [stage for stage in StageName if recipe_of(stage).tunes_backbone]
    known = []
    for stage in trainings:
        if stage in pace:
            known.append(pace[stage])
    if not known and StageName.FEATURES in pace:
        known = list(pace.values())
    if known:
        return {**dict.fromkeys(trainings, statistics.median(known)), **pace}
    return pace


def _select_ratios(ratios: tuple[CostRatio, ...], disturbed: bool) -> tuple[CostRatio, ...]:
    """Return the ratios of searches that other work disturbed, or of the others."""
    return tuple(ratio for ratio in ratios if ratio.disturbed is disturbed)


def _read_ratios(file: Path) -> dict[StageName, tuple[CostRatio, ...]]:
    """Return the ratios that earlier searches kept; none of a damaged file."""
    try:
        rows: Mapping[str, tuple[CostRatio, ...]] = parse(
            Mapping[str, tuple[CostRatio, ...]], read_json(file)
        )
    except (UsageError, ValueError, TypeError):
        return {}
    known = {}
    for stage, ratios in rows.items():
        if ratios and stage in set(StageName):
            known[StageName(stage)] = ratios
    return known
