"""How the published tables become device profiles: names of models, and rows of a slow state."""

from __future__ import annotations

from advisor.devices.profiles.measurements import Measurement
from benchmarks.device_sources.clean import flag_slow_states
from benchmarks.device_sources.names import common
from benchmarks.device_sources.rows import Sourced


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
