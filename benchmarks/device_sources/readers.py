"""One reader a table: each knows its table's traps and no other."""

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from advisor.devices import Measurement
from benchmarks.device_sources import ai_hub, later_tables, names
from benchmarks.device_sources.rows import Row, Sourced, measurement, notes, read_table, threads_of, variant

_SPIKY = 1.5


def ncnn(folder: Path) -> Iterator[Sourced]:
    """The minimum is taken; rows whose average is far above it are flagged. A second GPU is left out."""
    for row in read_table(folder, "ncnn_benchmark"):
        if row["accelerator"] == "GPU(vulkan:1)":
            continue
        extra = notes(row)
        least = float(extra["min"])
        if least <= 0:
            continue
        precision = "int8" if row["precision"] == "int8" else "float32"
        figure = measurement(
            row, names.NCNN[row["model"]], precision, latency_ms=least, statistic="min", graph="benchncnn"
        )
        on_cpu = row["accelerator"] == "CPU"
        little = "little" if on_cpu and extra["powersave"].startswith("1") else ""
        unit, threads = ("cpu", threads_of(row)) if on_cpu else ("gpu", 1)
        sourced = Sourced("ncnn_benchmark", row["device"], "ncnn", unit, threads, figure, "", little)
        yield sourced.flagged("spiky") if float(row["latency_ms"]) > _SPIKY * least else sourced


def hosted(folder: Path) -> Iterator[Sourced]:
    """TFLite's hosted models: Pixel 3 on CPU x4, GPU, NNAPI; Pixel 1 and 2 on one big core."""
    for row in read_table(folder, "tflite_hosted_models"):
        runtime = "tflite" if row["runtime"] == "tflite" else "tensorflow-mobile"
        unit = row["accelerator"].lower()
        accelerator = "npu" if unit == "nnapi" else "gpu" if unit == "gpu" else "cpu"
        precision = "int8" if row["precision"].startswith("uint8") else "float32"
        # Pixel 1 and 2 carry figures of an older release than the third's; TFLite's releases differ by up to 30 %.
        older = "hosted" if runtime == "tflite" and row["device"] != "Pixel 3" else ""
        kind = "nnapi" if unit == "nnapi" else older
        yield Sourced(
            "tflite_hosted_models", row["device"], runtime, accelerator, threads_of(row),
            measurement(row, names.common(row["model"]), precision), "", kind,
        )  # fmt: skip


def slim(folder: Path) -> Iterator[Sourced]:
    """TF-Slim's tables: one large core of Pixel 1, 2 and 3, MobileNet V1 to V3."""
    for row in read_table(folder, "tf_slim_mobilenets"):
        size = variant(row)
        name = names.common(row["model"], size["width"], size["input"])
        precision = "int8" if row["precision"].startswith("uint8") else "float32"
        yield Sourced(
            "tf_slim_mobilenets", row["device"], "tflite", "cpu", 1, measurement(row, name, precision), "", "slim"
        )


def efficientnet_lite(folder: Path) -> Iterator[Sourced]:
    """EfficientNet-Lite on Pixel 4."""
    units = {"CPU": ("cpu", ""), "GPU fp32": ("gpu", "fp32"), "GPU fp16": ("gpu", "fp16")}
    for row in read_table(folder, "efficientnet_lite_pixel4"):
        accelerator, kind = units.get(row["accelerator"], ("tpu", ""))
        name = names.common(row["model"], "", variant(row)["input"])
        figure = measurement(row, name, "int8" if row["precision"] == "int8" else "float32")
        yield Sourced(
            "efficientnet_lite_pixel4", row["device"], "tflite", accelerator, threads_of(row), figure, "", kind
        )


def paddle(folder: Path) -> Iterator[Sourced]:
    """Paddle-Lite 2.11 on one big core or the GPU; ARMv7 builds apart from ARMv8, sparse weights flagged."""
    for row in read_table(folder, "paddle_lite"):
        on_gpu = row["runtime"].endswith("OpenCL")
        kind = "armv7" if row["runtime"].endswith("ARMV7") else ""
        size = variant(row)
        name = names.common(row["model"], size.get("width", ""), size.get("input", ""))
        figure = measurement(row, name, row["precision"], statistic="mean")
        sourced = Sourced(
            "paddle_lite", row["device"], "paddle-lite", "gpu" if on_gpu else "cpu", 1, figure, "2.11", kind
        )
        yield sourced.flagged("sparse") if row["notes"].startswith("sparse") else sourced


