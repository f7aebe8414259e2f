"""Read and write the known latencies of one device, of models and of kernels, as CSV.

A profile's measurements lie beside it in ``NAME.csv``, its timed kernels in ``NAME.kernels.csv``.
Users write the first file by hand, so errors name the line. The columns, and the words of
:data:`FLAGS`, are formats on disk.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TypeVar

from advisor.core import Problems, UsageError, nearest, units
from advisor.devices._profiles.measurement import Measurement
from advisor.store import read_text
from advisor.tflite import Work

Row = TypeVar("Row")

PRECISIONS = ("float32", "float16", "int8", "int16x8")
"""Forms of artefacts. A float32 model is ``float32`` even
if an accelerator computes it in float16.
"""

STATISTICS = ("median", "mean", "min", "cpu_median", "unstated")
"""Statistics of the repetitions: of wall time, or the median of the CPU time of one thread."""

FLAGS = {
    "throughput": "1000 / frames per second of a pipeline, not the latency of one image",
    "fallback": "part of the model ran on another processor than the target's",
    "slow_state": (
        "the same model is 2.2 times faster through the vendor's other runtime: a throttled or"
        " contended run"
    ),
    "limited": (
        "the source limited the cooling or power of the device, or all its networks show that"
    ),
    "spiky": "the average is over 1.5 times the minimum",
    "sparse": "pruned weights run by sparse kernels",
    "with_image_handling": "includes decoding and resizing the image",
    "superseded": "a later release of the runtime measured the same",
    "source_error": "marked as implausible by the source or against its own table",
    "unstated_input": "the source does not state the input side of the network",
    "unexplained": (
        "differs from the same network on other devices or releases, and the source gives no"
        " reason"
    ),
}
"""Reasons why a row is kept but not used for predictions."""

# The value of ``graph`` and ``runtime_version`` where a published source does not state them.
UNSTATED = "unstated"

_VERSION_PART = r"(?:\d+(?:[.-]?\w+)*|[a-z_]+\d+(?:[.-]\w+)+)"
_VERSION = re.compile(rf"{_VERSION_PART}(?:\+[\w.-]+)*")

MIN_LATENCY_MS = 1e-3
MAX_LATENCY_MS = 1e7

REQUIRED = ("target", "model", "precision", "latency_ms")
"""Columns that the CSV of a profile must have."""

FORMS = ("float32", "int8")  # Forms in which kernels are timed

SUFFIX = ".kernels.csv"

# Beginning of the source of a latency that was predicted from kernels.
SOURCE = "kernels measured on the device"

# ``source_repo`` of measurements that a user made with ``advisor devices calibrate``.
CALIBRATED = "calibrated"

KERNEL_COLUMNS = ("target", "form", *Work.list_columns(), "microseconds")
_LONGEST_US = 1e9
_AGAIN = "delete the file, and time the kernels again: advisor devices calibrate --kernels"

COLUMNS = tuple(field.name for field in fields(Measurement))


def read_measurements(
    path: Path, targets: Collection[str] | None = None, models: Collection[str] | None = None
) -> tuple[Measurement, ...]:
    """Read the CSV of one profile, whose first row names the columns (:data:`COLUMNS`).

    ``targets`` are the names of the profile's targets, ``models`` those of the known models; None
    accepts every name. UsageError with file and line of every row with an unknown target, model,
    precision, statistic or flag, a latency that is not plausible (0, negative, above 10^7 ms), no
    runtime version, or the target, model, precision and job of another row.
    """
    problems = Problems()
    parse = partial(_parse_measurement, targets=targets, models=models)
    rows = _read_rows(path, _check_columns, parse, problems, "it is a CSV file in UTF-8")
    seen: dict[tuple[str, ...], int] = {}
    for line, row in rows:
        key = (row.target, row.model, row.precision, row.job, row.source_path, row.flag)
        if seen.setdefault(key, line) != line:
            problems.add(
                UsageError(
                    f"{path}:{line}: {row.model} {row.precision} on {row.target} is already in"
                    f" line {seen[key]}",
                    "keep one of the two",
                )
            )
    problems.raise_any()
    return tuple(row for _, row in rows)


def _read_rows(
    path: Path,
    check: Callable[[Path, Sequence[str]], None],
    parse: Callable[[dict[str, str], str], Row],
    problems: Problems,
    hint: str,
) -> list[tuple[int, Row]]:
    """Return the parsed rows of a CSV file, each with its line, after a check of its columns.

    Rows that ``parse`` refuses are problems. A row has as many fields as the header.
    """
    rows = []
    try:
        reader = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
        names = reader.fieldnames or ()
        check(path, names)
        for row in reader:
            at = f"{path}:{reader.line_num}"
            with problems.collected():
                if None in row or None in row.values():
                    columns = COLUMNS if check is _check_columns else KERNEL_COLUMNS
                    raise UsageError(
                        f"{at}: the row has more or fewer fields than the header",
                        f"columns: {', '.join(columns)}",
                    )
                rows.append((reader.line_num, parse(row, at)))
    except csv.Error as error:
        raise UsageError(f"{path} cannot be read: {error}", hint) from error
    return rows


def check_version(text: str) -> str:
    """Return ``text`` if it is empty or a version such as ``1.30.0+qairt2.50.0``
    or ``2022-02-08``; else ValueError.
    """
    if text and not _VERSION.fullmatch(text):
        raise ValueError(f"'{text}' is not a version: write for example 2.17.0")
    return text


def write_measurements(path: Path, rows: Iterable[Measurement]) -> None:
    """Write ``rows`` as CSV with latencies of six digits."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            data = {key: "" if value is None else value for key, value in asdict(row).items()}
            writer.writerow({**data, "latency_ms": f"{row.latency_ms:.6g}"})


