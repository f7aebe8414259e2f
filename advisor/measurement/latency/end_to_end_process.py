"""Time each step from an image file to an answer and print the times as JSON. Runs as a child process."""

from __future__ import annotations

import argparse
import sys
import time
from itertools import pairwise
from pathlib import Path

from advisor.devices.connections.agent import AgentError, new_interpreter, report

TIME_LIMIT_S = 1.5
MOST_RUNS, LEAST_RUNS = 100, 5
TOP = 5
STEPS = ("decode", "normalise", "copy_in", "invoke", "copy_out", "answer")


class Pipeline:
    """A loaded image classifier and an image."""

    def __init__(self, model: str, image: str, threads: int, kernels: str, mean: list[float], std: list[float]):
        self._image, self._mean, self._std = Path(image), mean, std
        self._interpreter = new_interpreter(model, threads, kernels)
        self._interpreter.allocate_tensors()
        inputs = self._interpreter.get_input_details()
        shape = [int(side) for side in inputs[0]["shape"]]
        if len(inputs) != 1 or len(shape) != 4 or shape[0] != 1 or shape[3] != 3 or shape[1] != shape[2]:
            raise AgentError("pipeline", "its input is not one square RGB image")
        self._input, self._size = inputs[0], shape[1]
        self._outputs = self._interpreter.get_output_details()
        # At one thread, the calling thread does all the work, and other processes hardly affect its CPU time.
        self._clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns

    def run(self) -> list[int]:
        """Run all steps once and return the nanoseconds of each of ``STEPS``."""
        from advisor.datasets.images import load, normalise
        from advisor.measurement.accuracy.inference import dequantise, quantise

        marks = [self._clock()]
        pixels = load(self._image, self._size)
        marks.append(self._clock())
        values = quantise(normalise(pixels, self._mean, self._std)[None], self._input)
        marks.append(self._clock())
        self._interpreter.set_tensor(self._input["index"], values)
        marks.append(self._clock())
        self._interpreter.invoke()
        marks.append(self._clock())
        results = [self._interpreter.get_tensor(detail["index"]) for detail in self._outputs]
        marks.append(self._clock())
        for result, detail in zip(results, self._outputs, strict=True):
            dequantise(result, detail).reshape(-1).argsort()[-TOP:]
        marks.append(self._clock())
        return [after - before for before, after in pairwise(marks)]


def collect(options: argparse.Namespace) -> dict[str, object]:
    """Return the nanoseconds of each step of each run."""
    mean, std = ([float(part) for part in text.split(",")] for text in (options.mean, options.std))
    pipeline = Pipeline(options.model, options.image, options.threads, options.kernels, mean, std)
    for _ in range(2):
        pipeline.run()
    limit, runs = time.perf_counter() + TIME_LIMIT_S, list[list[int]]()
    while len(runs) < MOST_RUNS and (len(runs) < LEAST_RUNS or time.perf_counter() < limit):
        runs.append(pipeline.run())
    return {"schema_version": 1, "steps": list(STEPS), "runs": runs}


def main() -> int:
    """Parse the command line, collect and print."""
    parser = argparse.ArgumentParser(description="Print the times of each step from an image to an answer as JSON.")
    parser.add_argument("model")
    parser.add_argument("image")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kernels", choices=("default", "builtin"), default="default")
    parser.add_argument("--mean", default="127.5,127.5,127.5")
    parser.add_argument("--std", default="127.5,127.5,127.5")
    options = parser.parse_args()
    return report(lambda: collect(options))


if __name__ == "__main__":
    sys.exit(main())