def paddleclas(folder: Path) -> Iterator[Sourced]:
    """PaddleClas on Snapdragon 855; the distilled (ssld) rows are the same graphs again and left out."""
    for row in read_table(folder, "paddleclas_sd855"):
        if "ssld" in row["model"] or "swish" in row["model"]:
            continue
        size = variant(row)
        name = names.common(row["model"], size["width"], size["input"])
        figure = measurement(row, name, row["precision"])
        yield Sourced("paddleclas_sd855", row["device"], "paddle-lite", "cpu", 1, figure, "", "paddleclas")


def mnn(folder: Path) -> Iterator[Sourced]:
    """MNN: the minimum; of two releases' tables the rows of the first are superseded."""
    for row in read_table(folder, "mnn_benchmark"):
        on_gpu = row["accelerator"] == "Vulkan"
        figure = measurement(
            row, names.common(row["model"]), "float32", latency_ms=float(notes(row)["min"]), statistic="min",
            job=Path(row["source_path"]).stem,
        )  # fmt: skip
        yield Sourced("mnn_benchmark", row["device"], "mnn", "gpu" if on_gpu else "cpu", threads_of(row), figure)


def stm32(folder: Path) -> Iterator[Sourced]:
    """STM32 model zoo: the classes of the head stand in ``job``; rows whose source contradicts itself are flagged."""
    for row in read_table(folder, "stm32_modelzoo"):
        size = variant(row)
        name = names.common(row["model"], size.get("width", ""), size["input"])
        runtime, unit = _stm32_target(row)
        figure = measurement(row, name, "int8", job=f"classes={size.get('classes', '')}; {row['precision']}")
        sourced = Sourced(
            "stm32_modelzoo", row["device"], runtime, unit, threads_of(row), figure, _version(row["runtime"])
        )
        contradicts = "table prints resolution" in row["notes"] or "prints dataset" in row["notes"]
        yield sourced.flagged("source_error") if contradicts else sourced


def _stm32_target(row: Row) -> tuple[str, str]:
    if row["runtime"].startswith("OpenVX"):
        return "openvx", "npu"
    if "NPU" in row["accelerator"]:
        return "stedgeai", "npu"
    return ("tflite" if row["runtime"].startswith("TensorFlowLite") else "stm32cube.ai"), "cpu"


def _version(runtime: str) -> str:
    match = re.search(r"\d+(\.\d+)+", runtime)
    return match[0] if match else ""


def tinyengine(folder: Path) -> Iterator[Sourced]:
    """MCUNet's models on STM32H743. Cells that print kB for ms were read as ms: the neighbours agree."""
    runtimes = {"TFLite-Micro": "tflite-micro", "CMSIS-NN": "cmsis-nn", "TinyEngine": "tinyengine"}
    for row in read_table(folder, "mcunet_tinyengine"):
        runtime = runtimes.get(row["runtime"], "stm32cube.ai")
        figure = measurement(row, names.slugged(row["model"]), "int8")
        yield Sourced("mcunet_tinyengine", row["device"], runtime, "cpu", 1, figure, _version(row["runtime"]))


def mlperf_tiny(folder: Path) -> Iterator[Sourced]:
    """MLPerf Tiny: the image classifier of the closed division by X-CUBE-AI; earlier releases are superseded."""
    for row in read_table(folder, "mlperf_tiny"):
        if "VWW" not in row["model"] or not row["runtime"].startswith("X-CUBE-AI"):
            continue
        version, extra = row["runtime"].split(" v")[1], notes(row)
        job = f"{extra['round']} {extra['submitter']}"
        figure = measurement(row, names.common(row["model"]), "int8", statistic="median", job=job)
        sourced = Sourced("mlperf_tiny", row["device"], "stm32cube.ai", "cpu", 1, figure, "9.0")
        yield sourced if version.startswith("9") else sourced.flagged("superseded")


def esp32(folder: Path) -> Iterator[Sourced]:
    """Espressif's person detector with and without the optimised kernels."""
    for row in read_table(folder, "esp32_person_detect"):
        kind = "reference" if row["runtime"].endswith("reference") else "esp-nn"
        figure = measurement(row, names.common(row["model"]), "int8")
        yield Sourced("esp32_person_detect", row["device"], "tflite-micro", "cpu", 1, figure, "", kind)


