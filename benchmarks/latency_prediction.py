"""Measure latency prediction on the shipped measurements and write the table.

Run from the repository's root: ``python -m benchmarks latency_prediction``. Some minutes on one idle core (set
``OMP_NUM_THREADS=1``: the matrices are small). ``--parts npu,cpu,...`` runs some of the parts and keeps the others'
rows as they are; ``--draws 3`` gives the same picture sooner. The page names the parts that were made before the
measurements last changed.
"""

import argparse
import csv
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog import Catalogue
from advisor.core import Traits
from advisor.devices import HOST, ModelFeatures, find_shipped_profiles, load_features
from advisor.devices._latency.calibration import read_calibration
from advisor.devices._latency.table import Column, LatencyTable, build_table, runtime_family
from advisor.devices._prediction import fit_predictor
from advisor.devices._profiles import load_profiles
from benchmarks.latency_protocols import cold, further, judging, picks, protocols, regimes
from benchmarks.latency_protocols.page import SILICON, SOURCE, markdown
from benchmarks.latency_protocols.protocols import OURS, Score, Scores, Selector
from benchmarks.make_device_profiles import write_calibration

OUT = Path(__file__).resolve().parent / "results"
ANCHORS = (1, 3, 5, 10)
FORMS = {"float": "float32", "w8a8": "int8"}
STORED = "latency_prediction.json"
FIELDS = ("protocol", "condition", "method", "within_10", "median_error", "spearman", "predictions")


def npu(precision: str) -> Selector:
    """Qualcomm NPUs through TFLite: one vendor, one runtime, float16 arithmetic or w8a8."""

    def chosen(column: Column) -> bool:
        vendor = column.device.startswith(("galaxy", "qualcomm", "snapdragon"))
        return vendor and (column.kind, column.runtime, column.precision) == ("npu", "tflite", precision)

    return chosen


def on_npu(runtime: str, precision: str) -> Selector:
    """NPUs through one runtime."""
    return lambda column: (column.kind, column.runtime, column.precision) == ("npu", runtime, precision)


def litert(precision: str) -> Selector:
    """LiteRT and TensorFlow Lite on CPUs."""
    return lambda c: (c.kind, runtime_family(c.runtime), c.precision) == ("cpu", "litert", precision)


def cpu(column: Column) -> bool:
    """ncnn on CPUs, float32: boards and phones of many vendors."""
    return (column.kind, column.runtime, column.precision) == ("cpu", "ncnn", "float32")


def any_target(column: Column) -> bool:
    """Every target."""
    return bool(column.device)


RELEASED = ("onnxruntime", "tflite", "qnn")
WRONG = (1.0, 4.0, 0.25, 1000.0)
"""Factors of a wrong row; 1 is a right one."""

Part = dict[str, object]

TABLES = Path(__file__).resolve().parents[2] / "shared" / "data" / "measurements"
"""The published tables; the parts "judging" and "cold" need them."""


