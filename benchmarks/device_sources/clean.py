"""What is wrong with a row can sometimes only be seen beside others."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from benchmarks.device_sources.ai_hub import TABLES
from benchmarks.device_sources.rows import Sourced

SLOW_STATE = 2.2
"""How many times slower than the vendor's other runtime a row must be, against the same ratio on the other devices."""


def once_a_job(rows: Iterable[Sourced]) -> list[Sourced]:
    """Keep the first row of each job: one device is published under two names with the same jobs."""
    kept: dict[object, Sourced] = {}
    for number, row in enumerate(rows):
        is_job = row.table in TABLES
        kept.setdefault((row.measurement.job if is_job else number), row)
    return list(kept.values())


def fastest_of_repeats(rows: Sequence[Sourced]) -> list[Sourced]:
    """Keep one usable row a (device, target, model, precision): the fastest.

    ncnn lists some boards several times, from older releases of the runtime on; kernels only got faster.
    """
    best: dict[object, Sourced] = {}
    others = []
    for row in rows:
        if row.table not in ("ncnn_benchmark", "mnn_benchmark") or row.measurement.flag:
            others.append(row)
            continue
        key = (row.device, row.target_name, row.measurement.model, row.measurement.precision)
        if key not in best or row.measurement.latency_ms < best[key].measurement.latency_ms:
            best[key] = row
    return others + list(best.values())


def flag_slow_states(rows: Sequence[Sourced]) -> list[Sourced]:
    """Flag AI Hub rows that a throttled or contended device gave.

    Two runtimes of one vendor put the same graph on the same unit. Where one of them is far slower for a model on one
    device, against the median of the same ratio over the devices, that run was made in a slow state of the device.
    """
    by_key = {_key(row): row for row in rows if _comparable(row)}
    ratios: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for (table, device, runtime, model, precision), row in by_key.items():
        other = by_key.get((table, device, "qnn", model, precision))
        if runtime == "tflite" and other is not None:
            ratio = math.log(row.measurement.latency_ms / other.measurement.latency_ms)
            ratios[table, model, precision][device] = ratio
    slow = set()
    for (table, model, precision), by_device in ratios.items():
        middle = median(by_device.values())
        for device, ratio in by_device.items():
            if abs(ratio - middle) > math.log(SLOW_STATE):
                slow.add((table, device, "tflite" if ratio > middle else "qnn", model, precision))
    return [row.flagged("slow_state") if _comparable(row) and _key(row) in slow else row for row in rows]


def _comparable(row: Sourced) -> bool:
    return row.table in TABLES and not row.measurement.flag and row.runtime in ("tflite", "qnn")


def _key(row: Sourced) -> tuple[str, str, str, str, str]:
    return row.table, row.device, row.runtime, row.measurement.model, row.measurement.precision


def without_repeated_figures(rows: Iterable[Sourced]) -> list[Sourced]:
    """Drop rows that say the same again: two mirrors of one table, the same class count twice."""
    kept: dict[object, Sourced] = {}
    for row in rows:
        figure = replace(row.measurement, source_repo="", source_path="")
        kept.setdefault((row.device, row.target_name, figure), row)
    return list(kept.values())
