"""Puts rows and specifications together into profiles, and writes them."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from advisor.devices import PRECISIONS, Measurement
from advisor.devices._profiles.measurements import write_measurements
from benchmarks.device_sources import ai_hub
from benchmarks.device_sources.clean import fastest_of_repeats, flag_slow_states, once_a_job, without_repeated_figures
from benchmarks.device_sources.outliers import Placed, unexplained
from benchmarks.device_sources.readers import READERS
from benchmarks.device_sources.rows import Sourced

_CORES = re.compile(r"(\d+) x (.+) @ (\d+)")
_FOREIGN = ("ncnn", "mnn", "paddle-lite", "armnn", "opencv-dnn", "onnxruntime", "tensorflow-mobile")
"""Runtimes that do not run ``.tflite`` files, and that no vendor made for its accelerator."""

_ODD = (
    "little", "armv7", "armhf", "reference", "ruy", "slim", "nnapi", "unstated-threads", "hosted", "page", "nnapi-page",
    "netspresso",
)  # fmt: skip
LICENCES = {
    "Tencent/ncnn": "BSD-3-Clause",
    "google/XNNPACK": "BSD-3-Clause",
    "google-ai-edge/litert-samples": "Apache-2.0",
    "mlcommons/inference_results": "Apache-2.0",
    "quic/ai-hub-models": "BSD-3-Clause",
    "tensorflow/docs-l10n": "Apache-2.0, text CC-BY-4.0",
}
"""Licences of the sources with most rows, as they state them."""

_RELEASE = re.compile(r"\d+(?:[.-]\d+)*")
_STATED = re.compile(r"\d+\.\d+\.\d+")
_JOBS = ("stm32_modelzoo", "mlperf_tiny", *ai_hub.TABLES)
_LITERT_THREADS = (1, 4)
_ENOUGH_ROWS = 3  # A target with fewer usable rows is no default where another one has more
_LITERT_RELEASE = "2.3.0"
"""What pip installs of LiteRT today, with XNNPACK's kernels; XNNPACK's own figures are of another release."""

_LITERT_KINDS = ("board", "module")
_PREFERRED = ("tflite", "qnn", "stedgeai", "stm32cube.ai", "tinyengine", "tflite-micro", "paddle-lite", "mnn", "ncnn")


def read_all(folder: Path) -> list[Sourced]:
    """Read every table of ``folder`` and drop or flag what must not be trusted."""
    rows: list[Sourced] = []
    for reader in READERS.values():
        rows.extend(reader(folder))
    return flag_slow_states(fastest_of_repeats(without_repeated_figures(once_a_job(rows))))


def rows_of(spec: Mapping[str, Any], rows: Iterable[Sourced]) -> list[Sourced]:
    """Return the rows that belong to one device."""
    table = dict.fromkeys(ai_hub.TABLES, "ai_hub")
    return [row for row in rows if _matches(row, spec["match"].get(table.get(row.table, row.table), ()))]


def _matches(row: Sourced, names: Sequence[str]) -> bool:
    exact = row.table in ("esp32_person_detect", "hailo_classification", "xnnpack_readme")
    return any(row.device == name if exact else row.device.startswith(name) for name in names)


def named(rows: Sequence[Sourced]) -> dict[str, list[Sourced]]:
    """Return a device's rows by the name of their target: two releases of a runtime are two targets.

    The newest release has the plain name, such as ``qnn-npu``; the name of an older one ends with it: ``qnn-npu-2.42``.
    A table that states no release is named after its source, or counts as the newest one.
    """
    by_release: dict[str, dict[tuple[int, ...], list[Sourced]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_release[row.target_name][release_of(row)].append(row)
    found: dict[str, list[Sourced]] = {}
    for name, releases in by_release.items():
        unstated = releases.pop((), [])
        newest = max(releases, default=())
        for release, own in {newest: [], **releases}.items():
            older = "" if release == newest else "-" + ".".join(map(str, release[:2]))
            if name + older in found:
                raise ValueError(f"{rows[0].device}: two releases are called {name + older}")
            found[name + older] = [*own, *unstated] if release == newest else own
    return found


def release_of(row: Sourced) -> tuple[int, ...]:
    """Return the release that decides on the row's target, empty if the source states none."""
    found = _RELEASE.search(row.release or row.version)
    return tuple(int(number) for number in re.split("[.-]", found[0])) if found else ()


