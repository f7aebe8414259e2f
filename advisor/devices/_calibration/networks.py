"""Make files of networks, time them on a device, and keep the timings in its profile.

A calibration and the adding of a phone call these functions. Latency does not depend on the
weights, so the networks have random ones. Timings that cannot be trusted are left out, with the
reason; a device that slows down ends the calibration.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.catalog import Card
from advisor.core import StageError, plural, show_ms
from advisor.devices._connections.agent import THROTTLED
from advisor.devices._connections.protocol import Connection, MeasurementJob, Timing
from advisor.devices._kernel_files import as_int8
from advisor.devices._kernels import Tell
from advisor.devices._profiles import DeviceProfile, DeviceTarget
from advisor.devices._profiles.measurement import Measurement
from advisor.devices._profiles.measurements import CALIBRATED, FORMS, Kernel
from advisor.isolation import WAITED_LIMIT, CallLimits, ChildPool
from advisor.tflite import select_output

EFFORT = "quick"
_SECONDS_A_FILE = 120.0  # Longest time of one file; a job may take that of one more
QUIET_HINT = "close other programs on the device, or name a target with fewer threads"
_COOL = "let the device cool down and close other programs on it, then try again"

Key = tuple[str, str]  # Name of the model, and form
Latencies = Mapping[Key, float]  # Milliseconds
Timings = Mapping[Key, Timing]
# Is called with the timings of one network, and with all before it.
OnMeasured = Callable[[Timings, Timings], None]


@dataclass(frozen=True)
class MeasuredNetworks:
    """Networks that were measured on a device."""

    timings: Timings  #: timings that can be trusted
    left_out: tuple[str, ...]  #: why others were left out, one line for each

    @property
    def remarks(self) -> tuple[str, ...]:
        """Why others were left out, each with what to do about it."""
        return tuple(f"{reason}; {QUIET_HINT}, then calibrate again" for reason in self.left_out)

    @property
    def clock(self) -> str:
        """The kind of the latencies if they are CPU times, and the time of other programs;
        empty for the usual wall time.
        """
        factors = {}
        for key, timing in self.timings.items():
            if timing.cpu_ms:
                factors[key] = timing.median_ms / timing.cpu_ms
        if not factors:
            return ""
        # Wall over CPU time is 1 / (1 - w) for a thread that waited the share w.
        undisturbed = 1 / (1 - WAITED_LIMIT)
        disturbed = [key for key, factor in factors.items() if factor > undisturbed]
        if not disturbed:
            return "latencies are CPU times of one thread"
        worst = max(disturbed, key=factors.__getitem__)
        wall = show_ms(self.timings[worst].median_ms)
        own_time = show_ms(self.timings[worst].own_ms)
        return (
            f"latencies are CPU times of one thread; other programs disturbed {len(disturbed)} of"
            f" {plural(len(factors), 'timing')}: {' '.join(worst)} took {wall}, and {own_time} of"
            " it were its own"
        )

    @property
    def governor(self) -> str:
        """The device's frequency governor; empty if it does not tell."""
        for timing in self.timings.values():
            load = timing.details.get("load")
            if isinstance(load, Mapping):
                return str(load.get("governor") or "")
        return ""


def forms_of(target: DeviceTarget) -> tuple[str, ...]:
    """Return the forms that a calibration measures on a target."""
    return tuple(form for form in FORMS if form in target.precisions)


def convert_card(
    pool: ChildPool,
    card: Card,
    forms: Sequence[str],
    folder: Path,
    tell: Tell,
) -> dict[Key, Path]:
    """Convert a card with random weights to a file in every form, in a child process."""
    tell(f"making {card.name}")
    path = folder / f"{card.name}.tflite"
    limits = CallLimits(seconds=600, memory_bytes=3_000_000_000)
    pool.call("advisor.catalog._convert:convert", card, None, path, limits=limits)
    data = select_output(path.read_bytes(), "probabilities")
    files = {}
    for form in forms:
        file = folder / f"{card.name}-{form}.tflite"
        content = as_int8(data) if form == "int8" else data
        file.write_bytes(content)
        files[card.name, form] = file
    return files


