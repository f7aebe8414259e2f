"""Collect the measurements of many profiles in one table: targets by models, in log milliseconds."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.devices.latency.features import VECTOR_SIZE, FeatureTable
from advisor.devices.latency.kernels import Floats
from advisor.devices.latency.processor import running_cores, target_vector
from advisor.devices.profiles import DeviceProfile, DeviceTarget


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
        speed: figures of the processor (:func:`advisor.devices.latency.processor.target_vector`), or empty.
        core: design of the fastest core that runs, or empty.
    """

    device: str
    target: str
    precision: str
    runtime: str
    version: str
    kind: str
    silicon: str
    speed: tuple[float, ...] = ()
    core: str = ""


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
        target_vector(profile, target, precision) or (),
        next((core.name for core, _ in running_cores(profile, target)), ""),
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


def silicon(profile: DeviceProfile) -> str:
    """Return the name of the silicon without variants: RK3588S is RK3588, and Snapdragon 855+ is Snapdragon 855."""
    return re.sub(r"(?<=\d)[S+]$", "", profile.soc.split(" for ")[0])
