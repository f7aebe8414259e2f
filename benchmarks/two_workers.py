"""One worker and two: evaluations a minute of the training part, and whether the timings stay as they were.

Both searches begin with weights only. The training part is everything but the timings: converting, reading the
pictures, heads, compression and scores. Searches alternate, and medians are compared. What the machine itself gives is
measured beside them: how many more inferences two processes get done than one, each on one thread and sharing nothing.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.core import Evaluation, Status
from advisor.store import RunFolder, cache_root
from benchmarks.tables import Row, keep

TRASHNET = Path(__file__).resolve().parents[2] / "shared" / "data" / "images" / "trashnet"
CARDS = (
    "mobilenet_v1_0.25_224", "mobilenet_v1_1.0_224", "mobilenet_v2_1.0_224", "squeezenet_1.1_227",
    "efficientnet_lite0_224",
)  # fmt: skip
INFERENCES_S = 8.0
_INFER = """
import sys, time
import numpy as np
from ai_edge_litert.interpreter import Interpreter
model = Interpreter(sys.argv[1], num_threads=1)
model.allocate_tensors()
model.set_tensor(model.get_input_details()[0]["index"], np.zeros(model.get_input_details()[0]["shape"], np.float32))
model.invoke()
print("ready", flush=True)
sys.stdin.readline()
ends, count = time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < ends:
    model.invoke()
    count += 1
print(count, flush=True)
"""
FASTER, APART = 1.7, 0.05
"""To reach: so many times the evaluations a minute, and medians of timings at most so far apart."""


@dataclass(frozen=True)
class Searched:
    """One search: its run folder, seconds in which something was timed, all others, and its evaluations."""

    folder: Path
    training_s: float
    timing_s: float
    evaluations: tuple[Evaluation, ...]

    @property
    def a_minute(self) -> float:
        """Evaluations a minute of the training part."""
        return 60 * len(self.evaluations) / self.training_s


def main() -> None:
    """Search by turns with one worker and with two, and keep the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=1)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as name:
        found: dict[int, list[Searched]] = {1: [], 2: []}
        for turn in range(turns):
            for workers in (1, 2) if turn % 2 == 0 else (2, 1):
                found[workers].append(_search(Path(name) / f"{turn}-{workers}", workers))
        model = next(e.artefact for e in found[2][0].evaluations if e.configuration.compression == "float32")
        file = found[2][0].folder / model
        machine = statistics.median(_inferences(file, 2) / _inferences(file, 1) for _ in range(3))
    one, two = (statistics.median(each.a_minute for each in found[workers]) for workers in (1, 2))
    rows = [_row(workers, found[workers]) for workers in (1, 2)]
    ratios = _timing_ratios(found[1], found[2])
    middle = statistics.median(ratios)
    remarks = [
        f"two workers: {two / one:.2f} times the evaluations a minute of one (to reach: {FASTER}); two processes that "
        f"share nothing get {machine:.2f} times the inferences of one done on this machine",
        f"latency with two workers over that with one: median {middle:.3f} over {len(ratios)} figures, "
        f"middle half {_quantile(ratios, 0.25):.3f} to {_quantile(ratios, 0.75):.3f} (to reach: within {APART:.0%})",
        f"TrashNet, {len(CARDS)} cards in five forms at one thread, weights only in the cache, {turns} turn(s) each; "
        f"{_load()}",
    ]
    header = ("workers", "evaluations", "training part", "timing", "evaluations a minute of the training part")
    print(keep("two_workers", "One worker and two", header, rows, remarks))


def _search(folder: Path, workers: int) -> Searched:
    cache = folder / "cache"
    cache.mkdir(parents=True)
    (cache / "weights").symlink_to(cache_root() / "weights")
    command = [
        *(sys.executable, "-m", "advisor", "search", "--out", str(folder / "runs"), "--data", str(TRASHNET)),
        *("--candidates", ",".join(CARDS), "--threads", "1", "--workers", str(workers)),
    ]
    environment = {**os.environ, "ADVISOR_CACHE_DIR": str(cache)}
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    run = RunFolder((folder / "runs" / "latest").resolve())
    evaluations = tuple(e for e in run.evaluations() if e.status is Status.OK)
    durations = json.loads((run.path / "manifest.json").read_text())["durations"]
    timing = float(durations["timing"])
    return Searched(run.path, float(durations["evaluating"]) - timing, timing, evaluations)


def _inferences(model: Path, processes: int) -> int:
    """Return how many inferences so many processes get done side by side in a while."""
    command = [sys.executable, "-c", _INFER, str(model), str(INFERENCES_S)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    running = [
        subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        for _ in range(processes)
    ]
    for process in running:
        assert process.stdout
        process.stdout.readline()
    done = 0
    for process in running:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        done += int(process.communicate()[0])
    return done


def _row(workers: int, searches: Sequence[Searched]) -> Row:
    middle = statistics.median
    return (
        workers,
        len(searches[0].evaluations),
        f"{middle(each.training_s for each in searches):.0f} s",
        f"{middle(each.timing_s for each in searches):.0f} s",
        f"{middle(each.a_minute for each in searches):.1f}",
    )


def _timing_ratios(one: Sequence[Searched], two: Sequence[Searched]) -> list[float]:
    """Return each configuration's median latency with two workers over that with one."""
    before, after = _latencies(one), _latencies(two)
    return [after[key] / before[key] for key in sorted(before.keys() & after.keys())]


def _latencies(searches: Sequence[Searched]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for search in searches:
        for evaluation in search.evaluations:
            if evaluation.latency is not None:
                found.setdefault(evaluation.configuration.key, []).append(evaluation.latency.value)
    return {key: statistics.median(values) for key, values in found.items()}


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[round(share * (len(ordered) - 1))]


def _load() -> str:
    return f"load average {os.getloadavg()[1]:.1f} at the end, of which one to two are the benchmark's own"


if __name__ == "__main__":
    main()
