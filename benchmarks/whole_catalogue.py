"""A search without pictures over every card of the catalogue: how long it takes, cold and warm, and what of it.

Whole processes are timed from outside with a cache of their own. Cold: nothing is converted, compressed or timed yet;
the weights that this machine has are there, the others cannot be had (``--offline``). What a first download of them
adds is a row of its own. The warm run answers the same question again.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.core import Evaluation, Status
from advisor.store import RunFolder, cache_root
from benchmarks.tables import Row, keep

QUESTION = ("--candidates", "*", "--budget", "50ms", "--stop-below", "never", "--offline")
SLOWEST = 8


@dataclass(frozen=True)
class Searched:
    """One run of the command.

    Attributes:
        seconds: of the wall.
        cards: number of cards by what became of them: ``ok`` where any configuration was evaluated.
        configurations: number of configurations by status.
        unexplained: cards without an evaluation, or that failed or were skipped without a reason.
        manifest: of its run.
    """

    seconds: float
    cards: Mapping[str, int]
    configurations: Mapping[str, int]
    unexplained: tuple[str, ...]
    manifest: Mapping[str, Any]


def main() -> None:
    """Search twice, and keep the tables."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        fetched = _fetch(place / "fetched")
        cache = _linked_weights(place / "cache")
        cold, warm = _search(place, cache), _search(place, cache)
    rows: list[Row] = [_row("cold", "900 s", cold), _row("the same again, warm", "120 s", warm)]
    rows.append(("fetching all weights that can be had here, from nothing", "", f"{fetched:.0f} s", "", "", "", ""))
    rows += [_slow(card, stages) for card, stages in list(cold.manifest["durations_by_card"].items())[:SLOWEST]]
    header = ("case", "to reach", "wall", "cards", "configurations", "without a reason", "seconds of a core by stage")
    print(keep("whole_catalogue", "A search over the whole catalogue, without pictures", header, rows, _remarks(cold)))


def _row(case: str, goal: str, searched: Searched) -> Row:
    durations = {stage: value for stage, value in searched.manifest["durations"].items() if stage != "search"}
    return (
        case,
        goal,
        f"{searched.seconds:.0f} s",
        _counted(searched.cards),
        _counted(searched.configurations),
        len(searched.unexplained),
        _listed(durations),
    )


def _slow(card: str, stages: Mapping[str, float]) -> Row:
    return f"of the cold run: {card}", "", f"{sum(stages.values()):.0f} s", "", "", "", _listed(stages)


def _listed(stages: Mapping[str, float]) -> str:
    return ", ".join(f"{stage} {seconds:.0f}" for stage, seconds in stages.items())


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))


def _remarks(cold: Searched) -> list[str]:
    peak = cold.manifest.get("children_peak_bytes", 0)
    return [
        f"the question: advisor search {' '.join(QUESTION)}",
        "a card without reachable weights has random ones: it is timed and sized, and its accuracy is published",
        f"largest child process: {peak / 1e9:.1f} GB (converting)",
        "seconds of a slow card are those while it held a core or, timing, the machine",
    ]


def _search(place: Path, cache: Path) -> Searched:
    start = time.monotonic()
    done = _advisor(cache, "search", *QUESTION, "--out", str(place / "runs"))
    seconds = time.monotonic() - start
    if done.returncode not in (0, 3):
        raise SystemExit(f"the search ended with {done.returncode}: {done.stderr[-2000:]}")
    run = RunFolder.open(place / "runs" / "latest")
    manifest = json.loads((run.path / "manifest.json").read_text(encoding="utf-8"))
    return _judged(seconds, run.evaluations(), manifest)


def _judged(seconds: float, evaluations: tuple[Evaluation, ...], manifest: Mapping[str, Any]) -> Searched:
    from advisor.catalog import load_catalogue

    by_card: dict[str, list[Evaluation]] = {name: [] for name in load_catalogue()}
    for evaluation in evaluations:
        by_card[evaluation.configuration.card].append(evaluation)
    unexplained = [name for name, found in by_card.items() if not found]
    unexplained += [e.configuration.card for e in evaluations if e.status is not Status.OK and not e.reason]
    best = {name: min((e.status.value for e in found), key=_ORDER.index) for name, found in by_card.items() if found}
    counts = Counter(e.status.value for e in evaluations)
    return Searched(seconds, Counter(best.values()), counts, tuple(unexplained), manifest)


_ORDER = [status.value for status in (Status.OK, Status.FAILED, Status.SKIPPED)]


def _fetch(cache: Path) -> float:
    start = time.monotonic()
    _advisor(cache, "catalog", "fetch", "--all")
    return time.monotonic() - start


def _linked_weights(cache: Path) -> Path:
    """Return a new cache that holds this machine's weights and nothing else."""
    cache.mkdir()
    (cache / "weights").symlink_to(cache_root() / "weights")
    return cache


def _advisor(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ADVISOR_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "advisor", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    main()
