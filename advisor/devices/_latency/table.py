"""Collect the measurements of many profiles in one table: targets by models, in log milliseconds.

A :class:`Column` says what a target is, and the functions behind it say how two targets compare:
by runtime, build, release, cores and silicon. The additive model is fitted to a
:class:`LatencyTable`. Its fingerprint is part of the key of the fit in the cache, and of the
calibration that is shipped (``prediction_calibration.json``).
"""

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from advisor.devices._latency.features import VECTOR_SIZE, FeatureTable
from advisor.devices._latency.model_space import Floats
from advisor.devices._profiles.cores import Core, find_core
from advisor.devices._profiles.gpus import find_gpu_peak, without_variant
from advisor.devices._profiles.memories import find_memory
from advisor.devices._profiles.values import TFLITE_RUNTIMES, DeviceProfile, DeviceTarget

CLOCK_TOLERANCE = math.log(1.1)
"""Largest difference (log) between the clocks of two targets that run on the same cores: boards
state 2200 or 2265 MHz for one processor, and the latency changes in proportion.
"""

HALF_PRECISION = frozenset({"ncnn", "mnn"})
"""Runtimes that compute float32 files in 16-bit float on cores that can (Armv8.2 FP16);
all others compute float32.
"""

# End of the name of a target whose source does not state the number of threads.
UNSTATED_THREADS = "-unstated-threads"

_HEXAGON = re.compile(r"^Hexagon v(\d+)\b")

LIKENESSES = ("release", "same", "version", "runtime", "core")
"""The differences of a target from the nearest measured one of its kind, the worst last: the
release on the same silicon, the silicon only, the runtime's version, the runtime, or the design of
the core.
"""

XNNPACK = "xnnpack"  # Kernels of LiteRT's usual build for CPUs

MAJOR = 10  # Minor releases that a major one counts as
# Minor releases between two versions if one is not stated, or if they have no part in common.
UNSTATED = 8

_PART = re.compile(r"([a-z]*)(\d+)\.(\d+)")
_X86 = ("SSE", "AVX", "Zen", "Tremont")  # Beginnings of the names of x86 cores


def runtime_family(runtime: str) -> str:
    """Return the name that the versions and packages of one runtime share;
    LiteRT is TensorFlow Lite.
    """
    return "litert" if runtime in TFLITE_RUNTIMES else runtime


def arithmetic_of(runtime: str, precision: str) -> str:
    """Return the arithmetic (``float32``, ``float16`` or ``int8``)
    of a CPU runtime for files of a precision.
    """
    if precision in ("int8", "int16x8"):
        return "int8"
    if precision == "float16" or runtime in HALF_PRECISION:
        return "float16"
    return "float32"


def target_vector(
    profile: DeviceProfile, target: DeviceTarget, precision: str
) -> tuple[float, ...] | None:
    """Return the features of a target's processor, None if it is not known;
    the length depends on the kind.

    For a CPU: the logarithm of 10^9 multiply-accumulates per second of the cores that run, in the
    arithmetic of the runtime; the logarithm of the sum of their clocks in GHz; the logarithm of
    the threads; the share of the cores that issue in order. For a Hexagon NPU, its generation (75
    for ``Hexagon v75``).
    """
    if target.accelerator == "npu":
        generation = _HEXAGON.match(profile.npu)
        return (float(generation[1]),) if generation else None
    running = running_cores(profile, target)
    if not running:
        return None
    form = arithmetic_of(target.runtime, precision)
    return (
        math.log(sum(ghz * core.macs_per_cycle(form) for core, ghz in running)),
        math.log(sum(ghz for _, ghz in running)),
        math.log(target.threads),
        sum(core.in_order for core, _ in running) / len(running),
    )


def running_cores(profile: DeviceProfile, target: DeviceTarget) -> list[tuple[Core, float]]:
    """Return the cores that run, each with its clock in GHz:
    the fastest ones, or the slowest of ``-little``.

    The list is empty if the target is no CPU, if a core is unknown,
    or if the number of threads is not stated.
    """
    if target.accelerator != "cpu" or target.name.endswith(UNSTATED_THREADS):
        return []
    cores: list[tuple[Core, float]] = []
    for cluster in profile.cores:
        core = find_core(cluster.core)
        if core is None:
            return []
        cores += [(core, (cluster.max_mhz or core.mhz) / 1000)] * cluster.count
    return (cores[::-1] if target.name.endswith("-little") else cores)[: target.threads]


