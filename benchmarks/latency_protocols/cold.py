"""Predict CPUs before and after a few measurements on them, judged by machines that chose nothing.

Four tables judge and are in no profile: TensorFlow Lite on an Odroid N2+ and a Jetson AGX Orin (MLPerf), LiteRT on
Raspberry Pi boards (NetsPresso), on a Galaxy S25 Ultra, and on a Xeon that this project measured. Each machine is
hidden with all its rows. The machines of the profiles are hidden one by one, too; they chose the constants.
"""

import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from advisor.devices import Cluster, DeviceProfile, DeviceTarget, column_of
from advisor.devices._latency.base import Base, fit_base
from advisor.devices._latency.model import estimate_latencies, queries_of_known
from advisor.devices._latency.posterior import SUPPORT, Calibration, posterior_of, regime_of
from advisor.devices._latency.table import Column, LatencyTable, runtime_family
from benchmarks.latency_protocols.baselines import Floats, Indices
from benchmarks.latency_protocols.validation import fold_of, hide

ANCHORS = (0, 3, 5)
DRAWS = 4
LEVEL = 0.8
NOTHING = np.array([], dtype=np.intp)
_LEAST = 4
_DISTURBED = 1.5  # Medians above this many minima are of busy machines

_MACHINES: Mapping[str, tuple[str, tuple[Cluster, ...]]] = {
    "odroid": ("Amlogic S922X", (Cluster("Cortex-A73", 4, 2208), Cluster("Cortex-A53", 2, 1908))),
    "orin": ("NVIDIA AGX Orin", (Cluster("Cortex-A78AE", 12, 2200),)),
    "raspberry-pi-4": ("Broadcom BCM2711", (Cluster("Cortex-A72", 4, 1800),)),
    "raspberry-pi-zero-2-w": ("Broadcom BCM2710A1", (Cluster("Cortex-A53", 4, 1000),)),
    "s25-ultra": ("Qualcomm Snapdragon 8 Elite", (Cluster("Oryon", 2, 4470), Cluster("Oryon", 6, 3530))),
    "xeon-3000mhz": ("Intel Xeon at 3000 MHz", (Cluster("AVX-512 VNNI", 2, 3000),)),
}
_MEASURED_HERE = Path(__file__).resolve().parents[1] / "device_sources" / "measured_to_judge.csv"
"""LiteRT 2.3.0 on one thread of a shared server, by CPU time."""

_BOARD_THREADS = 4
"""Threads of NetsPresso's boards, which does not state them: ResNet-50 is faster than the peak of one core, and
MobileNet V3 takes what XNNPACK's own figures say of four threads on the same cores."""

_SIDES = {"0": 224, "1": 240, "2": 260, "3": 280, "4": 300}  # Inputs of EfficientNet-Lite
_NAMES = {
    "efficientnet_v2_s": "efficientnet_v2_s_384",
    "googlenet": "inception_v1_224",
    "inception_v3": "inception_v3_299",
    "mobilenet_v2": "mobilenet_v2_1.0_224",
    "mobilenet_v3_large": "mobilenet_v3_large_1.0_224",
    "mobilenet_v3_small": "mobilenet_v3_small_1.0_224",
    "resnet18": "resnet_18_224",
    "resnet50": "resnet_50_224",
    "shufflenet_v2_x0_5": "shufflenet_v2_0.5_224",
    "squeezenet1_1": "squeezenet_1.1_224",
}
_ORIN = re.compile(r"mobilenet-(v[12])-precision_float-([\d.]+-\d+)|efficientnet-fp32-lite(\d)|"
                   r"mobilenet-v3-precision_float-(large|small)(-minimalistic)?-224")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Machine:
    """Latencies of one target."""

    group: str  # build and form, or the name of the table
    column: Column
    models: Indices  # (n,) in the table of the fit
    truth: Floats  # (n,) log latencies


def judging_machines(folder: Path, table: LatencyTable) -> list[Machine]:
    """Return the targets of the four tables; networks without features are left out."""
    cells: dict[tuple[str, Column], dict[str, float]] = defaultdict(dict)
    for group, column, model, latency_ms in (
        *_mlperf(folder),
        *_boards(folder),
        *_phone(folder),
        *_measured_here(),
    ):
        cells[group, column][model] = float(np.log(latency_ms))
    places = {name: index for index, name in enumerate(table.models)}
    machines = []
    for (group, column), figures in cells.items():
        known = {model: figure for model, figure in figures.items() if model in places}
        models = np.array([places[model] for model in known], dtype=np.intp)
        machines.append(Machine(group, column, models, np.array(list(known.values()))))
    return machines


