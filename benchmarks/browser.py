"""Files in headless Chromium: whether latencies repeat, whether outputs are LiteRT's, and what a page loads.

    python -m benchmarks browser                  # 20 minutes on an idle machine
    python -m benchmarks browser --rounds 2 --pause 1 --networks mobilenet_v1_0.25_128

Each round starts a new browser and measures every file in turn at every thread count, a minute after the last one. The
weights are random, which changes no latency.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from advisor.core import plural
from advisor.devices import MeasurementJob, Timing
from advisor.integrations.browser import BrowserConnection
from benchmarks.runtimes import networks
from benchmarks.tables import Row, keep

NETWORKS = ("mobilenet_v1_0.25_128", "mobilenet_v2_1.0_224", "efficientnet_lite0_224")
RUNTIMES = ("litert-web", "onnxruntime-web")
THREADS = (1, 2)
INPUTS = 32
GOAL = 0.10
"""Largest distance of a round from the median of the rounds, as a share."""

HEADER = (
    "network", "form", "runtime", "threads", "median of rounds, ms", "furthest round", "load, ms", "first run, ms",
    "WebAssembly memory, MB", "download, MB", "largest difference to LiteRT", "same answers of 32", "reached",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every file and keep the table."""
    parser = argparse.ArgumentParser(description="Measure files in headless Chromium.")
    parser.add_argument("--networks", nargs="+", default=NETWORKS, help="measure only these")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pause", type=float, default=60.0, help="seconds before each further round")
    chosen = parser.parse_args(arguments)
    files = networks(chosen.networks)
    rows: list[Row] = []
    found = repeated(list(files.values()), chosen.rounds, chosen.pause)
    for (network, form), file in files.items():
        for runtime in RUNTIMES:
            difference, same = agreement(file, runtime)
            for threads in THREADS:
                timings = [each for each in found[runtime] if (each.model, each.threads) == (file, threads)]
                rows.append((network, form, runtime, *figures(timings), difference, same, reached(timings)))
    said = [
        f"{plural(chosen.rounds, 'round')}, {chosen.pause:g} s apart; reached: within {GOAL:.0%} of their median",
        "an output's difference is a share of its range; inputs are random",
    ]
    print(
        keep(
            "browser",
            "Files in headless Chromium",
            HEADER,
            rows,
            [*said, *(each[0].runtime for each in found.values())],
        )
    )


def repeated(files: Sequence[Path], rounds: int, pause_s: float) -> dict[str, list[Timing]]:
    """Return the timings of every file and thread count in every round, by runtime."""
    found: dict[str, list[Timing]] = {runtime: [] for runtime in RUNTIMES}
    for number in range(rounds):
        if number:
            time.sleep(pause_s)
        for runtime, timings in found.items():
            timings += BrowserConnection(runtime).measure(
                MeasurementJob(tuple(files), THREADS, "quick", timeout_s=1200)
            )
        print(f"round {number + 1} of {rounds}", flush=True)
    return found


def furthest(timings: Sequence[Timing]) -> float:
    """Return the largest distance of a round from the median of the rounds, as a share of it."""
    median = statistics.median(timing.median_ms for timing in timings)
    return max(abs(timing.median_ms / median - 1) for timing in timings)


def figures(timings: Sequence[Timing]) -> Row:
    """Return the figures of one file at one thread count."""
    memory = timings[0].memory_bytes
    return (
        timings[0].threads,
        f"{statistics.median(timing.median_ms for timing in timings):.3g}",
        f"{furthest(timings):.1%}",
        f"{statistics.median(timing.load_ms for timing in timings):.3g}",
        f"{statistics.median(timing.first_ms for timing in timings):.3g}",
        "" if memory is None else f"{memory / 1e6:.1f}",
        f"{timings[0].details['page_bytes'] / 1e6:.1f}",
    )


def agreement(file: Path, runtime: str) -> tuple[str, int]:
    """Return the largest difference to LiteRT's outputs in % of their range, and how many answers are the same."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(file), num_threads=1)
    interpreter.allocate_tensors()
    (given,), got = interpreter.get_input_details(), interpreter.get_output_details()[0]
    inputs = random_inputs((INPUTS, *given["shape"][1:]), given["dtype"])
    expected = []
    for one in inputs:
        interpreter.set_tensor(given["index"], one[None])
        interpreter.invoke()
        expected.append(interpreter.get_tensor(got["index"]).reshape(-1).astype(np.float64))
    shift = 128 if runtime == "onnxruntime-web" and inputs.dtype == np.int8 else 0  # int8 exports take and give uint8
    given_there = (inputs.astype(np.int16) + shift).astype(np.uint8) if shift else inputs
    outputs, known = BrowserConnection(runtime).outputs(file, given_there) - shift, np.array(expected)
    same = int((outputs.argmax(axis=1) == known.argmax(axis=1)).sum())
    return f"{100 * np.abs(outputs - known).max() / (known.max() - known.min()):.2g} %", same


def random_inputs(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Return random values in the range of images."""
    generator = np.random.default_rng(0)
    if np.issubdtype(dtype, np.floating):
        return generator.uniform(-1, 1, shape).astype(dtype)
    span = np.iinfo(dtype)
    return generator.integers(span.min, span.max + 1, shape).astype(dtype)


def reached(timings: Sequence[Timing]) -> str:
    """Return whether the rounds are within the goal."""
    return "yes" if furthest(timings) <= GOAL else "no"