def coral(folder: Path) -> Iterator[Sourced]:
    """Coral's page: the Edge TPU rows (the CPUs of the others are not named)."""
    for row in read_table(folder, "coral_edgetpu"):
        if row["runtime"] != "tflite+edgetpu":
            continue
        size = variant(row)["input"]
        width = "1.0" if row["model"] in ("mobilenet_v1", "mobilenet_v2") else ""
        figure = measurement(row, names.common(row["model"], width, size), "int8")
        yield Sourced("coral_edgetpu", row["device"], "tflite", "tpu", 1, figure)


def opencv(folder: Path) -> Iterator[Sourced]:
    """OpenCV's zoo: medians."""
    for row in read_table(folder, "opencv_zoo"):
        unit = row["accelerator"].lower()
        accelerator = "gpu" if unit.startswith("gpu") else "npu" if unit.startswith("npu") else "cpu"
        kind = "fp16" if "fp16" in unit else ""
        size = variant(row)
        name = names.common(row["model"], size["width"], size["input"])
        precision = "float32" if row["precision"] in ("float32", "float16") else "int8"
        figure = measurement(row, name, precision, statistic="median", graph=notes(row).get("file", ""))
        yield Sourced("opencv_zoo", row["device"], "opencv-dnn", accelerator, 1, figure, "", kind)


def rknn(folder: Path) -> Iterator[Sourced]:
    """Rockchip NPUs: frames per second of a pipeline."""
    for row in read_table(folder, "rknn_npu"):
        size = variant(row)
        figure = measurement(row, names.common(row["model"], size["width"], size["input"]), "int8", flag="throughput")
        yield Sourced("rknn_npu", row["device"], "rknn", "npu", 1, figure)


def hailo(folder: Path) -> Iterator[Sourced]:
    """Hailo: frames per second of a pipeline."""
    for row in read_table(folder, "hailo_classification"):
        figure = measurement(row, names.common(row["model"], "", variant(row)["input"]), "int8", flag="throughput")
        yield Sourced("hailo_classification", row["device"], "hailort", "npu", 1, figure)


def qengineering(folder: Path) -> Iterator[Sourced]:
    """Q-engineering on an overclocked Raspberry Pi 4: frames per second with the picture's handling."""
    for row in read_table(folder, "qengineering_rpi4"):
        size = variant(row)
        name = names.common(row["model"], size.get("width", ""), size["input"])
        kind = "32bit" if "32-bits" in row["source_repo"] else ""
        figure = measurement(row, name, "int8", flag="with_image_handling")
        yield Sourced("qengineering_rpi4", row["device"], "tflite", "cpu", threads_of(row), figure, "", kind)


_XNNPACK_DATES = {"Raspberry": "2022-02-08", "Pixel": "2020-03-27"}
"""When the two tables of the README were measured, as it states; its releases have no numbers."""
_BIG_CORES = {"Pixel": 2, "Pixel 2": 4, "Pixel 3a": 2, "Raspberry Pi Zero W": 1}


def xnnpack(folder: Path) -> Iterator[Sourced]:
    """XNNPACK's own figures: the kernels of LiteRT, with one thread or as many as there are big cores.

    Raspberry Pi 4 was measured with a 64-bit and a 32-bit system; the others with the system of their time, 32-bit.
    """
    for row in read_table(folder, "xnnpack_readme"):
        size, device = variant(row), row["device"]
        name = names.common(row["model"], size["width"], size["input"])
        threads = 1 if row["threads"] == "1" else _BIG_CORES.get(device, 4)
        version = f"xnnpack{_XNNPACK_DATES[device.split()[0]]}"
        narrow = device.startswith("Raspberry") and "ARM64" not in row["soc"]
        figure = measurement(
            row, name, row["precision"], graph="end2end_bench", runtime_version=version + "+armhf" * narrow
        )
        kind = "armhf" if narrow and device == "Raspberry Pi 4" else ""
        yield Sourced("xnnpack_readme", device, "tflite", "cpu", threads, figure, version, kind, kernels="xnnpack")


def performance_page(folder: Path) -> Iterator[Sourced]:
    """TFLite's performance page: the hosted models on Pixel 3, Pixel 4 and iPhone XS by benchmark_model, 50 runs."""
    units = {"GPU": "gpu", "NNAPI": "npu"}
    for row in read_table(folder, "tflite_performance_measurement"):
        unit = units.get(row["accelerator"], "cpu")
        precision = "int8" if row["precision"].startswith("uint8") else "float32"
        figure = measurement(row, names.common(row["model"]), precision, statistic="mean", graph="hosted model")
        threads = threads_of(row) if unit == "cpu" else 1
        kind = "nnapi-page" if unit == "npu" else "page"
        yield Sourced("tflite_performance_measurement", row["device"], "tflite", unit, threads, figure, "", kind)