def measurements_of(targets: Mapping[str, Sequence[Sourced]]) -> list[Measurement]:
    """Return a device's rows under their targets' names, one usable row a target, model, precision and job."""
    best: dict[object, Measurement] = {}
    for name, rows in targets.items():
        for row in rows:
            figure = row.described(name)
            job = figure.job if row.table in _JOBS else ""
            key = (figure.target, figure.model, figure.precision, job, figure.flag)
            if key not in best or figure.latency_ms < best[key].latency_ms:
                best[key] = figure
    order = {name: index for index, name in enumerate(PRECISIONS)}
    return sorted(best.values(), key=lambda m: (m.target, m.model, order[m.precision], m.flag, m.job))


def profile_yaml(name: str, spec: Mapping[str, Any], rows: Mapping[str, Sequence[Sourced]]) -> str:
    """Return the text of ``name``.yaml.

    Args:
        name: name of the device.
        spec: its specification.
        rows: its rows by the name of their target.
    """
    data: dict[str, Any] = {"name": name, "title": spec["title"], "kind": spec["kind"], "soc": spec["soc"]}
    data |= {key: spec[key] for key in ("isa", "npu") if key in spec}
    if "cores" in spec:
        data["cores"] = [_cluster(text) for text in spec["cores"]]
    data |= {key: spec[key] for key in ("memory", "storage", "limits") if key in spec}
    targets = {target: _target(target, own) for target, own in rows.items()} | _litert(spec, rows)
    data["targets"] = [targets[target] for target in sorted(targets)]
    fast_cores = data["cores"][0]["count"] if "cores" in data else 0
    data["default_target"] = _default_target(data["targets"], rows, fast_cores)
    repositories = {row.measurement.source_repo for own in rows.values() for row in own}
    data["sources"] = sorted(f"{each} ({licence})" if (licence := _licence(each)) else each for each in repositories)
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120)
    return (
        "# Made by benchmarks/make_device_profiles.py from benchmarks/device_specs.yaml; the figures are in the CSV.\n"
        + text
    )


def _licence(repository: str) -> str:
    return next((licence for name, licence in LICENCES.items() if repository.startswith(name)), "")


def _cluster(text: str) -> dict[str, Any]:
    match = _CORES.fullmatch(text)
    if match is None:
        raise ValueError(f"cores: '{text}' is not 'count x core @ MHz'")
    return {"core": match[2], "count": int(match[1]), "max_mhz": int(match[3])}