def _check_columns(path: Path, names: Collection[str]) -> None:
    for name in names:
        if name not in COLUMNS:
            raise UsageError(
                f"{path}:1: unknown column '{name}'{nearest(name, COLUMNS)}", f"columns: {COLUMNS}"
            )
    for name in REQUIRED:
        if name not in names:
            raise UsageError(
                f"{path}:1: the column '{name}' is missing", f"columns: {', '.join(COLUMNS)}"
            )


def _parse_measurement(
    row: dict[str, str], at: str, targets: Collection[str] | None, models: Collection[str] | None
) -> Measurement:
    model = row["model"]
    names = "advisor catalog list shows the names"
    if not model.strip():
        raise UsageError(f"{at}: the model has no name", names)
    flag = row.get("flag", "")
    version = row.get("runtime_version", "")
    if flag:
        _require_one_of(flag, FLAGS, "flag", at)
    try:
        check_version("" if version == UNSTATED else version)
    except ValueError as error:
        raise UsageError(f"{at}: runtime_version {error}", "such as 2.17.0") from None
    target = (
        row["target"] if targets is None else _require_one_of(row["target"], targets, "target", at)
    )
    if models is not None and model not in models:
        hint = f"{names}; advisor catalog add adds a model of your own"
        raise UsageError(f"{at}: unknown model '{model}'{nearest(model, models)}", hint)
    return Measurement(
        target=target,
        model=model,
        precision=_require_one_of(row["precision"], PRECISIONS, "precision", at),
        latency_ms=_parse_latency(row["latency_ms"], at),
        statistic=_require_one_of(row.get("statistic") or "unstated", STATISTICS, "statistic", at),
        peak_memory_bytes=_parse_whole(
            row.get("peak_memory_bytes", ""), "peak_memory_bytes", "bytes", at
        ),
        flag=flag,
        source_repo=row.get("source_repo", ""),
        source_path=row.get("source_path", ""),
        job=row.get("job", ""),
        input_side=_parse_whole(row.get("input_side", ""), "input_side", "pixels", at),
        graph=row.get("graph", ""),
        runtime_version=version,
    )


def _require_one_of(value: str, valid: Collection[str], what: str, at: str) -> str:
    if value not in valid:
        raise UsageError(
            f"{at}: unknown {what} '{value}'{nearest(value, valid)}", f"valid: {', '.join(valid)}"
        )
    return value


def _parse_latency(text: str, at: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(
            f"{at}: latency_ms '{text}' is not a number", "the column is in milliseconds"
        ) from None
    if not math.isfinite(value) or not MIN_LATENCY_MS <= value <= MAX_LATENCY_MS:
        raise UsageError(
            f"{at}: latency_ms {text} is not a latency ({MIN_LATENCY_MS:g} to"
            f" {MAX_LATENCY_MS:g} ms)",
            "the column is in milliseconds",
        )
    return value


def _parse_whole(text: str, column: str, unit: str, at: str) -> int | None:
    if not text:
        return None
    value = units.whole_number(text, round(units.MOST))
    if value is None:
        raise UsageError(
            f"{at}: {column} '{text}' is not a whole number of {unit}",
            "leave it empty if it is not known",
        )
    return value


@dataclass(frozen=True)
class Kernel:
    """One operator, timed alone on a target."""

    target: str  # name of the target within its profile
    form: str  # one of :data:`FORMS`
    work: Work  # the operator
    microseconds: float  # its time


def read_kernels(path: Path, targets: Collection[str]) -> tuple[Kernel, ...]:
    """Read the kernels of one profile, whose first row names the columns (:data:`KERNEL_COLUMNS`).

    UsageError with file and line of every row with an unknown target or form, a size that is not a
    whole number above zero, or a time that is not plausible.
    """
    problems = Problems()
    rows = _read_rows(
        path, _check_kernel_columns, partial(_parse_kernel, targets=targets), problems, _AGAIN
    )
    problems.raise_any()
    return tuple(row for _, row in rows)


def _check_kernel_columns(path: Path, names: Sequence[str]) -> None:
    if tuple(names) != KERNEL_COLUMNS:
        raise UsageError(
            f"{path}:1: the columns are not those of kernels",
            f"columns: {', '.join(KERNEL_COLUMNS)}",
        )


def write_kernels(path: Path, kernels: Iterable[Kernel]) -> None:
    """Write ``kernels`` as CSV with times of six digits."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(KERNEL_COLUMNS)
        for kernel in kernels:
            time = f"{kernel.microseconds:.6g}"
            writer.writerow(
                (kernel.target, kernel.form, kernel.work.kind, *kernel.work.sizes, time)
            )


def _parse_kernel(row: dict[str, str], at: str, targets: Collection[str]) -> Kernel:
    target = _require_one_of(row["target"], targets, "target", at)
    form = _require_one_of(row["form"], FORMS, "form", at)
    try:
        work = Work.of_row(row)
        microseconds = float(row["microseconds"])
    except ValueError as error:
        raise UsageError(f"{at}: {error}", _AGAIN) from None
    if min(work.sizes) < 1:
        raise UsageError(f"{at}: a size is below 1", _AGAIN)
    if not 0 < microseconds < _LONGEST_US or not math.isfinite(microseconds):
        raise UsageError(
            f"{at}: {row['microseconds']} microseconds are not plausible", "a time is above 0"
        )
    return Kernel(target, form, work, microseconds)
