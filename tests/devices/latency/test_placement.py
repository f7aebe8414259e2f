"""Targets that nobody measured: what builds, releases and clocks of others say of them."""

from dataclasses import replace

import numpy as np
import pytest

from advisor.devices import (
    CALIBRATED,
    Cluster,
    DeviceProfile,
    DeviceTarget,
    Measurement,
    Prediction,
    Predictor,
    Profiles,
)
from advisor.devices._latency.base import Base
from advisor.devices._latency.features import FeatureTable
from advisor.devices._latency.kept_base import find_base
from advisor.devices._latency.placement import measure_other_form, weigh_targets
from advisor.devices._latency.posterior import posterior_of
from advisor.devices._latency.releases import release_deviation
from advisor.devices._latency.table import Column, LatencyTable, are_related_releases, column_of
from tests.builders import interval
from tests.tables import read_table

BOARD = (Cluster("Cortex-A76", 2, 2200), Cluster("Cortex-A55", 4, 1800))
SEEN = read_table(__file__, "texts.yaml")["networks_that_are_seen"]


def board(*rows: Measurement, cores: tuple[Cluster, ...] = BOARD, **target: str) -> DeviceProfile:
    cpu = DeviceTarget("cpu-x4", "tflite", "cpu", 4, precisions=("float32", "int8"))
    cpu = replace(cpu, version=target.get("version", "2.3.0"), kernels=target.get("kernels", "xnnpack"))
    return DeviceProfile("own", "Own", "board", "Maker M9", (cpu,), "cpu-x4", "armv8.2-a", cores, measurements=rows)


def predicted(
    predictor: Predictor, features: FeatureTable, device: DeviceProfile, form: str = "float32", name: str = SEEN[1]
) -> Prediction:
    return predictor.predict(device, device.target(), form, [features.models[name]])[0]


def width(prediction: Prediction) -> float:
    low, _, high = interval(prediction.latency)
    return high / low


def on_ruy(profiles: Profiles, precision: str) -> dict[str, float]:
    """Return the latencies (ms) of the networks on a Raspberry Pi 4 with ruy."""
    rows = [row for row in profiles["raspberry-pi-4"].measurements if row.target == "tflite-cpu-x4-ruy"]
    return {row.model: row.latency_ms for row in rows if row.precision == precision}


def as_measured(profiles: Profiles, precision: str) -> list[Measurement]:
    known = on_ruy(profiles, precision)
    return [Measurement("cpu-x4", name, precision, known[name], source_repo=CALIBRATED) for name in SEEN]


@pytest.fixture(scope="module")
def base(table: LatencyTable) -> Base:
    fitted: Base = find_base(table)
    return fitted


def test_the_level_of_a_build_comes_mostly_from_that_build(base: Base) -> None:
    device = board(kernels="ruy", version="2.7.1")
    column = column_of(device, device.target(), "float32")
    weights = weigh_targets(base, column, np.arange(len(base.levels))).weights
    assert weights.sum() == pytest.approx(1)
    assert weights[[column.kernels == "ruy" for column in base.table.columns]].sum() > 0.7


def test_int8_with_xnnpack_gains_less_beside_hard_swish(predictor: Predictor, features: FeatureTable) -> None:
    ratios = {}
    for name in ("mobilenet_v2_1.0_224", "mobilenet_v3_large_1.0_224", "levit_128s_224"):
        forms = [predicted(predictor, features, board(), form, name).latency.value for form in ("int8", "float32")]
        ratios[name] = forms[0] / forms[1]
    assert ratios["mobilenet_v2_1.0_224"] < 0.6
    assert ratios["mobilenet_v3_large_1.0_224"] > 2 * ratios["mobilenet_v2_1.0_224"]
    assert ratios["levit_128s_224"] > 1.5 * ratios["mobilenet_v2_1.0_224"]


@pytest.mark.parametrize(("soc", "gain"), [("Snapdragon 660", 1), ("Snapdragon 888", 4), ("Snapdragon 8 Gen 3", 7)])
def test_a_gpu_is_placed_by_its_peak(predictor: Predictor, features: FeatureTable, soc: str, gain: float) -> None:
    phone = replace(board(), targets=(DeviceTarget("gpu", "tflite", "gpu"),), default_target="gpu")
    phones = [replace(phone, soc=name) for name in ("Snapdragon 660", soc)]
    slow, fast = (predicted(predictor, features, phone).latency.value for phone in phones)
    assert slow / fast == pytest.approx(gain, rel=0.3)


@pytest.mark.parametrize(("kernels", "version"), [("ruy", "1.15.0"), ("ruy", "9.0.0"), ("", "1.15.0")])
def test_a_release_far_from_the_known_ones_has_a_wide_interval(
    predictor: Predictor, features: FeatureTable, kernels: str, version: str
) -> None:
    near, far = (predicted(predictor, features, board(kernels=kernels, version=v)) for v in ("2.7.1", version))
    assert width(far) > 2 * width(near)


def test_xnnpack_is_one_library_in_all_major_releases(table: LatencyTable) -> None:
    columns = [column_of(device, device.target(), "float32") for device in (board(version="1.4.0"), board())]
    old, known = (release_deviation(table, column, np.arange(len(table.columns))) for column in columns)
    assert known == 0
    assert 0 < old < 0.3


@pytest.mark.parametrize(("mhz", "related"), [(2200, True), (2265, True), (2600, False)])
def test_releases_are_compared_at_about_the_same_clock(mhz: int, related: bool) -> None:
    states = {"2.3.0": 2200, "2.4.0": mhz}
    devices = [board(version=version, cores=(Cluster("Cortex-A76", 4, states[version]),)) for version in states]
    assert are_related_releases(*(column_of(each, each.target(), "float32") for each in devices)) is related


