"""Measure latency prediction on the shipped measurements and write the table.

Run from the repository's root: ``python benchmarks/latency_prediction.py``. Ten minutes on one core with the default
draws; ``--draws 3`` gives the same picture in a few minutes.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from latency_protocols import protocols
from latency_protocols.protocols import FEATURES, LOW_RANK, NEAREST, OURS, Coverage, Score, Scores, Selector

from advisor.devices.latency.features import ModelFeatures, Traits, load_features
from advisor.devices.latency.table import Column, LatencyTable, build_table
from advisor.devices.paths import shipped_profiles
from advisor.devices.fitting import fit_predictor
from advisor.devices.profiles import load_profiles

OUT = Path(__file__).resolve().parent / "results"
ANCHORS = (1, 3, 5, 10)
FIELDS = ("protocol", "condition", "method", "within_10", "median_error", "spearman", "predictions")


def npu(precision: str) -> Selector:
    """Qualcomm NPUs through TFLite: one vendor, one runtime, float16 arithmetic or w8a8."""

    def chosen(column: Column) -> bool:
        vendor = column.device.startswith(("galaxy", "qualcomm", "snapdragon"))
        return vendor and (column.kind, column.runtime, column.precision) == ("npu", "tflite", precision)

    return chosen


def cpu(column: Column) -> bool:
    """ncnn on CPUs, float32: boards and phones of many vendors."""
    return (column.kind, column.runtime, column.precision) == ("cpu", "ncnn", "float32")


def any_npu(column: Column) -> bool:
    """NPUs through TFLite, float."""
    return npu("float32")(column)


def any_target(column: Column) -> bool:
    """Every target."""
    return bool(column.device)


def main() -> None:
    """Run every protocol and write ``results/latency_prediction.{md,csv}``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=12, help="anchor sets a target and k")
    draws = parser.parse_args().draws
    profiles = load_profiles()
    features = load_features(shipped_profiles())
    table = build_table(profiles.values(), features)
    published = build_table(profiles.values(), features, flags=("", "slow_state"))
    rows = list(_anchored(table, published, draws))
    rows += _rows("no anchors, CPUs (ncnn float32)", protocols.no_anchors(table, cpu))
    rows += _rows("no anchors, NPUs (TFLite float)", protocols.no_anchors(table, any_npu))
    rows += _rows("family, all targets", protocols.unseen_family(table, any_target))
    rows += _rows("family, CPUs (ncnn float32)", protocols.unseen_family(table, cpu))
    coverage = protocols.intervals(table)
    _write(rows, coverage, _speed())


def _anchored(table: LatencyTable, published: LatencyTable, draws: int) -> Iterable[dict[str, object]]:
    pools = (
        ("new device, NPU float", npu("float32"), table),
        ("new device, NPU w8a8", npu("int8"), table),
        ("new device, NPU float, slow runs kept", npu("float32"), published),
        ("new device, NPU w8a8, slow runs kept", npu("int8"), published),
    )
    for name, chosen, data in pools:
        yield from _rows(name, protocols.new_target(data, chosen, ANCHORS, draws))
        yield _row(name, "all others (ceiling)", OURS, protocols.every_other_model(data, chosen))
    yield from _rows("new device, CPU (ncnn float32)", protocols.new_target(table, cpu, ANCHORS, max(1, draws // 4)))
    for precision in ("float32", "int8"):
        found = protocols.new_runtime(table, npu(precision), 5, max(1, draws // 4))
        yield from _rows(f"new runtime on a known device, NPU {precision}", found)


def _rows(protocol: str, scores: Scores) -> list[dict[str, object]]:
    print(protocol, flush=True)
    return [_row(protocol, condition, method, score) for (condition, method), score in sorted(scores.items())]


def _row(protocol: str, condition: str, method: str, score: Score) -> dict[str, object]:
    row: dict[str, object] = {"protocol": protocol, "condition": condition, "method": method, **score.row()}
    print("   ", condition, method, {k: round(v, 3) for k, v in score.row().items()}, flush=True)
    return row


def _speed() -> dict[str, float]:
    """Milliseconds a model and target, one at a time, and seconds for 10,000 models on 100 targets."""
    generator = np.random.default_rng(0)
    models = [
        ModelFeatures(f"m{i}", "other", float(macs), float(params), 224, 80, Traits(depthwise=float(shape)))
        for i, (macs, params, shape) in enumerate(
            zip(np.exp(generator.uniform(16, 22, 10_000)), np.exp(generator.uniform(13, 18, 10_000)),
                generator.uniform(0, 1, 10_000), strict=True)
        )
    ]  # fmt: skip
    profiles = load_profiles()
    started = time.perf_counter()
    predictor = fit_predictor(profiles)
    fit_s = time.perf_counter() - started
    targets = [(p, t, t.precisions[0]) for p in profiles.values() for t in p.targets if p.measurements][:100]
    predictor.predict(*targets[0], models[:1])
    started = time.perf_counter()
    for model in models[:200]:
        predictor.predict(*targets[0], [model])
    one_ms = (time.perf_counter() - started) / 200 * 1e3
    started = time.perf_counter()
    predictor.predict_many(targets, models)
    return {"fit_s": fit_s, "one_ms": one_ms, "many_s": time.perf_counter() - started}


def _write(rows: list[dict[str, object]], coverage: list[Coverage], speed: dict[str, float]) -> None:
    OUT.mkdir(exist_ok=True)
    with (OUT / "latency_prediction.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    (OUT / "latency_prediction.md").write_text(_markdown(rows, coverage, speed), encoding="utf-8")


def _markdown(rows: list[dict[str, object]], coverage: list[Coverage], speed: dict[str, float]) -> str:
    lines = [
        "# Latency prediction",
        "",
        "Made by `benchmarks/latency_prediction.py` on the shipped device profiles. A new device is hidden with all",
        "its targets and every other device of the same silicon; jobs published under two names count once; families",
        "are hidden whole. *chosen*: the anchors are those that the advisor would measure, of a random two thirds of",
        "the models.",
        f"Methods: `{NEAREST}` is the baseline, `{LOW_RANK}` collaborative, `{FEATURES}` without other targets,",
        f"`{OURS}` the product's (additive model of all targets, resemblance to known ones weighed by evidence).",
        "",
        "| protocol | condition | method | within +-10 % | median error | Spearman | predictions |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {r['protocol']} | {r['condition']} | {r['method']} | {r['within_10']:.3f} | {r['median_error']:.1%} "
        f"| {r['spearman']:.3f} | {r['predictions']} |"
        for r in rows
    ]
    lines += [
        "",
        "## 80 % intervals",
        "",
        "Each half of the silicon judged by errors of the other half. Anchors: 0, 1-3, 4-7, 8-15, 16 or more models",
        "measured on the target; known: the very model was measured on targets that this one resembles, another of its",
        "family, or neither.",
        "",
        "| anchors | known | covered | median width | predictions |",
        "| --- | --- | --- | --- | --- |",
    ]
    steps = ("0", "1-3", "4-7", "8-15", "16+")
    for c in coverage:
        step, known = c.regime.split("-", 1)
        lines.append(f"| {steps[int(step)]} | {known} | {c.covered:.1%} | {c.width:.0%} | {c.predictions} |")
    lines += [
        "",
        f"Fit {speed['fit_s']:.2f} s; one model on one target {speed['one_ms']:.2f} ms; 10,000 models on 100 targets "
        f"{speed['many_s']:.1f} s.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
