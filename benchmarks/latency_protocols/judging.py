"""Judge predictions by published figures that took no part in choosing the method or in the fit.

Two tables judge and are never used to choose anything: XNNPACK's own end-to-end figures, and TensorFlow Lite's
performance page. Both are read straight from their CSV. The rows that the profiles ship of them are hidden.
"""

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from advisor.devices import Cluster, DeviceProfile, DeviceTarget
from advisor.devices._latency.base import Base, fit_base
from advisor.devices._latency.calibration import SUPPORT, Calibration, regime_of
from advisor.devices._latency.features import FeatureTable
from advisor.devices._latency.model import estimate_latencies, queries_of_known
from advisor.devices._latency.posterior import posterior_of
from advisor.devices._latency.table import Column, LatencyTable, build_table, column_of
from benchmarks.latency_protocols.baselines import Floats, Indices, spearman
from benchmarks.latency_protocols.validation import hide

TABLES = ("xnnpack_readme", "tflite_performance_measurement")
HIDDEN = ("google/XNNPACK", "tensorflow/docs-l10n")
"""Repositories of the judging rows. None of their rows is in the fit, also not those of other pages."""

MODELS = {
    "mobilenet_v1": "mobilenet_v1_1.0_224",
    "mobilenet_v2": "mobilenet_v2_1.0_224",
    "mobilenet_v3_large": "mobilenet_v3_large_1.0_224",
    "mobilenet_v3_small": "mobilenet_v3_small_1.0_224",
    "Mobilenet_V1_1.0_224": "mobilenet_v1_1.0_224",
    "Mobilenet_V1_1.0_224_quant": "mobilenet_v1_1.0_224",
    "NASNet mobile": "nasnet_mobile_224",
    "SqueezeNet": "squeezenet_1.0_224",
    "Inception_ResNet_V2": "inception_resnet_v2_299",
    "Inception_V4": "inception_v4_299",
}
CORES: Mapping[str, tuple[str, tuple[Cluster, ...]]] = {
    "Raspberry Pi Zero W": ("Broadcom BCM2835", (Cluster("ARM1176", 1, 1000),)),
    "Raspberry Pi 2": ("Broadcom BCM2836", (Cluster("Cortex-A7", 4, 900),)),
    "Raspberry Pi 3+": ("Broadcom BCM2837B0", (Cluster("Cortex-A53", 4, 1400),)),
    "Raspberry Pi 4": ("Broadcom BCM2711", (Cluster("Cortex-A72", 4, 1500),)),
    "Pixel": ("Qualcomm Snapdragon 821", (Cluster("Kryo", 2, 2150), Cluster("Kryo", 2, 1600))),
    "Pixel 2": ("Qualcomm Snapdragon 835", (Cluster("Kryo 280 (A73)", 4, 2350), Cluster("Kryo 280 (A53)", 4, 1900))),
    "Pixel 3a": ("Qualcomm Snapdragon 670", (Cluster("Kryo 360 (A75)", 2, 2000), Cluster("Kryo 360 (A55)", 6, 1700))),
    "Pixel 3": ("Qualcomm Snapdragon 845", (Cluster("Kryo 385 (A75)", 4, 2500), Cluster("Kryo 385 (A55)", 4, 1600))),
    "Pixel 4": (
        "Qualcomm Snapdragon 855",
        (Cluster("Kryo 485 (A76)", 1, 2840), Cluster("Kryo 485 (A76)", 3, 2420), Cluster("Kryo 485 (A55)", 4, 1780)),
    ),
    "iPhone XS": ("Apple A12", (Cluster("A12 performance", 2, 2490), Cluster("A12 efficiency", 4, 1590))),
}
"""SoC and cores of each judging device. A Raspberry Pi 4 ran at 1500 MHz when the figures were made."""


@dataclass(frozen=True, eq=False)
class Judged:
    """Figures of one target that judge.

    Attributes:
        source: the table that they are from.
        column: the target.
        models: (n,) indices of the models in the table of the fit.
        truth: (n,) log latencies.
    """

    source: str
    column: Column
    models: Indices
    truth: Floats


def judging_rows(folder: Path, table: LatencyTable) -> list[Judged]:
    """Return the CPU figures of both tables by target, in the order of the files."""
    cells: dict[tuple[str, Column], dict[str, float]] = defaultdict(dict)
    for name in TABLES:
        with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["accelerator"].startswith("CPU"):
                    variant = "arm64" if "ARM64" in row["soc"] else ""
                    column = _column(name, row["device"], row["threads"], row["precision"], variant)
                    cells[name, column][MODELS[row["model"]]] = float(np.log(float(row["latency_ms"])))
    return [
        Judged(
            name,
            column,
            np.array([table.models.index(model) for model in found], dtype=np.intp),
            np.array(list(found.values())),
        )
        for (name, column), found in cells.items()
    ]


