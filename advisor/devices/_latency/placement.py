"""Place a target among the measured ones by what is known of its processor.

The posterior (``posterior.py``) starts from this place, and measurements on the target correct it.
A CPU is placed by a Gaussian process over its speeds, a GPU by its peak arithmetic, an NPU between
generations. ``releases.py`` does the same by other releases of the target's runtime.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.devices._latency.base import Base, Indices
from advisor.devices._latency.gpus import place_gpu
from advisor.devices._latency.model_space import Floats, invert_matrix
from advisor.devices._latency.speeds import (
    ENOUGH_TARGETS,
    find_rates,
    is_limited,
    locate_cpus,
)
from advisor.devices._latency.table import Column, is_x86

_ENOUGH_SILICON = 5  # With fewer known silicons, an NPU is placed as an unknown processor
# The level of an unknown processor varies by this factor more than the known levels do.
_UNKNOWN_FACTOR = 1.2

_LINEAR = 0.5
_LOCAL = 0.5
_LOCAL_RADIUS = 1.75
_RUNTIME = 0.1
_BUILD = 0.4
_SILICON = 0.22
_SCALING = 0.2
_NOISE = 0.3
_LEVEL = 3.0
"""Deviations (log) of a CPU's level: by its speed, by similar speeds, by its runtime's package, by
its runtime and kernels, by its silicon, by its silicon at one number of threads (cores share its
bandwidth), of its own, and of all targets together. Speeds are in standard deviations of the
measured targets'. Chosen by the likelihood of hidden silicon, over 330 targets, 24 of them of the
sources that judge.
"""

_X86_SILICON = 0.4
"""The same of an x86 processor, most of which are virtual: two servers with cores that are equal
by name and vectors differ by a factor of 2.3 beyond their clocks. With it, 80 % intervals cover
about 80 % of each of them, when hidden.
"""

_X86_DESIGN = 0.3
"""The same of x86 cores of one line of designs, such as Zen, with one build: XNNPACK reaches 80 %
of the peak of Zen 4 and Zen 5, and 40 to 55 % of that of Intel's cores with AVX-512. Designs of
Arm show no such likeness.
"""

_ACROSS_BUILDS = 0.2
"""Share of the covariances by similar speeds and by silicon that is left between two builds;
silicon at one number of threads keeps its whole covariance.
"""

_USUAL = 1.0
"""Silicons that count beside those of a build,
with errors of the common deviations' size (:func:`_scale_build`).
"""

_RATE_WEIGHT = 0.5
"""Weight of what follows from the rates of XNNPACK's float32 kernels on Arm
(:func:`_join_rates`), beside the process over all builds: neither is better on every machine.
"""

_ENOUGH_MACHINES = 5  # Other machines with XNNPACK on Arm; with fewer, rates take no part

_RIDGE = 1.0
_LOCAL_SCALE = 0.3
_LOCAL_NOISE = 0.2
"""Penalty of the slopes of the regression over generations of NPUs, and the deviations (log) of
what is left: of a generation, and of a target alone.
"""

_ENOUGH_NETWORKS = 3  # Measured in another form of a target; fewer tell nothing of its level

_INFLUENCE = 0.02  # Least weight of a target whose measured networks count as measured at a place


@dataclass(frozen=True, eq=False)
class Place:
    """The place of a target by its processor: a weighted sum of measured targets."""

    weights: Floats  # of each target
    shift: float  # constant (log) that is added to the sum
    deviation: float  # expected error of the level (log)


def weigh_targets(base: Base, column: Column, candidates: Indices) -> Place:
    """Return the place of a target among the ``candidates``,
    with a weight for each column of the base.

    The level of a CPU is a Gaussian process over its peak arithmetic, clocks, threads, order of
    issue and bandwidth of its memory, in the arithmetic of its runtime, with a deviation of each
    runtime and silicon. That of a GPU follows from its peak arithmetic. An NPU is interpolated
    between generations. A target whose processor is not known gets the mean of its kind.
    """
    combination = np.zeros(len(base.table.columns))
    known = _find_comparable(base, column, candidates)
    if len(known) and column.kind == "cpu":
        levels = base.smooth[known].mean(axis=1)
        place = _place_cpu([base.table.columns[i] for i in known], column, levels)
        combination[known] = place.weights
        return replace(place, weights=combination)
    if len(known) and column.kind == "gpu":
        combination[known], spread = place_gpu([base.table.columns[i] for i in known], column)
        return Place(combination, 0.0, spread)
    if len(known):
        speed = np.array([base.table.columns[i].speed for i in known])
        combination[known], spread = _interpolate_target(
            np.array(column.speed), speed, base.smooth[known]
        )
        return Place(combination, 0.0, spread)
    similar = _find_similar(base, column, candidates)
    combination[similar] = 1 / max(len(similar), 1)
    spread = float(base.smooth[similar].mean(axis=1).std()) * _UNKNOWN_FACTOR
    return Place(combination, 0.0, spread)


def measure_other_form(base: Base, column: Column, candidates: Indices) -> float:
    """Return how much slower (log) than its place a target is in the form
    in which it was measured; 0 if it was measured in none.

    On x86, floats and 8-bit integers err alike: what a virtual machine gets of its processor holds
    for both. On Arm they do not, so this is 0 there. Slow 8-bit operators do not count: the median
    of the networks does, and with several forms their mean.
    """
    if column.kind != "cpu" or not is_x86(column):
        return 0.0
    table = base.table
    gaps = []
    for index in candidates:
        other = table.columns[index]
        measured = ~np.isnan(table.values[index])
        is_same_target = (other.device, other.target) == (column.device, column.target)
        is_other_form = other.precision != column.precision
        is_enough = measured.sum() >= _ENOUGH_NETWORKS
        if not (is_same_target and is_other_form and is_enough):
            continue
        references = np.setdiff1d(candidates, [index])
        place = weigh_targets(base, other, references)
        expected = place.weights @ base.filled[:, measured] + place.shift
        gap = np.median(table.values[index, measured] - expected)
        gaps.append(float(gap))
    return float(np.mean(gaps)) if gaps else 0.0


def is_beyond(base: Base, column: Column, candidates: Indices) -> bool:
    """Return whether a target's generation of accelerators is earlier
    or later than those of all ``candidates``.
    """
    known = _find_comparable(base, column, candidates) if column.kind == "npu" else ()
    speeds = np.array([base.table.columns[i].speed for i in known])
    return len(known) > 0 and bool(
        ((column.speed < speeds.min(axis=0)) | (column.speed > speeds.max(axis=0))).any()
    )


def _find_comparable(base: Base, column: Column, candidates: Indices) -> Indices:
    """Return the columns whose speed can be compared with the target's; none if there are too few.

    Floats and integers are kept apart on CPUs and GPUs. There are few other accelerators, so each
    silicon counts once, with the target's runtime if it was measured with it.
    """
    columns = base.table.columns
    size = len(column.speed)
    floats = ("float32", "float16")
    kind = []
    for place in candidates:
        same = columns[place].kind == column.kind
        if column.kind == "gpu":
            comparable = min(columns[place].gflops, column.gflops) > 0
        else:
            comparable = len(columns[place].speed) == size > 0
        if same and comparable:
            kind.append(int(place))
    if column.kind in ("cpu", "gpu"):
        forms = floats if column.precision in floats else (column.precision,)
        alike = [i for i in kind if columns[i].precision in forms]
        if len(alike) < ENOUGH_TARGETS:
            return np.array([], dtype=np.intp)
        return np.array(alike, dtype=np.intp)
    alike = [i for i in kind if columns[i].precision == column.precision]
    # A silicon with many targets would otherwise outweigh the others.
    of_silicon: dict[str, int] = {}
    for i in sorted(alike, key=lambda i: columns[i].runtime != column.runtime):
        of_silicon.setdefault(columns[i].silicon, i)
    if len(of_silicon) < _ENOUGH_SILICON:
        return np.array([], dtype=np.intp)
    return np.array(list(of_silicon.values()), dtype=np.intp)


def _find_similar(base: Base, column: Column, candidates: Indices) -> Indices:
    """Return the columns of the same kind, precision and runtime;
    drop conditions until there are enough columns.
    """
    columns = base.table.columns
    of_kind = [i for i in candidates if columns[i].kind == column.kind]
    of_precision = [i for i in of_kind if columns[i].precision == column.precision]
    of_runtime = [i for i in of_precision if columns[i].runtime == column.runtime]
    for alike in (of_runtime, of_precision, of_kind):
        if len(alike) >= ENOUGH_TARGETS:
            return np.array(alike, dtype=np.intp)
    return np.array(candidates, dtype=np.intp)


def _place_cpu(known: Sequence[Column], column: Column, levels: Floats) -> Place:
    """Return the place of a CPU among the known ones.

    ``levels`` (known,) are the mean log latencies of the known CPUs.
    """
    points, position = locate_cpus(known, column)
    cover = _cpu_cover(points, known, points, known) + _NOISE**2 * np.eye(len(known))
    towards = _cpu_cover(position, [column], points, known)[0]
    precision = invert_matrix(cover)
    weights = precision @ towards
    itself = float(_cpu_cover(position, [column], position, [column])[0, 0])
    variance = itself - float(weights @ towards) + _NOISE**2
    # The level of all targets together is known well: what is left over belongs to their mean.
    weights += (1 - weights.sum()) / len(weights)
    spread = float(np.sqrt(variance * _scale_build(known, column, precision, levels)))
    return _join_rates(known, column, Place(weights, 0.0, spread))


def _join_rates(known: Sequence[Column], column: Column, place: Place) -> Place:
    """Return the place of a CPU, joined with what its rate says.

    With XNNPACK's float32 on Arm, latencies are in inverse proportion to the rate of the cores
    that the memory feeds (:func:`.find_rates`): each machine with this build says how large the
    product of both is. Cores without vectors run other kernels.
    """
    if not is_limited(column) or not _has_vectors(column):
        return place
    alike = np.array([is_limited(cpu) and _has_vectors(cpu) for cpu in known])
    machines = np.array(_list_silicons(known))
    names, counts = np.unique(machines[alike], return_counts=True)
    if len(names) < _ENOUGH_MACHINES:
        return place
    targets = dict(zip(names, counts, strict=True))
    # Each machine counts once.
    shares = np.array([1 / (targets.get(name, 1) * len(names)) for name in machines]) * alike
    rates, own_rate = find_rates(known, column)
    weights = _RATE_WEIGHT * shares + (1 - _RATE_WEIGHT) * place.weights
    shift = _RATE_WEIGHT * float(shares @ rates - own_rate)
    return replace(place, weights=weights, shift=shift)


def _has_vectors(cpu: Column) -> bool:
    """Return whether a core multiplies at least one number a clock, as all cores with NEON do."""
    return cpu.speed[0] >= cpu.speed[1]


def _scale_build(
    known: Sequence[Column], column: Column, precision: Floats, levels: Floats
) -> float:
    """Return how much larger the variance of the levels of one build is
    than the common deviations say.

    Machines with ruy are alike by their cores and clocks, virtual x86 machines are not. So each
    silicon of the build is hidden with all its targets, and its levels are compared with what the
    others say. ``precision`` (known, known) is the inverse covariance. Few silicons count with
    :data:`_USUAL` that are as the deviations say.
    """
    alike = np.array([_name_code(cpu) == _name_code(column) for cpu in known])
    silicons = np.array(_list_silicons(known))
    gaps = precision @ (levels - levels.mean())
    squares = []
    for silicon in sorted(set(silicons[alike])):
        hidden = np.flatnonzero(silicons == silicon)
        # The errors and the covariance of hidden values follow
        # from the inverse that the fit has already.
        cover = invert_matrix(precision[np.ix_(hidden, hidden)])
        errors = cover @ gaps[hidden]
        variances = np.diag(cover)
        ratios = np.square(errors) / variances
        of_build = ratios[alike[hidden]]
        squares.append(float(of_build.mean()))
    observed = _USUAL + sum(squares)
    expected = _USUAL + len(squares)
    return observed / expected


def _cpu_cover(
    left: Floats, ones: Sequence[Column], right: Floats, others: Sequence[Column]
) -> Floats:
    """Return the covariance (left, right) of the levels of CPUs at standardised speeds."""
    builds = _compare_names(_list_codes(ones), _list_codes(others))
    runtimes = _compare_names(_list_runtimes(ones), _list_runtimes(others))
    silicons = _compare_names(_list_silicons(ones), _list_silicons(others))
    scalings = _compare_names(_list_scalings(ones), _list_scalings(others))
    designs = _compare_names(_list_designs(ones), _list_designs(others))
    squares = ((left[:, None] - right[None]) ** 2).sum(axis=-1)
    silicon = np.array([[_X86_SILICON if is_x86(column) else _SILICON] for column in ones])
    deviations = _LOCAL**2 * np.exp(-squares / (2 * _LOCAL_RADIUS**2)) + silicon**2 * silicons
    # What one build makes of a processor tells little about what another build makes of it. But
    # all of them share the caches and the memory in the same way.
    deviations *= np.where(builds, 1.0, _ACROSS_BUILDS)
    deviations += _SCALING**2 * scalings
    on_x86 = np.array([[is_x86(column)] for column in ones])
    deviations += _X86_DESIGN**2 * (on_x86 & builds & designs)
    shared = _LEVEL**2 + _LINEAR**2 * left @ right.T
    return np.asarray(shared + deviations + _RUNTIME**2 * runtimes + _BUILD**2 * builds)


def _compare_names(ones: Sequence[str], others: Sequence[str]) -> NDArray[np.bool_]:
    """Return (ones, others) which names are equal;
    numbers are compared, which is faster than text.
    """
    numbers: dict[str, int] = {}
    left = np.array([numbers.setdefault(name, len(numbers)) for name in ones])
    right = np.array([numbers.setdefault(name, len(numbers)) for name in others])
    equal: NDArray[np.bool_] = left[:, None] == right[None]
    return equal


def _list_codes(columns: Sequence[Column]) -> list[str]:
    return list(map(_name_code, columns))


def _list_runtimes(columns: Sequence[Column]) -> list[str]:
    return [column.runtime for column in columns]


def _list_silicons(columns: Sequence[Column]) -> list[str]:
    return [column.silicon for column in columns]


def _list_scalings(columns: Sequence[Column]) -> list[str]:
    """Return a name for each silicon at one number of threads,
    apart where its memory is known to limit it.
    """
    return [f"{column.silicon} {column.speed[2:3]} {is_limited(column)}" for column in columns]


def _list_designs(columns: Sequence[Column]) -> list[str]:
    """Return the lines of designs: ``Zen`` of ``Zen 4``."""
    return [column.core.split(" ")[0] for column in columns]


def _name_code(column: Column) -> str:
    """Return a name for the code of a CPU target's kernels: its build, apart for x86."""
    return "/".join((*column.build, "x86" * is_x86(column)))


