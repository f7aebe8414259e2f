"""How well networks that were never timed are predicted from their operators, beside what else predicts them here.

    python -m benchmarks latency_kernels    # about 15 minutes, once the files are made

The networks that judge are the first 15 of the catalogue by the SHA-256 of their names. They choose nothing. All is
timed on one thread by CPU time, so other programs may run beside it. They still take caches, which only adds time. So
every network is timed in three passes, before, between and after the operators, and its least time counts. The share of
networks whose passes agree within 10 % says how steady the machine is. The method was developed on other networks,
which also give the models that a calibration measures.

One row is the method before this one: 86 operators of made-up sizes (``kernel_design.csv``), and the formulas between
them.
"""

import csv
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from advisor.devices import (
    DeviceProfile,
    HostConnection,
    MeasurementJob,
    Prediction,
    Predictor,
    host_profile,
    load_features,
)
from advisor.devices._calibration.networks import add_kernels, with_measurements
from advisor.devices._kernels import Wanted, kernels_to_time, rounds_us, time_kernels
from advisor.devices._prediction import fit_predictor
from advisor.devices._profiles import load_profiles
from advisor.devices._profiles.measurements import Kernel
from advisor.tflite import Work
from benchmarks.catalogue_files import FORMS, files_of, names
from benchmarks.tables import RESULTS, Row, keep

JUDGES = 15
MODELS = 5
"""Networks that a calibration measures by default."""

GOAL = 0.85
"""Share of predictions within 10 % to reach from operators."""

HEADER = (
    "form", "timed on the machine", "within 10 %", "to reach", "reached", "median error", "largest error",
    "80 % interval covers",
)  # fmt: skip
BATCH = 8
LEVEL = 0.8
CLOSE = 0.1
"""Largest relative error of a prediction that counts, and difference of two passes that agree."""

Latencies = Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class Timed:
    """The measurements.

    Attributes:
        profile: this machine under another name, without kernels.
        exact: kernels of the operators of the networks.
        design: kernels of made-up sizes.
        seconds: seconds that timing the exact ones took.
        latency_ms: the least time of the passes, by name and form.
        agreed: share of networks whose times in all passes differ by 10 % at most.
    """

    profile: DeviceProfile
    exact: Sequence[Kernel]
    design: Sequence[Kernel]
    seconds: float
    latency_ms: Latencies
    agreed: float


def judges() -> tuple[str, ...]:
    """Return the networks that judge."""
    return tuple(sorted(sorted(names(), key=lambda name: sha256(name.encode()).hexdigest())[:JUDGES]))


def main() -> None:
    """Measure, predict, and keep the table."""
    predictor = fit_predictor(load_profiles())
    timed = measure(predictor)
    rows, networks = evaluated(predictor, timed)
    remarks = (
        f"{len(timed.exact)} operators of the networks in {timed.seconds / 60:.1f} min; 1 thread, CPU time",
        f"networks measured: {', '.join(anchors(predictor))}",
        f"the three timings of a network agree within {CLOSE:.0%} for {timed.agreed:.0%}",
        f"judged by {JUDGES} networks in each form: {', '.join(judges())}",
    )
    header = ("model", "form", "ms", "predicted", "low", "high")
    lines = [",".join(map(str, row)) for row in (header, *networks)]
    (RESULTS / "latency_kernels_networks.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(keep("latency_kernels", "Networks predicted from operators timed on this machine", HEADER, rows, remarks))


def measure(predictor: Predictor) -> Timed:
    """Time the operators of the networks, those of the design, and the networks."""
    networks = (*anchors(predictor), *judges())
    files, profile = files_of(networks), _profile()
    passes, start = [_passed(files)], time.monotonic()
    exact = _kernels(profile, kernels_to_time(profile, profile.target(), FORMS, networks))
    seconds = time.monotonic() - start
    passes.append(_passed(files))
    design = _kernels(profile, [(work, form) for work in _design() for form in FORMS])
    passes.append(_passed(files))
    latency_ms = {key: min(each[key] for each in passes) for key in files}
    agreed = statistics.fmean(max(each[key] for each in passes) <= (1 + CLOSE) * latency_ms[key] for key in files)
    return Timed(profile, exact, design, seconds, latency_ms, agreed)


def _profile() -> DeviceProfile:
    """Return this machine on one thread, under another name."""
    here = host_profile()
    target = replace(here.targets[0], name="cpu-x1", threads=1)
    return replace(here, name="this-machine", targets=(target,), default_target=target.name)


def _design() -> list[Work]:
    with (Path(__file__).parent / "kernel_design.csv").open(newline="", encoding="utf-8") as file:
        return [Work.of_row(row) for row in csv.DictReader(file)]


def _kernels(profile: DeviceProfile, wanted: Wanted) -> list[Kernel]:
    with tempfile.TemporaryDirectory() as folder:
        timed = time_kernels(HostConnection(), profile.target(), wanted, Path(folder), print)
        return [kernel for found in timed for kernel in found.kernels]


def _passed(files: Mapping[tuple[str, str], Path]) -> dict[tuple[str, str], float]:
    """Return the milliseconds of each file."""
    found, keys = dict[tuple[str, str], float](), list(files)
    for place in range(0, len(keys), BATCH):
        part = {files[key]: key for key in keys[place : place + BATCH]}
        for timing in HostConnection().measure(MeasurementJob(tuple(part), (1,), "search")):
            found[part[timing.model]] = rounds_us(timing)[0] / 1e3
    return found


def anchors(predictor: Predictor) -> tuple[str, ...]:
    """Return the models that a calibration of this machine would measure, chosen from those that do not judge."""
    profile, known = _profile(), load_features().models
    costs = {name: 4 * known[name].params / 1e8 for name in set(names()) - set(judges()) if name in known}
    return predictor.most_informative(profile, profile.target(), FORMS[0], costs, MODELS)


def evaluated(predictor: Predictor, timed: Timed) -> tuple[list[Row], list[Row]]:
    """Predict the networks that judge from each kind of measurement; return the rows of the table, and of networks."""
    profile, target, chosen = timed.profile, timed.profile.target(), anchors(predictor)
    measured = {key: value for key, value in timed.latency_ms.items() if key[0] in chosen}
    design, exact = add_kernels(profile, timed.design), add_kernels(profile, timed.exact)
    profiles = {
        "nothing": profile,
        f"{MODELS} networks": with_measurements(profile, target, measured),
        f"{len(_design())} operators of made-up sizes": design,
        f"{len(_design())} operators of made-up sizes and {MODELS} networks": with_measurements(
            design, target, measured
        ),
        f"their operators and {MODELS} networks": with_measurements(exact, target, measured),
        "their operators": exact,
    }
    models = [load_features().models[name] for name in judges()]
    rows, networks = list[Row](), list[Row]()
    for form in FORMS:
        truth = np.array([timed.latency_ms[name, form] for name in judges()])
        for said, each in profiles.items():
            found = predictor.predict(each, target, form, models, LEVEL)
            rows.append((form, said, *_figures(truth, found, GOAL if said.startswith("their") else None)))
        for name, milliseconds, prediction in zip(judges(), truth, found, strict=True):
            latency = prediction.latency
            figures = (milliseconds, latency.value, latency.low, latency.high)
            networks.append((name, form, *(f"{figure:.5g}" for figure in figures if figure is not None)))
    return rows, networks


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


if __name__ == "__main__":
    main()