def main() -> None:
    """Run the protocols that are asked for and write ``results/latency_prediction.{json,md,csv}``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=12, help="anchor sets a target and k")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    arguments = parser.parse_args()
    wanted = arguments.parts.split(",")
    if unknown := [part for part in wanted if part not in PARTS]:
        parser.error(f"unknown part {', '.join(unknown)}; there are: {', '.join(PARTS)}")
    kept = _read()
    for part in wanted:
        kept[part] = PARTS[part](arguments.draws)
        kept["made_on"][part] = kept["data"]
        (OUT / STORED).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if all(part in kept for part in PARTS):
        _write(kept)


def _read() -> dict[str, Any]:
    """Return the parts of earlier runs, each with the fingerprint of the measurements that it was made on."""
    OUT.mkdir(exist_ok=True)
    stored = json.loads((OUT / STORED).read_text(encoding="utf-8")) if (OUT / STORED).is_file() else {}
    made_on = stored.get("made_on") or {part: stored["data"] for part in PARTS if part in stored}
    return {**stored, "data": _table().fingerprint(), "made_on": made_on}


def _table(flags: Sequence[str] = ("",)) -> LatencyTable:
    return build_table(load_profiles().values(), load_features(), flags=flags)


def _npu(draws: int) -> Part:
    table = _table()
    found = [row for form in FORMS for row in _new_silicon(f"new silicon, NPU {form}", FORMS[form], table, draws)]
    return {"rows": found, "noise": {form: [asdict(n) for n in protocols.noise(table, FORMS[form])] for form in FORMS}}


def _slow(draws: int) -> Part:
    table = _table(("", "slow_state"))
    named = {form: f"new silicon, NPU {form}, slow runs kept" for form in FORMS}
    return {"rows": [row for form in FORMS for row in _new_silicon(named[form], FORMS[form], table, draws)]}


def _cpu(draws: int) -> Part:
    scores = protocols.new_target(_table(), cpu, ANCHORS, max(1, draws // 4))
    return {"rows": _rows("new silicon, CPU (ncnn float32)", scores)}


def _litert(draws: int) -> Part:
    table = _shown()
    each = {form: further.few_alike(table, litert(FORMS[form]), (5, 10), 2 * draws) for form in FORMS}
    return {"rows": [row for form in FORMS for row in _rows(f"new silicon, CPU (LiteRT {form})", each[form])]}


def _onnx(draws: int) -> Part:
    pools = {form: on_npu("onnxruntime", FORMS[form]) for form in FORMS}
    each = {form: protocols.new_target(_table(), pools[form], (5, 10), max(1, draws // 2)) for form in FORMS}
    return {"rows": [row for form in FORMS for row in _rows(f"new silicon, ONNX Runtime {form}", each[form])]}


def _runtime(draws: int) -> Part:
    table = _table()
    each = {form: protocols.new_runtime(table, npu(FORMS[form]), (5, 10), max(1, draws // 2)) for form in FORMS}
    return {"rows": [row for form in FORMS for row in _rows(f"new target of a known device, NPU {form}", each[form])]}


def _release(draws: int) -> Part:
    del draws  # nothing is drawn
    pools = {f"{runtime} {form}": on_npu(runtime, FORMS[form]) for runtime in RELEASED for form in FORMS}
    each = {pool: further.next_release(_table(), pools[pool]) for pool in pools}
    return {"rows": [row for pool in pools for row in _rows(f"next release, {pool}", each[pool])]}


def _wrong(draws: int) -> Part:
    pools = [(form, count) for form in FORMS for count in (5, 10)]
    each = [
        (form, further.wrong_anchor(_table(), npu(FORMS[form]), count, WRONG, max(1, draws // 6)))
        for form, count in pools
    ]
    return {"rows": [row for form, scores in each for row in _rows(f"a wrong row, NPU {form}", scores)]}


def _none(draws: int) -> Part:
    del draws
    pools: dict[str, Selector] = {"CPUs (ncnn float32)": cpu}
    pools |= {f"CPUs (LiteRT {form})": litert(FORMS[form]) for form in FORMS}
    pools |= {f"NPUs ({form})": npu(FORMS[form]) for form in FORMS}
    of_all = [(pool, protocols.no_anchors(_table(), pools[pool])) for pool in pools]
    return {"rows": [row for pool, scores in of_all for row in _rows(f"no anchors, {pool}", scores)]}


def _family(draws: int) -> Part:
    del draws
    pools = {"all targets": any_target, "CPUs (ncnn float32)": cpu}
    of_all = [(pool, protocols.unseen_family(_table(), pools[pool])) for pool in pools]
    return {"rows": [row for pool, scores in of_all for row in _rows(f"family, {pool}", scores)]}


def _intervals(draws: int) -> Part:
    del draws
    shown = _shown()
    return {
        "coverage": [asdict(each) for each in regimes.intervals(shown)],
        "unseen": [asdict(each) for each in regimes.unseen_sources(shown)],
        "speed": _speed(),
    }


def _picks(draws: int) -> Part:
    del draws
    published = {name.removesuffix("_torchvision").removesuffix("_onnx"): c for name, c in Catalogue.load().items()}
    accuracy = {name: found for name, card in published.items() if (found := card.top1()) is not None}
    groups: dict[str, Callable[[Column], bool]] = {
        "CPUs (LiteRT)": lambda column: column.kind == "cpu" and runtime_family(column.runtime) == "litert",
        "CPUs (all)": lambda column: column.kind == "cpu",
        "NPUs": lambda column: column.kind == "npu",
    }
    found = picks.picks(_table(), accuracy, read_calibration(find_shipped_profiles()), groups)
    return {"picks": [asdict(each) for each in found]}


def _judging(draws: int) -> Part:
    """Return what the judging sources say, and renew the shipped calibration, which they take no part in."""
    del draws
    profiles, features = load_profiles(), load_features()
    calibration = write_calibration([p for p in profiles.values() if p.name != HOST], find_shipped_profiles())
    table = judging.shown_table(profiles.values(), features)
    rows = judging.judging_rows(TABLES, table)
    return {
        name: judging.summaries(judging.judge(table, rows, calibration, silicon=name == SILICON))
        for name in (SOURCE, SILICON)
    }


def _cold(draws: int) -> Part:
    """Return what machines say that chose nothing, and what the profiles' own say, each hidden with all its rows."""
    del draws
    table = _table()
    machines = [*cold.list_machines(table), *cold.list_phones(table)]
    return {"cold": cold.judge(table, machines, read_calibration(find_shipped_profiles()))}