def _interpolate_target(query: Floats, known: Floats, values: Floats) -> tuple[Floats, float]:
    """Return the weights of the known targets for the query's latencies,
    and the expected error of its level.
    """
    centre = known.mean(axis=0)
    scale = np.maximum(known.std(axis=0), 1e-3)
    points = (known - centre) / scale
    position = (query - centre) / scale
    smoother = _make_smoother(points, points)
    level = values.mean(axis=1)
    # The leave-one-out residuals of a linear smoother follow from its diagonal. Near 1, a point
    # has decided its own value, and the division would give an error without bounds.
    leverage = np.minimum(np.diag(smoother), 0.9)
    residuals = (level - smoother @ level) / (1 - leverage)
    return _make_smoother(points, position[None])[0], float(np.sqrt(np.mean(residuals**2)))


def _make_smoother(points: Floats, queries: Floats) -> Floats:
    """Return the (queries, points) weights of ridge regression
    with a Gaussian process on its residuals.
    """
    design = np.column_stack([np.ones(len(points)), points])
    at = np.column_stack([np.ones(len(queries)), queries])
    # The constant is not penalised, but for what keeps the system solvable.
    penalty = np.diag([1e-6] + [_RIDGE] * points.shape[1])
    regression = np.linalg.solve(design.T @ design + penalty, design.T)
    left = np.eye(len(points)) - design @ regression
    cover = _compute_local(points, points) + _LOCAL_NOISE**2 * np.eye(len(points))
    return np.asarray(
        at @ regression + _compute_local(queries, points) @ np.linalg.solve(cover, left)
    )


