"""How well networks are predicted on this machine from kernels that were timed on it, beside what else predicts.

    python -m benchmarks latency_kernels                # about five minutes on an idle machine, once the files are made
    python -m benchmarks latency_kernels --threads 1    # half of it; the other half keeps its figures

The networks that judge are the first 40 of the catalogue by the SHA-256 of their names. They choose nothing. Every
network is timed in two passes, and its latency is their geometric mean. The share of networks whose passes agree within
10 % says how steady the machine is. The method was developed on the other 36, which also give the models
that a calibration measures.
"""

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from advisor.devices.calibration import replace_kernels, with_measurements
from advisor.devices.connections.agent import HostConnection
from advisor.devices.connections.protocol import MeasurementJob
from advisor.devices.kernels import time_kernels
from advisor.devices.latency.features import load_features
from advisor.devices.prediction import Prediction, Predictor, fit_predictor
from advisor.devices.profiles import DeviceProfile, load_profiles
from advisor.devices.profiles.runtimes import host_profile
from advisor.store import cache_root
from benchmarks.catalogue_files import FORMS, files_of, names
from benchmarks.tables import RESULTS, Row, keep

JUDGES = 40
MODELS = 5
"""Networks that a calibration measures by default."""

GOALS = {("float32", 1): 0.95, ("int8", 1): 0.90, ("float32", 2): 0.85, ("int8", 2): 0.85}
"""Shares of predictions within 10 % to reach."""

HEADER = (
    "form", "threads", "measured on the machine", "within 10 %", "to reach", "reached", "median error", "largest error",
    "80 % interval covers",
)  # fmt: skip
BATCH = 8
LEVEL = 0.8
PASSES = 2
CLOSE = 0.1
"""Largest relative error of a prediction that counts, and difference of two passes that agree."""


@dataclass(frozen=True)
class Timed:
    """The measurements at one number of threads.

    Attributes:
        profile: this machine under another name, with kernels.
        kernel_s: seconds that timing the kernels took.
        left_out: number of kernels left out.
        latency_ms: geometric mean of the medians of both passes, by name and form.
        agreed: share of networks whose medians in both passes differ by 10 % at most.
    """

    profile: DeviceProfile
    kernel_s: float
    left_out: int
    latency_ms: Mapping[tuple[str, str], float]
    agreed: float