def _gpu(draws: int) -> Part:
    """Return what GPUs of phones say, each hidden with all rows of its silicon."""
    del draws
    table = _table()
    return {"gpu": cold.judge(table, cold.list_gpus(table), read_calibration(find_shipped_profiles()))}


def _shown() -> LatencyTable:
    """Return the table without the sources that judge."""
    return judging.shown_table(load_profiles().values(), load_features())


def _new_silicon(name: str, precision: str, table: LatencyTable, draws: int) -> list[dict[str, object]]:
    rows = _rows(name, protocols.new_target(table, npu(precision), ANCHORS, draws))
    return [*rows, _row(name, "all others", OURS, protocols.every_other_model(table, npu(precision)))]


def _rows(protocol: str, scores: Scores) -> list[dict[str, object]]:
    print(protocol, flush=True)
    return [_row(protocol, condition, method, score) for (condition, method), score in sorted(scores.items())]


def _row(protocol: str, condition: str, method: str, score: Score) -> dict[str, object]:
    row: dict[str, object] = {"protocol": protocol, "condition": condition, "method": method, **score.row()}
    print("   ", condition, method, {k: round(v, 3) for k, v in score.row().items()}, flush=True)
    return row


def _speed() -> dict[str, float]:
    """CPU milliseconds a model and target, one at a time, and CPU seconds for 10,000 models on 100 targets."""
    generator = np.random.default_rng(0)
    models = [
        ModelFeatures(f"m{i}", "other", float(macs), float(params), 224, 80, Traits(depthwise=float(shape)))
        for i, (macs, params, shape) in enumerate(
            zip(np.exp(generator.uniform(16, 22, 10_000)), np.exp(generator.uniform(13, 18, 10_000)),
                generator.uniform(0, 1, 10_000), strict=True)
        )
    ]  # fmt: skip
    profiles = load_profiles()
    started = time.process_time()
    predictor = fit_predictor(profiles)
    fit_s = time.process_time() - started
    targets = [(p, t, t.precisions[0]) for p in profiles.values() for t in p.targets if p.measurements][:100]
    predictor.predict(*targets[0], models[:1])
    started = time.process_time()
    for model in models[:200]:
        predictor.predict(*targets[0], [model])
    one_ms = (time.process_time() - started) / 200 * 1e3
    started = time.process_time()
    for target in targets:
        predictor.predict(*target, models)
    return {"fit_s": fit_s, "one_ms": one_ms, "many_s": time.process_time() - started}


PARTS: Mapping[str, Callable[[int], Part]] = {
    "npu": _npu,
    "slow": _slow,
    "cpu": _cpu,
    "litert": _litert,
    "onnx": _onnx,
    "runtime": _runtime,
    "release": _release,
    "wrong": _wrong,
    "none": _none,
    "family": _family,
    "intervals": _intervals,
    "picks": _picks,
    "judging": _judging,
    "cold": _cold,
    "gpu": _gpu,
}
"""The parts by name, each from the number of anchor sets to draw."""


def _write(kept: dict[str, Any]) -> None:
    rows = [row for part in PARTS for row in kept[part].get("rows", ())]
    with (OUT / "latency_prediction.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    (OUT / "latency_prediction.md").write_text(markdown(rows, kept), encoding="utf-8")


if __name__ == "__main__":
    main()