@dataclass(frozen=True, order=True)
class Column:
    """The identity of a column: a target and the form of the artefact."""

    device: str  # name of the profile
    target: str  # name of the target in the profile
    precision: str  # form of the artefact
    runtime: str  # the target's runtime
    version: str  # its version, or empty
    # ``cpu``, ``gpu``, ``npu`` (also Edge TPUs) or ``mcu``;
    # targets of one kind have similar costs.
    kind: str
    silicon: str  # name of the silicon; devices with the same chip share it
    # figures of the processor (:func:`advisor.devices.target_vector`), or empty
    speed: tuple[float, ...] = ()
    core: str = ""  # design of the fastest core that runs, or empty
    kernels: str = ""  # what the runtime's build computes with on a CPU, or empty
    # of a CPU's main memory in GB/s, 0 if it is not known.
    # It follows from the silicon, and no fit depends on it
    bandwidth: float = field(default=0.0, repr=False)
    memory_share: float = field(default=1.0, repr=False)  # of the bandwidth that one core reaches
    # Peak arithmetic of a GPU, 0 if it is not known; as the bandwidth.
    gflops: float = field(default=0.0, repr=False)

    @property
    def build(self) -> tuple[str, str]:
        """The runtime, whatever its package and release, and its kernels."""
        return runtime_family(self.runtime), self.kernels