_MLPERF_RUNTIME = re.compile(r"(TFLite|ArmNN) ([\d.]+) \((\w+)\)")


def mlperf_mobile(folder: Path) -> Iterator[Sourced]:
    """MLPerf Inference, mostly its open division: medians. The figures fit all cores, which the table gives as threads.

    A Raspberry Pi 4 at 1500 MHz is another device than one at 1800. Rows with limited cooling or power are flagged, and
    so is release 2.3.0 on Xavier: every network took 2.1 times as long as with 2.2.0 and with 2.4.1. No average is
    stated: half of the runs take at least the minimum, four tenths the median, one tenth the 90th percentile.
    """
    for row in read_table(folder, "mlperf_inference_mobile"):
        match = _MLPERF_RUNTIME.fullmatch(row["runtime"])
        if match is None:
            raise ValueError(f"mlperf_inference_mobile: unknown runtime '{row['runtime']}'")
        runtime, version, kernels = match.groups()
        clock = re.search(r"\d+ MHz", row["notes"])
        figure = measurement(row, row["model"], row["precision"], statistic="median", graph=row["variant"])
        sourced = Sourced(
            "mlperf_inference_mobile", f"{row['device']} {clock[0]}" if clock else row["device"], runtime.lower(),
            row["accelerator"].lower(), threads_of(row), figure, version, "ruy" if kernels == "ruy" else "",
            kernels="ruy" if kernels == "ruy" else "",
        )  # fmt: skip
        extra = notes(row)
        if "cooling or power limited" in row["notes"] or extra["system"] == "xavier-tflite-v2.3.0-ruy":
            sourced = sourced.flagged("limited")
        least, median, high = (float(extra[key]) for key in ("min_ms", "p50_ms", "p90_ms"))
        yield sourced.flagged("spiky") if 0.5 * least + 0.4 * median + 0.1 * high > _SPIKY * least else sourced


_HERE = Path(__file__).with_name("measured_here.csv")
_BUSY = ("Intel Xeon 3000 MHz", "AMD EPYC 9004 3650 MHz")


def measured_here(folder: Path) -> Iterator[Sourced]:
    """Networks of the catalogue that this project timed with LiteRT 2.3.0, from 2026-11-21 to 28.

    The Xeon at 3000 MHz and the EPYC 9004 were busy: their rows are CPU time. Rows with ruy ran without XNNPACK; they
    are 8-bit files only, because floats are then computed by Eigen.
    """
    del folder
    with _HERE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            statistic = "cpu_median" if row["device"] in _BUSY else "median"
            figure = Measurement(
                "", row["model"], row["precision"], float(row["latency_ms"]), statistic, source_repo="advisor",
                source_path="benchmarks/device_sources/measured_here.csv", graph="catalogue", runtime_version="2.3.0",
            )  # fmt: skip
            kernels = row["kernels"] or "xnnpack"
            variant = "ruy" if kernels == "ruy" else ""
            threads = int(row["threads"])
            yield Sourced(
                "measured_here", row["device"], "tflite", "cpu", threads, figure, "2.3.0", variant, kernels=kernels
            )


READERS: Mapping[str, Callable[[Path], Iterator[Sourced]]] = {
    ai_hub.FIRST: ai_hub.release_0_46,
    ai_hub.SECOND: ai_hub.release_0_65,
    "ncnn_benchmark": ncnn,
    "tflite_hosted_models": hosted,
    "tf_slim_mobilenets": slim,
    "efficientnet_lite_pixel4": efficientnet_lite,
    "paddle_lite": paddle,
    "paddleclas_sd855": paddleclas,
    "mnn_benchmark": mnn,
    "stm32_modelzoo": stm32,
    "mcunet_tinyengine": tinyengine,
    "mlperf_tiny": mlperf_tiny,
    "esp32_person_detect": esp32,
    "coral_edgetpu": coral,
    "opencv_zoo": opencv,
    "rknn_npu": rknn,
    "hailo_classification": hailo,
    "qengineering_rpi4": qengineering,
    "xnnpack_readme": xnnpack,
    "tflite_performance_measurement": performance_page,
    "mlperf_inference_mobile": mlperf_mobile,
    "mlperf_inference_tflite_odroid_orin": later_tables.mlperf_boards,
    "netspresso_raspberry_pi": later_tables.netspresso,
    "litert_board_2026_s25_ultra": later_tables.litert_phone,
    "measured_here": measured_here,
}
