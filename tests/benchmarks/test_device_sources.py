"""How the published tables become device profiles: names of models, and rows of a slow state."""

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.devices.profiles import DeviceProfile, DeviceTarget
from advisor.devices.profiles.measurements import Measurement
from benchmarks.device_sources.assemble import named
from benchmarks.device_sources.clean import flag_slow_states
from benchmarks.device_sources.names import common, input_side
from benchmarks.device_sources.outliers import Placed, slower_releases, unexplained
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


def test_the_name_of_a_model_states_its_input() -> None:
    assert [input_side(name) for name in ("mobilenet_v2_1.0_224", "mobilenet_v1_0.25_96_grey", "humanseg")] == [
        224,
        96,
        None,
    ]


def test_two_releases_are_two_targets_and_the_newest_has_the_plain_name() -> None:
    def row(version: str, release: str = "") -> Sourced:
        return Sourced("t", "d", "qnn", "npu", 1, Measurement("", "net", "int8", 1.0), version, release=release)

    targets = named([row("2.9.0"), row("2.42.0"), row("2.42.1", "2.42.0"), row("")])
    assert {name: [each.version for each in own] for name, own in targets.items()} == {
        "qnn-npu": ["2.42.0", "2.42.1", ""],
        "qnn-npu-2.9": ["2.9.0"],
    }


def placed(device: str, model: str, milliseconds: float, graph: str = "AI Hub 0.46, 100 operators") -> Placed:
    figure = Measurement(
        "npu", model, "int8", milliseconds, source_repo="repo", input_side=224, graph=graph, runtime_version="2.42.0"
    )
    return Placed(device, "npu", "qnn", figure)


def a_table() -> dict[tuple[str, str], Placed]:
    """Six devices by six networks without noise."""
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


def test_a_device_whose_rows_make_no_sense_is_dropped_whole() -> None:
    table = a_table()
    for model in "uvwxyz":
        table["c", model] = placed("c", model, 100.0 if model in "uvw" else 0.1)
    assert {row.device for row in unexplained(table.values())} == {"c"}
    assert len(unexplained(table.values())) == 6


def test_a_network_at_another_input_is_found_between_releases() -> None:
    rows = [placed(d, m, t) for d in "ab" for m, t in (("net_380", 4.0), ("other_224", 2.0))]
    rows += [placed(d, "net_380", 9.4, "AI Hub 0.65, 101 operators") for d in "ab"]
    rows += [placed(d, "other_224", 5.0, "AI Hub 0.65, 300 operators") for d in "ab"]
    assert slower_releases(rows) == {"net_380": 2.35}


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


@pytest.mark.parametrize(("p90", "flag"), [(60, ""), (61, "spiky")])
def test_a_row_of_mlperf_is_spiky_if_its_average_must_be_far_above_the_minimum(
    tmp_path: Path, p90: int, flag: str
) -> None:
    # Nine tenths of the runs take at least 10 ms, one tenth the 90th percentile: 15 ms on average, if this is 60 ms.
    notes = f"p50_ms=10; p90_ms={p90}; min_ms=10; system=s; 1800 MHz"
    header = "source_repo,source_path,model,variant,precision,runtime,device,soc,accelerator,threads,latency_ms,"
    header += "peak_memory_bytes,model_size_bytes,top1,top5,macs,params,notes\n"
    row = f"r,p,mobilenet_v1_1.0_224,v,int8,TFLite 2.7.1 (ruy),Raspberry Pi 4,s,CPU,4,10,,,,,,,{notes}\n"
    (tmp_path / "mlperf_inference_mobile.csv").write_text(header + row)
    (found,) = mlperf_mobile(tmp_path)
    assert found.measurement.flag == flag
