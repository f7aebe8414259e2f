"""How long ``advisor catalog list`` takes with the shipped cards, and with ten thousand of a team's own."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from advisor.catalog import load_catalogue
from benchmarks.tables import Row, keep

TEAM_CARDS = 10_000
RUNS = 9

_HEADER = """\
family: team
paper: https://example.org
licence: MIT
defaults:
  architecture: mobilenet_v2
  preprocessing: {mean: [127.5, 127.5, 127.5], std: [127.5, 127.5, 127.5]}
cards:
"""
_CARD = """\
  - name: team_net_{number:05d}
    input_size: 224
    arguments: {{width: 1.0}}
    params: {params}
    macs: {macs}
    published:
      - precision: float32
        top1: {top1}
        top5: 92.5
        source: our own measurements
    weights:
      - kind: url
        format: keras_h5
        port: keras
        url: https://example.org/nets/{number}.h5
        file:
          path: {number}.h5
          sha256: "{number:064x}"
          size_bytes: {size}
"""


def main() -> None:
    """Time both cases in processes of their own and keep the table."""
    with tempfile.TemporaryDirectory() as folder:
        team = Path(folder) / "team.yaml"
        team.write_text(catalogue_text(TEAM_CARDS), encoding="utf-8")
        shipped = len(load_catalogue())
        rows: list[Row] = [
            _row(f"advisor catalog list, {shipped} cards", "0.6 s", ()),
            _row("advisor catalog list --json, the same", "", ("--json",)),
            _row(f"advisor catalog list, {shipped + TEAM_CARDS} cards", "2 s", ("--catalog", str(team))),
            _row("the same, read for the first time", "", ("--catalog", str(team)), remembered=False),
        ]
    header = ("case", "to reach", f"wall (median of {RUNS})", "wall (best)", "processor time (median)")
    print(keep("catalogue", "The catalogue", header, rows, ["whole processes, timed from outside"]))


def catalogue_text(cards: int) -> str:
    """A catalogue file of so many cards, as full as the shipped ones."""
    entries = (
        _CARD.format(number=n, params=3_000_000 + n, macs=300_000_000 + n, top1=60 + n % 200 / 10, size=4 * n + 1)
        for n in range(cards)
    )
    return _HEADER + "".join(entries)


def _row(case: str, goal: str, arguments: Sequence[str], remembered: bool = True) -> Row:
    timed = [_seconds(arguments) if remembered else _first_seconds(arguments) for _ in range(RUNS)]
    walls, processor = zip(*timed, strict=True)
    return (
        case,
        goal,
        f"{statistics.median(walls):.2f} s",
        f"{min(walls):.2f} s",
        f"{statistics.median(processor):.2f} s",
    )


def _first_seconds(arguments: Sequence[str]) -> tuple[float, float]:
    """The same with an empty cache: nothing of the catalogue's files is remembered."""
    with tempfile.TemporaryDirectory() as cache:
        return _seconds(arguments, {"ADVISOR_CACHE_DIR": cache})


def _seconds(arguments: Sequence[str], more: Mapping[str, str] | None = None) -> tuple[float, float]:
    """Wall and processor seconds of one run."""
    import resource

    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "advisor", "catalog", "list", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **(more or {})},
    )
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
