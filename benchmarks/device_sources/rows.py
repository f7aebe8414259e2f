"""What every reader of a table yields."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from advisor.devices import Measurement
from advisor.devices._profiles.measurements import UNSTATED
from benchmarks.device_sources.names import input_side

Row = dict[str, str]

FEATURES = Path(__file__).resolve().parents[2] / "device_profiles" / "model_features.csv"


@lru_cache
def sides() -> dict[str, int]:
    """Return the input side of each network with known features."""
    with FEATURES.open(newline="", encoding="utf-8") as file:
        return {row["name"]: int(row["input_size"]) for row in csv.DictReader(file)}


@dataclass(frozen=True)
class Sourced:
    """One row of a table in the project's own words.

    Attributes:
        table: stem of the CSV.
        device: the device's name in the table.
        runtime: runtime, accelerator, threads, version, variant: the target (``variant`` tells apart what they do not,
            such as the little cores).
        release: version that tells two targets apart, empty if ``version`` does.
        kernels: what the build computes with, empty if the table does not tell.
        measurement: the figure; its ``target`` is filled in once the target's name is known.
    """

    table: str
    device: str
    runtime: str
    accelerator: str
    threads: int
    measurement: Measurement
    version: str = ""
    variant: str = ""
    release: str = ""
    kernels: str = ""

    @property
    def target_name(self) -> str:
        """Name of the target within its profile without its release, such as ``ncnn-cpu-x4``."""
        parts = [self.runtime, self.accelerator]
        if self.accelerator == "cpu":
            parts.append(f"x{self.threads}")
        return "-".join([*parts, *([self.variant] if self.variant else [])])

    def described(self, target: str) -> Measurement:
        """Return the figure under its target's name; what the source does not state is ``unstated``."""
        figure = self.measurement
        side = input_side(figure.model) or figure.input_side or sides().get(figure.model)
        return replace(
            figure,
            target=target,
            input_side=side,
            flag=figure.flag or ("" if side else "unstated_input"),
            graph=figure.graph or UNSTATED,
            runtime_version=figure.runtime_version or self.version or UNSTATED,
        )

    def flagged(self, flag: str) -> Sourced:
        """Return the row with ``flag``, which an earlier flag outranks."""
        measurement = self.measurement
        return self if measurement.flag else replace(self, measurement=replace(measurement, flag=flag))


def read_table(folder: Path, table: str) -> Iterator[Row]:
    """Yield the rows of ``table``.csv that state a latency."""
    with (folder / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["latency_ms"]:
                yield row


def notes(row: Row) -> dict[str, str]:
    """Return the ``key=value`` parts of a row's notes."""
    parts = (part.strip().split("=", 1) for part in row["notes"].split(";"))
    return {part[0]: part[1] for part in parts if len(part) == 2}


def variant(row: Row) -> dict[str, str]:
    """Return width and input size of a row's variant."""
    parts = (part.strip().split("=", 1) for part in row["variant"].split(";"))
    return {part[0]: part[1] for part in parts if len(part) == 2}


def measurement(row: Row, model: str, precision: str, **other: object) -> Measurement:
    """Return the row's figure under the project's names."""
    memory = row["peak_memory_bytes"]
    stated = variant(row).get("input", "").split("x")[0]
    values: dict[str, object] = {
        "latency_ms": float(row["latency_ms"]),
        "peak_memory_bytes": int(float(memory)) if memory else None,
        "source_repo": row["source_repo"],
        "source_path": row["source_path"],
        "input_side": int(stated) if stated.isdigit() else None,
        **other,
    }
    return Measurement(target="", model=model, precision=precision, **values)  # type: ignore[arg-type]


def threads_of(row: Row) -> int:
    """Return the row's threads, 1 where it states none."""
    return int(row["threads"]) if row["threads"] else 1


def slug(text: str) -> str:
    """Return ``text`` as a part of a name."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")
