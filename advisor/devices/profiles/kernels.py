"""Read and write the kernels that were timed on one device, as CSV beside its profile."""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from advisor.core.errors import Problems, UsageError, nearest
from advisor.tflite.work import SIZES, Work

BYTES = MappingProxyType({"float32": 4, "int8": 1})
"""Forms in which kernels are timed, with the bytes of a value."""

FORMS = tuple(BYTES)

SUFFIX = ".kernels.csv"

SOURCE = "kernels measured on the device"
"""Beginning of the source of a latency that was predicted from kernels."""

COLUMNS = ("target", "form", "kind", *SIZES, "microseconds")
_LONGEST_US = 1e9
_AGAIN = "time the kernels again: advisor devices calibrate --kernels"


@dataclass(frozen=True)
class Kernel:
    """One operator, timed alone on a target.

    Attributes:
        target: name of the target within its profile.
        form: one of :data:`FORMS`.
        work: the operator.
        microseconds: its time.
    """

    target: str
    form: str
    work: Work
    microseconds: float


def read_kernels(path: Path, targets: Collection[str]) -> tuple[Kernel, ...]:
    """Read the kernels of one profile.

    Args:
        path: the file; its first row names the columns (:data:`COLUMNS`).
        targets: names of the profile's targets.

    Raises:
        UsageError: a column is missing or unknown, a target or form is unknown, a size is not a whole number above
            zero, or a time is not plausible. The error names file and line of every such row.
    """
    problems, rows = Problems(), []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise UsageError(f"{path}:1: the columns are not those of kernels", f"columns: {', '.join(COLUMNS)}")
            for row in reader:
                with problems.collected():
                    rows.append(_kernel(row, f"{path}:{reader.line_num}", targets))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} cannot be read: {error}", _AGAIN) from error
    problems.raise_any()
    return tuple(rows)


def write_kernels(path: Path, kernels: Iterable[Kernel]) -> None:
    """Write ``kernels`` as CSV with times of six digits."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for kernel in kernels:
            sizes = (getattr(kernel.work, name) for name in SIZES)
            row = (kernel.target, kernel.form, kernel.work.kind, *sizes, f"{kernel.microseconds:.6g}")
            writer.writerow(row)


def _kernel(row: dict[str, str], at: str, targets: Collection[str]) -> Kernel:
    if None in row or None in row.values():
        raise UsageError(f"{at}: the row has more or fewer fields than the header", f"columns: {', '.join(COLUMNS)}")
    for column, valid in (("target", targets), ("form", FORMS)):
        if row[column] not in valid:
            raise UsageError(
                f"{at}: unknown {column} '{row[column]}'{nearest(row[column], valid)}", f"valid: {', '.join(valid)}"
            )
    try:
        sizes = {name: int(row[name]) for name in SIZES}
        microseconds = float(row["microseconds"])
    except ValueError as error:
        raise UsageError(f"{at}: {error}", _AGAIN) from None
    if min(sizes.values()) < 1:
        raise UsageError(f"{at}: a size is below 1", _AGAIN)
    if not 0 < microseconds < _LONGEST_US or not math.isfinite(microseconds):
        raise UsageError(f"{at}: {row['microseconds']} microseconds are not plausible", "a time is above 0")
    return Kernel(row["target"], row["form"], Work(row["kind"], **sizes), microseconds)
