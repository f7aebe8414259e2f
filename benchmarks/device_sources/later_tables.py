"""Readers of the tables of TensorFlow Lite and LiteRT that were added in November 2026."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from advisor.devices import PRECISIONS, Measurement
from benchmarks.device_sources.rows import Row, Sourced

_MLPERF = "mlperf_inference_tflite_odroid_orin"
_NETSPRESSO = "netspresso_raspberry_pi"
_LITERT = "litert_board_2026_s25_ultra"

_DISTURBED = 1.5  # Medians above this many minima are of busy machines
_MLPERF_THREADS = {"odroid": 6, "orin": 12}
"""Threads of the runs with ruy, which the table does not state: all cores, as in MLPerf's earlier tables."""

_BOARD_THREADS = 4
"""Threads of NetsPresso's boards, which does not state them: ResNet-50 is faster than the peak of one core, and
MobileNet V3 takes what XNNPACK's own figures say of four threads on the same cores."""

_PHONE_THREADS = 1
"""Threads of the Galaxy S25 Ultra, which its table does not state: ResNet-50 takes 80 % of the peak of one core."""

_SIDES = {"0": 224, "1": 240, "2": 260, "3": 280, "4": 300}  # Inputs of EfficientNet-Lite
_NAMES = {
    "efficientnet_v2_s": "efficientnet_v2_s_384",
    "googlenet": "inception_v1_224",
    "inception_v3": "inception_v3_299",
    "mobilenet_v2": "mobilenet_v2_1.0_224",
    "mobilenet_v3_large": "mobilenet_v3_large_1.0_224",
    "mobilenet_v3_small": "mobilenet_v3_small_1.0_224",
    "resnet18": "resnet_18_224",
    "resnet50": "resnet_50_224",
    "shufflenet_v2_x0_5": "shufflenet_v2_0.5_224",
    "squeezenet1_1": "squeezenet_1.1_224",
}
_WITH_XNNPACK = re.compile(
    r"mobilenet-(v[12])-precision_float-([\d.]+-\d+)|efficientnet-fp32-lite(\d)|"
    r"mobilenet-v3-precision_float-(large|small)(-minimalistic)?-224"
)


def mlperf_boards(folder: Path) -> Iterator[Sourced]:
    """TensorFlow Lite on Odroid N2+ and Jetson AGX Orin: ruy on all cores, and XNNPACK on one core of Orin.

    With XNNPACK the uint8 files ran on other kernels: some are 14 times faster than float32 on one thread. They are
    left out.
    """
    names = {row["variant"]: row["model"] for row in _read(folder, "mlperf_inference_mobile")}
    for row in _read(folder, _MLPERF):
        machine = "odroid" if row["system"].startswith("odroid") else "orin"
        repository = f"mlcommons/inference_results_{row['ver']}"
        if "xnnpack" in row["framework"]:
            model = _name_with_xnnpack(row["model"])
            if model:
                yield _run_of_mlperf(row, repository, machine, model, 1, "xnnpack", "")
            continue
        release = row["framework"].split()[1].removeprefix("v")
        threads = _MLPERF_THREADS[machine]
        yield _run_of_mlperf(row, repository, machine, names[row["model"]], threads, "ruy", release)


def _run_of_mlperf(
    row: Row, repository: str, machine: str, model: str, threads: int, kernels: str, release: str
) -> Sourced:
    integers = "uint8" in row["model"] or row["model"].endswith("-quantized")
    precision = "int8" if integers and "non-quantized" not in row["model"] else "float32"
    figure = Measurement(
        "",
        model,
        precision,
        float(row["p50"]),
        "median",
        source_repo=repository,
        source_path=row["path"],
        graph=row["model"],
        runtime_version=release,
    )
    variant = "ruy" if kernels == "ruy" else ""
    sourced = Sourced(_MLPERF, machine, "tflite", "cpu", threads, figure, release, variant, kernels=kernels)
    return sourced.flagged("spiky") if float(row["p50"]) > _DISTURBED * float(row["min"]) else sourced


def _name_with_xnnpack(model: str) -> str:
    """Return the project's name of a float32 network of the run with XNNPACK; empty for others."""
    match = _WITH_XNNPACK.fullmatch(model)
    if match is None:
        return ""
    version, size, lite, family, minimalistic = match.groups()
    if version:
        return f"mobilenet_{version}_{size.replace('-', '_')}"
    if lite:
        return f"efficientnet_lite{lite}_{_SIDES[lite]}"
    return f"mobilenet_v3_{family}{'_minimalistic' if minimalistic else ''}_1.0_224"


def netspresso(folder: Path) -> Iterator[Sourced]:
    """LiteRT with XNNPACK on two Raspberry Pi boards; the graphs came by way of ONNX, so they are another target."""
    for row in _read(folder, _NETSPRESSO):
        figure = Measurement(
            "",
            _name_of(row["model"]),
            "float32" if row["form"] == "float" else "int8",
            float(row["latency_ms"]),
            source_repo=row["source_repo"],
            source_path=row["source_path"],
            graph="by way of ONNX",
        )
        device = row["device"]
        yield Sourced(_NETSPRESSO, device, "tflite", "cpu", _BOARD_THREADS, figure, "", "netspresso", kernels="xnnpack")


def litert_phone(folder: Path) -> Iterator[Sourced]:
    """LiteRT 2.2.0 on a Galaxy S25 Ultra, CPU and GPU; a network of which the GPU runs no half is flagged."""
    for row in _read(folder, _LITERT):
        if row["form"] not in PRECISIONS:
            continue
        on_cpu = row["accelerator"] == "cpu"
        figure = Measurement(
            "",
            _name_of(row["model"]),
            row["form"],
            float(row["median_ms"]),
            "median",
            source_repo="google-ai-edge/litert-samples",
            source_path="benchmark/leaderboard",
            runtime_version="2.2.0",
        )
        unit = "cpu" if on_cpu else "gpu"
        threads = _PHONE_THREADS if on_cpu else 1
        kernels = "xnnpack" if on_cpu else ""
        sourced = Sourced(_LITERT, row["device"], "tflite", unit, threads, figure, "2.2.0", kernels=kernels)
        partly = 2 * int(row["nodes_delegated"]) < int(row["nodes_total"])
        yield sourced.flagged("fallback") if partly else sourced


def _read(folder: Path, table: str) -> Iterator[Row]:
    with (folder / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def _name_of(model: str) -> str:
    """Return the project's name of a network that runs at 224 pixels unless the table of names says otherwise."""
    return _NAMES.get(model, f"{model}_224")
