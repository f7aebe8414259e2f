"""Collect the measurements of many profiles in one table: targets by models, in log milliseconds."""

from __future__ import annotations

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.devices.latency.features import VECTOR_SIZE, FeatureTable
from advisor.devices.latency.kernels import Floats
from advisor.devices.profiles import DeviceProfile, DeviceTarget

_LANES: dict[str, float] = {
    "Cortex-A7": 2, "Cortex-A17": 4, "Cortex-A35": 2, "Cortex-A53": 4, "Cortex-A55": 8, "Cortex-A57": 6,
    "Cortex-A72": 6, "Cortex-A73": 6, "Cortex-A75": 16, "Cortex-A76": 16, "Cortex-A77": 16, "Cortex-A78": 16,
    "Cortex-A78AE": 16, "Cortex-A710": 16, "Cortex-A715": 16, "Cortex-A720": 16, "Cortex-A510": 8, "Cortex-A520": 8,
    "Cortex-X1": 32, "Cortex-X2": 32, "Cortex-X3": 32, "Cortex-X4": 32, "Oryon": 32, "Kryo": 6, "Cyclone": 8,
    "Denver 2": 8, "Carmel": 16, "M3 performance": 32, "M3 efficiency": 16, "Tremont": 4, "SiFive U74": 0.5,
    "Cortex-M4": 0.5, "Cortex-M7": 1, "Cortex-M33": 0.5, "Cortex-M55": 8, "Xtensa LX6": 0.5, "Xtensa LX7": 1,
    "RISC-V": 0.5, "AVX2": 16, "AVX-512": 32, "SSE": 4,
}  # fmt: skip
"""Multiply-accumulates per cycle of one core in the narrowest float that the kernels use. Width and number of the SIMD
pipes are from the vendors' optimisation guides; 16-bit arithmetic (Armv8.2 and later) doubles them."""

_TYPICAL = 8.0
_DESIGN = re.compile(r"\(([\w-]+)\)$")
_HEXAGON = re.compile(r"^Hexagon v(\d+)\b")


@dataclass(frozen=True, order=True)
class Column:
    """The identity of a column: a target and the form of the artefact.

    Attributes:
        device: name of the profile.
        target: name of the target in the profile.
        precision: form of the artefact.
        runtime: the target's runtime.
        version: its version, or empty.
        kind: ``cpu``, ``gpu``, ``npu`` (also Edge TPUs) or ``mcu``; targets of one kind have similar costs.
        silicon: name of the silicon; devices with the same chip share it.
        speed: figures of the processor (:func:`target_vector`), or empty.
    """

    device: str
    target: str
    precision: str
    runtime: str
    version: str
    kind: str
    silicon: str
    speed: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class LatencyTable:
    """A table of log latencies.

    Attributes:
        models: names of the models, in the order of the rows.
        families: family of each model, its name if the family is unknown.
        features: (models, features), rows of NaN if unknown.
        columns: identity of each column.
        values: (columns, models) natural logarithm of milliseconds, NaN if not measured.
    """

    models: tuple[str, ...]
    families: tuple[str, ...]
    features: Floats
    columns: tuple[Column, ...]
    values: Floats

    def fingerprint(self) -> str:
        """Return the SHA-256 of everything that a fit depends on."""
        digest = hashlib.sha256(repr((self.models, self.families, self.columns)).encode())
        digest.update(np.round(self.features, 6).tobytes())
        digest.update(np.round(self.values, 6).tobytes())
        return digest.hexdigest()

    def __hash__(self) -> int:
        return hash(self.fingerprint())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LatencyTable) and self.fingerprint() == other.fingerprint()


def column_of(profile: DeviceProfile, target: DeviceTarget, precision: str) -> Column:
    """Return the column of one target and precision."""
    kind = "mcu" if profile.kind == "microcontroller" and target.accelerator == "cpu" else target.accelerator
    return Column(
        profile.name,
        target.name,
        precision,
        target.runtime,
        target.version,
        "npu" if kind == "tpu" else kind,
        silicon(profile),
        target_vector(profile, target) or (),
    )


def build_table(
    profiles: Iterable[DeviceProfile], features: FeatureTable, *, flags: Sequence[str] = ("",)
) -> LatencyTable:
    """Return the table of all usable measurements in ``profiles``.

    Repeated measurements of a model on a target (other heads, other jobs) are averaged in the logarithm. The table also
    contains models with known features that no target has measured.

    Args:
        profiles: the devices.
        features: features of the models.
        flags: flags of the measurements to use; only those without a flag are good enough for predictions.
    """
    cells: dict[Column, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for profile in profiles:
        targets = {target.name: target for target in profile.targets}
        for row in profile.measurements:
            if row.flag in flags:
                column = column_of(profile, targets[row.target], row.precision)
                cells[column][row.model].append(float(np.log(row.latency_ms)))
    columns = tuple(sorted(cells))
    measured = {model for column in cells.values() for model in column}
    models = tuple(sorted(measured | set(features.models)))
    values = np.full((len(columns), len(models)), np.nan)
    position = {model: index for index, model in enumerate(models)}
    for row_index, column in enumerate(columns):
        for model, repeats in cells[column].items():
            values[row_index, position[model]] = float(np.mean(repeats))
    return LatencyTable(models, *_describe(models, features), columns, values)


def _describe(models: Sequence[str], features: FeatureTable) -> tuple[tuple[str, ...], Floats]:
    families = []
    vectors = np.full((len(models), VECTOR_SIZE), np.nan)
    for index, name in enumerate(models):
        known = features.models.get(name)
        architecture = features.architecture(name)
        families.append(architecture.family if architecture else name)
        if known:
            vectors[index] = known.vector
    return tuple(families), vectors


def target_vector(profile: DeviceProfile, target: DeviceTarget) -> tuple[float, ...] | None:
    """Return the features of a target's processor, None if it is not known; the length depends on the kind.

    Returns:
        For a CPU, the logarithms of: 10^9 multiply-accumulates per second of the cores that run, and of the fastest of
        them, its clock in GHz, the number of threads, and the fastest core's multiply-accumulates per cycle. For a
        Hexagon NPU, its generation (75 for ``Hexagon v75``).
    """
    if target.accelerator == "npu":
        generation = _HEXAGON.match(profile.npu)
        return (float(generation[1]),) if generation else None
    cores = [(c.core, c.max_mhz) for c in profile.cores for _ in range(c.count) if c.max_mhz]
    if target.accelerator != "cpu" or not cores:
        return None
    if target.name.endswith("-little"):
        cores = cores[::-1]
    running = cores[: target.threads]
    rates = [mhz / 1000 * _lanes(core) for core, mhz in running]
    first, mhz = running[0]
    return (
        math.log(sum(rates)),
        math.log(max(rates)),
        math.log(mhz / 1000),
        math.log(target.threads),
        math.log(_lanes(first)),
    )


def _lanes(core: str) -> float:
    """Return the figure of a core; brackets contain the design behind a vendor's name: ``Kryo 485 (A76)``."""
    match = _DESIGN.search(core)
    if match:
        return _LANES.get(f"Cortex-{match[1]}") or _LANES.get(match[1], _TYPICAL)
    return _LANES.get(core, _TYPICAL)


def silicon(profile: DeviceProfile) -> str:
    """Return the name of the silicon without variants: RK3588S is RK3588, and Snapdragon 855+ is Snapdragon 855."""
    return re.sub(r"(?<=\d)[S+]$", "", profile.soc.split(" for ")[0])