Figure = tuple[str, Column, str, float]


def _mlperf(folder: Path) -> Iterator[Figure]:
    """Yield MLPerf's figures. With XNNPACK its uint8 files ran on other kernels and threads, so they are left out."""
    with (folder / "mlperf_inference_mobile.csv").open(newline="", encoding="utf-8") as file:
        names = {row["variant"]: row["model"] for row in csv.DictReader(file)}
    with (folder / "mlperf_inference_tflite_odroid_orin.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if float(row["p50"]) > _DISTURBED * float(row["min"]):
                continue
            machine = "odroid" if row["system"].startswith("odroid") else "orin"
            if "xnnpack" in row["framework"]:
                model = _orin_name(row["model"])
                if model:
                    yield f"{machine}, XNNPACK", _column(machine, 1, "xnnpack"), model, float(row["p50"])
                continue
            integers = "uint8" in row["model"] or row["model"].endswith("-quantized")
            integers = integers and "non-quantized" not in row["model"]
            release = row["framework"].split()[1].removeprefix("v")
            form = "int8" if integers else "float32"
            threads = sum(cluster.count for cluster in _MACHINES[machine][1])
            column = _column(machine, threads, "ruy", form, release)
            yield f"{machine}, ruy", column, names[row["model"]], float(row["p50"])


def _orin_name(model: str) -> str:
    """Return the project's name of a float32 network of the run with XNNPACK; empty for others."""
    found = _ORIN.fullmatch(model)
    if found is None:
        return ""
    version, size, lite, family, minimalistic = found.groups()
    if version:
        return f"mobilenet_{version}_{size.replace('-', '_')}"
    if lite:
        return f"efficientnet_lite{lite}_{_SIDES[lite]}"
    return f"mobilenet_v3_{family}{'_minimalistic' if minimalistic else ''}_1.0_224"


def _boards(folder: Path) -> Iterator[Figure]:
    with (folder / "netspresso_raspberry_pi.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            form = "float32" if row["form"] == "float" else "int8"
            column = _column(row["device"], _BOARD_THREADS, "xnnpack", form)
            name = _NAMES.get(row["model"], f"{row['model']}_224")
            yield f"{row['device']}, XNNPACK", column, name, float(row["latency_ms"])


def _phone(folder: Path) -> Iterator[Figure]:
    with (folder / "litert_board_2026_s25_ultra.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["accelerator"] == "cpu" and row["form"] == "float32":
                column = _column(row["device"], 1, "xnnpack", version="2.2.0")
                name = _NAMES.get(row["model"], f"{row['model']}_224")
                yield f"{row['device']}, XNNPACK", column, name, float(row["median_ms"])


def _measured_here() -> Iterator[Figure]:
    with _MEASURED_HERE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            column = _column(row["device"], int(row["threads"]), "xnnpack", row["precision"], "2.3.0")
            yield f"{row['device']}, XNNPACK", column, row["model"], float(row["latency_ms"])


def _column(machine: str, threads: int, kernels: str, form: str = "float32", version: str = "") -> Column:
    soc, cores = _MACHINES[machine]
    target = DeviceTarget(f"tflite-cpu-x{threads}", "tflite", "cpu", threads, version, kernels=kernels)
    profile = DeviceProfile(machine, machine, "board", soc, (target,), target.name, cores=cores)
    return column_of(profile, target, form)


def own_machines(table: LatencyTable) -> list[Machine]:
    """Return the targets of LiteRT and TensorFlow Lite on CPUs that the profiles have."""
    machines = []
    for index, column in enumerate(table.columns):
        if column.kind == "cpu" and runtime_family(column.runtime) == "litert":
            models = np.flatnonzero(~np.isnan(table.values[index]))
            group = f"{column.kernels or 'unstated build'}, profiles"
            machines.append(Machine(group, column, models, table.values[index, models]))
    return machines


@dataclass
class _Figures:
    """Errors of one group after some measurements."""

    errors: list[float]  # log predicted - log true
    inside: list[bool]  # whether the interval held the truth
    widths: list[float]  # upper end / lower end
    nearest: list[float]  # errors of the nearest machine of the build, times the ratio of the peaks
    beside: list[float]  # errors of the prediction on the networks that this machine measured


def judge(table: LatencyTable, machines: Sequence[Machine], calibration: Calibration) -> list[dict[str, object]]:
    """Return the figures of each group and form, with nothing and with a few networks measured."""
    figures: dict[tuple[str, str, int], _Figures] = defaultdict(lambda: _Figures([], [], [], [], []))
    bases: dict[str, Base] = {}
    for machine in machines:
        column = machine.column
        if column.silicon not in bases:
            hidden = [i for i, known in enumerate(table.columns) if known.silicon == column.silicon]
            bases[column.silicon] = fit_base(hide(table, hidden)[0] if hidden else table)
        base = bases[column.silicon]
        generator = np.random.default_rng(fold_of(repr(column), 2**32))
        for count in ANCHORS:
            if len(machine.models) < count + _LEAST:
                continue
            for _ in range(DRAWS if count else 1):
                chosen = np.sort(generator.choice(len(machine.models), count, replace=False))
                group = figures[machine.group, column.precision, count]
                _predict(group, base, machine, chosen.astype(np.intp), calibration)
    return [_row(key, group) for key, group in sorted(figures.items())]


def _predict(group: _Figures, base: Base, machine: Machine, seen: Indices, calibration: Calibration) -> None:
    """Predict the networks of a machine that are not ``seen``, and add the errors to a group."""
    column = machine.column
    rest = np.setdiff1d(np.arange(len(machine.models)), seen)
    posterior = posterior_of(base, column, machine.models[seen], machine.truth[seen])
    found = estimate_latencies(posterior, queries_of_known(posterior.base, machine.models[rest]))
    for place, truth in enumerate(machine.truth[rest]):
        regime = regime_of(column.kind, posterior.reference, len(seen), SUPPORT[found.support[place]])
        ends = []
        for bound in calibration.bounds(regime, LEVEL):
            deviation = found.above[place] if bound > 0 else found.deviation[place]
            ends.append(found.mean[place] + bound * deviation)
        group.errors.append(float(found.mean[place] - truth))
        group.inside.append(bool(ends[0] <= truth <= ends[1]))
        group.widths.append(float(np.exp(ends[1] - ends[0])))
    if not len(seen):
        nearest = _predict_by_nearest(base, machine)
        measured = ~np.isnan(nearest)
        group.nearest.extend(map(float, nearest[measured]))
        group.beside.extend(map(float, (found.mean - machine.truth)[measured]))


def _predict_by_nearest(base: Base, machine: Machine) -> Floats:
    """Return the errors of the nearest machine of the same build and form, times the ratio of their peaks.

    They are NaN for networks that it did not measure.
    """
    column = machine.column
    alike = []
    for index, other in enumerate(base.table.columns):
        same = (other.kind, other.precision, other.build) == (column.kind, column.precision, column.build)
        if same and other.speed and (~np.isnan(base.table.values[index, machine.models])).any():
            alike.append(index)
    if not alike or not column.speed:
        return np.full(len(machine.models), np.nan)
    closest = min(alike, key=lambda index: abs(base.table.columns[index].speed[0] - column.speed[0]))
    ratio = base.table.columns[closest].speed[0] - column.speed[0]
    errors: Floats = base.table.values[closest, machine.models] + ratio - machine.truth
    return errors


def _row(key: tuple[str, str, int], group: _Figures) -> dict[str, object]:
    relative = np.abs(np.expm1(group.errors))
    return {
        "group": key[0],
        "form": key[1],
        "measured": key[2],
        "predictions": len(group.errors),
        "median_error": round(float(np.median(relative)), 4),
        "within_10": round(float((relative <= 0.1).mean()), 4),
        "within_25": round(float((relative <= 0.25).mean()), 4),
        "covered": round(float(np.mean(group.inside)), 4),
        "width": round(float(np.median(group.widths)), 3),
        "nearest": _median_of(group.nearest),
        "beside": _median_of(group.beside),
    }


def _median_of(errors: Sequence[float]) -> float | None:
    """Return the median of the relative errors; None if there are none."""
    return round(float(np.median(np.abs(np.expm1(errors)))), 4) if errors else None
