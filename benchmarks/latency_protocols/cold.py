"""Predict CPUs and GPUs before and after a few measurements on them, judged by machines that chose nothing.

Each machine is hidden with all its rows, and with those of every device of its silicon. The machines of
:data:`_JUDGES` and of :data:`_PHONES` chose no constant; the others of the profiles did, so their figures are apart.
"""

import csv
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from advisor.devices import DeviceProfile, DeviceTarget
from advisor.devices._latency.base import Base, fit_base
from advisor.devices._latency.calibration import SUPPORT, Calibration, regime_of
from advisor.devices._latency.model import estimate_latencies, queries_of_known
from advisor.devices._latency.posterior import posterior_of
from advisor.devices._latency.table import XNNPACK, Column, LatencyTable, column_of, is_x86, runtime_family
from advisor.devices._profiles.socs import clusters_of
from benchmarks.latency_protocols.baselines import Floats, Indices
from benchmarks.latency_protocols.validation import fold_of, hide

ANCHORS = (0, 3, 5)
DRAWS = 4
LEVEL = 0.8
NOTHING = np.array([], dtype=np.intp)
_LEAST = 4  # Networks to judge by after a measurement
_LEAST_COLD = 3  # The same before any

_JUDGES = ("amd-epyc-9004", "galaxy-s25", "intel-xeon-3000mhz", "jetson-agx-orin", "odroid-n2-plus")
"""Devices whose rows of TensorFlow Lite and LiteRT on the CPU chose nothing."""

_JUDGING_SOURCE = "-netspresso"  # End of the names of further targets that chose nothing: Raspberry Pi 4 and Zero 2 W
_PHONES = Path(__file__).resolve().parents[1] / "device_sources" / "phones_xnnpack.csv"
"""Latencies of phones that are in no profile and in no fit."""

_TITLES = {"xnnpack": "XNNPACK", "ruy": "ruy"}


@dataclass(frozen=True, eq=False)
class Machine:
    """Latencies of one target."""

    group: str  # build and form, or the name of the machine
    column: Column
    models: Indices  # (n,) in the table of the fit
    truth: Floats  # (n,) log latencies


def list_machines(table: LatencyTable) -> list[Machine]:
    """Return the targets of LiteRT and TensorFlow Lite on CPUs; networks without features are left out of those that
    judge."""
    machines = []
    for index, column in enumerate(table.columns):
        if (column.kind, runtime_family(column.runtime)) != ("cpu", "litert"):
            continue
        measured = ~np.isnan(table.values[index])
        group = _name_group(column)
        if not group.endswith("profiles"):
            measured &= ~np.isnan(table.features).any(axis=1)
        models = np.flatnonzero(measured)
        machines.append(Machine(group, column, models, table.values[index, models]))
    return machines


def list_phones(table: LatencyTable) -> list[Machine]:
    """Return the targets of the phones that are in no profile (:data:`_PHONES`)."""
    cells: dict[Column, dict[str, float]] = defaultdict(dict)
    with _PHONES.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            cells[_column_of_phone(row)][row["model"]] = float(np.log(float(row["latency_ms"])))
    machines = []
    for column, latencies in cells.items():
        models = np.array([table.models.index(model) for model in latencies], dtype=np.intp)
        group = f"{column.device}, {_TITLES[column.kernels]} (in no profile)"
        machines.append(Machine(group, column, models, np.array(list(latencies.values()))))
    return machines


def _column_of_phone(row: dict[str, str]) -> Column:
    threads = int(row["threads"])
    target = DeviceTarget(f"litert-cpu-x{threads}", "ai-edge-litert", "cpu", threads, kernels=XNNPACK)
    cores = clusters_of(row["cores"])
    profile = DeviceProfile(row["device"], row["device"], "phone", row["soc"], (target,), target.name, cores=cores)
    return column_of(profile, target, row["precision"])


def list_gpus(table: LatencyTable) -> list[Machine]:
    """Return the targets of LiteRT and TensorFlow Lite on GPUs of phones; they chose nothing."""
    machines = []
    for index, column in enumerate(table.columns):
        if (column.kind, runtime_family(column.runtime)) == ("gpu", "litert") and column.precision == "float32":
            models = np.flatnonzero(~np.isnan(table.values[index]))
            machines.append(Machine(f"{column.device}, {column.target}", column, models, table.values[index, models]))
    # All phones in one row, too: a phone has few networks.
    return [*machines, *(replace(machine, group="all") for machine in machines)]


def _name_group(column: Column) -> str:
    """Return the machine and its build where the target judges, else the build and the kind of its cores."""
    if column.device in _JUDGES or column.target.endswith(_JUDGING_SOURCE):
        return f"{column.device}, {_TITLES[column.kernels]}"
    processor = " on x86" if is_x86(column) else ""
    return f"{column.kernels or 'unstated build'}{processor}, profiles"


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
            least = count + _LEAST if count else _LEAST_COLD
            if len(machine.models) < least:
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
        regime = regime_of(column, posterior.likeness, len(seen), SUPPORT[found.support[place]])
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