def test_a_profile_without_slow_cores_is_within_the_interval(predictor: Predictor, features: FeatureTable) -> None:
    whole, part = (predicted(predictor, features, board(cores=cores)) for cores in (BOARD, BOARD[:1]))
    low, _, high = interval(whole.latency)
    assert low < part.latency.value < high


def test_anchors_of_another_build_decide_too(predictor: Predictor, features: FeatureTable, profiles: Profiles) -> None:
    device = board(*as_measured(profiles, "float32"))
    found = predicted(predictor, features, device, name="mobilenet_v2_1.0_160").latency
    assert found.n == 5
    assert found.value == pytest.approx(on_ruy(profiles, "float32")["mobilenet_v2_1.0_160"], rel=0.25)


def test_int8_anchors_say_nothing_of_float32(predictor: Predictor, features: FeatureTable, profiles: Profiles) -> None:
    device = board(*as_measured(profiles, "int8"), kernels="ruy", version="2.7.1")
    name = "mobilenet_v2_1.0_160"
    floats, integers = (predicted(predictor, features, device, form, name) for form in ("float32", "int8"))
    assert (floats.latency.n, integers.latency.n) == (0, 5)
    assert width(floats) > width(integers)


@pytest.mark.parametrize("measured", [0, 3])
def test_a_network_of_operators_that_no_row_has_gets_an_interval_over_a_factor_of_four(
    predictor: Predictor, features: FeatureTable, profiles: Profiles, measured: int
) -> None:
    stranger = replace(features.models[SEEN[1]], name="x", unmeasured=("ATAN2", "CUMSUM"))
    device = board(*as_measured(profiles, "float32")[:measured])
    (found,) = predictor.predict(device, device.target(), "float32", [stranger])
    assert interval(found.latency)[2] > 4 * found.latency.value
    assert "no measured network has its operators ATAN2, CUMSUM" in found.unlike
    assert "measure two networks on it" in found.unlike


def test_four_threads_gain_less_on_half_a_bus(predictor: Predictor, features: FeatureTable, profiles: Profiles) -> None:
    def gain(name: str) -> float:
        devices = [replace(profiles[name], default_target=f"tflite-cpu-x{threads}") for threads in (1, 4)]
        one, four = (predicted(predictor, features, device).latency.value for device in devices)
        return one / four

    assert 1.6 < gain("raspberry-pi-5") < 2 < gain("orange-pi-5")  # Published for the former: 1.7 to 1.9


def level_of(base: Base, column: Column) -> float:
    place = weigh_targets(base, column, np.arange(len(base.levels)))
    return float(base.levels @ place.weights) + place.shift


def test_an_unknown_memory_counts_as_a_typical_one(base: Base) -> None:
    unknown = column_of(board(), board().target(), "float32")
    narrow, typical, wide = (level_of(base, replace(unknown, bandwidth=b)) for b in (2.0, unknown.bandwidth, 60.0))
    assert narrow >= typical >= wide


@pytest.mark.parametrize(("kernels", "form"), [("xnnpack", "float32"), ("xnnpack", "int8"), ("ruy", "float32")])
def test_what_a_core_copies_limits_float32_with_xnnpack(base: Base, kernels: str, form: str) -> None:
    column = column_of(board(kernels=kernels), board(kernels=kernels).target(), form)
    slow, fast = (level_of(base, replace(column, memory_share=share)) for share in (0.1, 0.8))
    assert (slow > fast + 0.1) is ((kernels, form) == ("xnnpack", "float32"))


def test_the_error_of_a_level_is_that_of_the_build(base: Base) -> None:
    cpus = (board(kernels="ruy", version=""), board(version=""), board(cores=(Cluster("Zen 4", 4, 2200),), version=""))
    columns = (column_of(device, device.target(), "float32") for device in cpus)
    ruy, on_arm, on_x86 = (weigh_targets(base, cpu, np.arange(len(base.levels))).deviation for cpu in columns)
    assert ruy < on_arm < on_x86


def test_the_place_of_a_cpu_is_a_reference_and_its_share_goes_to_its_targets(base: Base) -> None:
    column = column_of(board(), board().target(), "float32")
    seen = np.array([base.table.models.index(name) for name in SEEN])
    place = posterior_of(base, column, np.array([], dtype=np.intp), np.zeros(0))
    posterior = posterior_of(base, column, seen, place.combination @ base.filled[:, seen])
    assert np.corrcoef(posterior.combination, place.combination)[0, 1] > 0.8
    assert posterior.shares.sum() == pytest.approx(1)


@pytest.mark.parametrize(("device", "expected"), [("intel-xeon-3000mhz", 0.5), ("jetson-agx-orin", 0.0)])
def test_the_other_form_tells_the_level_on_x86_alone(base: Base, device: str, expected: float) -> None:
    places = {(c.device, c.kind, c.target, c.precision): i for i, c in enumerate(base.table.columns)}
    key, integers = next((k, i) for k, i in places.items() if k[:2] == (device, "cpu") and k[3] == "int8")
    values = base.table.values.copy()
    values[places[*key[:3], "float32"]] += 0.5
    bases = (base, replace(base, table=replace(base.table, values=values)))
    others = np.setdiff1d(np.arange(len(base.levels)), [integers])
    before, after = (measure_other_form(each, base.table.columns[integers], others) for each in bases)
    assert after - before == pytest.approx(expected)