@dataclass(frozen=True, eq=False)
class LatencyTable:
    """A table of log latencies."""

    models: tuple[str, ...]  # names of the models, in the order of the rows
    families: tuple[str, ...]  # family of each model, its name if the family is unknown
    features: Floats  # (models, features), rows of NaN if unknown
    columns: tuple[Column, ...]  # identity of each column
    values: Floats  # (columns, models) natural logarithm of milliseconds, NaN if not measured

    def fingerprint(self) -> str:
        """Return the SHA-256 of everything that a fit depends on."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
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
    kind = target.accelerator
    if profile.kind == "microcontroller" and kind == "cpu":
        kind = "mcu"
    silicon = silicon_of(profile)
    memory = find_memory(silicon)
    return Column(
        profile.name,
        target.name,
        precision,
        target.runtime,
        target.version,
        "npu" if kind == "tpu" else kind,
        silicon,
        target_vector(profile, target, precision) or (),
        next((core.name for core, _ in running_cores(profile, target)), ""),
        target.kernels,
        memory.bandwidth if kind == "cpu" else 0.0,
        memory.share,
        find_gpu_peak(silicon) if kind == "gpu" else 0.0,
    )


def build_table(
    profiles: Iterable[DeviceProfile], features: FeatureTable, *, flags: Sequence[str] = ("",)
) -> LatencyTable:
    """Return the table of all measurements in ``profiles`` with one of these flags;
    only those without are good enough.

    Repeated measurements of a model on a target (other heads, other jobs) are averaged in the
    logarithm. The table also contains models with known features that no target has measured.
    """
    cells: dict[Column, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for profile in profiles:
        targets = {target.name: target for target in profile.targets}
        rows = profile.measurements
        column_by_form = {}
        for name, precision in {(row.target, row.precision) for row in rows}:
            column_by_form[name, precision] = column_of(profile, targets[name], precision)
        for row in rows:
            if row.flag in flags:
                column = column_by_form[row.target, row.precision]
                cells[column][row.model].append(float(np.log(row.latency_ms)))
    columns = tuple(sorted(cells))
    measured = set[str]()
    for figures_of_models in cells.values():
        measured.update(figures_of_models)
    models = tuple(sorted(measured | set(features.models)))
    values = np.full((len(columns), len(models)), np.nan)
    position = {model: index for index, model in enumerate(models)}
    for row_index, column in enumerate(columns):
        for model, repeats in cells[column].items():
            # Most models were measured once:
            # thousands of means of one number would take half of the time.
            mean = repeats[0] if len(repeats) == 1 else float(np.mean(repeats))
            values[row_index, position[model]] = mean
    vectors = np.full((len(models), VECTOR_SIZE), np.nan)
    for index, name in enumerate(models):
        if name in features.models:
            vectors[index] = features.models[name].vector
    families = []
    for name in models:
        architecture = features.architecture(name)
        families.append(architecture.family if architecture else name)
    return LatencyTable(models, tuple(families), vectors, columns, values)


def silicon_of(profile: DeviceProfile) -> str:
    """Return the name of the silicon without variants:
    RK3588S is RK3588, and Snapdragon 855+ is Snapdragon 855.
    """
    return without_variant(profile.soc)


def find_likeness(column: Column, others: Iterable[Column]) -> str:
    """Return what distinguishes ``column`` from the nearest of the targets ``others``,
    one of :data:`LIKENESSES`.

    A version counts up to its second number: 2.17.0 and 2.17.1 are one. A target without a
    version, and a core or processor that is not stated, are taken as known.
    """
    kind = []
    for known_column in others:
        if known_column.kind == column.kind:
            kind.append(known_column)
    if column.core and all(known_column.core != column.core for known_column in kind):
        return "core"
    runtime = [known_column for known_column in kind if comparable_builds(known_column, column)]
    if not runtime:
        return "runtime"
    versions = {_minor_release(known_column.version) for known_column in runtime} - {""}
    if column.version and versions and _minor_release(column.version) not in versions:
        return "version"
    return "same"


def _minor_release(version: str) -> str:
    return ".".join(version.split(".")[:2])


def count_releases(one: str, other: str) -> int:
    """Return the minor releases between two versions such
    as ``2.17.0+qairt2.42.0`` and ``qairt2.50.0``.
    """
    if one == other:
        return 0
    left = {name: (int(major), int(minor)) for name, major, minor in _PART.findall(one)}
    right = {name: (int(major), int(minor)) for name, major, minor in _PART.findall(other)}
    steps = []
    for name in left.keys() & right.keys():
        majors = abs(left[name][0] - right[name][0])
        # Minor releases of two major ones do not compare.
        minors = 0
        if not majors:
            minors = abs(left[name][1] - right[name][1])
        steps.append(MAJOR * majors + minors)
    return max(steps) if steps else UNSTATED


def other_release(one: Column, other: Column) -> bool:
    """Return whether both targets state the version of their runtime,
    and these are different releases.
    """
    return bool(one.version and other.version) and count_releases(one.version, other.version) > 0


def comparable_builds(one: Column, other: Column) -> bool:
    """Return whether two targets may have one build of one runtime:
    kernels that are not stated may be any.

    Kernels of x86 and of Arm are different code under one name:
    ruy's 8-bit kernels are tuned for Arm alone.
    """
    same = runtime_family(one.runtime) == runtime_family(other.runtime)
    same = same and (is_x86(one) == is_x86(other) or not (one.core and other.core))
    return same and (one.kernels == other.kernels or not (one.kernels and other.kernels))


def is_x86(column: Column) -> bool:
    """Return whether a target runs on cores of x86; False if its cores are not known."""
    return column.core.startswith(_X86)


def are_related_releases(other: Column, column: Column) -> bool:
    """Return whether two targets are releases of one runtime on the same silicon,
    at about the same clocks.
    """
    same = (other.silicon, other.kind, other.precision) == (
        column.silicon,
        column.kind,
        column.precision,
    )
    same = same and other.build == column.build and same_cores(other, column)
    return same and other_release(other, column)


def same_cores(one: Column, other: Column) -> bool:
    """Return whether two targets run on the same number and kind of cores, at similar clocks."""
    if one.kind != "cpu" or len(one.speed) != len(other.speed) or not one.speed:
        return one.speed == other.speed
    gaps = []
    for mine, theirs in zip(one.speed, other.speed, strict=True):
        gaps.append(abs(mine - theirs))
    return max(gaps[:2]) <= CLOCK_TOLERANCE and max(gaps[2:]) == 0