def _compute_local(left: Floats, right: Floats) -> Floats:
    """Return the covariance of the residuals of points that are close to each other."""
    squares = ((left[:, None] - right[None]) ** 2).sum(axis=-1)
    return np.asarray(_LOCAL_SCALE**2 * np.exp(-squares / 2))


def with_place(base: Base, column: Column, candidates: Indices) -> tuple[Base, Place]:
    """Return the base with one more column, the last: what a CPU takes by its place;
    and that place.

    The mean of many machines of the build has less of the noise and of the habits of a single one.
    The place has no weights and the base is the same for other processors, and for CPUs whose
    speed is not known.
    """
    if column.kind != "cpu" or not len(_find_comparable(base, column, candidates)):
        return base, Place(np.zeros(0), 0.0, 0.0)
    place = weigh_targets(base, column, candidates)
    weights = place.weights
    # A network counts as measured there if a target with some influence measured it.
    near = np.abs(weights) > _INFLUENCE
    unmeasured = np.isnan(base.table.values[near]).all(axis=0)
    filled = weights @ base.filled + place.shift
    smooth = weights @ base.smooth + place.shift
    coefficients = base.weights @ weights
    level = weights @ base.levels + place.shift
    values = np.where(unmeasured, np.nan, filled)
    placed = replace(column, target="placed", device="")
    table = replace(
        base.table,
        columns=(*base.table.columns, placed),
        values=np.vstack([base.table.values, values]),
    )
    wider = replace(
        base,
        table=table,
        filled=np.vstack([base.filled, filled]),
        smooth=np.vstack([base.smooth, smooth]),
        weights=np.column_stack([base.weights, coefficients]),
        levels=np.append(base.levels, level),
    )
    return wider, place
