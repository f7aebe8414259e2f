"""Reads the tables of Qualcomm AI Hub, one reader a release."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from advisor.devices import Measurement
from advisor.devices._profiles.measurements import UNSTATED
from benchmarks.device_sources import names
from benchmarks.device_sources.rows import Row, Sourced, measurement, notes, read_table

FIRST, SECOND = "ai_hub_image_classification", "ai_hub_0_65_image_classification"
TABLES = (FIRST, SECOND)

_PRECISIONS = {"float": "float32", "w8a8": "int8", "w8a16": "int16x8"}
_RUNTIMES = {"tflite": "tflite", "qnn_dlc": "qnn", "onnx": "onnxruntime"}
_OWN_TOOLS = {"tflite": ("tflite", "litert"), "qnn": ("qairt",), "onnxruntime": ("onnx_runtime",)}
_QAIRT = {FIRST: "2.42.0", SECOND: "2.50.0"}
"""QAIRT's release of each table. What it runs through TFLite's delegate belongs to its release."""
_NOT_CLASSIFIERS = ("openai_clip", "siglip2")


def release_0_46(folder: Path) -> Iterator[Sourced]:
    """AI Hub 0.46. Mixed precisions and precompiled forms, a handful of rows each, are left out."""
    for row in read_table(folder, FIRST):
        if _taken(row):
            extra = notes(row)
            figure = measurement(
                row, names.AI_HUB_0_46[row["model"]], _PRECISIONS[row["precision"]], job=extra["job"],
                graph=_graph("0.46", extra.get("layers", "")),
            )  # fmt: skip
            yield _sourced(FIRST, row, figure, row["accelerator"], extra.get("layers", ""), extra["tools"])


def release_0_65(folder: Path) -> Iterator[Sourced]:
    """AI Hub 0.65. Text and image encoders, which are no classifiers, are left out, too."""
    for row in read_table(folder, SECOND):
        if _taken(row):
            figure = Measurement(
                "", names.AI_HUB_0_65[row["model"]], _PRECISIONS[row["precision"]], float(row["latency_ms"]),
                peak_memory_bytes=int(row["mem_max"]) * 2**20 if row["mem_max"] else None,
                source_repo="quic/ai-hub-models",
                source_path=f"qai_hub_models/models/{row['model']}/perf.yaml@0.65",
                job=row["job"],
                graph=_graph("0.65", row["layers"]),
            )  # fmt: skip
            sourced = _sourced(SECOND, row, figure, row["unit"], row["layers"], row["tools"])
            stated = row["model"] not in names.UNSTATED_INPUT_0_65
            yield sourced if stated else sourced.flagged("unstated_input")


def _taken(row: Row) -> bool:
    return row["precision"] in _PRECISIONS and row["runtime"] in _RUNTIMES and row["model"] not in _NOT_CLASSIFIERS


def _graph(release: str, layers: str) -> str:
    """Return the version of the graph: the release and the number of operators, which differs between exports."""
    total = _counts(layers).get("total", UNSTATED)
    return f"AI Hub {release}, {total} operators"


def _counts(layers: str) -> Mapping[str, str]:
    return dict(part.split(":") for part in layers.split("/") if ":" in part)


def _sourced(table: str, row: Row, figure: Measurement, unit: str, layers: str, tools: str) -> Sourced:
    """Return the row under its target; what ran on another unit than the NPU is flagged."""
    runtime = _RUNTIMES[row["runtime"]]
    stated = dict(part.strip().rsplit(" ", 1) for part in tools.split(",") if " " in part.strip())
    short = {tool: ".".join(version.split(".")[:3]) for tool, version in stated.items()}
    own = next((short[tool] for tool in _OWN_TOOLS[runtime] if tool in short), "")
    qairt = f"qairt{short['qairt']}" if "qairt" in short and runtime != "qnn" else ""
    release = own if runtime == "onnxruntime" else short.get("qairt", _QAIRT[table])
    version = "+".join(filter(None, (own, qairt)))
    sourced = Sourced(table, row["device"], runtime, "npu", 1, figure, version, release=release)
    on_npu = unit.lower() == "npu" and _counts(layers).get("total") == _counts(layers).get("npu")
    if unit.lower() == "cpu" and row["runtime"] == "onnx":
        return Sourced(table, row["device"], runtime, "cpu", 1, figure, sourced.version, "unstated-threads")
    return sourced if on_npu else sourced.flagged("fallback")
