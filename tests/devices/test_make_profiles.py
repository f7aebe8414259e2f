"""The shipped profiles are what the script makes of the tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
TABLES = PROJECT.parent / "shared" / "data" / "measurements"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROJECT / "benchmarks"))
    for name in [name for name in sys.modules if name.startswith("device_sources")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.skipif(not TABLES.is_dir(), reason="../shared/data/measurements is not here")
def test_the_shipped_profiles_are_made_from_the_tables(scripts: None, tmp_path: Path) -> None:
    from device_sources.assemble import write_profiles

    write_profiles(TABLES, PROJECT / "benchmarks" / "device_specs.yaml", tmp_path)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(made) > 80
    for name, content in made.items():
        assert (PROJECT / "device_profiles" / name).read_bytes() == content, name


def test_names_of_models_agree_between_tables(scripts: None) -> None:
    from device_sources.names import common

    assert common("Mobilenet_V1_0.50_160_quant") == "mobilenet_v1_0.5_160"
    assert common("MobileNetV1", "0.5", "160") == "mobilenet_v1_0.5_160"
    assert common("MobileNetV3_large_x1_0", "1.0", "224") == "mobilenet_v3_large_1.0_224"
    assert common("mobilenet_v1", "0.25", "96x96x1") == "mobilenet_v1_0.25_96_grey"
    assert common("mobilenet_v2", "1.0", "224x224x3") == "mobilenet_v2_1.0_224"


def test_a_slow_run_is_seen_beside_the_vendors_other_runtime(scripts: None) -> None:
    from device_sources.clean import flag_slow_states
    from device_sources.rows import Sourced

    from advisor.devices.profiles.measurements import Measurement

    def row(device: str, runtime: str, milliseconds: float) -> Sourced:
        figure = Measurement("", "net", "float32", milliseconds)
        return Sourced("ai_hub_image_classification", device, runtime, "npu", 1, figure)

    rows = [row(device, runtime, 1.0) for device in "abc" for runtime in ("tflite", "qnn")]
    rows += [row("d", "tflite", 4.0), row("d", "qnn", 1.0), row("e", "tflite", 1.8), row("e", "qnn", 1.0)]
    flagged = [r.device for r in flag_slow_states(rows) if r.measurement.flag == "slow_state"]
    assert flagged == ["d"]