def measure_networks(
    connection: Connection,
    networks: Iterable[Mapping[Key, Path]],
    threads: int,
    tell: Tell,
    on_measured: OnMeasured,
) -> MeasuredNetworks:
    """Measure networks one after the other, each in all its forms,
    and the first one again at the end.

    ``networks`` are the files of each network by form. A timing that other programs disturbed is
    left out, unless its CPU time is known. StageError if the device failed or slowed down, or
    every timing was left out.
    """
    trusted = dict[Key, Timing]()
    left_out = list[str]()
    for files in networks:
        name, _ = next(iter(files))
        tell(f"measuring {name} on {connection.label}")
        steady = dict[Key, Timing]()
        for key, timing in _measure_files(connection, files, threads).items():
            if timing.contention:
                left_out.append(f"{' '.join(key)}: {timing.contention}")
            else:
                steady[key] = timing
        on_measured(steady, trusted)
        trusted |= steady
    if not trusted:
        raise StageError(
            f"{connection.label}: no network could be measured: {left_out[0]}",
            f"{QUIET_HINT}, then try again",
        )
    # One network alone has no time in which the device could get hot between two.
    if len({model for model, _ in trusted}) > 1:
        tell(f"measuring the first network again on {connection.label}")
        key, first = next(iter(trusted.items()))
        left_out += _check_drift(connection, key, first)
    return MeasuredNetworks(trusted, tuple(left_out))


def _measure_files(connection: Connection, files: Mapping[Key, Path], threads: int) -> Timings:
    keys = {path: key for key, path in files.items()}
    limit_s = _SECONDS_A_FILE * (len(files) + 1)
    timings = connection.measure(MeasurementJob(tuple(keys), (threads,), EFFORT, limit_s))
    # One hot timing ends the calibration: those after it are slow as well (decision 0105).
    for timing in timings:
        if timing.throttled:
            name = " ".join(keys[timing.model])
            raise StageError(f"{connection.label}: {timing.throttled} ({name})", _COOL)
    return {keys[timing.model]: timing for timing in timings}


def _check_drift(connection: Connection, key: Key, first: Timing) -> list[str]:
    """Measure a file again; StageError if it takes :data:`THROTTLED` times as long.

    A device that gets hot between two networks makes the later ones look slow, and no single
    timing shows it. Return why this cannot be told, if other programs disturb the second timing.
    """
    again = _measure_files(connection, {key: first.model}, first.threads)[key]
    name = " ".join(key)
    if again.contention:
        return [f"{name} at the end, which shows if the device slowed down: {again.contention}"]
    if again.own_ms < THROTTLED * first.own_ms:
        return []
    raise StageError(
        f"{connection.label}: the device slowed down between the networks: {name} took"
        f" {show_ms(first.own_ms)} at first and {show_ms(again.own_ms)} at the end",
        _COOL,
    )


def with_timings(profile: DeviceProfile, target: DeviceTarget, timings: Timings) -> DeviceProfile:
    """Return the profile with these timings as the user's measurements."""
    statistic = "cpu_median" if any(timing.cpu_ms for timing in timings.values()) else "median"
    latency_ms = {key: timing.own_ms for key, timing in timings.items()}
    return with_measurements(profile, target, latency_ms, statistic)


def with_measurements(
    profile: DeviceProfile, target: DeviceTarget, latency_ms: Latencies, statistic: str = "median"
) -> DeviceProfile:
    """Return the profile with the user's measurements,
    which replace earlier ones of the same models on the target.
    """
    # Only the user's latest measurement of a model counts,
    # also against a shipped one on the same target.
    rows = []
    for row in profile.measurements:
        if row.target != target.name or (row.model, row.precision) not in latency_ms:
            rows.append(row)
    for (model, form), value in sorted(latency_ms.items()):
        row = Measurement(
            target.name,
            model,
            form,
            value,
            statistic,
            source_repo=CALIBRATED,
            source_path=profile.name,
        )
        rows.append(row)
    return replace(profile, measurements=tuple(rows))


def add_kernels(profile: DeviceProfile, kernels: Sequence[Kernel]) -> DeviceProfile:
    """Return the profile with newly timed kernels."""
    return replace(profile, kernels=(*profile.kernels, *kernels))
