"""How long the main job takes and how much memory: with pictures and without, first and repeated.

Whole processes are timed from outside, with a cache of their own; weights are warm unless the row says cold.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.store import cache_root
from benchmarks.tables import Row, keep

TRASHNET = Path(__file__).resolve().parents[2] / "shared" / "data" / "images" / "trashnet"
CARDS = (
    "mobilenet_v1_0.25_224", "mobilenet_v1_1.0_224", "mobilenet_v2_1.0_224", "squeezenet_1.1_227",
    "efficientnet_lite0_224", "efficientnet_lite1_240", "efficientnet_lite2_260",
)  # fmt: skip
HELP_RUNS = 9


@dataclass(frozen=True)
class Timed:
    """One run of the command: wall seconds, and what its manifest and evaluations say."""

    seconds: float
    code: int
    evaluated: int
    parent_bytes: int
    children_bytes: int


def main() -> None:
    """Run every case and keep the table."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if TRASHNET.is_dir():
            data = ["--data", str(TRASHNET), "--candidates", ",".join(CARDS), "--budget", "50ms"]
            cache = fresh_cache(place / "pictures", cold=False)
            rows.append(_row("TrashNet, 7 cards x 5 forms x 2 thread counts", "300 s", _search(place, cache, data)))
            rows.append(_row("the same repeated", "60 s", _search(place, cache, data)))
        bare = ["--budget", "50ms"]
        warm = fresh_cache(place / "bare", cold=False)
        rows.append(_row("no pictures, default cards, warm weights", "", _search(place, warm, bare)))
        rows.append(_row("the same repeated", "60 s", _search(place, warm, bare)))
        rows.append(
            _row("no pictures, default cards, cold", "180 s", _search(place, fresh_cache(place / "cold", True), bare))
        )
    rows.append(("advisor --help (median of 9)", "0.3 s", f"{_help_seconds():.2f} s", "", "", ""))
    header = ("case", "to reach", "wall", "evaluations", "peak memory of the parent", "peak memory of any child")
    print(keep("search", "The main job", header, rows, ["to reach for memory: parent 1.5 GB, any child 3 GB"]))


def fresh_cache(root: Path, cold: bool = False) -> Path:
    """Make a cache folder without results; it shares the user's weights unless it is ``cold``."""
    root.mkdir()
    if not cold:
        weights = cache_root() / "weights"
        weights.mkdir(parents=True, exist_ok=True)
        (root / "weights").symlink_to(weights)
    return root


def _search(place: Path, cache: Path, arguments: Sequence[str]) -> Timed:
    out = place / "runs"
    command = [sys.executable, "-m", "advisor", "search", "--out", str(out), *arguments]
    start = time.monotonic()
    environment = {**os.environ, "ADVISOR_CACHE_DIR": str(cache)}
    code = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode
    seconds = time.monotonic() - start
    run = out / "latest"
    manifest = json.loads((run / "manifest.json").read_text())
    lines = (run / "evaluations.jsonl").read_text().splitlines()
    return Timed(seconds, code, len(lines), manifest["parent_peak_bytes"], manifest["children_peak_bytes"])


def _row(case: str, goal: str, timed: Timed) -> Row:
    memory = (f"{value / 1e9:.2f} GB" for value in (timed.parent_bytes, timed.children_bytes))
    return (case, goal, f"{timed.seconds:.0f} s", f"{timed.evaluated} (exit {timed.code})", *memory)


def _help_seconds() -> float:
    times = []
    for _ in range(HELP_RUNS):
        start = time.monotonic()
        subprocess.run([sys.executable, "-m", "advisor", "--help"], check=True, stdout=subprocess.DEVNULL)
        times.append(time.monotonic() - start)
    return statistics.median(times)


if __name__ == "__main__":
    main()