def _litert(spec: Mapping[str, Any], rows: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the LiteRT CPU targets that no table measured; LiteRT runs on every Arm or x86 processor with Linux."""
    runs = spec["kind"] in _LITERT_KINDS and "cores" in spec and spec.get("isa", "").startswith(("armv", "x86"))
    if not (runs or spec.get("litert")):
        return {}
    cores = sum(cluster["count"] for cluster in map(_cluster, spec["cores"]))
    return {
        f"tflite-cpu-x{threads}": {
            "name": f"tflite-cpu-x{threads}", "runtime": "tflite", "accelerator": "cpu", "threads": threads,
            "version": _LITERT_RELEASE, "precisions": ["float32", "int8"], "kernels": "xnnpack",
        }
        for threads in _LITERT_THREADS
        if threads <= cores and f"tflite-cpu-x{threads}" not in rows
    }  # fmt: skip


def _target(name: str, rows: Sequence[Sourced]) -> dict[str, Any]:
    first = rows[0]
    versions = Counter(row.version for row in rows if row.version)
    taken = {row.measurement.precision for row in rows}
    if first.runtime == "tflite" and first.accelerator == "cpu":
        taken |= {"float32", "int8"}  # LiteRT's kernels run both, measured or not
    target: dict[str, Any] = {"name": name, "runtime": first.runtime, "accelerator": first.accelerator}
    if first.kernels == "xnnpack":
        # XNNPACK's own figures state a date, which is no release of LiteRT.
        release = first.version if _STATED.fullmatch(first.version) else _LITERT_RELEASE
        target["version"] = release + "+armhf" * (first.variant == "armhf")
    elif versions:
        target["version"] = versions.most_common(1)[0][0]
    target["threads"] = first.threads
    target["precisions"] = [precision for precision in PRECISIONS if precision in taken]
    if first.kernels:
        target["kernels"] = first.kernels
    return target


def _default_target(
    targets: Sequence[Mapping[str, Any]], rows: Mapping[str, Sequence[Sourced]], fast_cores: int
) -> str:
    """The target meant by the device alone: LiteRT or the vendor's runtime, another one only if there is neither.

    Among those: the newest release with three measurements, on an accelerator or with the most threads up to four.
    Rows of another number of threads count for LiteRT on the ``fast_cores`` cores of the fastest kind, so a device
    with twelve equal cores does not run on one because somebody measured one.
    """
    usable = {name: sum(not row.measurement.flag for row in own) for name, own in rows.items()}
    single = usable.get("tflite-cpu-x1", 0)

    def rank(target: Mapping[str, Any]) -> tuple[bool, int, int, int, str]:
        name, runtime = target["name"], target["runtime"]
        odd = name in rows and (rows[name][0].variant in _ODD or rows[name][0].target_name != name)
        order = _PREFERRED.index(runtime) if runtime in _PREFERRED else len(_PREFERRED)
        distance = {"npu": 0, "tpu": 0, "cpu": abs(4 - target["threads"])}.get(target["accelerator"], 9)
        known = usable.get(name, 0)
        if name == "tflite-cpu-x4" and fast_cores >= target["threads"]:
            known = max(known, single)
        return (runtime in _FOREIGN, (known < _ENOUGH_ROWS) + odd, order, distance, name)

    measured = [t for t in targets if usable.get(t["name"]) or (t["runtime"], t["accelerator"]) == ("tflite", "cpu")]
    return str(min(measured or targets, key=rank)["name"])


def write_profiles(tables: Path, specs: Path, out: Path) -> dict[str, int]:
    """Write every profile of ``specs`` into ``out``.

    Returns:
        rows a device.
    """
    described: Mapping[str, Mapping[str, Any]] = yaml.safe_load(specs.read_text(encoding="utf-8"))
    rows = read_all(tables)
    targets = {}
    for name, spec in described.items():
        own = rows_of(spec, rows)
        if not own:
            raise ValueError(f"{name}: no row of the tables matches")
        targets[name] = named(own)
        (out / f"{name}.yaml").write_text(profile_yaml(name, spec, targets[name]), encoding="utf-8")
    placed = [row for name, own in targets.items() for row in _placed(name, own)]
    bad = unexplained(placed)
    counts: Counter[str] = Counter()
    figures: dict[str, list[Measurement]] = defaultdict(list)
    for row in placed:
        figures[row.device].append(replace(row.figure, flag="unexplained") if row in bad else row.figure)
        counts[row.device] += 1
    for name, own_figures in figures.items():
        write_measurements(out / f"{name}.csv", own_figures)
    return dict(counts)


def _placed(name: str, targets: Mapping[str, Sequence[Sourced]]) -> list[Placed]:
    return [
        Placed(name, targets[figure.target][0].accelerator, targets[figure.target][0].runtime, figure)
        for figure in measurements_of(targets)
    ]