def _column(source: str, device: str, threads: str, precision: str, variant: str) -> Column:
    soc, cores = CORES[device]
    count = int(threads) if threads.isdigit() else cores[0].count
    form = "float32" if precision == "float32" else "int8"
    kernels = "xnnpack" if source == TABLES[0] else ""
    target = DeviceTarget(f"litert-cpu-x{count}{variant}", "ai-edge-litert", "cpu", count, kernels=kernels)
    profile = DeviceProfile(device, device, "board", soc, (target,), target.name, cores=cores)
    return column_of(profile, target, form)


def shown_table(profiles: Iterable[DeviceProfile], features: FeatureTable) -> LatencyTable:
    """Return the table of the profiles without the rows of the judging sources."""
    kept = [replace(p, measurements=tuple(m for m in p.measurements if m.source_repo not in HIDDEN)) for p in profiles]
    return build_table(kept, features)


@dataclass(frozen=True)
class Verdict:
    """One prediction that was judged.

    Attributes:
        source: the table of the truth.
        device: the device.
        target: its target.
        precision: form of the artefact.
        model: name of the model.
        truth_ms: the published latency.
        predicted_ms: the predicted one.
        low_ms: lower end of the 80 % interval.
        high_ms: upper end.
    """

    source: str
    device: str
    target: str
    precision: str
    model: str
    truth_ms: float
    predicted_ms: float
    low_ms: float
    high_ms: float


def judge(
    table: LatencyTable, rows: Sequence[Judged], calibration: Calibration, *, silicon: bool, level: float = 0.8
) -> list[Verdict]:
    """Predict the judging rows without any measurement on their targets.

    Args:
        table: the measurements of the fit.
        rows: what to predict.
        calibration: the intervals.
        silicon: hide every other target of the same silicon too.
        level: of the intervals.
    """
    bases: dict[str, Base] = {}
    found = []
    for row in rows:
        key = row.column.silicon if silicon else ""
        if key not in bases:
            same = [i for i, c in enumerate(table.columns) if silicon and c.silicon == key]
            bases[key] = fit_base(hide(table, same)[0] if same else table)
        found += _verdicts(bases[key], row, calibration, level)
    return found


def _verdicts(base: Base, row: Judged, calibration: Calibration, level: float) -> list[Verdict]:
    none = np.array([], dtype=np.intp)
    posterior = posterior_of(base, row.column, none, np.zeros(0))
    found = estimate_latencies(posterior, queries_of_known(posterior.base, row.models))
    verdicts = []
    for i, model in enumerate(row.models):
        column = row.column
        regime = regime_of(column, posterior.likeness, 0, SUPPORT[found.support[i]])
        ends = [
            found.mean[i] + bound * (found.above[i] if bound > 0 else found.deviation[i])
            for bound in calibration.bounds(regime, level)
        ]
        figures = (row.truth[i], found.mean[i], *ends)
        verdicts.append(
            Verdict(row.source, column.device, column.target, column.precision, base.table.models[int(model)],
                    *(float(np.exp(figure)) for figure in figures))
        )  # fmt: skip
    return verdicts


GROUPS: Mapping[str, Callable[[Verdict], bool]] = {
    "XNNPACK, float32": lambda v: v.source == TABLES[0] and v.precision == "float32",
    "XNNPACK, int8": lambda v: v.source == TABLES[0] and v.precision == "int8",
    "TFLite page, float32": lambda v: v.source == TABLES[1] and v.precision == "float32",
    "Raspberry Pi 4": lambda v: v.device == "Raspberry Pi 4",
    "Raspberry Pi Zero W": lambda v: v.device == "Raspberry Pi Zero W",
    "all": lambda v: bool(v.device),
}
"""What the judging rows are divided into. The three int8 figures of the TFLite page are in \"all\" only."""


def summaries(verdicts: Sequence[Verdict]) -> dict[str, dict[str, float]]:
    """Return for each of :data:`GROUPS`: median error, bias, Spearman, coverage, median width and number."""
    return {name: _summary([v for v in verdicts if chosen(v)]) for name, chosen in GROUPS.items()}


def _summary(verdicts: Sequence[Verdict]) -> dict[str, float]:
    truth, predicted, low, high = (
        np.array([getattr(v, name) for v in verdicts]) for name in ("truth_ms", "predicted_ms", "low_ms", "high_ms")
    )
    return {
        "median_error": float(np.median(np.abs(predicted / truth - 1))),
        "bias": float(np.exp(np.median(np.log(predicted / truth))) - 1),
        "spearman": spearman(predicted, truth),
        "covered": float(((low <= truth) & (truth <= high)).mean()),
        "width": float(np.median((high - low) / predicted)),
        "predictions": len(verdicts),
    }
