"""Puts rows and specifications together into profiles, and writes them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from advisor.devices.profiles.measurements import PRECISIONS, Measurement, write_measurements
from benchmarks.device_sources.clean import fastest_of_repeats, flag_slow_states, once_a_job, without_repeated_figures
from benchmarks.device_sources.readers import READERS
from benchmarks.device_sources.rows import Sourced

_CORES = re.compile(r"(\d+) x (.+) @ (\d+)")
_PREFERRED = ("tflite", "qnn", "stedgeai", "stm32cube.ai", "tinyengine", "tflite-micro", "paddle-lite", "mnn", "ncnn")


def read_all(folder: Path) -> list[Sourced]:
    """Read every table of ``folder`` and drop or flag what must not be trusted."""
    rows: list[Sourced] = []
    for reader in READERS.values():
        rows.extend(reader(folder))
    return flag_slow_states(fastest_of_repeats(without_repeated_figures(once_a_job(rows))))


def rows_of(spec: Mapping[str, Any], rows: Iterable[Sourced]) -> list[Sourced]:
    """Return the rows that belong to one device."""
    return [row for row in rows if _matches(row, spec["match"].get(row.table, ()))]


def _matches(row: Sourced, names: Sequence[str]) -> bool:
    exact = row.table in ("esp32_person_detect", "hailo_classification")
    return any(row.device == name if exact else row.device.startswith(name) for name in names)


def measurements_of(rows: Iterable[Sourced]) -> list[Measurement]:
    """Return a device's rows under their targets' names, one usable row a target, model, precision and job."""
    best: dict[object, Measurement] = {}
    for row in rows:
        figure = replace(row.measurement, target=row.target_name)
        job = figure.job if row.table in ("stm32_modelzoo", "mlperf_tiny", "ai_hub_image_classification") else ""
        key = (figure.target, figure.model, figure.precision, job, figure.flag)
        if key not in best or figure.latency_ms < best[key].latency_ms:
            best[key] = figure
    order = {name: index for index, name in enumerate(PRECISIONS)}
    return sorted(best.values(), key=lambda m: (m.target, m.model, order[m.precision], m.flag, m.job))


def profile_yaml(name: str, spec: Mapping[str, Any], rows: Sequence[Sourced]) -> str:
    """Return the text of ``name``.yaml."""
    targets = _targets(rows)
    data: dict[str, Any] = {"name": name, "title": spec["title"], "kind": spec["kind"], "soc": spec["soc"]}
    data |= {key: spec[key] for key in ("isa", "npu") if key in spec}
    if "cores" in spec:
        data["cores"] = [_cluster(text) for text in spec["cores"]]
    data |= {key: spec[key] for key in ("memory", "storage", "limits") if key in spec}
    data["targets"] = targets
    data["default_target"] = _default_target(rows)
    data["sources"] = sorted({row.measurement.source_repo for row in rows})
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120)
    return (
        "# Made by benchmarks/make_device_profiles.py from benchmarks/device_specs.yaml; the figures are in the CSV.\n"
        + text
    )


def _cluster(text: str) -> dict[str, Any]:
    match = _CORES.fullmatch(text)
    if match is None:
        raise ValueError(f"cores: '{text}' is not 'count x core @ MHz'")
    return {"core": match[2], "count": int(match[1]), "max_mhz": int(match[3])}


def _targets(rows: Sequence[Sourced]) -> list[dict[str, Any]]:
    by_name: dict[str, list[Sourced]] = defaultdict(list)
    for row in rows:
        by_name[row.target_name].append(row)
    return [_target(name, by_name[name]) for name in sorted(by_name)]


def _target(name: str, rows: Sequence[Sourced]) -> dict[str, Any]:
    first = rows[0]
    versions = Counter(row.version for row in rows if row.version)
    taken = {row.measurement.precision for row in rows}
    target: dict[str, Any] = {"name": name, "runtime": first.runtime, "accelerator": first.accelerator}
    if versions:
        target["version"] = versions.most_common(1)[0][0]
    target["threads"] = first.threads
    target["precisions"] = [precision for precision in PRECISIONS if precision in taken]
    return target


def _default_target(rows: Sequence[Sourced]) -> str:
    """The target meant by the device alone: a TFLite runtime where one was measured, an accelerator or four threads."""
    usable = Counter(row.target_name for row in rows if not row.measurement.flag) or Counter(
        r.target_name for r in rows
    )
    first = {row.target_name: row for row in rows}

    def rank(name: str) -> tuple[int, int, int, str]:
        row = first[name]
        runtime = _PREFERRED.index(row.runtime) if row.runtime in _PREFERRED else len(_PREFERRED)
        odd = 1 if row.variant in ("little", "armv7", "reference", "slim", "nnapi", "unstated-threads") else 0
        big_enough = 0 if usable[name] >= 3 else 1
        wanted = row.accelerator in ("npu", "tpu") or (row.accelerator == "cpu" and row.threads == 4)
        return (big_enough + odd, runtime, 0 if wanted else 1, name)

    return min(usable, key=rank)


def write_profiles(tables: Path, specs: Path, out: Path) -> dict[str, int]:
    """Write every profile of ``specs`` into ``out``.

    Returns:
        rows a device.
    """
    described: Mapping[str, Mapping[str, Any]] = yaml.safe_load(specs.read_text(encoding="utf-8"))
    rows = read_all(tables)
    counts = {}
    for name, spec in described.items():
        own = rows_of(spec, rows)
        if not own:
            raise ValueError(f"{name}: no row of the tables matches")
        (out / f"{name}.yaml").write_text(profile_yaml(name, spec, own), encoding="utf-8")
        figures = measurements_of(own)
        write_measurements(out / f"{name}.csv", figures)
        counts[name] = len(figures)
    return counts