def judges() -> tuple[str, ...]:
    """Return the networks that judge."""
    return tuple(sorted(sorted(names(), key=lambda name: sha256(name.encode()).hexdigest())[:JUDGES]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, predict, and keep the table."""
    parser = argparse.ArgumentParser(description="Predict networks from kernels timed on this machine.")
    parser.add_argument("--threads", type=int, choices=(1, 2), help="measure only with this number of threads")
    options = parser.parse_args(arguments)
    predictor = fit_predictor(load_profiles())
    rows, remarks = [], []
    for threads in (1, 2):
        kept = cache_root() / "benchmarks" / f"latency_kernels-{threads}.json"
        if options.threads in (None, threads):
            found = evaluated(predictor, measure(predictor, threads), threads)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(found), encoding="utf-8")
        elif kept.is_file():
            found = json.loads(kept.read_text(encoding="utf-8"))
        else:
            continue
        rows += found["rows"]
        remarks += found["remarks"]
        _keep_networks(threads, found["networks"])
    remarks.append(f"judged by {JUDGES} networks in each form: {', '.join(judges())}")
    print(keep("latency_kernels", "Networks predicted from kernels timed on this machine", HEADER, rows, remarks))


def measure(predictor: Predictor, threads: int) -> Timed:
    """Time kernels, the models that a calibration chooses, and the networks that judge."""
    chosen = anchors(predictor, threads)
    files = files_of((*chosen, *judges()))
    profile = replace(host_profile(), name="this-machine")
    target = replace(profile.targets[0], name=f"cpu-x{threads}", threads=threads)
    profile = replace(profile, targets=(target,), default_target=target.name)
    connection, start = HostConnection(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        kernels = time_kernels(connection, target.name, threads, FORMS, Path(folder), print)
    seconds = time.monotonic() - start
    first, second = (_passed(connection, threads, files) for _ in range(PASSES))
    latency_ms = {key: math.sqrt(first[key] * second[key]) for key in files}
    agreed = statistics.fmean(abs(first[key] / second[key] - 1) <= CLOSE for key in files)
    return Timed(replace_kernels(profile, target, kernels), seconds, len(kernels.left_out), latency_ms, agreed)


def _passed(
    connection: HostConnection, threads: int, files: Mapping[tuple[str, str], Path]
) -> dict[tuple[str, str], float]:
    """Return the median milliseconds of each file."""
    found, keys = dict[tuple[str, str], float](), list(files)
    for place in range(0, len(keys), BATCH):
        part = {files[key]: key for key in keys[place : place + BATCH]}
        for timing in connection.measure(MeasurementJob(tuple(part), (threads,), "search")):
            found[part[timing.model]] = timing.median_ms
    return found


def anchors(predictor: Predictor, threads: int) -> tuple[str, ...]:
    """Return the models that a calibration of this machine would measure, chosen from those that do not judge."""
    profile = host_profile()
    target = replace(profile.targets[0], name=f"cpu-x{threads}", threads=threads)
    known = load_features().models
    costs = {name: 4 * known[name].params / 1e8 for name in set(names()) - set(judges()) if name in known}
    return predictor.most_informative(profile, target, FORMS[0], costs, MODELS)


def evaluated(predictor: Predictor, timed: Timed, threads: int) -> dict[str, list[Row] | list[str]]:
    """Predict the networks that judge from nothing, from networks, from kernels and from both; return the rows."""
    target, chosen = timed.profile.target(), anchors(predictor, threads)
    table = load_features()
    measured = {key: value for key, value in timed.latency_ms.items() if key[0] in chosen}
    bare = replace(timed.profile, kernels=())
    profiles = {
        "nothing": bare,
        f"{MODELS} networks": with_measurements(bare, target, measured),
        "kernels": timed.profile,
        f"kernels and {MODELS} networks": with_measurements(timed.profile, target, measured),
    }
    from advisor.catalog.catalogue import load_catalogue

    cards = [load_catalogue()[name] for name in judges()]
    models = [
        table.features(card.name, card.family, card.macs or 0, card.params or 0, card.input_size) for card in cards
    ]
    rows, networks = list[Row](), list[Row]()
    for form in FORMS:
        truth = np.array([timed.latency_ms[name, form] for name in judges()])
        for said, profile in profiles.items():
            found = predictor.predict(profile, target, form, models, LEVEL)
            goal = GOALS[form, threads] if "kernels and" in said else None
            rows.append((form, threads, said, *_figures(truth, found, goal)))
        for name, milliseconds, prediction in zip(judges(), truth, found, strict=True):
            latency = prediction.latency
            figures = (milliseconds, latency.value, latency.low, latency.high)
            networks.append((name, form, threads, *(f"{figure:.5g}" for figure in figures if figure is not None)))
    kernels = f"{len(timed.profile.kernels)} kernels in {timed.kernel_s:.0f} s, {timed.left_out} left out"
    steady = f"the two timings of a network agree within {CLOSE:.0%} for {timed.agreed:.0%}"
    remark = f"{threads} threads: {kernels}; networks measured: {', '.join(chosen)}; {steady}"
    return {"rows": rows, "remarks": [remark], "networks": networks}


def _figures(truth: np.ndarray, found: Sequence[Prediction], goal: float | None) -> Row:
    values = np.array([each.latency.value for each in found])
    errors = np.abs(values / truth - 1)
    inside = [each.latency.low <= true <= each.latency.high for each, true in zip(found, truth, strict=True)]  # type: ignore[operator]
    within = float(np.mean(errors <= CLOSE))
    return (
        f"{within:.3f}",
        "" if goal is None else f"{goal:.2f}",
        "" if goal is None else ("yes" if within >= goal else "no"),
        f"{statistics.median(errors):.1%}",
        f"{max(errors):.0%}",
        f"{statistics.fmean(inside):.0%}",
    )


def _keep_networks(threads: int, rows: Sequence[Row]) -> None:
    """Write the measured and the predicted latency of each network."""
    path = RESULTS / f"latency_kernels_x{threads}.csv"
    lines = [",".join(map(str, row)) for row in (("model", "form", "threads", "ms", "predicted", "low", "high"), *rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
