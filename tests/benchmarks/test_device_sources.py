"""How the published tables become device profiles: names of models, and rows of a slow state."""

from dataclasses import replace
from pathlib import Path

from advisor.devices import DeviceProfile, DeviceTarget, Measurement
from benchmarks.device_sources.clean import flag_slow_states
from benchmarks.device_sources.names import common
from benchmarks.device_sources.outliers import Placed, unexplained
from benchmarks.device_sources.readers import mlperf_mobile
from benchmarks.device_sources.rows import Sourced
from tools.checks.profile_rows import problems_of


def test_names_of_models_agree_between_tables() -> None:
    assert common("Mobilenet_V1_0.50_160_quant") == "mobilenet_v1_0.5_160"
    assert common("MobileNetV1", "0.5", "160") == "mobilenet_v1_0.5_160"
    assert common("MobileNetV3_large_x1_0", "1.0", "224") == "mobilenet_v3_large_1.0_224"
    assert common("mobilenet_v1", "0.25", "96x96x1") == "mobilenet_v1_0.25_96_grey"
    assert common("mobilenet_v2", "1.0", "224x224x3") == "mobilenet_v2_1.0_224"


def test_a_slow_run_is_seen_beside_the_vendors_other_runtime() -> None:
    def row(device: str, runtime: str, milliseconds: float) -> Sourced:
        figure = Measurement("", "net", "float32", milliseconds)
        return Sourced("ai_hub_image_classification", device, runtime, "npu", 1, figure)

    rows = [row(device, runtime, 1.0) for device in "abc" for runtime in ("tflite", "qnn")]
    rows += [row("d", "tflite", 4.0), row("d", "qnn", 1.0), row("e", "tflite", 1.8), row("e", "qnn", 1.0)]
    flagged = [r.device for r in flag_slow_states(rows) if r.measurement.flag == "slow_state"]
    assert flagged == ["d"]


def placed(device: str, model: str, milliseconds: float, graph: str = "AI Hub 0.46, 100 operators") -> Placed:
    figure = Measurement(
        "npu", model, "int8", milliseconds, source_repo="repo", input_side=224, graph=graph, runtime_version="2.42.0"
    )
    return Placed(device, "npu", "qnn", figure)


def a_table() -> dict[tuple[str, str], Placed]:
    return {
        (device, model): placed(device, model, (1 + i) * (2 + j))
        for i, device in enumerate("abcdef")
        for j, model in enumerate("uvwxyz")
    }


def test_a_row_that_neither_device_nor_network_explains_is_found() -> None:
    table = a_table()
    assert unexplained(table.values()) == set()
    table["c", "x"] = placed("c", "x", 4 * table["c", "x"].figure.latency_ms)
    assert unexplained(table.values()) == {table["c", "x"]}


def test_the_check_names_what_a_row_lacks() -> None:
    good = a_table()["a", "u"].figure
    target = DeviceTarget("npu", "qnn", "npu")

    def found(figure: Measurement) -> list[str]:
        profile = DeviceProfile("d", "D", "phone", "S", (target,), "npu", measurements=(figure,))
        return list(problems_of([profile], {"u": 224}))

    assert found(good) == []
    assert found(replace(good, input_side=192)) == ["d.csv: npu u: input_side 192 is not that of the network, 224"]
    assert found(replace(good, input_side=None, flag="unstated_input")) == []
    assert found(replace(good, graph="", runtime_version="")) == [
        "d.csv: npu u: the row has no graph",
        "d.csv: npu u: the row has no runtime_version",
    ]


def test_a_build_and_a_clock_make_targets_and_devices_of_mlperf(tmp_path: Path) -> None:
    header = (
        "source_repo,source_path,model,variant,precision,runtime,device,soc,accelerator,threads,latency_ms,"
        "peak_memory_bytes,model_size_bytes,top1,top5,macs,params,notes\n"
    )
    row = "r,p,mobilenet_v1_1.0_224,v,int8,{},{},s,CPU,4,10,,,,,,,p50_ms=10; p90_ms=11; min_ms=9; system={}; {}\n"
    (tmp_path / "mlperf_inference_mobile.csv").write_text(
        header
        + row.format("TFLite 2.7.1 (ruy)", "Raspberry Pi 4", "rpi4-tflite-v2.7.1-ruy", "1800 MHz")
        + row.format("ArmNN 21.02 (neon)", "Raspberry Pi 4", "rpi4-armnn", "1500 MHz; cooling or power limited: flag")
        + row.format("TFLite 2.3.0 (ruy)", "Jetson AGX Xavier", "xavier-tflite-v2.3.0-ruy", "threads not stated")
    )
    found = [
        (each.device, each.target_name, each.version, each.kernels, each.measurement.flag)
        for each in mlperf_mobile(tmp_path)
    ]
    assert found == [
        ("Raspberry Pi 4 1800 MHz", "tflite-cpu-x4-ruy", "2.7.1", "ruy", ""),
        ("Raspberry Pi 4 1500 MHz", "armnn-cpu-x4", "21.02", "", "limited"),
        ("Jetson AGX Xavier", "tflite-cpu-x4-ruy", "2.3.0", "ruy", "limited"),
    ]
