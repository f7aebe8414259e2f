"""Read the operators of the catalogue's networks, which are shipped with the device profiles."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.devices.profiles import shipped_profiles
from advisor.tflite.work import SIZES, Work, Works

OPERATORS_FILE = "model_operators.csv"

_COLUMNS = ("model", "number", "kind", *SIZES)


@lru_cache(maxsize=1)
def model_operators() -> Mapping[str, Works]:
    """Return the operators of each network of the catalogue by name.

    Raises:
        UsageError: the table is missing or not valid.
    """
    path = shipped_profiles() / OPERATORS_FILE
    found: dict[str, list[tuple[Work, int]]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                work = Work(row["kind"], **{name: int(row[name]) for name in SIZES})
                found.setdefault(row["model"], []).append((work, int(row["number"])))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "install the package again") from error
    return {name: tuple(works) for name, works in found.items()}


def write_operators(path: Path, models: Mapping[str, Works]) -> None:
    """Write the table that :func:`model_operators` reads."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for name, works in sorted(models.items()):
            for work, number in works:
                writer.writerow((name, number, work.kind, *(getattr(work, size) for size in SIZES)))
